"""The command line and every other way to start a pipeline."""

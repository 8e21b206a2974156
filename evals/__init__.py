"""Suites, metrics, paired statistics, gates and reports."""

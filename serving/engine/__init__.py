"""One replica: HTTP front end, vLLM engine, the Ray Serve deployment that owns both."""

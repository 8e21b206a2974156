"""API keys: what a caller shows, what we keep of it, and what the edges must know."""

"""The request path and what steers it: replicas, discovery, edge, rollout, client."""

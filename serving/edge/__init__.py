"""Envoy: configuration, process, and what its admin interface says."""

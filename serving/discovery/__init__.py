"""Which endpoints exist and which may take traffic: sources -> snapshot -> Envoy."""

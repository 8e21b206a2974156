"""What discovery counts, in the names it is read under."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class Metrics:
    """The counters of one server; each has its own registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.responses = self._counter("responses", "Responses sent to edges.", "kind")
        self.acks = self._counter("acks", "Responses that edges took.", "kind")
        self.nacks = self._counter("nacks", "Responses that edges refused.", "kind")
        self.malformed = self._counter("malformed", "Streams ended because of what was asked.")
        self.faults = self._counter("faults", "Faults, by the part that had them.", "part")
        self.edges = self._gauge("edges", "Edges connected now.")
        self.behind = self._gauge("edges_behind", "Edges that do not show the latest yet.")
        self.endpoints = self._gauge("endpoints", "Replicas.", "model", "version", "state")
        self.source_age_s = self._gauge("source_age_seconds", "Since the source last answered.")
        self.epoch = self._gauge("plan_epoch", "Epoch of the traffic plan in force.")

    def text(self) -> bytes:
        """Prometheus's text format."""
        return generate_latest(self._registry)

    def refused(self) -> int:
        """How many responses were refused since the start."""
        samples = [s for family in self.nacks.collect() for s in family.samples]
        return int(sum(s.value for s in samples if s.name.endswith("_total")))

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"liftlock_discovery_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"liftlock_discovery_{name}", text, labels, registry=self._registry)

"""Progress that nobody watches."""

from __future__ import annotations


class Silent:
    """Progress that keeps what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.reused: dict[str, bool] = {}

    def stage(self, name: str) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)

    def done(self, name: str, *, seconds: float, summary: str, reused: bool) -> None:
        self.reused[name] = reused

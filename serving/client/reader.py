"""The events of a streamed completion as pieces, and what the pieces add up to. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from serving.client import errors, refusals, types

_DONE = "[DONE]"


@dataclass(slots=True, kw_only=True)
class Reader:
    """Makes pieces of events, and remembers what they add up to."""

    around: types.Around
    texts: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    model: str = ""
    usage: tuple[int, int] | None = None
    """Tokens of the prompt, and of the completion."""
    complete: bool = False

    def pieces(self, events: list[str]) -> Iterator[types.Piece]:
        """The pieces in these events.

        Raises:
            ClientError: the endpoint ended the stream with an error, or sent what is no event.
        """
        for event in events:
            if event.strip() == _DONE:
                self.complete = True
                return
            data = self._data(event)
            if "error" in data:
                raise refusals.in_stream(data, self.around.request_id)
            yield from self._read(data, event)

    def _data(self, event: str) -> dict[str, Any]:
        try:
            return types.field({"event": json.loads(event)}, "event", dict)
        except (RecursionError, ValueError) as exc:
            raise self._strange(event, exc) from exc

    def _read(self, data: dict[str, Any], event: str) -> Iterator[types.Piece]:
        try:
            self.model = types.given(data, "model", str) or self.model
            if data.get("usage") is not None:
                self.usage = types.usage(data)
            found = [
                types.Piece(
                    text=types.field(each, "text", str),
                    finish_reason=types.given(each, "finish_reason", str),
                )
                for each in types.field(data, "choices", list)
            ]
        except ValueError as exc:
            raise self._strange(event, exc) from exc
        for piece in found:
            self.texts.append(piece.text)
            self.finish_reason = piece.finish_reason or self.finish_reason
            yield piece

    def _strange(self, event: str, exc: Exception) -> errors.ServerFault:
        return errors.ServerFault(
            f"the stream holds an event that this client does not understand "
            f"({type(exc).__name__}: {exc}): {event[:80]!r}",
            request_id=self.around.request_id,
        )

    def unreadable(self, reason: str) -> errors.ServerFault:
        """The error for a stream that is none, or too long."""
        return errors.ServerFault(
            f"the stream cannot be read on after {len(self.texts)} pieces ({reason}). "
            f"What came before is incomplete; ask for fewer tokens",
            request_id=self.around.request_id,
        )

    def broken(self, reason: str) -> errors.ConnectionFailed:
        """The error for a stream that ended before it was complete."""
        return errors.ConnectionFailed(
            f"the stream broke after {len(self.texts)} pieces ({reason}). "
            f"What came before is incomplete; ask again",
            request_id=self.around.request_id,
        )

    def late(self, deadline_s: float) -> errors.DeadlineExceeded:
        """The error for a stream that goes on for too long, or stands still."""
        return errors.DeadlineExceeded(
            f"the stream was not complete in time, after {len(self.texts)} pieces. Allow more "
            f"with timeout_s (between pieces) and deadline_s (in all, now {deadline_s:g}), "
            f"or ask for fewer tokens",
            request_id=self.around.request_id,
        )

    def completion(self) -> types.Completion:
        """All of it; for a stream that is complete.

        Raises:
            ServerFault: it did not tell all that belongs to a completion.
        """
        if self.finish_reason is None or self.usage is None:
            raise errors.ServerFault(
                "the stream told no finish_reason or no usage. Is the address that of a liftlock "
                "endpoint?",
                request_id=self.around.request_id,
            )
        prompt_tokens, completion_tokens = self.usage
        return types.Completion(
            text="".join(self.texts),
            finish_reason=self.finish_reason,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            model=self.model,
            version=types.version(self.around.headers),
            request_id=self.around.request_id,
            rate_limit=self.around.rate_limit,
        )

"""How much of an answer is taken: it is held in memory, whoever sends it and whyever."""

from __future__ import annotations

import httpx

MOST_BYTES = 64 * 2**20
"""Of an answer after decompression: of a body, a refusal's too, or of a stream as a whole."""


class TooLarge(httpx.DecodingError):
    """An answer has more bytes than are taken."""


def check(size_bytes: int) -> None:
    """Raises TooLarge where an answer has that many bytes so far."""
    if size_bytes > MOST_BYTES:
        raise TooLarge(
            f"the answer has more than {MOST_BYTES} bytes, which is the most that is read"
        )

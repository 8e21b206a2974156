"""The cheapest replica that still speaks ASGI, for `benchmarks.edge`: always the same answer.

    python -m benchmarks.edge_app --port 9001

Served by uvicorn with uvloop and httptools; Ray Serve wraps the same `app`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable
from typing import Any

PATH = "/v1/completions"
BODY = json.dumps(
    {
        "id": "cmpl-0",
        "object": "text_completion",
        "created": 0,
        "model": "grammar",
        "choices": [
            {
                "index": 0,
                "text": " She goes to school every day, and her brothers go there with her.",
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 50, "completion_tokens": 50, "total_tokens": 100},
    }
).encode()
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", str(len(BODY)).encode()),
]


class App:
    """An ASGI application. A class, since Ray takes a function for one that builds the app."""

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Reads the request, sends `BODY`."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": BODY})


async def _lifespan(
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    for _ in range(2):
        phase = (await receive())["type"]
        await send({"type": f"{phase}.complete"})


app = App()


def main() -> None:
    """Serves until killed."""
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    uvicorn.run(
        app, host="127.0.0.1", port=args.port, log_level="warning", access_log=False,
        loop="uvloop", http="httptools",
    )  # fmt: skip


if __name__ == "__main__":
    main()

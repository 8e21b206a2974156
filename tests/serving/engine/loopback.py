"""A replica's app behind a real HTTP server on loopback, in a thread of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from serving.engine.app import ReplicaApp
from serving.engine.http_guard import GuardedHttp
from serving.engine.state import Identity, Limits, Phase, ReplicaState
from tests.fakes.engine import FakeEngine
from tests.serving.engine.conftest import MANIFEST

LIMITS = Limits(max_body_bytes=100_000, timeout_s=5.0)
_START_S = 20.0


@contextlib.contextmanager
def serving(
    engine: FakeEngine | None = None,
    *,
    limits: Limits = LIMITS,
    http: type[GuardedHttp] = GuardedHttp,
    keep_alive_s: float = 60,
    tls: tuple[Path, Path] | None = None,
) -> Iterator[str]:
    """The base URL of a ready replica; the server is gone afterwards. `tls`: certificate, key."""
    certificate, key = tls or (None, None)
    identity = Identity(model="grammar", version=7, digest=MANIFEST.digest)
    state = ReplicaState(identity, limits, warmup_token="s")
    state.phase = Phase.READY
    app = ReplicaApp(engine or FakeEngine(), state, MANIFEST)
    sock = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False,
        timeout_graceful_shutdown=1, http=http, timeout_keep_alive=keep_alive_s,
        ssl_certfile=certificate, ssl_keyfile=key,
    )  # fmt: skip
    server = _Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        assert server.up.wait(_START_S)
        yield f"{'https' if tls else 'http'}://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(_START_S)
        sock.close()
        assert not thread.is_alive()


class _Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

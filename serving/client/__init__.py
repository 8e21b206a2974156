"""The client of a liftlock endpoint, sync and async.

    from serving.client import Client

    with Client("http://127.0.0.1:8000") as client:
        print(client.correct("She go to school every days."))

`AsyncClient` has the same methods as coroutines. Several addresses are balanced, and one that fails
is passed over: `Client(["http://a:8000", "http://b:8000"])`; or they are learned from discovery:
`Client(discovery="http://discovery:18001")`. Needs httpx, and of this project `serving.router`,
which needs nothing: the two are copied or published together.
"""

from serving.client.async_client import AsyncClient
from serving.client.client import Client
from serving.client.errors import (
    BadRequest,
    ClientError,
    ConnectionFailed,
    DeadlineExceeded,
    NotAllowed,
    NotFound,
    Overloaded,
    ServerFault,
    VersionNotServed,
)
from serving.client.hedge import Hedge
from serving.client.rate_limit import RateLimit
from serving.client.streams import AsyncCompletionStream, CompletionStream
from serving.client.types import (
    Completion,
    Correction,
    EdgeStats,
    Edit,
    Health,
    Model,
    Piece,
    Stats,
)

__all__ = [
    "AsyncClient",
    "AsyncCompletionStream",
    "BadRequest",
    "Client",
    "ClientError",
    "Completion",
    "CompletionStream",
    "ConnectionFailed",
    "Correction",
    "DeadlineExceeded",
    "EdgeStats",
    "Edit",
    "Health",
    "Hedge",
    "Model",
    "NotAllowed",
    "NotFound",
    "Overloaded",
    "Piece",
    "RateLimit",
    "ServerFault",
    "Stats",
    "VersionNotServed",
]

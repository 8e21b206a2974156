"""The client of a liftlock endpoint, sync and async.

    from serving.client import Client

    with Client("http://127.0.0.1:8000") as client:
        print(client.correct("She go to school every days."))

Needs httpx and nothing else of this project, so it can be copied or published alone.
"""

from serving.client.client import AsyncClient, Client
from serving.client.errors import (
    BadRequest,
    ClientError,
    ConnectionFailed,
    DeadlineExceeded,
    NotAllowed,
    NotFound,
    Overloaded,
    ServerFault,
)
from serving.client.types import Completion, Correction, Edit, Health, Model

__all__ = [
    "AsyncClient",
    "BadRequest",
    "Client",
    "ClientError",
    "Completion",
    "ConnectionFailed",
    "Correction",
    "DeadlineExceeded",
    "Edit",
    "Health",
    "Model",
    "NotAllowed",
    "NotFound",
    "Overloaded",
    "ServerFault",
]

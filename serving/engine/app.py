"""The replica's HTTP front: routes, admission, deadline, and which failure becomes which answer.

The main flow of a request is `ReplicaApp._respond`: find the route, admit, read the body, run the
handler until it ends, its deadline passes or the caller leaves. Every answer, refusals included,
carries the model, version, digest and request id.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import dataclass
from http import HTTPStatus

from registry.manifest import Manifest
from serving.engine import openapi, protocol
from serving.engine.chat import Chat
from serving.engine.checks import Handler, Pinned
from serving.engine.completions import Completions
from serving.engine.correct import Corrections
from serving.engine.errors_http import ApiError, invalid, unavailable
from serving.engine.exchange import Answer, Call, CallerLeft, Exchange, Message, Receive, Send
from serving.engine.invocations import PREFIX, SUFFIX, TEMPLATE, Invocations
from serving.engine.metrics import CONTENT_TYPE, Metrics
from serving.engine.state import Phase, ReplicaState

_log = logging.getLogger(__name__)

TIMEOUT_HEADER = "x-request-timeout-ms"
WAY_BACK_S = 0.025
"""Kept of a deadline, a tenth of it at most, so that a 408 arrives while somebody still waits."""
WARMUP_HEADER = "x-liftlock-warmup"
_CALLER_LEFT = 499
_MILLISECONDS = re.compile(r"-?[0-9]{1,12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What answers a path. Counted routes are admitted, have a body and a deadline."""

    method: str
    handler: Handler
    counted: bool


class ReplicaApp:
    """The ASGI application of one replica."""

    def __init__(self, engine: protocol.Engine, state: ReplicaState, manifest: Manifest) -> None:
        self.state = state
        self._engine = engine
        self._metrics = Metrics(
            in_flight=lambda: state.in_flight,
            waiting=lambda: state.load.waiting,
            queue_age_s=state.queue_age_s,
        )
        self._started_at_s = int(time.time())
        self.routes = {**self._asked(engine, manifest), **self._told()}

    def _asked(self, engine: protocol.Engine, manifest: Manifest) -> dict[str, Route]:
        """The counted routes."""
        state, metrics = self.state, self._metrics
        completions = Completions(engine, state, metrics)
        chat = Chat(engine, state, manifest, metrics)
        corrections = Corrections(engine, state, manifest, metrics)
        invocations = Invocations(
            identity=state.identity, chat=chat, completions=completions, corrections=corrections
        )
        handlers: dict[str, Handler] = {
            "/v1/completions": completions,
            "/v1/chat/completions": chat,
            "/v1/corrections": corrections,
            "/invocations": invocations,
            TEMPLATE: invocations,
        }
        return {
            path: Route(method="POST", handler=Pinned(handler, state.identity), counted=True)
            for path, handler in handlers.items()
        }

    def _told(self) -> dict[str, Route]:
        """The routes that tell about the replica."""
        handlers: dict[str, Handler] = {
            "/v1/models": self._models,
            "/openapi.json": self._openapi,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._exposition,
        }
        return {
            path: Route(method="GET", handler=handler, counted=False)
            for path, handler in handlers.items()
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """ASGI. Only HTTP is spoken; the server must run with `lifespan="off"`."""
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is served here, got an ASGI {scope['type']} scope")
        identity, started_s = self.state.identity, time.perf_counter()
        fixed = (
            ("x-liftlock-model", identity.model),
            ("x-liftlock-version", str(identity.version)),
            ("x-liftlock-digest", identity.digest),
            *((("connection", "close"),) if self.state.draining else ()),
        )
        exchange = Exchange(scope, receive, send, fixed, lambda: self.state.in_flight)
        try:
            await self._answer_or_refuse(exchange)
        finally:
            route = _template(exchange.path)
            route = route if route in self.routes else "other"
            self._metrics.answered(
                route, exchange.status or _CALLER_LEFT, time.perf_counter() - started_s
            )

    async def _answer_or_refuse(self, exchange: Exchange) -> None:
        try:
            await self._respond(exchange)
        except asyncio.CancelledError:  # only a server that closes cancels a request
            await exchange.refuse(unavailable("draining", "this replica shut down meanwhile"))
            raise
        except CallerLeft:
            _log.info("caller left %s", exchange.tag)
        except ApiError as exc:
            await exchange.refuse(exc)
        except protocol.RequestRejected as exc:
            await exchange.refuse(invalid(None, str(exc), "rejected_by_engine"))
        except protocol.EngineFailed as exc:
            _log.error("engine failed %s: %s", exchange.tag, exc)
            await exchange.refuse(_engine_error(exc))
        except Exception:  # the boundary: without an answer here the caller would get no ids
            _log.exception("unexpected failure %s", exchange.tag)
            await exchange.refuse(
                ApiError(
                    HTTPStatus.INTERNAL_SERVER_ERROR,
                    "internal_error",
                    f"unexpected failure; look for request id {exchange.request_id} in the log",
                )
            )

    async def _respond(self, exchange: Exchange) -> None:
        route = self._route(exchange)
        if not route.counted:
            await exchange.answer(await route.handler(exchange.call(b"")))
            return
        limits = self.state.limits
        seconds = _deadline_s(exchange.headers.get(TIMEOUT_HEADER), limits.timeout_s)
        with self.state.admit(exchange.headers.get(WARMUP_HEADER), seconds), exchange.counted():
            deadline = asyncio.timeout(seconds)
            try:
                async with deadline:
                    body = await exchange.body(limits.max_body_bytes)
                    call = exchange.call(body)
                    await exchange.unless_caller_leaves(_answer(route.handler, call, exchange))
            except TimeoutError as exc:
                if not deadline.expired():
                    raise
                raise _too_late(seconds) from exc

    def _route(self, exchange: Exchange) -> Route:
        route = self.routes.get(_template(exchange.path))
        if route is None:
            raise ApiError(
                HTTPStatus.NOT_FOUND,
                "unknown_path",
                f"no such path: {exchange.path!r}; there are {', '.join(sorted(self.routes))}",
            )
        if exchange.method != route.method:
            raise ApiError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "wrong_method",
                f"{exchange.path} takes {route.method}, not {exchange.method}",
                headers=(("allow", route.method),),
            )
        return route

    async def _models(self, call: Call) -> Answer:
        identity = self.state.identity
        served = {
            "id": identity.model,
            "object": "model",
            "created": self._started_at_s,
            "owned_by": "liftlock",
            "version": identity.version,
            "digest": identity.digest,
            "max_model_len": self._engine.max_model_len_tokens,
        }
        return Answer.json({"object": "list", "data": [served]})

    async def _openapi(self, call: Call) -> Answer:
        return Answer(body=openapi.encoded())

    async def _healthz(self, call: Call) -> Answer:
        await self._engine.check_health()
        return Answer.json({"status": "ok", "phase": self.state.phase})

    async def _readyz(self, call: Call) -> Answer:
        await self._engine.check_health()
        if self.state.phase is not Phase.READY:
            raise unavailable("not_ready", f"this replica is {self.state.phase}")
        return Answer.json({"status": "ready", "in_flight": self.state.in_flight})

    async def _exposition(self, call: Call) -> Answer:
        return Answer(body=self._metrics.render(), content_type=CONTENT_TYPE)


def _template(path: str) -> str:
    """The path as the route table has it: an endpoint's name is no part of it."""
    if path.startswith(PREFIX) and path.endswith(SUFFIX):
        name = path[len(PREFIX) : -len(SUFFIX)]
        return TEMPLATE if name and "/" not in name else path
    return path


async def _answer(handler: Handler, call: Call, exchange: Exchange) -> None:
    await exchange.answer(await handler(call))


def _deadline_s(header: str | None, longest_s: float) -> float:
    """Seconds a request may take: what the caller still has less the way back, or `longest_s`."""
    if header is None:
        return longest_s
    if not _MILLISECONDS.fullmatch(header):
        raise invalid(
            TIMEOUT_HEADER, f"{TIMEOUT_HEADER} must be whole milliseconds, got {header[:40]!r}"
        )
    left_s = int(header) / 1000
    if left_s <= 0:
        raise _too_late(0.0)
    return min(left_s - min(WAY_BACK_S, left_s / 10), longest_s)


def _too_late(seconds: float) -> ApiError:
    return ApiError(
        HTTPStatus.REQUEST_TIMEOUT,
        "deadline_exceeded",
        f"not finished within the {seconds * 1000:.0f} ms that its deadline left; the work was "
        f"stopped. Allow more by {TIMEOUT_HEADER}, or send less",
    )


def _engine_error(exc: protocol.EngineFailed) -> ApiError:
    if isinstance(exc, protocol.EngineDead):
        return unavailable(
            "engine_dead",
            "the engine of this replica is dead; it will be replaced, send the request again",
        )
    return ApiError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "engine_failed",
        "the engine could not finish this request; it may be sent again",
    )

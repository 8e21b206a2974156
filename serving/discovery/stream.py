"""One Envoy's side of the discovery protocol (delta xDS v3, ADS): what it has, what it gets next.

Pure: no gRPC, no messages of Envoy's, the clock passed in. Delta rather than state of the world,
for three reasons: an Envoy that reconnects says what it has, so a restarted discovery sends nothing
that did not change; a cluster goes only when its removal is spelled out, never by being left out of
a list; and an acknowledgement counts for each resource.

The one idea is the order. A route table waits until every cluster it leads to was acknowledged with
endpoints. A cluster goes, or loses its last endpoint, only after the route tables that Envoy may be
using lead elsewhere. Only the loss of endpoints does not wait longer than `ORDER_S`: a replica that
stopped being ready gets nothing more, even from an Envoy that refuses its routes.

For each kind at most one response is unanswered, so a slow Envoy gets fewer, newer responses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from serving.discovery import errors
from serving.discovery.catalog import KINDS, Catalog, Kind, Resource
from serving.discovery.subscription import ABSENT, Request, Response, Sent, Subscription

ORDER_S = 0.5
"""Longest wait of leaving endpoints for the routes, which Envoy takes in milliseconds."""
MOST_NAMES = 1_000
"""Names one Envoy may ask for or bring along; ours have one or two per version. Clusters that one
brings along are told to all of them for a while."""
_WILDCARD = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """All of a catalog was sent by the time that `number` responses were."""

    number: int
    catalog: Catalog


class Stream:
    """One connected Envoy. `shown` is the latest catalog that it acknowledged in full."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, Subscription] = {}
        self._number = 0
        self._needs: frozenset[str] | None = None
        """Clusters that the acknowledged routes lead to; None while that is not known."""
        self._unknown: deque[Response] = deque()
        self._delayed_since_s: dict[str, float] = {}
        self._marks: deque[_Mark] = deque()
        self.shown: Catalog | None = None
        self.fresh = True
        """Whether it has nothing from an earlier stream."""
        self.refusals: dict[Kind, str] = {}
        """Per kind why the last response was refused, until one is taken."""

    @property
    def ready(self) -> bool:
        """Whether it has said what it has; an Envoy asks for clusters first."""
        return Kind.CLUSTERS in self._kinds

    def has(self) -> frozenset[str]:
        """The clusters it acknowledged, in this stream or an earlier one."""
        known = self._kinds.get(Kind.CLUSTERS)
        return frozenset(n for n, v in known.acked.items() if v != ABSENT) if known else frozenset()

    def receive(self, request: Request) -> None:
        """Take a request in; raises RequestRefused for one that no server can serve."""
        kind = Kind.of(request.type_url)
        if kind is None:
            self._receive_unknown(request)
            return
        first = kind not in self._kinds
        known = self._kinds.setdefault(kind, Subscription())
        if first:
            known.acked.update(request.has)
            known.wildcard = kind is Kind.CLUSTERS and not request.subscribe
            known.greeted = bool(request.has)
            self.fresh = self.fresh and not request.has
        if request.nonce:
            self._receive_answer(kind, known, request)
        self._receive_names(known, request, first=first)

    def _receive_names(self, known: Subscription, request: Request, *, first: bool) -> None:
        for name in request.unsubscribe:
            if name == _WILDCARD:
                known.wildcard = False
            else:
                known.names.discard(name)
                known.forget(name)
        for name in request.subscribe:
            if name == _WILDCARD:
                known.wildcard = True
                continue
            if not first:
                known.forget(name)  # asked for again: it is sent again
            known.names.add(name)
        most = max(len(known.names), len(known.acked))
        if most > MOST_NAMES:
            raise errors.RequestRefused(
                f"{most} names of {request.type_url} in one stream; at most {MOST_NAMES}"
            )

    def _receive_unknown(self, request: Request) -> None:
        """Kinds that are not ours: say that there is nothing, and leave the stream alone."""
        if request.nonce or not (request.subscribe or request.has):
            return
        names = tuple(sorted({*request.subscribe, *request.has} - {_WILDCARD}))[:MOST_NAMES]
        self._unknown = deque(list(self._unknown)[-16:])
        self._unknown.append(Response(type_url=request.type_url, nonce="none", removed=names))

    def _receive_answer(self, kind: Kind, known: Subscription, request: Request) -> None:
        sent = known.waiting
        if sent is None or request.nonce != str(sent.number):
            return  # an answer to nothing that is open, say of an earlier stream
        known.waiting = None
        if request.refusal is not None:
            alone = len(sent.versions) == 1
            (known.refused_alone if alone else known.refused).update(sent.versions)
            self.refusals[kind] = request.refusal
            self._marks.clear()
            return
        self.refusals.pop(kind, None)
        known.take(sent)
        if kind is Kind.ROUTES:
            self._needs = sent.needs
        self._advance()

    def _advance(self) -> None:
        waiting = [k.waiting.number for k in self._kinds.values() if k.waiting is not None]
        oldest = min(waiting, default=self._number + 1)
        while self._marks and self._marks[0].number < oldest:
            self.shown = self._marks.popleft().catalog

    def responses(self, catalog: Catalog, now_s: float) -> tuple[Response, ...]:
        """What to send now, in this order; nothing once Envoy has it all or must answer first."""
        found = [self._unknown.popleft() for _ in range(len(self._unknown))]
        whole = all(kind in self._kinds for kind in KINDS)
        for kind in KINDS:
            known = self._kinds.get(kind)
            if known is None:
                continue
            response, complete = self._next(kind, known, catalog, now_s)
            whole = whole and complete
            if response is not None:
                found.append(response)
        if whole and self._covers(catalog):
            self._mark(catalog)
        return tuple(found)

    def _mark(self, catalog: Catalog) -> None:
        latest = self._marks[-1].catalog if self._marks else self.shown
        if latest is not catalog:
            self._marks.append(_Mark(number=self._number, catalog=catalog))
            self._advance()

    def recheck_at_s(self, now_s: float) -> float | None:
        """When to ask for responses again even though nothing happened; None for never."""
        due_s = (since_s + ORDER_S for since_s in self._delayed_since_s.values())
        return min((at_s for at_s in due_s if at_s > now_s), default=None)

    def _covers(self, catalog: Catalog) -> bool:
        """Whether Envoy has asked for all there is; one that starts asks bit by bit."""
        asked = self._kinds[Kind.ENDPOINTS].names
        return asked >= catalog.resources[Kind.CLUSTERS].keys()

    def _next(
        self, kind: Kind, known: Subscription, catalog: Catalog, now_s: float
    ) -> tuple[Response | None, bool]:
        """The next response of one kind, and whether Envoy then was sent all of that kind."""
        offered = catalog.resources[kind]
        wanted = dict(known.wanted(offered))
        if known.waiting is not None:
            return None, wanted.items() == known.waiting.versions.items()
        if not known.refuses(wanted):
            self.refusals.pop(kind, None)
        ready = {
            name: version
            for name, version in wanted.items()
            if known.refused_alone.get(name) != version
            and self._allowed(kind, name, catalog, now_s)
        }
        if kind is Kind.ENDPOINTS:
            delayed = (wanted.keys() - ready.keys()) & self._delayed_since_s.keys()
            self._delayed_since_s = {name: self._delayed_since_s[name] for name in delayed}
        doubtful = [name for name, version in ready.items() if known.refused.get(name) == version]
        batch = {n: v for n, v in ready.items() if n not in doubtful}
        if not batch and doubtful:
            batch = {doubtful[0]: ready[doubtful[0]]}
        if not batch and (known.greeted or not known.wildcard):
            return None, not wanted
        return self._send(kind, known, batch, offered), batch == wanted

    def _send(
        self,
        kind: Kind,
        known: Subscription,
        batch: Mapping[str, str],
        offered: Mapping[str, Resource],
    ) -> Response:
        self._number += 1
        known.greeted = True
        resources = tuple(offered[name] for name in batch if name in offered)
        needs = frozenset[str]().union(*(resource.needs for resource in resources))
        filled = frozenset(resource.name for resource in resources if not resource.empty)
        known.waiting = Sent(number=self._number, versions=batch, needs=needs, filled=filled)
        return Response(
            type_url=kind.type_url,
            nonce=str(self._number),
            resources=resources,
            removed=tuple(name for name in batch if name not in offered),
        )

    def _allowed(self, kind: Kind, name: str, catalog: Catalog, now_s: float) -> bool:
        """Whether a change may be sent yet without a request falling between."""
        offered = catalog.resources[kind].get(name)
        if kind is Kind.ROUTES:
            return offered is None or self._stands(offered.needs, catalog)
        if kind is Kind.CLUSTERS:
            return offered is not None or not self._may_route_to(name, catalog)
        fills = offered is not None and not offered.empty
        unknown = self._kinds[kind].acked.get(name, ABSENT) == ABSENT
        if fills or unknown or not self._may_route_to(name, catalog):
            return True
        return now_s >= self._delayed_since_s.setdefault(name, now_s) + ORDER_S

    def _may_route_to(self, cluster: str, catalog: Catalog) -> bool:
        """Whether Envoy may be using a route table that leads to this cluster."""
        routes = self._kinds.get(Kind.ROUTES)
        if routes is None:
            return not self.fresh  # it will say which routes it has
        sent = routes.waiting.needs if routes.waiting is not None else frozenset()
        if self._needs is None:
            self._needs = _needs_of(routes.acked, catalog)
        return self._needs is None or cluster in self._needs or cluster in sent

    def _stands(self, clusters: Iterable[str], catalog: Catalog) -> bool:
        """Whether Envoy acknowledged these clusters, and endpoints for each."""
        return all(
            (known := self._kinds.get(kind)) is not None
            and known.stands(name, catalog.resources[kind].get(name))
            for name in clusters
            for kind in (Kind.CLUSTERS, Kind.ENDPOINTS)
        )


def _needs_of(acked: Mapping[str, str], catalog: Catalog) -> frozenset[str] | None:
    """The clusters behind routes from an earlier stream; None when they are of another version."""
    offered = catalog.resources[Kind.ROUTES]
    tables = [offered.get(name) for name, version in acked.items() if version != ABSENT]
    if any(table is None or table.version != acked[table.name] for table in tables):
        return None
    return frozenset[str]().union(*(table.needs for table in tables if table is not None))

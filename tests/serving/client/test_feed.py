"""Edges that are learned from discovery's feed, over real connections, by both clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from serving import router
from serving.client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    Correction,
    Hedge,
    Stats,
    feed,
    retry,
)
from serving.client import edges as client_edges
from serving.client.settings import Chance, Config
from serving.client.steps import Flow, Send
from tests.serving.client import stand_in
from tests.serving.client.stand_in import CORRECTION, Seen, http
from tests.serving.client.test_edges import Clock

BOTH = pytest.mark.parametrize("waits", [True, False], ids=["sync", "async"])


def told(*urls: str, epoch: int | None = 1) -> dict[str, Any]:
    return {"epoch": epoch, "edges": [{"id": url, "url": url} for url in urls]}


@dataclass
class Discovery:
    """A feed that says what the test wants."""

    url: str = ""
    says: Any = None
    status: int = 200
    raw: bytes | None = None
    hangs: bool = False
    asked: list[bytes] = field(default_factory=list)

    async def answer(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        self.asked.append(request)
        if self.hangs:
            await asyncio.sleep(60)
        writer.write(self.raw or http(self.status, self.says))


class Caller:
    """Either client, called alike."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client

    async def correct(self) -> Correction:
        if isinstance(self.client, AsyncClient):
            return await self.client.correct("a")
        return await asyncio.to_thread(self.client.correct, "a")

    def stats(self) -> Stats:
        return self.client.stats()

    def addresses(self) -> list[str]:
        return [each.address for each in self.stats().edges]


@contextlib.asynccontextmanager
async def calling(waits: bool, **given: Any) -> AsyncIterator[Caller]:
    if waits:
        client = Client(**given)
        try:
            yield Caller(client)
        finally:
            await asyncio.to_thread(client.close)
    else:
        async with AsyncClient(**given) as other:
            yield Caller(other)


@contextlib.asynccontextmanager
async def discovery(*urls: str) -> AsyncIterator[Discovery]:
    found = Discovery(says=told(*urls))
    async with stand_in.watched(found.answer) as seen:
        found.url = seen.url
        yield found


async def good(_request: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(http(200, CORRECTION))


@pytest.fixture
async def two() -> AsyncIterator[tuple[Seen, Seen]]:
    async with stand_in.watched(good) as one, stand_in.watched(good) as other:
        yield one, other


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every list is old."""
    monkeypatch.setattr(feed, "REFRESH_S", 0.0)


async def until_told(caller: Caller, holds: Callable[[], bool]) -> None:
    """Calls until what is read beside the calls has come about."""
    async with asyncio.timeout(10):
        while not holds():
            await caller.correct()
            await asyncio.sleep(0.005)


@BOTH
async def test_the_list_is_read_before_the_first_call_and_then_left_alone(
    waits: bool, two: tuple[Seen, Seen]
) -> None:
    async with (
        discovery(*(each.url for each in two)) as told_by,
        calling(waits, discovery=told_by.url, api_key="secret") as caller,
    ):
        assert told_by.asked == []
        assert caller.addresses() == []
        for _ in range(30):
            await caller.correct()
        assert len(told_by.asked) == 1
        assert told_by.asked[0].startswith(b"GET /v1/edges ")
        assert b"secret" not in told_by.asked[0]
        assert caller.addresses() == [each.url for each in two]
        assert [len(each.requests) for each in two] == [each.picks for each in caller.stats().edges]
        assert all(each.requests for each in two)  # all at one: 2^-29
        assert caller.stats().list_fault is None
        assert (caller.stats().list_age_s or 1e9) < 10


@BOTH
async def test_many_first_calls_read_it_once(waits: bool, two: tuple[Seen, Seen]) -> None:
    async with discovery(two[0].url) as told_by, calling(waits, discovery=told_by.url) as caller:
        await asyncio.gather(*(caller.correct() for _ in range(12)))
        assert len(told_by.asked) == 1
        assert len(two[0].requests) == 12


@BOTH
async def test_an_edge_that_came_is_asked_and_one_that_went_is_not(
    waits: bool, two: tuple[Seen, Seen], restless: None
) -> None:
    first, second = two
    async with discovery(first.url) as told_by, calling(waits, discovery=told_by.url) as caller:
        await caller.correct()
        told_by.says = told(first.url, second.url)
        await until_told(caller, lambda: bool(second.requests))
        told_by.says = told(second.url)
        await until_told(caller, lambda: caller.addresses() == [second.url])
        before = len(first.requests)
        for _ in range(20):
            await caller.correct()
        assert len(first.requests) == before
        total = len(first.requests) + len(second.requests)
        assert caller.stats().picks == total  # also those of edges that went


@BOTH
async def test_a_call_goes_on_at_an_edge_that_went(
    waits: bool, two: tuple[Seen, Seen], restless: None
) -> None:
    leave = asyncio.Event()

    async def slow(_request: bytes, writer: asyncio.StreamWriter) -> None:
        await leave.wait()
        writer.write(http(200, CORRECTION))

    async with (
        stand_in.watched(slow) as leaving,
        discovery(leaving.url) as told_by,
        calling(waits, discovery=told_by.url) as caller,
    ):
        call = asyncio.ensure_future(caller.correct())
        await stand_in.until(lambda: bool(leaving.requests))
        told_by.says = told(two[0].url)
        while caller.addresses() != [two[0].url]:
            others = asyncio.ensure_future(caller.correct())
            await asyncio.wait([others], timeout=0.05)
            others.cancel()
            if waits:
                break  # cannot be canceled; its refresh is on its way all the same
        await stand_in.until(lambda: caller.addresses() == [two[0].url])
        assert not call.done()
        leave.set()
        assert (await call).version == 1
        await caller.correct()
        assert len(two[0].requests) >= 1


FAULTS: dict[str, dict[str, Any]] = {
    "status 503": {"status": 503},
    "lists 0 edges": {"says": told(epoch=9)},
    "none of them with an address": {"says": told("ftp://a", "http://", "", "http://999.1.1.1")},
    "its epoch is 0": {"says": told("http://127.0.0.1:9", epoch=0)},
    "its epoch is None": {"says": told("http://127.0.0.1:9", epoch=None)},
    "no number": {"says": {**told("http://127.0.0.1:9"), "epoch": "9"}},
    'no object with a list "edges"': {"says": ["http://127.0.0.1:9"]},
    "Expecting value": {"raw": b"HTTP/1.1 200 X\r\ncontent-length: 4\r\n\r\nnope"},
    "utf-8": {"raw": b"HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\n\xff\xff"},
    "nested too deeply": {
        "raw": b"HTTP/1.1 200 X\r\ncontent-length: 200000\r\n\r\n" + b"[" * 200_000
    },
}


@pytest.mark.parametrize("reason", FAULTS)
async def test_what_is_known_is_kept_where_the_feed_says_nothing_of_use(
    reason: str, two: tuple[Seen, Seen], restless: None
) -> None:
    async with discovery(two[0].url) as told_by, AsyncClient(discovery=told_by.url) as client:
        caller = Caller(client)
        await until_told(caller, lambda: len(told_by.asked) > 1)
        for name, value in FAULTS[reason].items():
            setattr(told_by, name, value)
        await until_told(caller, lambda: reason in (client.stats().list_fault or ""))
        assert caller.addresses() == [two[0].url]
        told_by.raw, told_by.status, told_by.says = None, 200, told(two[1].url)
        await until_told(caller, lambda: bool(two[1].requests))
        assert client.stats().list_fault is None


@BOTH
async def test_a_feed_that_hangs_or_is_away_holds_up_no_call_and_no_close(
    waits: bool, two: tuple[Seen, Seen], restless: None
) -> None:
    async with discovery(two[0].url) as told_by, calling(waits, discovery=told_by.url) as caller:
        await caller.correct()
        told_by.hangs = True
        async with asyncio.timeout(2.5):  # the feed is given 5 s
            await until_told(caller, lambda: len(told_by.asked) > 1)
            for _ in range(10):
                await caller.correct()
            assert len(told_by.asked) == 2  # no second one beside the first
            if not waits:
                await caller.client.close()  # type: ignore[misc]
            else:
                await asyncio.to_thread(caller.client.close)  # type: ignore[arg-type]


@BOTH
async def test_batches_and_hedged_calls_learn_too(waits: bool, two: tuple[Seen, Seen]) -> None:
    async def batch(request: bytes, writer: asyncio.StreamWriter) -> None:
        texts: list[Any] = stand_in.body(request).get("texts", [])  # type: ignore[assignment]
        each = {"corrected": "b", "edits": [], "finish_reason": "stop"}
        answer = {"model": "m", "version": 1, "results": [each] * len(texts)}
        writer.write(http(200, answer if texts else CORRECTION))

    async with stand_in.watched(batch) as edge, discovery(edge.url) as told_by:
        async with calling(waits, discovery=told_by.url, hedge=Hedge(delay_s=5.0)) as caller:
            await caller.correct()
            client = caller.client
            if isinstance(client, AsyncClient):
                found = [str(each) async for each in client.correct_many(["a"] * 3)]
            else:
                many = client.correct_many
                found = await asyncio.to_thread(lambda: [str(each) for each in many(["a"] * 3)])
            assert found == ["b"] * 3
        assert len(told_by.asked) == 1


@BOTH
async def test_where_nothing_is_known_the_call_says_what_was_read_where(waits: bool) -> None:
    async with discovery() as told_by, calling(waits, discovery=told_by.url) as caller:
        with pytest.raises(ConnectionFailed, match=f"{told_by.url}/v1/edges.*lists 0 edges"):
            await caller.correct()
        gone = await stand_in.gone()
    async with calling(waits, discovery=gone, retries=1) as caller:
        with pytest.raises(ConnectionFailed, match=f"{gone}/v1/edges.*ConnectError"):
            await caller.correct()
    async with discovery() as hanging:
        hanging.hangs = True
        async with calling(waits, discovery=hanging.url, deadline_s=0.1) as caller:
            calls = [caller.correct() for _ in range(4)]
            found = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in found] == [ConnectionFailed] * 4
        assert len(hanging.asked) <= 4


async def test_a_first_reading_that_fails_is_repeated_as_calls_are(two: tuple[Seen, Seen]) -> None:
    async with discovery(two[0].url) as told_by:

        async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
            told_by.status = 200 if told_by.asked else 503
            await told_by.answer(request, writer)

        async with stand_in.server(answer) as url, AsyncClient(discovery=url) as client:
            await client.correct("a")
        assert len(told_by.asked) == 2


async def test_a_first_call_that_is_canceled_leaves_reading_to_the_next(
    two: tuple[Seen, Seen],
) -> None:
    async with discovery(two[0].url) as told_by, AsyncClient(discovery=told_by.url) as client:
        told_by.hangs = True
        first = asyncio.ensure_future(client.correct("a"))
        await stand_in.until(lambda: bool(told_by.asked))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        told_by.hangs = False
        assert (await client.correct("a")).version == 1


@BOTH
async def test_addresses_that_were_given_serve_until_the_feed_answers(
    waits: bool, two: tuple[Seen, Seen], restless: None
) -> None:
    given, listed = two
    async with discovery(listed.url) as told_by:
        told_by.hangs = True
        async with calling(waits, base_url=given.url, discovery=told_by.url) as caller:
            await caller.correct()
            assert len(given.requests) == 1
            assert caller.addresses() == [given.url]
    async with (
        discovery(listed.url) as told_by,
        calling(waits, base_url=given.url, discovery=told_by.url) as caller,
    ):
        await until_told(caller, lambda: caller.addresses() == [listed.url])


@pytest.mark.parametrize("given", [{}, {"discovery": "ftp://a"}, {"discovery": "http://a/?b"}])
def test_settings_that_cannot_work_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="discovery"):
        Client(**given)


URLS = st.sampled_from([f"http://10.0.0.{n}" for n in range(5)])
SAID = st.one_of(
    st.tuples(st.one_of(st.none(), st.integers(0, 4)), st.lists(URLS, max_size=4)),
    st.binary(max_size=20),
)


def drive(flow: Flow[None], answer: Callable[[Send], retry.Reply]) -> None:
    with contextlib.suppress(StopIteration):
        step = next(flow)
        while True:
            assert isinstance(step, Send)
            step = flow.send(answer(step))


@BOTH
@pytest.mark.parametrize(
    "url",
    ["http://a..b", f"http://{'a' * 64}.com", "http://xn--a", "http://.", "http://me:secret@host"],
)
async def test_an_edge_that_cannot_be_asked_is_passed_over(
    waits: bool, url: str, two: tuple[Seen, Seen]
) -> None:
    """Its name would be no failure to connect, but an error of the caller's own program."""
    with pytest.raises(ValueError, match="base_url") as refused:
        Config(addresses=(url,), timeout_s=1, deadline_s=1, policy=retry.RetryPolicy())
    assert "secret" not in str(refused.value)
    async with (
        discovery(url, two[0].url) as told_by,
        calling(waits, discovery=told_by.url) as caller,
    ):
        for _ in range(4):
            await caller.correct()
        assert caller.addresses() == [two[0].url]


def in_zones(**urls: str) -> dict[str, Any]:
    return {"epoch": 1, "edges": [{"url": url, "zone": zone} for zone, url in urls.items()]}


@BOTH
async def test_edges_of_the_own_zone_are_asked_first(waits: bool, two: tuple[Seen, Seen]) -> None:
    near, far = two
    async with discovery() as told_by:
        told_by.says = in_zones(b=far.url, a=near.url)
        async with calling(waits, discovery=told_by.url, zone="a") as caller:
            for _ in range(20):
                await caller.correct()
        assert (len(near.requests), len(far.requests)) == (20, 0)
        async with calling(waits, discovery=told_by.url, zone="c") as caller:
            await caller.correct()  # there is none of its own


@BOTH
async def test_where_the_own_zone_does_not_answer_another_one_is_asked(
    waits: bool, two: tuple[Seen, Seen]
) -> None:
    async with discovery() as told_by:
        told_by.says = in_zones(a=await stand_in.gone(), b=two[1].url)
        async with calling(waits, discovery=told_by.url, zone="a", retries=0) as caller:
            for _ in range(5):
                await caller.correct()
            assert caller.stats().edges[0].picks >= 1
            assert len(two[1].requests) == 5


@pytest.mark.parametrize("zone", [1, ["a"], None, {}])
def test_a_zone_that_is_none_is_not_read(zone: object) -> None:
    body = json.dumps({"epoch": 1, "edges": [{"url": "http://a", "zone": zone}]}).encode()
    assert feed.listing(body).edges == (router.Destination(id="http://a"),)


def test_a_zone_without_discovery_is_refused() -> None:
    with pytest.raises(ValueError, match="zone needs discovery"):
        Client("http://a", zone="a")


def test_a_list_that_came_over_https_names_no_edge_that_is_asked_in_clear() -> None:
    both = json.dumps(told("http://a", "HTTPS://b", "https://c")).encode()
    assert [each.id for each in feed.listing(both, secure=True).edges] == ["HTTPS://b", "https://c"]
    assert len(feed.listing(both).edges) == 3
    with pytest.raises(ValueError, match=r"lists 1 edges, none of them .* over https"):
        feed.listing(json.dumps(told("http://a")).encode(), secure=True)


def test_an_edge_in_clear_is_not_learned_from_a_feed_over_https() -> None:
    clock = Clock()
    chance = Chance(monotonic_s=clock, unix_s=clock, rng=random.Random(0))
    policy = retry.RetryPolicy(retries=0)
    config = Config(
        addresses=(), discovery="https://d", timeout_s=1.0, deadline_s=1.0, policy=policy
    )
    known = client_edges.Edges([], chance.rng, clock)
    body = json.dumps(told("http://10.0.0.1", "https://10.0.0.2")).encode()
    reply = retry.Reply(status=200, headers={}, body=body)
    reader = feed.Feed(config, chance, known, lambda _flow: pytest.fail("nothing is read beside"))
    drive(reader.ensure(clock.now_s + 1.0, "r"), lambda step: reply)
    assert [edge.address for edge in known.stats().edges] == ["https://10.0.0.2"]


@hypothesis.settings(deadline=None)
@hypothesis.given(st.lists(SAID, max_size=12))
def test_the_list_is_the_last_good_one_that_is_not_older(said: list[Any]) -> None:
    clock = Clock()
    chance = Chance(monotonic_s=clock, unix_s=clock, rng=random.Random(0))
    first = "http://10.0.0.9"
    policy = retry.RetryPolicy()
    config = Config(
        addresses=(first,), discovery="http://d", timeout_s=1.0, deadline_s=1.0, policy=policy
    )
    known = client_edges.Edges([first], chance.rng, clock)
    held = [known.lease([]) for _ in range(2)]
    flows: list[Flow[None]] = []
    reader = feed.Feed(config, chance, known, flows.append)
    expected, newest = [first], None
    for each in said:
        if isinstance(each, bytes):
            body = each
        else:
            epoch, urls = each
            body = json.dumps(told(*urls, epoch=epoch)).encode()
            if urls and (newest is None or (epoch is not None and epoch >= newest)):
                expected, newest = list(dict.fromkeys(urls)), epoch
        clock.now_s += 2 * feed.REFRESH_S
        drive(reader.ensure(clock.now_s + 1.0, "r"), lambda step: pytest.fail("a call waits"))
        reply = retry.Reply(status=200, headers={}, body=body)
        drive(flows.pop(), lambda step, reply=reply: reply)  # type: ignore[misc]
        assert [edge.address for edge in known.stats().edges] == expected
        lease = known.lease([])
        assert lease.address in expected
        held.append(lease)
    for lease in held:
        lease.give_back(router.Outcome.SUCCESS)
    assert not any(each.in_flight for each in known.stats().edges)


def test_lists_are_read_at_intervals_that_differ_by_chance() -> None:
    clock = Clock()
    chance = Chance(monotonic_s=clock, unix_s=clock, rng=random.Random(0))
    policy = retry.RetryPolicy()
    config = Config(
        addresses=("http://a",), discovery="http://d", timeout_s=1.0, deadline_s=1.0, policy=policy
    )
    flows: list[Flow[None]] = []
    known = client_edges.Edges(["http://a"], chance.rng, clock)
    reader = feed.Feed(config, chance, known, flows.append)
    began: Counter[int] = Counter()
    gone = retry.Failure(kind=retry.FailureKind.NOT_SENT, reason="away")
    for tick in range(400):
        clock.now_s = tick * 0.5
        drive(reader.ensure(clock.now_s + 1.0, "r"), lambda step: pytest.fail("a call waits"))
        if flows:
            began[tick] += 1
            drive(flows.pop(), lambda step: gone)  # type: ignore[arg-type,return-value]
    gaps = [later - sooner for sooner, later in zip(sorted(began), sorted(began)[1:], strict=False)]
    assert all(0.8 * feed.REFRESH_S <= gap * 0.5 <= 1.2 * feed.REFRESH_S + 0.5 for gap in gaps)
    assert len(set(gaps)) > 2

"""Many texts: chunks, order, bounded concurrency, and a failure touches only whom it must."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.client import (
    AsyncClient,
    BadRequest,
    Client,
    ClientError,
    Correction,
    DeadlineExceeded,
    NotAllowed,
    Overloaded,
    batch,
    calls,
    retry,
    settings,
    steps,
)
from tests.serving.client import stand_in
from tests.serving.client.test_calls import reply, session


@given(st.lists(st.integers(0, 70_000), max_size=40), st.integers(1, 20))
def test_chunks_hold_every_text_once_and_in_order_within_the_bounds(
    sizes: list[int], most: int
) -> None:
    texts = ["x" * size for size in sizes]
    found = batch.chunks(texts, most)
    assert [text for chunk in found for text in chunk] == texts
    for chunk in found:
        assert 1 <= len(chunk) <= most
        assert len(chunk) == 1 or sum(map(len, chunk)) <= 64_000


def plan(texts: list[str], **changes: Any) -> batch.Plan:
    given: dict[str, Any] = {
        "texts": tuple(texts), "options": calls.CorrectionOptions(), "wish": settings.Wish(),
        "concurrency": 2, "texts_per_request": 16,
    }  # fmt: skip
    return batch.Plan(**{**given, **changes})


def answers(texts: list[str]) -> retry.Reply:
    results = [{"corrected": text.upper(), "edits": [], "finish_reason": "stop"} for text in texts]
    return reply(200, {"model": "m", "version": 1, "results": results})


def drive(
    texts: list[str], answer: Callable[[list[str]], retry.Reply | retry.Failure], **changes: Any
) -> tuple[list[batch.Result], list[list[str]]]:
    """The results of one chunk, and the texts of each request."""
    flow = batch.correct_chunk(session(**changes), plan(texts), texts, batch.Verdicts())
    asked: list[list[str]] = []
    outcome: steps.Outcome | None = None
    while True:
        try:
            step = flow.send(outcome)
        except StopIteration as done:
            return done.value, asked
        outcome = None
        if isinstance(step, steps.Send):
            asked.append(json.loads(step.content)["texts"])
            outcome = answer(asked[-1])


def test_one_request_answers_all_its_texts() -> None:
    found, asked = drive(["a", "b"], answers)
    assert [str(each) for each in found] == ["A", "B"]
    assert asked == [["a", "b"]]


@given(st.lists(st.sampled_from(["good", ""]), min_size=1, max_size=16))
def test_only_the_text_that_is_refused_fails(texts: list[str]) -> None:
    def answer(asked: list[str]) -> retry.Reply:
        return answers(asked) if all(asked) else reply(400, {"error": {"message": "empty"}})

    found, asked = drive(texts, answer)
    for text, result in zip(texts, found, strict=True):
        assert isinstance(result, Correction if text else BadRequest)
    assert len(asked) < 2 * len(texts)  # a binary tree at most


def test_a_request_that_is_late_is_halved_once() -> None:
    late = retry.Failure(kind=retry.FailureKind.TIMEOUT, reason="slow")
    found, asked = drive(
        ["a", "b", "c", "d"], lambda asked: late if "d" in asked else answers(asked)
    )
    assert [type(each) for each in found] == [Correction] * 2 + [DeadlineExceeded] * 2
    assert asked == [["a", "b", "c", "d"], ["a", "b"], ["c", "d"]]


def test_a_full_endpoint_gets_more_patience_and_no_halves() -> None:
    found, asked = drive(["a", "b"], lambda _: reply(503, {}), deadline_s=1000.0)
    assert len(asked) == 9
    assert {type(each) for each in found} == {Overloaded}
    found, asked = drive(["a", "b"], lambda _: reply(503, {}), policy=retry.RetryPolicy(retries=0))
    assert len(asked) == 1


def test_answers_for_other_texts_than_were_sent_are_the_servers_fault() -> None:
    found, _ = drive(["a"], lambda asked: answers([*asked, "more"]))
    assert isinstance(found[0], ClientError)
    assert "1 texts were sent, 2 results" in str(found[0])


def test_a_refusal_that_meets_all_is_not_collected_text_by_text() -> None:
    verdicts, own = batch.Verdicts(), session()
    flow = batch.correct_chunk(own, plan(["a"]), ["a"], verdicts)
    flow.send(None)
    with pytest.raises(StopIteration):
        flow.send(reply(401, {}))
    with pytest.raises(StopIteration) as done:
        batch.correct_chunk(own, plan(["b"]), ["b", "c"], verdicts).send(None)
    assert [type(each) for each in done.value.value] == [NotAllowed] * 2


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 5))
async def test_results_keep_their_order_and_work_its_bound(
    pauses: list[int], concurrency: int
) -> None:
    running = most = 0

    async def work(texts: tuple[str, ...]) -> list[batch.Result]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(pauses[int(texts[0])]):
            await asyncio.sleep(0)
        running -= 1
        return [ClientError(texts[0], request_id="r")]

    parts = [(str(position),) for position in range(len(pauses))]
    found, done = [], []
    async for news in batch.in_order(parts, work, concurrency):
        found += [str(result).split()[0] for result in news.results]
        done.append(news.done)
    assert found == [part[0] for part in parts]
    assert most <= concurrency
    assert done == sorted(done)
    assert done[-1:] == [len(parts)][: len(parts)]


async def test_work_begun_ahead_of_a_slow_one_is_bounded() -> None:
    stuck, begun = asyncio.Event(), []

    async def work(texts: tuple[str, ...]) -> list[batch.Result]:
        begun.append(texts[0])
        if texts[0] == "0":
            await stuck.wait()
        return [ClientError(texts[0], request_id="r")]

    async def collect() -> int:
        parts = [(str(position),) for position in range(100)]
        return sum([len(news.results) async for news in batch.in_order(parts, work, 2)])

    collecting = asyncio.ensure_future(collect())
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(begun) == 8
    stuck.set()
    assert await collecting == 100


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"texts_per_request": 0}, {"texts": ("a", 1)}]
)
def test_senseless_plans_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        plan(**{"texts": ["a"], **wrong})


async def upper(request: bytes, writer: asyncio.StreamWriter) -> None:
    """Corrects by shouting; a text "bad" is refused, and "slow" never answered."""
    texts: Any = stand_in.body(request)["texts"]
    if "bad" in texts:
        writer.write(stand_in.http(400, {"error": {"message": "bad text"}}))
        return
    if "slow" in texts:
        await asyncio.sleep(60)
    results = [{"corrected": text.upper(), "edits": [], "finish_reason": "stop"} for text in texts]
    writer.write(stand_in.http(200, {"model": "m", "version": 1, "results": results}))


TEXTS = [f"text {number}" for number in range(50)]


async def test_async_results_come_in_order_with_progress() -> None:
    told: list[tuple[int, int]] = []
    texts = [*TEXTS[:20], "bad", *TEXTS[20:]]
    async with stand_in.watched(upper) as seen, AsyncClient(seen.url) as client:
        found = [
            each
            async for each in client.correct_many(
                texts, concurrency=3, texts_per_request=4,
                progress=lambda done, total: told.append((done, total)),
            )
        ]  # fmt: skip
    assert [str(each) for each in found if isinstance(each, Correction)] == [
        text.upper() for text in TEXTS
    ]
    assert isinstance(found[20], BadRequest)
    assert told[-1] == (51, 51)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


async def test_leaving_an_async_batch_cancels_what_is_on_its_way() -> None:
    async with stand_in.watched(upper) as seen, AsyncClient(seen.url, timeout_s=99) as client:
        many = client.correct_many(["a", "slow", "slow", "b"], texts_per_request=1, concurrency=3)
        async with contextlib.aclosing(many):
            assert str(await anext(many)) == "A"
        await stand_in.until(lambda: seen.left == 2)
        assert [each.in_flight for each in client.stats().edges] == [0]


def test_sync_results_come_in_order_with_progress_in_the_callers_thread() -> None:
    import threading

    told: list[str] = []
    with stand_in.threaded(upper) as seen, Client(seen.url) as client:
        found = list(
            client.correct_many(
                (text for text in TEXTS), texts_per_request=4,
                progress=lambda *_: told.append(threading.current_thread().name),
            )
        )  # fmt: skip
    assert [str(each) for each in found] == [text.upper() for text in TEXTS]
    assert set(told) == {threading.current_thread().name}


def test_leaving_a_sync_batch_cancels_what_is_on_its_way() -> None:
    with stand_in.threaded(upper) as seen, Client(seen.url, timeout_s=99) as client:
        many = client.correct_many(["a", "slow", "slow"], texts_per_request=1, concurrency=3)
        assert str(next(many)) == "A"
        many.close()
        asyncio.run(stand_in.until(lambda: seen.left == 2))
        assert [each.in_flight for each in client.stats().edges] == [0]


def test_errors_are_raised_where_that_is_asked_for() -> None:
    with stand_in.threaded(upper) as seen, Client(seen.url) as client:
        many = client.correct_many(["a", "bad", "b"], raise_errors=True)
        assert str(next(many)) == "A"
        with pytest.raises(BadRequest, match="bad text"):
            next(many)


async def test_async_errors_are_raised_where_that_is_asked_for() -> None:
    async with stand_in.watched(upper) as seen, AsyncClient(seen.url) as client:
        with pytest.raises(BadRequest, match="bad text"):
            [each async for each in client.correct_many(["bad"], raise_errors=True)]


def test_one_string_is_no_batch() -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(ValueError, match="use correct"):
        client.correct_many("a text")


def test_no_texts_are_no_results() -> None:
    with Client("http://127.0.0.1:9") as client:
        assert list(client.correct_many([])) == []

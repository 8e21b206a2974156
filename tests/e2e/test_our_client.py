"""The project's own client against the real endpoint, sync and async."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from serving.client import (
    AsyncClient,
    BadRequest,
    Client,
    Correction,
    Hedge,
    NotFound,
    VersionNotServed,
)
from tests.e2e.conftest import Promoted
from tests.e2e.test_clients import ASKED, GREEDY, PROMPT, WANTED

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def url(promoted: Promoted) -> str:
    return promoted.stack.url


class TestOurs:
    """`serving.client`, sync."""

    @pytest.fixture
    def client(self, url: str) -> Iterator[Client]:
        with Client(url, model="grammar", timeout_s=60, deadline_s=120) as client:
            yield client

    def test_correction_by_a_pinned_version(self, client: Client, promoted: Promoted) -> None:
        served = promoted.result["version"]
        found = client.correct(ASKED, version=served, language="en")
        assert (str(found), found.version) == (WANTED, served)
        with pytest.raises(VersionNotServed) as refused:
            client.correct(ASKED, version=served + 1000)
        assert refused.value.status in (409, 412)
        assert refused.value.served == (served,)

    @pytest.mark.parametrize("offsets", [None, "utf16"])
    def test_edits_rebuild_the_text_in_the_units_asked_for(
        self, client: Client, offsets: Any
    ) -> None:
        text = f"\N{GRINNING FACE} {ASKED}"
        found = client.correct(text, offsets=offsets)
        assert found.edits
        unit, coding = (2, "utf-16-le") if offsets else (4, "utf-32-le")
        rebuilt = text.encode(coding)
        for edit in reversed(found.edits):
            begin, end = edit.start * unit, edit.end * unit
            assert rebuilt[begin:end].decode(coding) == edit.original
            rebuilt = rebuilt[:begin] + edit.replacement.encode(coding) + rebuilt[end:]
        assert rebuilt.decode(coding) == str(found)

    def test_completion_and_stream_agree(self, client: Client) -> None:
        whole = client.complete(PROMPT, **GREEDY)
        with client.complete_stream(PROMPT, **GREEDY) as stream:
            pieces = list(stream)
        result = stream.result()
        assert str(whole).strip() == WANTED
        assert result.text == "".join(map(str, pieces)) == whole.text
        assert result.completion_tokens == whole.completion_tokens
        assert result.version == whole.version

    def test_many_keep_their_order_and_a_bad_one_fails_alone(self, client: Client) -> None:
        texts = [ASKED if number % 3 else "The cats sleeps." for number in range(60)]
        texts[7] = ""
        told: list[int] = []
        found = list(
            client.correct_many(texts, concurrency=4, progress=lambda done, _: told.append(done))
        )
        alone = {text: str(client.correct(text)) for text in set(texts) if text}
        assert isinstance(found[7], BadRequest)
        for text, result in zip(texts, found, strict=True):
            if text:
                assert isinstance(result, Correction)
                assert str(result) == alone[text]
        assert told[-1] == len(texts)

    def test_two_addresses_of_which_one_is_dead(self, url: str) -> None:
        with Client([url, "http://127.0.0.1:9"], timeout_s=60) as client:
            assert {str(client.correct(ASKED)) for _ in range(10)} == {WANTED}

    def test_hedging_changes_no_answer_and_leaves_no_thread(self, url: str) -> None:
        threads = set(threading.enumerate())
        with Client(url, timeout_s=60, hedge=Hedge(delay_s=0.001, budget=1.0)) as client:
            assert {str(client.correct(ASKED)) for _ in range(20)} == {WANTED}
        assert set(threading.enumerate()) == threads

    def test_threads_may_share_it(self, client: Client) -> None:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: str(client.correct(ASKED)), range(40)))
        assert set(found) == {WANTED}

    def test_what_is_there(self, client: Client, url: str, promoted: Promoted) -> None:
        (model,) = client.models()
        assert (model.id, model.version) == ("grammar", promoted.result["version"])
        assert client.health().ok
        with Client(url, model="nonesuch") as other, pytest.raises(NotFound):
            other.correct(ASKED)


class TestOursAsync:
    """`serving.client`, asyncio."""

    async def test_calls_side_by_side(self, url: str) -> None:
        async with AsyncClient(url, model="grammar", timeout_s=60, deadline_s=120) as client:
            found = await asyncio.gather(*(client.correct(ASKED) for _ in range(20)))
            whole = await client.complete(PROMPT, **GREEDY)
            async with client.complete_stream(PROMPT, **GREEDY) as stream:
                streamed = "".join([str(piece) async for piece in stream])
            many = [each async for each in client.correct_many([ASKED] * 40)]
        assert {str(each) for each in [*found, *many]} == {WANTED}
        assert whole.text == streamed

    async def test_left_streams_and_cancelled_calls_free_the_replica(self, url: str) -> None:
        """What is left must end in the engine too: then nothing is in flight any more."""
        async with AsyncClient(url, model="grammar", timeout_s=60) as client:
            for _ in range(10):
                async with client.complete_stream(PROMPT, max_tokens=64, seed=1) as stream:
                    await anext(stream)
            waiting = [asyncio.ensure_future(client.correct(ASKED)) for _ in range(20)]
            await asyncio.sleep(0.01)
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            async with httpx.AsyncClient() as plain, asyncio.timeout(30):
                while True:
                    text = (await plain.get(f"{url}/metrics")).text
                    line = next(x for x in text.splitlines() if x.startswith("liftlock_in_flight"))
                    if float(line.split()[-1]) == 0:
                        break
                    await asyncio.sleep(0.1)
            assert str(await client.correct(ASKED)) == WANTED

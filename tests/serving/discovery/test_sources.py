"""Sources give complete listings or say that they cannot."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from serving.discovery import errors, ray_source, sources
from serving.endpoint import Endpoint, EndpointState

REPLICA = Endpoint(
    replica_id="r",
    model="m",
    version=3,
    digest="d",
    host="127.0.0.1",
    port=9000,
    state=EndpointState.DRAINING,
)
QUICK = ray_source.ChildSettings(answer_s=5.0, restart_s=0.0, close_s=1.0)


def test_an_endpoint_comes_back_as_it_was() -> None:
    assert sources.endpoint_from_json(sources.endpoint_to_json(REPLICA)) == REPLICA


async def test_a_file_is_read_as_json_or_yaml(tmp_path: Path) -> None:
    as_json, as_yaml = tmp_path / "a.json", tmp_path / "a.yaml"
    as_json.write_text(json.dumps({"generation": 7, "endpoints": []}))
    as_yaml.write_text(
        "endpoints:\n- {replica_id: r, model: m, version: 3, host: 127.0.0.1, port: 9000}\n"
    )
    assert (await sources.StaticFileSource(as_json).list()).generation == 7
    listing = await sources.StaticFileSource(as_yaml).list()
    assert listing.endpoints[0].state is EndpointState.READY
    assert listing.endpoints[0].version == 3
    assert listing.generation > 0


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "[]",
        "{",
        "endpoints: 3",
        "endpoints: [{}]",
        "endpoints: [x]",
        "{endpoints: [], generation: x}",
        "endpoints: [{replica_id: r, model: m, version: 1, host: h, port: 1, state: odd}]",
    ],
)
async def test_a_file_that_cannot_be_understood_is_a_failure(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "endpoints.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(errors.SourceFailed, match=r"endpoints\.yaml"):
        await sources.StaticFileSource(path).list()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("endpoint: []", "unknown key endpoint, did you mean endpoints?"),
        ("endpoints: [{replica: r, model: m}]", "unknown key replica, did you mean replica_id?"),
        ("{endpoints: [], version: 2}", "unknown key version; known: endpoints, generation"),
    ],
)
async def test_a_misspelled_key_is_told_with_the_right_one(
    tmp_path: Path, content: str, told: str
) -> None:
    path = tmp_path / "endpoints.yaml"
    path.write_text(content)
    with pytest.raises(errors.SourceFailed) as refused:
        await sources.StaticFileSource(path).list()
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", None),
        ("model", ["grammar"]),
        ("replica_id", 7),
        ("version", True),
        ("version", "1"),
        ("port", 8101.9),
        ("host", 2130706433),
        ("zone", 3),
        ("digest", None),
    ],
)
async def test_a_value_of_another_type_is_refused_by_name_and_not_made_one_that_fits(
    tmp_path: Path, field: str, value: object
) -> None:
    path = tmp_path / "endpoints.json"
    listed = {**sources.endpoint_to_json(REPLICA), field: value}
    path.write_text(json.dumps({"endpoints": [listed]}))
    with pytest.raises(errors.SourceFailed, match=f"{field} must be a"):
        await sources.StaticFileSource(path).list()


@pytest.mark.parametrize("generation", [True, 1.5, "7"])
def test_a_generation_that_is_no_whole_number_is_refused(generation: object) -> None:
    with pytest.raises(errors.SourceFailed, match="generation must be a whole number"):
        sources.parse_listing({"endpoints": [], "generation": generation}, origin="test")


async def test_json_is_read_as_json_whatever_yaml_thinks_of_its_tabs(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.json"
    listed = [sources.endpoint_to_json(REPLICA)]
    path.write_text(json.dumps({"endpoints": listed}, indent="\t"))
    assert (await sources.StaticFileSource(path).list()).endpoints == (REPLICA,)


async def test_a_list_that_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.json"
    os.mkfifo(path)
    with pytest.raises(errors.SourceFailed, match="is not a regular file"):
        await asyncio.wait_for(sources.StaticFileSource(path).list(), 10)


async def test_the_list_of_the_documentation_is_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "edge.md").read_text()
    (block,) = re.findall(r"^    (endpoints:\n(?:    .*\n)+)", text, re.MULTILINE)
    path = tmp_path / "endpoints.yaml"
    path.write_text(block.replace("\n    ", "\n"))
    one, other = (await sources.StaticFileSource(path).list()).endpoints
    assert (one.host, one.port, one.state) == ("127.0.0.1", 8101, EndpointState.READY)
    assert (other.state, other.zone) == (EndpointState.DRAINING, "zone-a")


class FakeDirectory:
    """A directory that fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.acked: list[tuple[str, int]] = []
        self.closed = 0

    def snapshot(self) -> tuple[int, Sequence[Endpoint]]:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the cluster is away")
        return 4, (REPLICA,)

    def changed(self, generation: int, wait_s: float) -> bool:
        assert wait_s == sources.WAIT_S
        return generation != 4

    def ack(self, edge_id: str, generation: int) -> None:
        self.acked.append((edge_id, generation))

    def close(self) -> None:
        self.closed += 1


def ask(directory: FakeDirectory, *requests: dict[str, Any], step_s: float = 0.0) -> list[Any]:
    lines, answers = [json.dumps(request) for request in requests], io.StringIO()
    times = iter(range(1000))
    ray_source.serve(lambda: directory, lines, answers, clock=lambda: next(times) * step_s)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def test_the_reader_answers_each_line_with_a_line_and_leaves_at_the_end() -> None:
    directory = FakeDirectory()
    listed, acked = ask(directory, {"ask": "list"}, {"ask": "ack", "edge_id": "e", "generation": 4})
    assert sources.parse_listing(listed, origin="test").endpoints == (REPLICA,)
    assert acked == {}
    assert directory.acked == [("e", 4)]
    assert directory.closed == 1


def test_the_reader_tells_whether_another_listing_is_there() -> None:
    same, other = ask(
        FakeDirectory(), {"ask": "changed", "generation": 4}, {"ask": "changed", "generation": 3}
    )
    assert (same, other) == ({"changed": False}, {"changed": True})


async def test_a_file_is_listed_again_only_when_it_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.json"
    path.write_text('{"endpoints": []}')
    source = sources.StaticFileSource(path)
    generation = (await source.list()).generation
    first = await source.list()
    await source.changed(generation)
    assert await source.list() is first
    waiting = asyncio.create_task(source.changed(generation))
    await asyncio.sleep(0.03)
    path.write_text('{"endpoints": [], "generation": 7}')
    await waiting
    assert (await source.list()).generation == 7
    path.unlink()
    await source.changed(7)
    with pytest.raises(errors.SourceFailed):
        await source.list()


UNCHANGED = """
import json, sys
for number, line in enumerate(sys.stdin):
    request = json.loads(line)
    found = {"generation": number, "endpoints": []}
    if request["ask"] == "changed":
        found = {"changed": number > 2}
    print(json.dumps(found), flush=True)
"""


async def test_the_directory_is_not_read_again_while_it_says_that_nothing_changed() -> None:
    source = child(UNCHANGED)
    first = await source.list()
    await source.changed(first.generation)
    assert await source.list() is first
    await source.changed(first.generation)
    assert await source.list() is first
    await source.changed(first.generation)
    assert (await source.list()).generation == 4
    await source.close()


def test_a_failure_is_an_answer_and_the_next_request_may_succeed() -> None:
    first, second = ask(FakeDirectory(failures=1), {"ask": "list"}, {"ask": "list"})
    assert first == {"error": "ConnectionError: the cluster is away"}
    assert second["generation"] == 4


def test_the_cluster_is_joined_anew_only_after_failing_for_long() -> None:
    brief, long = FakeDirectory(failures=3), FakeDirectory(failures=3)
    requests = [{"ask": "list"}] * 4
    ask(brief, *requests, step_s=1.0)
    ask(long, *requests, step_s=10.0)
    assert brief.closed == 1
    assert long.closed == 2


def child(code: str, settings: ray_source.ChildSettings = QUICK) -> ray_source.ChildSource:
    return ray_source.ChildSource((sys.executable, "-S", "-c", code), settings)


ANSWERING = """
import json, sys
for number, line in enumerate(sys.stdin):
    request = json.loads(line)
    found = {} if request["ask"] == "ack" else {"generation": number, "endpoints": []}
    print(json.dumps(found), flush=True)
"""


async def test_a_child_is_asked_again_and_again_and_ends_with_its_parent() -> None:
    source = child(ANSWERING)
    assert (await source.list()).generation == 0
    await source.ack("edge", 0)
    assert (await source.list()).generation == 2
    process = source._process
    assert process is not None
    await source.close()
    assert process.returncode == 0


async def test_a_child_that_dies_is_replaced() -> None:
    source = child("import sys; sys.stdin.readline()")
    with pytest.raises(errors.SourceFailed, match="ended"):
        await source.list()
    source._command = (*source._command[:-1], ANSWERING)
    assert (await source.list()).generation == 0
    await source.close()


async def test_a_child_that_hangs_is_killed() -> None:
    hasty = ray_source.ChildSettings(answer_s=0.2, restart_s=0.0)
    source = child("import time; time.sleep(60)", hasty)
    with pytest.raises(errors.SourceFailed, match=r"no answer within 0\.2 s"):
        await source.list()
    assert source._process is None


async def test_a_cancelled_question_does_not_leave_its_answer_to_the_next() -> None:
    source = child("import sys, time; sys.stdin.readline(); time.sleep(60)")
    asking = asyncio.create_task(source.list())
    await asyncio.sleep(0.1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert source._process is None


@pytest.mark.parametrize("answer", ["nonsense", "[]", "{}", '{"error": "away"}'])
async def test_a_strange_answer_is_a_failure(answer: str) -> None:
    source = child(f"import sys; sys.stdin.readline(); print({answer!r}, flush=True)")
    with pytest.raises(errors.SourceFailed, match="Ray directory"):
        await source.list()
    await source.close()


async def test_restarts_are_spaced_out() -> None:
    source = child("pass", ray_source.ChildSettings(restart_s=60.0))
    with pytest.raises(errors.SourceFailed):
        await source.list()
    with pytest.raises(errors.SourceFailed, match="waiting to start"):
        await source.list()


async def test_a_missing_program_is_a_failure() -> None:
    source = ray_source.ChildSource(("/nowhere/python",), QUICK)
    with pytest.raises(errors.SourceFailed, match="cannot start"):
        await source.list()

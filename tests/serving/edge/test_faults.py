"""Faults under load: each over at least 30,000 requests, none of which may fail.

Counted are unary calls. A stream that has begun cannot be sent again by anybody, so streams are
left out. Between caller and replica exactly two things send a request again:

- the edge, while no replica can have begun it: the connection was refused, HTTP/2 refused the
  stream, or the connection broke before the request was written (config.RetrySettings);
- the SDK, where doing it twice is the same as doing it once, as for corrections.

So a SIGKILL, which cuts what the replica was working on, is survived without a failure by callers
of the SDK; every other fault here by raw callers that retry nothing. A replica that answers 500
answers: nobody repeats that, so there the faults before its ejection are counted and bounded.

99.99 % cannot be shown with fewer: with none failed of n, the 95 % bound on the share is 3 / n.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.edge import config
from tests.serving.edge import callers, fleet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REQUESTS = 30_000
CALLERS = 16
IN_FLIGHT = CALLERS * callers.PROCESSES
KILLS = 4
OUTAGE_S = 30.0
Report = Callable[..., None]


@pytest.fixture
def report(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Report:
    """Print one line of counts, past pytest's capture, so that it can be kept."""

    def show(outcome: callers.Outcome, **more: object) -> None:
        counts = {"requests": outcome.requests, "failed": outcome.failed}
        line = {**counts, "seconds": round(outcome.seconds, 1), **more}
        with capsys.disabled():
            print(f"\nFAULT {request.node.name} {json.dumps(line)}", flush=True)

    return show


def assert_none_failed(outcome: callers.Outcome) -> None:
    assert outcome.failures == {}
    assert outcome.requests >= REQUESTS


async def test_killed_replicas_cost_the_sdk_no_request(tmp_path: Path, report: Report) -> None:
    rng = random.Random(5)
    async with fleet.running(tmp_path, 3) as site:
        async with callers.calling(site.url, requests=REQUESTS, kind="sdk", callers=8) as outcome:
            for _ in range(KILLS):
                await asyncio.sleep(1.0)
                dead = rng.choice(site.replicas)
                await dead.kill()
                await asyncio.sleep(2.0)  # listed still: until its heartbeats are missed
                heir = await site.new()
                await site.listed([heir, *(r for r in site.replicas if r is not dead)])
        counted = await site.counted()
    cut = counted.server_errors
    report(outcome, kills=KILLS, cut_and_repeated=cut, edge_retries=counted.retries)
    assert_none_failed(outcome)
    # A kill may cut what is in flight. All that came later was sent to another replica by the edge.
    assert cut <= KILLS * IN_FLIGHT
    assert counted.retries > 0


async def test_a_rolling_update_fails_no_request(tmp_path: Path, report: Report) -> None:
    async with fleet.running(tmp_path, 3) as site:
        async with callers.calling(site.url, requests=REQUESTS) as outcome:
            first = {str(replica.port) for replica in site.replicas}
            for old in tuple(site.replicas):
                await site.listed([*site.replicas, await site.new()])
                await asyncio.sleep(0.5)
                await site.leave(old)
            second = {str(replica.port) for replica in site.replicas}
            await asyncio.sleep(0.5)
        retries = (await site.counted()).retries
    report(outcome, by_replica=dict(outcome.ports), edge_retries=retries)
    assert_none_failed(outcome)
    assert not first & second
    assert set(outcome.ports) == first | second


async def test_scaling_out_and_in_fails_no_request(tmp_path: Path, report: Report) -> None:
    async with fleet.running(tmp_path, 2) as site:
        async with callers.calling(site.url, requests=REQUESTS) as outcome:
            await asyncio.sleep(1.0)
            await site.listed([*site.replicas, await site.new(), await site.new()])
            await asyncio.sleep(1.0)
            for leaving in site.replicas[:3]:
                await site.leave(leaving)
            await asyncio.sleep(0.5)
        retries = (await site.counted()).retries
    report(outcome, by_replica=dict(outcome.ports), edge_retries=retries)
    assert_none_failed(outcome)
    assert len(outcome.ports) == 4


async def test_discovery_killed_for_30_s_fails_no_request_and_nothing_flaps(
    tmp_path: Path, report: Report
) -> None:
    async with fleet.running(tmp_path, 3) as site:
        before = await site.membership_changes()
        async with callers.calling(site.url, requests=REQUESTS) as outcome:
            await asyncio.sleep(1.0)
            await site.kill_edge()
            await asyncio.sleep(OUTAGE_S)
            envoy_pid = site.envoy_pid
            await site.start_edge()
            await asyncio.sleep(2.0)
        changes = await site.membership_changes() - before
        counted = await site.counted()
    report(outcome, membership_changes=changes, outage_s=OUTAGE_S, edge_retries=counted.retries)
    assert_none_failed(outcome)
    assert site.envoy_pid == envoy_pid
    assert changes == 0
    assert counted.completed >= outcome.requests
    assert len(outcome.ports) == 3


def slow_share_bound(replicas: int, in_flight: int, slower: float) -> float:
    """The largest share of the requests for one replica `slower` times slower than the others.

    Two replicas are drawn with replacement and the one with fewer requests in flight is taken. Of
    n replicas the slow one is drawn twice with probability 1/n^2, which no rule can help, and once
    with 2(n-1)/n^2; then it wins with probability p only if it has at most as many in flight:

        share = 1/n^2 + p 2(n-1)/n^2.

    With share s and a throughput of x requests per service time of the others, Little's law gives
    a = x s k in flight at the slow one (k times slower) and b = x (1-s)/(n-1) at each other,
    together the N of the callers. Were replicas drawn without looking, the N would be spread
    multinomially, and a - b would have the variance a + b - (a-b)^2 / N; choosing the emptier one
    only takes from that. So with v = a + b Cantelli's inequality bounds p by v / (v + (a-b)^2).
    That bound falls with s, and s is at least 1/n^2, so s = 1/n^2 gives the largest share.
    """
    least = 1 / replicas**2
    rate = in_flight / (least * slower + 1 - least)
    slow, other = rate * least * slower, rate * (1 - least) / (replicas - 1)
    assert slow > other
    win = (slow + other) / (slow + other + (slow - other) ** 2)
    return least + win * 2 * (replicas - 1) / replicas**2


def test_the_bound_lies_between_the_unavoidable_and_the_equal_share() -> None:
    assert 1 / 16 < slow_share_bound(4, 128, 10.0) < 0.11
    assert math.isclose(slow_share_bound(4, 10**9, 10.0), 1 / 16, rel_tol=1e-6)


async def test_a_replica_made_ten_times_slower_gets_fewer_requests(
    tmp_path: Path, report: Report
) -> None:
    """The delays are long beside what a busy machine adds, so that ten times remains about that;
    the bound is taken for what the callers measured."""
    count, delay_s, each = 4, 0.08, 64
    async with fleet.running(tmp_path, count, delay_s=delay_s) as site:
        slow = site.replicas[0]
        await slow.tell(delay_s=10 * delay_s)
        async with callers.calling(site.url, requests=REQUESTS, callers=each) as outcome:
            await asyncio.sleep(1.0)
    port = str(slow.port)
    others = outcome.ports.total() - outcome.ports[port]
    mean_s = (outcome.latency_s.total() - outcome.latency_s[port]) / others
    slower = outcome.latency_s[port] / outcome.ports[port] / mean_s
    share = outcome.ports[port] / outcome.ports.total()
    bound = slow_share_bound(count, each * callers.PROCESSES, slower)
    found = {"share": share, "bound": bound, "equal_share": 1 / count, "slower": slower}
    report(outcome, **{name: round(value, 3) for name, value in found.items()})
    assert_none_failed(outcome)
    assert share < bound < 1 / count


async def test_a_replica_that_answers_500_is_ejected_and_comes_back(
    tmp_path: Path, report: Report
) -> None:
    """Ejected after so many failures in a row, plus what is in flight to it at that moment: at most
    one request of each caller. It is tried again after each ejection, the n-th n times as long."""
    ejection = config.EjectionSettings()
    async with fleet.running(tmp_path, 4) as site:
        broken = site.replicas[0]
        async with callers.calling(site.url, requests=REQUESTS, callers=CALLERS) as outcome:
            await asyncio.sleep(1.0)
            await broken.tell(status=500)
            await asyncio.sleep(1.0)
            ejected = (await site.counted()).ejections_active
            faults = (await site.counted()).server_errors
            await asyncio.sleep(2.0)
            later = (await site.counted()).server_errors
            await broken.tell(status=200)
            await asyncio.sleep(ejection.base_s + 1.0)
            back = (await site.counted()).ejections_active == 0
        async with callers.calling(site.url, requests=2_000) as healed:
            pass
    per_ejection = ejection.failures + IN_FLIGHT
    share = healed.ports[str(broken.port)] / healed.requests
    report(outcome, bound=per_ejection, ejected=ejected, back=back, share_when_back=round(share, 3))
    assert all(" 500 " in failure for failure in outcome.failures)
    assert outcome.requests >= REQUESTS
    assert ejected == 1
    assert ejection.failures <= faults == later == outcome.failed <= per_ejection
    assert back
    assert healed.failed == 0
    assert 1 / 8 < share < 1 / 2

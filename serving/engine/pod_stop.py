"""`python -m serving.engine.pod_stop`: a pod's preStop hook; returns when the replica may be ended.

A pod that is deleted leaves the endpoint slices at once and is sent SIGTERM when this returns, on
which Ray ends the replica without asking it. So the waiting that `ReplicaServer.drain` does for a
replica that Serve stops is done here for one whose pod goes: first until the edges have let go,
then until nothing is in flight.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

import httpx
from prometheus_client.parser import text_string_to_metric_families

from serving.engine.spec import QUIET_S

IN_FLIGHT = "liftlock_in_flight"
_POLL_S = 0.2
_ANSWER_S = 2.0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m serving.engine.pod_stop", description=__doc__)
    options.add_argument("--host", default=os.environ.get("POD_IP"), help="default: $POD_IP")
    options.add_argument("--port", type=int, required=True, help="the replica's")
    options.add_argument("--settle-s", type=float, required=True, help="until edges have let go")
    options.add_argument("--drain-s", type=float, required=True, help="longest wait after that")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Waits; 0 always, since a pod that is to go goes."""
    given = parser().parse_args(argv)
    url = f"http://{given.host}:{given.port}/metrics"
    if in_flight(url) is None:
        print(f"pod_stop: nothing answers at {url}, so nothing is waited for", file=sys.stderr)
        return 0
    time.sleep(given.settle_s)
    left = until_quiet(lambda: in_flight(url), drain_s=given.drain_s)
    print(f"pod_stop: {left} requests in flight are cut off" if left else "pod_stop: quiet")
    return 0


def until_quiet(
    read: Callable[[], int | None],
    *,
    drain_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Waits until nothing was in flight for `QUIET_S`; returns what is left.

    Args:
        read: requests in flight; None where the replica is gone, which ends the waiting.
        drain_s: the longest wait.
    """
    now_s = clock()
    give_up_s, busy_at_s = now_s + drain_s, now_s
    while (found := read()) is not None:
        now_s = clock()
        if found:
            busy_at_s = now_s
        elif now_s - busy_at_s >= QUIET_S:
            return 0
        if now_s >= give_up_s:
            return found
        sleep(_POLL_S)
    return 0


def in_flight(url: str) -> int | None:
    """Requests that the replica holds, by its metrics; None where nobody listens any more.

    One that does not answer as it should, such as one that is starved, counts as busy with one.
    """
    try:
        answer = httpx.get(url, timeout=_ANSWER_S, trust_env=False)
        answer.raise_for_status()
        families = text_string_to_metric_families(answer.text)
        return next(int(f.samples[0].value) for f in families if f.name == IN_FLIGHT)
    except httpx.ConnectError:
        return None
    except (httpx.HTTPError, StopIteration, ValueError):
        return 1


if __name__ == "__main__":
    sys.exit(main())

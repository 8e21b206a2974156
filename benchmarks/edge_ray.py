"""The replica of `benchmarks.edge_app` on a Ray node of its own, for `benchmarks.edge`.

    python -m benchmarks.edge_ray --port 8123 --replicas 2

With RAY_SERVE_ENABLE_HA_PROXY=1 in the environment Ray starts HAProxy instead of its own proxy.
Prints where it listens and which processes forward requests, then waits for the end of standard
input.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import psutil

from benchmarks.edge_app import app

FORWARDERS = ("ProxyActor", "HAProxyManager", "haproxy")
"""In the command lines of what is between caller and replica.""" ""
SETTLE_S = 3.0
"""HAProxy is started anew for each replica that comes; afterwards its process stays."""


def main() -> None:
    """Parses and serves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--replicas", type=int, required=True)
    args = parser.parse_args()

    import ray
    from ray import serve

    class Replica:
        """Nothing but the app."""

    ray.init(num_cpus=8, include_dashboard=False)
    serve.start(http_options={"port": args.port, "host": "127.0.0.1"})
    deployment = serve.deployment(serve.ingress(app)(Replica)).options(
        num_replicas=args.replicas, max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0}
    )
    serve.run(deployment.bind(), blocking=False)
    time.sleep(SETTLE_S)
    where = {"url": f"http://127.0.0.1:{args.port}", "processes": _forwarders()}
    print("READY " + json.dumps(where), flush=True)
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()


def _forwarders() -> dict[str, int]:
    found = {}
    for process in psutil.Process().children(recursive=True):
        title = " ".join(process.cmdline())
        kind = next((name for name in FORWARDERS if name in title), None)
        if kind is not None:
            found[f"{kind} {process.pid}"] = process.pid
    return found


if __name__ == "__main__":
    main()

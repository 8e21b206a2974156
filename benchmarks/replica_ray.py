"""`ray.serve.llm` with its defaults on a Ray node of its own, for `benchmarks.replica`.

    python -m benchmarks.replica_ray --checkpoint DIR --port 8123

Prints where it listens, then waits for the end of standard input.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import psutil

from benchmarks.replica_host import ENGINE, MODEL


def main() -> None:
    """Parses and serves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()

    import ray
    from ray import serve
    from ray.serve.llm import LLMConfig, build_openai_app

    kwargs = ENGINE.engine_kwargs(str(args.checkpoint))
    del kwargs["model"]
    config = LLMConfig(
        model_loading_config={"model_id": MODEL, "model_source": str(args.checkpoint)},
        accelerator_config={"kind": "cpu"},
        engine_kwargs=kwargs,
        log_engine_metrics=False,  # as in the other arms
        deployment_config={"num_replicas": 1, "max_ongoing_requests": 4096},
    )
    ray.init(num_cpus=16, include_dashboard=False)
    serve.start(http_options={"port": args.port})
    serve.run(build_openai_app({"llm_configs": [config]}), blocking=False)
    names = ("ServeReplica", "ProxyActor", "ServeController")
    found = {}
    for process in psutil.Process().children(recursive=True):
        title = " ".join(process.cmdline())
        if any(name in title for name in names):
            found[f"{title[:60]} {process.pid}"] = process.pid
    where = {"url": f"http://127.0.0.1:{args.port}", "processes": found}
    print("READY " + json.dumps(where), flush=True)
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()

"""Show what discovery sees on a cluster: `python -m serving.discovery.kubernetes --namespace N`.

A line of JSON for each change, until it is interrupted; with `--once` the first and no more.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path

import orjson

from serving import errors as serving_errors
from serving.discovery import observation, sources
from serving.discovery.kubernetes import settings, source


def main() -> int:
    """Exit code 0, 1 where the cluster cannot be asked, 2 for options that make no sense."""
    options = parser().parse_args()
    namespace = None if options.all_namespaces else options.namespace
    try:
        watched = source.kubernetes_source(
            namespace,
            label_selector=options.selector,
            port_name=options.port_name,
            kubeconfig=options.kubeconfig,
        )
    except (ValueError, serving_errors.ServingError) as exc:
        print(exc, file=sys.stderr)
        return 2
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(show(watched, is_once=options.once, patience_s=options.patience))
    except serving_errors.ServingError as exc:
        print(exc, file=sys.stderr)
        return 1
    return 0


async def show(watched: source.KubernetesSource, *, is_once: bool, patience_s: float) -> None:
    """Print listings until it is cancelled, or one; raises SourceFailed where there is none."""
    generation: int | None = None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await watched.changed()
        while True:
            listing = await watched.list()
            sys.stdout.buffer.write(orjson.dumps(_as_json(listing)) + b"\n")
            sys.stdout.buffer.flush()
            if is_once:
                return
            generation = listing.generation
            await watched.changed(generation)
    finally:
        await watched.close()


def _as_json(listing: observation.Listing) -> dict[str, object]:
    return {
        "generation": listing.generation,
        "endpoints": [sources.endpoint_to_json(replica) for replica in listing.endpoints],
        "refused": listing.refused,
    }


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="python -m serving.discovery.kubernetes",
        description="Show the endpoints that discovery sees on a Kubernetes cluster.",
    )
    where = options.add_mutually_exclusive_group(required=True)
    where.add_argument("--namespace", help="the namespace to watch")
    where.add_argument("--all-namespaces", action="store_true", help="takes a ClusterRole")
    options.add_argument(
        "--selector", default=settings.SELECTOR, help="labels of the Services (%(default)s)"
    )
    options.add_argument("--port-name", help="needed where a Service has several ports")
    options.add_argument("--kubeconfig", type=Path, help="default: the pod's own account")
    options.add_argument("--once", action="store_true", help="the first listing and no more")
    options.add_argument(
        "--patience", type=float, default=30.0, help="seconds to wait for it (%(default)s)"
    )
    return options


if __name__ == "__main__":
    sys.exit(main())

"""Which source, from the options of a command. Another source is one more option and one line."""

from __future__ import annotations

import argparse
from pathlib import Path

from serving.discovery import ray_source, sources


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that name a source; exactly one must be given."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--ray-address", help="Ray cluster whose directory lists the replicas")
    group.add_argument("--endpoints", type=Path, help="JSON or YAML file that lists them instead")
    group.add_argument(
        "--kubernetes", metavar="NAMESPACE", help="namespace whose labeled Services lead to them"
    )
    parser.add_argument("--port-name", help="with --kubernetes: where a Service has several ports")
    parser.add_argument(
        "--kubeconfig", type=Path, help="with --kubernetes: default is the pod's own account"
    )


def source(given: argparse.Namespace) -> sources.Source:
    """The source that the options name; nothing is asked of it yet."""
    if given.endpoints is not None:
        return sources.StaticFileSource(given.endpoints)
    if given.kubernetes is not None:
        from serving.discovery.kubernetes import kubernetes_source

        return kubernetes_source(
            given.kubernetes, port_name=given.port_name, kubeconfig=given.kubeconfig
        )
    return ray_source.ray_directory(given.ray_address)

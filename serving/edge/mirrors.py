"""Copies of a model's requests for versions that are only watched: mirrors.

The one idea: what becomes of a copy is nobody's business but the mirrored version's. Envoy begins
a copy beside the request, waits for nothing, and drops what comes back. A mirror is a cluster of
its own beside that of the same version, so that its connections, ejections and limits are apart,
and so that no copy is ever counted as a caller's request.
"""

from __future__ import annotations

from typing import Any

from serving.discovery import snapshot as discovery
from serving.edge import bootstrap, config

MIRROR_HEADER = "x-liftlock-mirror"
"""Tells a replica that a request is a copy; what a caller sends by this name is dropped."""
_COPIED = "/(v1/(corrections|completions|chat/completions)|invocations|serving-endpoints)(/.*)?"
"""Paths that ask the model. What tells it something (feedback, approvals) must not come twice."""
_PER_UNIT, _UNITS = 10_000, 100
"""Fractions are drawn by ten-thousandths, said in millionths. Envoy draws with the number that has
chosen the version already, modulo 100: with smaller steps both draws would hang together."""


def rounded(fraction: float) -> float:
    """A fraction as edges draw it."""
    return round(fraction * _PER_UNIT) / _PER_UNIT


def copying(route: discovery.ModelRoute, like: dict[str, Any]) -> list[dict[str, Any]]:
    """The route that also copies, to come before the one it is like; none without a mirror."""
    if not route.mirrors:
        return []
    policies = [_policy(mirror) for mirror in route.mirrors]
    match = {key: value for key, value in like["match"].items() if key != "prefix"}
    return [
        {
            **like,
            "name": f"{like['name']}-copying",
            "match": {**match, "safe_regex": {"regex": _COPIED}},
            "route": {**like["route"], "request_mirror_policies": policies},
        }
    ]


def fraction_of(policy: dict[str, Any]) -> float:
    """The fraction that a policy says, as Envoy shows it."""
    return float(policy["runtime_fraction"]["default_value"]["numerator"]) / (_PER_UNIT * _UNITS)


def cluster(
    key: discovery.ClusterKey, like: dict[str, Any], settings: config.EdgeSettings
) -> dict[str, Any]:
    """The cluster of a mirror (CDS), like that of the version but for its name and its limits.

    The longest time is one of them: to copies, Envoy does not apply the route's.
    """
    most = settings.max_mirrored
    limits = {
        "max_connections": most,
        "max_pending_requests": most,
        "max_requests": most,
        "max_retries": 0,
    }
    return {
        **like,
        "name": key.mirror_name,
        "eds_cluster_config": {**like["eds_cluster_config"], "service_name": key.mirror_name},
        "circuit_breakers": {"thresholds": [limits]},
        "typed_extension_protocol_options": {
            name: _ending(options, settings)
            for name, options in like["typed_extension_protocol_options"].items()
        },
    }


def _ending(options: dict[str, Any], settings: config.EdgeSettings) -> dict[str, Any]:
    longest = {"max_stream_duration": bootstrap.seconds(settings.request_s)}
    common = {**options["common_http_protocol_options"], **longest}
    return {**options, "common_http_protocol_options": common}


def endpoints(key: discovery.ClusterKey, like: dict[str, Any]) -> dict[str, Any]:
    """The endpoints of a mirror (EDS): the version's own, under a name of their own.

    Of two clusters that share one assignment, Envoy asks for it once, and the later one would wait
    until it changes.
    """
    return {**like, "cluster_name": key.mirror_name}


def _policy(mirror: discovery.Mirror) -> dict[str, Any]:
    numerator = round(mirror.fraction * _PER_UNIT) * _UNITS
    header = {
        "header": {"key": MIRROR_HEADER, "value": "true"},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
    return {
        "cluster": mirror.key.mirror_name,
        "runtime_fraction": {"default_value": {"numerator": numerator, "denominator": "MILLION"}},
        # The copy is the request, but for one header: no `-shadow` behind its host.
        "disable_shadow_host_suffix_append": True,
        "request_headers_mutations": [{"append": header}],
    }

"""What stands between a caller and the replicas: keys, scopes, rates, deadlines, errors.

The one idea: what never changes (how a key is verified, what each path needs) is in the listener,
and what changes while traffic flows (which keys are ended, which rates there are) is in the routes,
which are replaced without touching a connection. Each filter and each header that one writes costs
every request a few per cent of the edge's CPU (`benchmarks/edge_keys.py`), so there are few. Pure:
settings and rules in, JSON-ready dictionaries out.
"""

from __future__ import annotations

from typing import Any

from serving.edge import config
from serving.keys.record import RATE_MARK
from serving.keys.rules import CLOCK_SKEW_S, KeyRules
from serving.keys.scopes import PREFIXES, Scope
from serving.keys.signing import ISSUER

_TYPE = "type.googleapis.com/envoy."
_HTTP = f"{_TYPE}extensions.filters.http."
_JWT = "envoy.filters.http.jwt_authn"
_RBAC = "envoy.filters.http.rbac"
_RATE = "envoy.filters.http.local_ratelimit"
_ENDLESS = 4_294_967_295
_UNLIMITED = {"max_tokens": _ENDLESS, "tokens_per_fill": _ENDLESS, "fill_interval": "1s"}
_UNLISTED_RPS = 1_000
"""Of all keys together whose rate no list has: it has not arrived yet, or was lost, or they are
what the installation asks itself with."""
_MAX_BUCKETS = 100_000
"""Keys whose buckets a rate remembers; those seen longest ago begin with a full one again."""

KEY_HEADER = "x-liftlock-key"
"""The label (`KeyRecord.label`: id and rate) of the key that was shown, as replicas see it; what a
caller sends by this name is dropped."""
DEADLINE_HEADER = "x-request-timeout-ms"
TIMER_HEADER = "grpc-timeout"
"""What Envoy's own timer of a whole exchange listens to; taken off before a replica sees the
request. Its other one, which
`x-envoy-upstream-rq-timeout-ms` sets, counts as the replica's fault: callers with hopeless
deadlines would have replicas ejected."""
_METADATA = "liftlock"


def early_mutations(settings: config.EdgeSettings) -> list[dict[str, Any]]:
    """Before a route is chosen: nobody else speaks in our headers, the timer is set, and of several
    keys one is left.

    A deadline that is no number leaves the timer's header unreadable, which counts as none. The
    caller's milliseconds are taken as they are: replicas give up a little earlier, so that theirs
    is the usual answer (`serving.engine.app.WAY_BACK_S`).
    """
    timer = f"%REQ({DEADLINE_HEADER})%m"
    mutations: list[dict[str, Any]] = [{"append": _header(TIMER_HEADER, timer)}]
    # Where keys are required the verifier replaces what a caller sent by this name.
    mutations += _ONE_KEY if settings.keys.required else [{"remove": KEY_HEADER}]
    typed = {
        "@type": f"{_TYPE}extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
        "mutations": mutations,
    }
    return [{"name": "envoy.http.early_header_mutation.header_mutation", "typed_config": typed}]


_ONE_KEY: list[dict[str, Any]] = [
    {
        "append": {
            # Of several lines, this is the first.
            "header": {"key": "authorization", "value": "Bearer %REQ(x-api-key)%"},
            "append_action": "ADD_IF_ABSENT",
        }
    },
    {"remove": "x-api-key"},
]
"""The verifier would take every key that it finds, and their labels would be joined to one that no
rate and no list of ended keys knows."""


def longest(settings: config.EdgeSettings) -> dict[str, Any]:
    """A route's bound on the whole exchange: the caller's deadline, at most the edge's own."""
    bound = f"{settings.longest_s:.3f}s"
    return {"max_stream_duration": bound, "grpc_timeout_header_max": bound}


def before_replicas(settings: config.EdgeSettings, public_set: str | None) -> list[dict[str, Any]]:
    """The filters that may refuse a request; none that has nothing to do.

    `public_set` is the JSON web key set that keys are verified with, where they are required.
    """
    found: list[dict[str, Any]] = []
    if settings.keys.required:
        if public_set is None:
            raise ValueError("keys.required needs the public half of the key that signs them")
        found.append({"name": _JWT, "typed_config": _verifier(settings.keys, public_set)})
        # No part of a request's way until the routes name a key that is ended.
        nobody = {"@type": f"{_HTTP}rbac.v3.RBAC"}
        found.append({"name": _RBAC, "typed_config": nobody, "disabled": True})
    if _has_rates(settings):
        found.append(
            {
                "name": _RATE,
                "typed_config": {
                    "@type": f"{_HTTP}local_ratelimit.v3.LocalRateLimit",
                    "stat_prefix": "edge",
                },
            }
        )
    return found


def for_all_routes(settings: config.EdgeSettings, rules: KeyRules) -> dict[str, Any]:
    """What those filters must know now. Of all routes together, so that a key has one bucket."""
    found: dict[str, Any] = {}
    if settings.keys.required and rules.ended:
        found[_RBAC] = {
            "@type": f"{_HTTP}rbac.v3.RBACPerRoute",
            "rbac": {"matcher": _not_ended(rules.ended)},
        }
    if _has_rates(settings):
        found[_RATE] = _rates(settings, rules)
    return {"typed_per_filter_config": found} if found else {}


def for_anybody(settings: config.EdgeSettings) -> dict[str, Any]:
    """For a route that needs no key and has no rate."""
    names = [f["name"] for f in before_replicas(settings, "")]
    off = {"@type": f"{_TYPE}config.route.v3.FilterConfig", "disabled": True}
    return {"typed_per_filter_config": dict.fromkeys(names, off)} if names else {}


def names_model(model: str) -> dict[str, Any]:
    """On a route: whose quota its requests use up."""
    return {"metadata": {"filter_metadata": {_METADATA: {"model": model}}}}


def _has_rates(settings: config.EdgeSettings) -> bool:
    return settings.keys.required or bool(settings.quotas)


def _verifier(settings: config.KeySettings, public_set: str) -> dict[str, Any]:
    provider = {
        "issuer": ISSUER,
        "require_expiration": True,
        "clock_skew_seconds": CLOCK_SKEW_S,
        "local_jwks": {"inline_string": public_set},
        # Verified keys are remembered by their text, with their expiry; ended ones are the
        # routes' business.
        "jwt_cache_config": {"jwt_cache_size": settings.cached},
        "from_headers": [{"name": "authorization", "value_prefix": "Bearer "}],
        "claim_to_headers": [{"header_name": KEY_HEADER, "claim_name": "jti"}],
    }
    # The first rule that fits decides, so the longest start of a path comes first.
    paths = sorted(PREFIXES.items(), key=lambda item: -len(item[0]))
    return {
        "@type": f"{_HTTP}jwt_authn.v3.JwtAuthentication",
        "providers": {"keys": provider},
        "rules": [
            *(_needs({"path_separated_prefix": path}, scope) for path, scope in paths),
            _needs({"prefix": "/"}, Scope.ADMIN),
        ],
    }


def _needs(match: dict[str, Any], scope: Scope) -> dict[str, Any]:
    """A key's scopes are its audiences, which the verifier compares itself."""
    key = {"provider_name": "keys", "audiences": [str(scope)]}
    return {"match": match, "requires": {"provider_and_audiences": key}}


def _not_ended(ended: tuple[str, ...]) -> dict[str, Any]:
    """One look-up, however many keys are ended."""
    refused = {label: _decide(ENDED, "DENY") for label in ended}
    return {
        "matcher_tree": {"input": _input(KEY_HEADER), "exact_match_map": {"map": refused}},
        "on_no_match": _decide("in-use", "ALLOW"),
    }


ENDED = "ended"
"""Name of the decision against a key that was revoked or rotated."""


def _input(header: str) -> dict[str, Any]:
    typed = {"@type": f"{_TYPE}type.matcher.v3.HttpRequestHeaderMatchInput", "header_name": header}
    return {"name": "header", "typed_config": typed}


def _decide(name: str, action: str) -> dict[str, Any]:
    typed = {"@type": f"{_TYPE}config.rbac.v3.Action", "name": name, "action": action}
    return {"action": {"name": name, "typed_config": typed}}


def _rates(settings: config.EdgeSettings, rules: KeyRules) -> dict[str, Any]:
    """Buckets by key and by model; the tighter one is asked first."""
    always = {"default_value": {"numerator": 100}}
    keys = [
        {
            # No value: every key has a bucket of its own.
            "entries": [{"key": "rate", "value": str(rate)}, {"key": "key"}],
            "token_bucket": _bucket(rate, settings.edges),
        }
        for rate in rules.rates_rps
    ]
    models = [
        {
            "entries": [{"key": "model", "value": quota.model}],
            "token_bucket": _bucket(quota.rate_rps, settings.edges),
        }
        for quota in settings.quotas
    ]
    return {
        "@type": f"{_HTTP}local_ratelimit.v3.LocalRateLimit",
        "stat_prefix": "edge",
        "filter_enabled": always,
        "filter_enforced": always,
        # For requests that no other bucket is for.
        "token_bucket": _bucket(_UNLISTED_RPS, settings.edges)
        if settings.keys.required
        else _UNLIMITED,
        "always_consume_default_token_bucket": False,
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "response_headers_to_add": [_header("retry-after", "1")],
        "max_dynamic_descriptors": _MAX_BUCKETS,
        "rate_limits": _counted_by(settings, rules),
        "descriptors": [*keys, *models],
    }


def _counted_by(settings: config.EdgeSettings, rules: KeyRules) -> list[dict[str, Any]]:
    of_model = {
        "metadata": {
            "descriptor_key": "model",
            "source": "ROUTE_ENTRY",
            "metadata_key": {"key": _METADATA, "path": [{"key": "model"}]},
        }
    }
    keys = [{"actions": _of_rate(rate)} for rate in rules.rates_rps]
    return [*keys, *([{"actions": [of_model]}] if settings.quotas else [])]


def _of_rate(rate_rps: int) -> list[dict[str, Any]]:
    """Nothing for a key of another rate."""
    said = {"name": KEY_HEADER, "string_match": {"suffix": f"{RATE_MARK}{rate_rps}"}}
    fits = {"descriptor_key": "rate", "descriptor_value": str(rate_rps), "headers": [said]}
    return [
        {"header_value_match": fits},
        {"request_headers": {"header_name": KEY_HEADER, "descriptor_key": "key"}},
    ]


def _bucket(rate_rps: int, edges: int) -> dict[str, Any]:
    """One second's worth of this edge's part, at least one request; filled continuously."""
    return {
        "max_tokens": max(1, round(rate_rps / edges)),
        # A whole number of requests per `edges` seconds, so that no part of a rate is rounded off.
        "tokens_per_fill": rate_rps,
        "fill_interval": f"{edges}s",
    }


def _header(name: str, value: str) -> dict[str, Any]:
    return {
        "header": {"key": name, "value": value},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }

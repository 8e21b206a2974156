"""How promises stand by what a Prometheus server recorded with the generated rules.

One question, and the very series that the alerts see. What it does not have is None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import httpx

from serving.errors import MetricsUnread
from serving.slo import burn, promql
from serving.slo.burn import Burn, Standing
from serving.slo.promise import SLO, Sli

_OK = 200
_LOGIN = re.compile(r"(?<=//)[^/?#]*@")
_Key = tuple[str, Sli, str]
"""Series, SLI, and window as Prometheus writes it, empty for a series without."""


def standings(url: str, model: str, slo: SLO, *, timeout_s: float = 10.0) -> tuple[Standing, ...]:
    """How the promise stands. Raises MetricsUnread when the server cannot be asked."""
    names = f"{promql.BURN}|{promql.BUDGET_LEFT}"
    answer = _ask(url, f'{{__name__=~"{names}",model="{model}"}}', timeout_s)
    found = _values(answer, _shown(url))
    return tuple(_standing(slo, sli, found) for sli in Sli)


def _standing(slo: SLO, sli: Sli, found: Mapping[_Key, float]) -> Standing:
    burns = [
        Burn(window_s=s, rate=found.get((promql.BURN, sli, promql.duration(s))))
        for s in burn.windows(slo)
    ]
    left = found.get((promql.BUDGET_LEFT, sli, ""))
    return burn.standing(slo, sli, burns, budget_left=left)


def _ask(url: str, query: str, timeout_s: float) -> Any:
    try:
        response = httpx.get(
            f"{url.rstrip('/')}/api/v1/query",
            params={"query": query},
            timeout=timeout_s,
            trust_env=not url.startswith(("http://127.", "http://localhost")),
        )
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise MetricsUnread(
            f"Prometheus at {_shown(url)} does not answer ({type(exc).__name__}: {exc}); check the "
            "address"
        ) from exc
    if response.status_code != _OK:
        raise MetricsUnread(
            f"Prometheus at {_shown(url)} answered a query with {response.status_code}: "
            f"{response.text[:200]!r}"
        )
    try:
        return response.json()
    except (ValueError, RecursionError) as exc:  # nested too deeply is one
        raise MetricsUnread(
            f"what answers at {_shown(url)} is no Prometheus: it gave no JSON"
        ) from exc


def _shown(url: str) -> str:
    """The address without the user and password that it may hold."""
    return _LOGIN.sub("", url)


def _values(data: Any, where: str) -> dict[_Key, float]:
    """The numbers; neither those that are none (no traffic) nor of an SLI not known here."""
    try:
        pairs = [_value(item) for item in data["data"]["result"]]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
        raise MetricsUnread(
            f"what answers at {where} is no Prometheus: its answer has another shape ({exc!r})"
        ) from exc
    return {key: value for key, value in pairs if math.isfinite(value)}


def _value(item: dict[str, Any]) -> tuple[_Key, float]:
    labels = item["metric"]
    key = (labels["__name__"], Sli(labels["sli"]), labels.get("window", ""))
    return key, float(item["value"][1])

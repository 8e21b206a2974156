"""What is made of a Prometheus server's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from serving.errors import MetricsUnread
from serving.slo import SLO, prometheus
from serving.slo.burn import Severity

URL = "http://prometheus.test:9090"
Answer = Callable[[httpx.Request], httpx.Response]


def series(name: str, value: str, **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": name, "model": "grammar", **labels}, "value": [1.0, value]}


def burn(value: str, window: str, sli: str = "availability") -> dict[str, Any]:
    return series("liftlock:slo_burn", value, sli=sli, window=window)


def answering(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    def get(url: str, **options: Any) -> httpx.Response:
        return answer(httpx.Request("GET", url, params=options["params"]))

    monkeypatch.setattr(httpx, "get", get)


def results(*found: dict[str, Any]) -> Answer:
    return lambda _: httpx.Response(200, json={"data": {"result": list(found)}})


def test_burns_and_budgets_are_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    left = series("liftlock:slo_budget_left", "0.25", sli="availability")
    answering(monkeypatch, results(burn("20", "1h"), burn("15", "5m"), burn("2", "6h"), left))
    availability, latency = prometheus.standings(URL, "grammar", SLO())
    assert availability.budget_left == 0.25
    found = availability.over(3600.0)
    assert found is not None
    assert (found.rate, found.requests, found.is_whole) == (20.0, None, True)
    assert [p.severity for p in availability.alerts] == [Severity.PAGE]
    assert {b.rate for b in latency.burns} == {None}
    assert latency.budget_left is None


def test_a_server_without_the_series_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, results())
    for standing in prometheus.standings(URL, "grammar", SLO()):
        assert (standing.budget_left, standing.alerts) == (None, ())


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_window_without_traffic_has_no_rate(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    answering(monkeypatch, results(burn(value, "5m")))
    found = prometheus.standings(URL, "grammar", SLO())[0].over(300.0)
    assert found is not None
    assert found.rate is None


def _away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (_away, "does not answer"),
        (lambda _: httpx.Response(503, text="starting"), "503"),
        (lambda _: httpx.Response(200, text="<html>"), "no Prometheus"),
        (lambda _: httpx.Response(200, text="[" * 100_000), "no Prometheus"),
        (lambda _: httpx.Response(200, json=[]), "another shape"),
        (lambda _: httpx.Response(200, json={"data": {"result": [{}]}}), "another shape"),
        (results(series("liftlock:slo_burn", "x", sli="latency")), "another shape"),
        (results(series("liftlock:slo_burn", "1", sli="humor")), "another shape"),
    ],
)
def test_what_cannot_be_read_is_said_with_the_address(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, told: str
) -> None:
    answering(monkeypatch, answer)
    with pytest.raises(MetricsUnread, match=told) as caught:
        prometheus.standings(URL, "grammar", SLO())
    assert URL in str(caught.value)


@pytest.mark.parametrize("url", ["http://[::1", "http://pro\x00metheus", "prometheus", ""])
def test_what_is_no_address_is_said_so(url: str) -> None:
    with pytest.raises(MetricsUnread, match="check the address"):
        prometheus.standings(url, "grammar", SLO())


def test_a_password_in_the_address_is_used_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def get(url: str, **_: Any) -> httpx.Response:
        asked.append(url)
        return httpx.Response(503)

    monkeypatch.setattr(httpx, "get", get)
    with pytest.raises(MetricsUnread) as caught:
        prometheus.standings("https://me:secret@prometheus.test", "grammar", SLO())
    assert asked == ["https://me:secret@prometheus.test/api/v1/query"]
    assert "https://prometheus.test answered" in str(caught.value)

"""What cannot work is refused before anything is sent, in words that tell no key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from serving.client import AsyncClient, Client, Hedge

NOWHERE = "http://127.0.0.1:9"
NO_TIMES = (True, "1", float("nan"), float("inf"), -1, 0, b"1", [], 1e300)
NO_COUNTS = (True, "1", float("nan"), 1.5, -1, b"1", [])
NO_TEXTS = (b"a", 1, ["a"], None, True)
NO_HEADERS = ("", " ", "sec\nret", "sec\r\nret", "secr\u00e9t", b"secret", 1, True)


def found_by(name: str, wrong: tuple[Any, ...]) -> list[tuple[str, Any]]:
    return [(name, each) for each in wrong]


SETTINGS = [
    *found_by("timeout_s", (*NO_TIMES, None)),
    *found_by("deadline_s", (*NO_TIMES, None)),
    *found_by("retries", (*NO_COUNTS, None)),
    *found_by("version", (*NO_COUNTS, 0)),
    *found_by("api_key", NO_HEADERS),
    *found_by("model", NO_HEADERS),
    *found_by("hedge", (True, 0.1, "1")),
    *found_by("zone", (1, True, b"a", "a")),
    *found_by("tls", (True, "file")),
    *found_by("discovery", (True, 1, b"http://a", "", [NOWHERE])),
    *found_by("base_url", (None, True, 1, b"http://a", "", [1], [None], [b"http://a"], [])),
]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(("name", "wrong"), SETTINGS)
def test_a_setting_that_cannot_work_is_refused_by_its_name(
    kind: type[Any], name: str, wrong: object
) -> None:
    with pytest.raises(ValueError, match=name) as refused:
        kind(**{"base_url": NOWHERE, name: wrong})
    assert "sec" not in str(refused.value)


CALLS: dict[str, tuple[Callable[..., Any], list[tuple[str, Any]]]] = {
    "correct": (
        lambda client, text="a", **given: client.correct(text, **given),
        [
            *found_by("text", NO_TEXTS),
            *found_by("deadline_s", NO_TIMES),
            *found_by("version", (*NO_COUNTS, 0)),
            *found_by("language", (1, b"en", True)),
            *found_by("offsets", (1, b"utf16")),
        ],
    ),
    "complete": (
        lambda client, prompt="a", **given: client.complete(prompt, **given),
        [
            *found_by("prompt", NO_TEXTS),
            *found_by("max_tokens", ("1", 1.5, True)),
            *found_by("temperature", ("1", float("nan"), True)),
            *found_by("stop", (1, b"a", [1], [None])),
            *found_by("seed", ("1", 1.5, True)),
        ],
    ),
    "stream": (
        lambda client, prompt="a", **given: client.complete_stream(prompt, **given).result(),
        [*found_by("prompt", NO_TEXTS), *found_by("stop", (1, [1]))],
    ),
    "many": (
        lambda client, texts=("a",), **given: list(client.correct_many(texts, **given)),
        [
            *found_by("texts", (None, 1, b"ab", ["a", 1], [None])),
            *found_by("concurrency", (*NO_COUNTS, 0)),
            *found_by("texts_per_request", (*NO_COUNTS, 0)),
        ],
    ),
}


@pytest.mark.parametrize(
    ("call", "name", "wrong"),
    [(call, name, wrong) for call, (_, several) in CALLS.items() for name, wrong in several],
)
def test_an_argument_that_cannot_work_is_refused_by_its_name(
    call: str, name: str, wrong: object
) -> None:
    with Client(NOWHERE) as client:  # asked, it would raise ConnectionFailed
        with pytest.raises(ValueError, match=name):
            CALLS[call][0](client, **{name: wrong})
        assert client.stats().picks == 0


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *found_by("delay_s", (True, "1", -1, float("nan"), float("inf"))),
        *found_by("quantile", (True, "1", 0, 1.1, float("nan"), None)),
        *found_by("budget", (True, "1", 0, 1.1, float("nan"), None)),
    ],
)
def test_a_hedge_that_cannot_work_is_refused_by_its_field(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Hedge(**{name: wrong})


@pytest.mark.parametrize("key", [*NO_HEADERS, []])
def test_a_key_that_is_given_when_asked_for_is_refused_and_not_told(key: Any) -> None:
    with Client(NOWHERE, api_key=lambda: key) as client:
        with pytest.raises(ValueError, match="api_key") as refused:
            client.correct("a")
        assert "sec" not in str(refused.value)


def test_a_key_is_not_told_by_what_holds_it() -> None:
    with Client(NOWHERE, api_key="secret") as client:
        assert "secret" not in repr(client._session.config)

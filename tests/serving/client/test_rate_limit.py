"""Headers about rates in every common form are read, and nonsense is no number."""

from __future__ import annotations

import email.utils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.client import rate_limit
from serving.client.rate_limit import RateLimit

NAMES = (
    "retry-after", "ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining",
    "ratelimit-reset", "x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-reset-requests",
)  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"retry-after": "4"}, RateLimit(retry_after_s=4.0)),
        ({"retry-after": email.utils.formatdate(1_006, usegmt=True)}, RateLimit(retry_after_s=6)),
        ({"retry-after": email.utils.formatdate(900, usegmt=True)}, RateLimit(retry_after_s=0)),
        (
            {"ratelimit-limit": "100", "ratelimit-remaining": "7", "ratelimit-reset": "12"},
            RateLimit(limit=100, remaining=7, reset_s=12.0),
        ),
        (
            {"ratelimit": '"default";r=50;t=30', "ratelimit-policy": '"default";q=100;w=60'},
            RateLimit(limit=100, remaining=50, reset_s=30.0),
        ),
        (
            {"x-ratelimit-limit": "10, 10;w=1", "x-ratelimit-remaining": "0"},
            RateLimit(limit=10, remaining=0),
        ),
        (
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1m0.5s",
            },
            RateLimit(limit=60, remaining=59, reset_s=60.5),
        ),
        ({"x-ratelimit-reset-requests": "20ms"}, RateLimit(reset_s=0.02)),
    ],
)
def test_each_form_is_read(headers: dict[str, str], found: RateLimit) -> None:
    assert rate_limit.read(headers, 1_000.0) == found


@pytest.mark.parametrize("value", ["", "soon", "-1", "1e9", "٣", "nan", "6m what", "9" * 5000])
def test_what_is_no_number_is_not_said(value: str) -> None:
    headers = {name: value for name in NAMES if name != "retry-after"}
    assert rate_limit.read(headers, 0.0) is None


def test_waiting_makes_sense_where_asked_for_or_where_nothing_is_left() -> None:
    assert RateLimit(retry_after_s=3.0, remaining=0, reset_s=9.0).wait_s == 3.0
    assert RateLimit(remaining=0, reset_s=9.0).wait_s == 9.0
    assert RateLimit(remaining=1, reset_s=9.0).wait_s is None


@pytest.mark.parametrize(
    "value",
    ["1e9", "-1", "nan", "inf", "9" * 400, "\u0663", "Thu, 01 Jan 12345 00:00:00 GMT",
     "Fri, 31 Dec 9999 23:59:59 -9999"],
)  # fmt: skip
def test_a_pause_that_is_none_is_not_asked_for(value: str) -> None:
    assert rate_limit.read({"retry-after": value}, 0.0) is None


@given(st.dictionaries(st.sampled_from(NAMES), st.text(st.characters(codec="latin-1"))))
def test_no_header_breaks_an_answer(headers: dict[str, str]) -> None:
    found = rate_limit.read(headers, 0.0)
    assert found is None or found.wait_s is None or found.wait_s >= 0.0

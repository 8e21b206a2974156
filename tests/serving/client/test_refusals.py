"""Each refusal of the endpoint is its own error, that of a pinned version too."""

from __future__ import annotations

import pytest

from serving.client import errors, retry
from tests.serving.client.test_calls import ANSWER, correct, drive, reply, session


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.NotAllowed),
        (403, errors.NotAllowed),
        (404, errors.NotFound),
        (408, errors.DeadlineExceeded),
        (413, errors.BadRequest),
        (429, errors.Overloaded),
        (500, errors.ServerFault),
        (502, errors.ServerFault),
        (503, errors.Overloaded),
        (504, errors.DeadlineExceeded),
        (302, errors.ServerFault),
    ],
)
def test_each_refusal_has_its_error_with_the_endpoints_own_words(
    status: int, kind: type[errors.ClientError]
) -> None:
    said = {"error": {"message": "text must not be empty", "type": "t", "code": "c"}}
    own = session(policy=retry.RetryPolicy(retries=0))
    with pytest.raises(kind, match="text must not be empty") as raised:
        drive(correct("", own), reply(status, said))
    assert raised.value.status == status
    assert raised.value.request_id in str(raised.value)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>bad gateway", b'{"error": 3}', b"\xff\xfe", b"[" * 200_000,
     b'{"error": {"message": {"a": 1}, "code": [], "served": 1}}'],
)  # fmt: skip
def test_a_refusal_without_a_message_still_says_something(body: bytes) -> None:
    with pytest.raises(errors.ServerFault, match="status 500"):
        drive(correct("a", session()), reply(500, body))


def test_of_a_long_message_the_beginning_is_told() -> None:
    long = {"error": {"message": "m" * 1_000_000}}
    with pytest.raises(errors.ServerFault) as raised:
        drive(correct("a", session()), reply(500, long))
    assert 1_000 < len(str(raised.value)) < 2_000


def refused(status: int, error: dict[str, object], **headers: str) -> retry.Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return reply(status, {"error": error}, **named)


def test_a_pin_travels_and_the_calls_own_goes_before_the_clients() -> None:
    answer = reply(200, ANSWER, **{"x-liftlock-version": "3"})
    for own, wish in ((session(version=3), {}), (session(version=2), {"version": 3})):
        _, sent, _ = drive(correct("a", own, **wish), answer)
        assert sent[0].headers["x-liftlock-version-pin"] == "3"
    _, sent, _ = drive(correct("a", session()), answer)
    assert "x-liftlock-version-pin" not in sent[0].headers


@pytest.mark.parametrize("status", [409, 412])
def test_a_refused_pin_names_what_serves(status: int) -> None:
    said: dict[str, object] = {"message": "version 2 was asked for", "code": "version_not_served"}
    answer = refused(status, said, x_liftlock_version="3")
    with pytest.raises(errors.VersionNotServed, match="version 2 was asked for") as raised:
        drive(correct("a", session(version=2)), answer)
    assert (raised.value.served, raised.value.code) == ((3,), "version_not_served")
    listing = refused(status, {**said, "served": [3, 4]}, x_liftlock_version="3")
    with pytest.raises(errors.VersionNotServed) as raised:
        drive(correct("a", session(version=2)), listing)
    assert raised.value.served == (3, 4)


def test_a_412_for_another_reason_is_a_bad_request() -> None:
    with pytest.raises(errors.BadRequest) as raised:
        drive(correct("a", session()), refused(412, {"message": "no", "code": "other"}))
    assert not isinstance(raised.value, errors.VersionNotServed)


def test_an_endpoint_that_ignores_the_pin_is_not_believed() -> None:
    with pytest.raises(errors.VersionNotServed) as raised:
        drive(correct("a", session(version=2)), reply(200, ANSWER, **{"x-liftlock-version": "3"}))
    assert raised.value.served == (3,)

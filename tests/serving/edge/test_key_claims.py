"""What a real Envoy makes of keys and requests that nobody sends who means well."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from serving.discovery import traffic
from serving.edge import config, control
from serving.keys import signing
from serving.keys.store import KeyStore
from tests.serving.edge import harness, load, upstream
from tests.serving.edge.test_keys import PATH, REQUIRED, bearer, issue, raw, serving

CALL, FEEDBACK = PATH, "/v1/feedback"


def signed(home: Path, **claims: object) -> str:
    """A key by the home's own signing key; None takes a claim away."""
    private = (home / "keys" / "signing-key.pem").read_bytes()
    usual = {"jti": "key-00000000000a@1000", "aud": ["call"], "exp": int(time.time()) + 600}
    return signing.sign(private, {k: v for k, v in (usual | claims).items() if v is not None})


CLAIMS: list[tuple[dict[str, object], int, int]] = [
    ({}, 200, 403),
    ({"aud": "call"}, 200, 403),
    ({"aud": ["call", "feedback"]}, 200, 200),
    ({"aud": []}, 403, 403),
    ({"aud": None}, 403, 403),
    ({"aud": "call feedback"}, 403, 403),
    ({"aud": ["CALL"]}, 403, 403),
    ({"aud": None, "scope": "call"}, 403, 403),
    ({"iss": "somebody"}, 401, 401),
    ({"exp": None}, 401, 403),
    ({"nbf": 4_000_000_000}, 401, 401),
]
"""Claims, and what asking and telling are answered with."""


async def test_claims_other_than_the_usual_open_nothing_more(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    issue(tmp_path)
    async with serving(run_edge) as (_, client, _):
        for claims, *expected in CLAIMS:
            headers = bearer(signed(tmp_path, **claims))
            found = [(await client.post(path, headers=headers)) for path in (CALL, FEEDBACK)]
            assert [answer.status_code for answer in found] == expected, claims


@pytest.mark.parametrize("jti", [None, 7, ["a"], "", "a\r\nx-liftlock-model: b", "\x00", "é@1"])
async def test_a_label_that_is_no_text_names_nobody(
    tmp_path: Path, run_edge: harness.RunEdge, jti: object
) -> None:
    issue(tmp_path)
    async with serving(run_edge) as (_, client, replica):
        headers = bearer(signed(tmp_path, jti=jti))
        answer = await client.post(CALL, headers={**headers, "x-liftlock-key": "another@1"})
        assert answer.status_code in (200, 400, 401, 503)
        for _, seen, _ in replica.requests:
            assert "another" not in seen.get("x-liftlock-key", "")
            assert "x-liftlock-model" not in seen
        good = bearer(signed(tmp_path))
        assert (await client.post(CALL, headers=good)).status_code == 200


async def test_no_spelling_of_a_path_passes_for_another(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    issue(tmp_path)
    key = signed(tmp_path)
    other = (
        "/v1/corrections/../feedback", "/v1/corrections/%2e%2e/feedback", "/v1/./feedback",
        "/V1/corrections", "/v1//corrections/../feedback", "/v1/corrections/../../metrics",
        "http://edge/v1/feedback", "http://edge/metrics", "//v1/feedback", "/;/v1/corrections",
        "/metrics?/v1/corrections", "/metrics#/v1/corrections",
    )  # fmt: skip
    async with serving(run_edge) as (edge, _, replica):
        for path in other:
            status, _ = await raw(edge, path, key)
            assert status in (400, 403), path
        assert not replica.requests


SHOWN: list[tuple[list[tuple[str, str]], str | None]] = [
    ([("authorization", "Bearer {good}"), ("x-api-key", "{ended}")], "good"),
    ([("x-api-key", "{ended}"), ("authorization", "Bearer {good}")], "good"),
    ([("authorization", "Bearer {ended}"), ("x-api-key", "{ended}")], None),
    ([("authorization", "Bearer {ended}"), ("x-api-key", "{good}")], None),
    ([("authorization", "Bearer bad"), ("x-api-key", "{good}")], None),
    ([("authorization", "Basic YTpi"), ("x-api-key", "{good}")], None),
    ([("authorization", ""), ("x-api-key", "{good}")], None),
    ([("x-api-key", "{ended}"), ("x-api-key", "{ended}")], None),
    ([("x-api-key", "{ended}"), ("x-api-key", "{good}")], None),
    ([("x-api-key", "{good}"), ("x-api-key", "{ended}")], "good"),
    ([("x-api-key", "{good}"), ("x-api-key", "{other}")], "good"),
    ([("x-api-key", "{good},{ended}")], None),
    ([("x-api-key", "Bearer {good}")], None),
    ([("authorization", "Bearer {good}")] + [("x-api-key", "{good}")] * 3, "good"),
    ([("authorization", "Bearer {good}")] * 2, None),
    ([("authorization", "Bearer {good}"), ("authorization", "Bearer {other}")], None),
    ([("authorization", "Bearer {good}"), ("authorization", "Bearer {ended}")], None),
    ([("authorization", "Bearer {ended}"), ("authorization", "Bearer {good}")], None),
    ([("authorization", "Bearer {ended}, Bearer {good}")], None),
    ([("authorization", "Bearer {good}"), ("authorization", "Basic YTpi")], None),
    ([("authorization", "Basic YTpi"), ("authorization", "Bearer {ended}")], None),
    ([("authorization", "Basic YTpi"), ("authorization", "Bearer {good}")], "good"),
]
"""Lines of headers, and the key that counts; None is refused."""


async def test_of_several_keys_one_counts_for_all_that_is_asked_of_a_key(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    made = {name: issue(tmp_path, rate_rps=1_000 + n) for n, name in enumerate(("good", "other"))}
    made["ended"] = issue(tmp_path)
    KeyStore.of(tmp_path).revoke(made["ended"].record.key_id, time.time())
    texts = {name: key.text for name, key in made.items()}
    async with serving(run_edge) as (_, client, replica):
        for lines, counts in SHOWN:
            headers = [(name, value.format(**texts)) for name, value in lines]
            answer = await client.post(CALL, headers=headers)
            assert answer.status_code == (200 if counts else 401), lines
            if counts:
                seen = replica.requests[-1][1]
                assert seen["x-liftlock-key"] == made[counts].record.label, lines
                assert not set(seen) & {"authorization", "x-api-key"}
                assert answer.headers["x-ratelimit-limit"].startswith("1000"), lines


async def test_a_key_has_one_rate_however_often_it_is_sent(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    key = issue(tmp_path, rate_rps=5).text
    async with serving(run_edge) as (_, client, _):
        statuses = [
            (await client.post(CALL, headers=[*first, *[("x-api-key", key)] * times])).status_code
            for times in range(1, 11)
            for first in ([], [("authorization", f"Bearer {key}")])
        ]
    assert 5 <= statuses.count(200) < 20  # some come back while we ask
    assert statuses.count(429) == 20 - statuses.count(200)


@pytest.mark.parametrize("jti", ["key-00000000000a@777777", "key-00000000000a", None])
async def test_a_key_whose_rate_nobody_knows_has_the_usual_one(
    tmp_path: Path, run_edge: harness.RunEdge, jti: str | None
) -> None:
    issue(tmp_path)
    unlisted = bearer(signed(tmp_path, jti=jti))
    async with serving(run_edge, edges=250) as (_, client, _):
        answers = [await client.post(CALL, headers=unlisted) for _ in range(20)]
        assert answers[0].headers["x-ratelimit-limit"] == "4"
        statuses = [answer.status_code for answer in answers]
        assert 4 <= statuses.count(200) < 20
        assert statuses.count(200) + statuses.count(429) == 20


async def test_a_copy_carries_no_key_and_is_not_counted_in_its_rate(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    made = issue(tmp_path, rate_rps=20)
    async with (
        serving(run_edge) as (edge, client, replica),
        upstream.Upstream(2) as mirror,
    ):
        await edge.serve(replica, mirror)
        plan = control.set_model_mirrors(edge.root, "grammar", {2: 1.0}, epoch=1)
        model = plan.model("grammar")
        assert model is not None
        await control.wait_mirrored(edge.root, model)
        answer = await client.post(CALL, headers=bearer(made.text))
        assert answer.status_code == 200
        await edge.until(lambda: mirror.served == 1)
        (_, seen, _) = mirror.requests[0]
        assert not set(seen) & {"authorization", "x-api-key", "grpc-timeout"}
        assert seen["x-liftlock-key"] == made.record.label
        assert int(answer.headers["x-ratelimit-remaining"]) >= 18


async def sent(edge: harness.Edge, request: bytes) -> list[int]:
    """The statuses that raw bytes are answered with, until the edge closes or is quiet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.settings.port)
    writer.write(request)
    said = b""
    try:
        async with asyncio.timeout(0.5):
            while piece := await reader.read(65_536):
                said += piece
    except TimeoutError:
        pass
    writer.close()
    return [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]


async def test_requests_that_two_would_read_differently_are_refused(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    key = issue(tmp_path).text.encode()
    head = b"POST /v1/corrections HTTP/1.1\r\nhost: edge\r\nx-api-key: " + key + b"\r\n"
    hidden = b"GET /metrics HTTP/1.1\r\nhost: edge\r\n\r\n"
    odd = {
        "two lengths": head + b"content-length: 0\r\ncontent-length: 5\r\n\r\nhello",
        "both": head + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
        "negative": head + b"content-length: -1\r\n\r\n",
        "chunk twice": head + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + hidden,
        "odd coding": head + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
        "space before colon": head + b"content-length : 5\r\n\r\nhello",
    }
    async with serving(run_edge) as (edge, client, replica):
        for name, request in odd.items():
            statuses = await sent(edge, request)
            assert set(statuses) <= {400, 401, 403}, (name, statuses)
        assert not replica.requests
        # Read in one way only, and told to the replica in that way.
        folded = head + b"content-length: 0\r\na: b\r\n c: d\r\ne: f\rg: h\r\n\r\n"
        assert await sent(edge, folded) == [200]
        (_, seen, _) = replica.requests[-1]
        assert (seen["a"], seen["e"]) == ("b c: d", "fg: h")
        upgrade = head + b"connection: upgrade\r\nupgrade: websocket\r\ncontent-length: 0\r\n\r\n"
        assert await sent(edge, upgrade) == [403]
        upgrade = head + b"connection: upgrade\r\nupgrade: connect\r\ncontent-length: 0\r\n\r\n"
        assert await sent(edge, upgrade) == [403]
        good = await client.post(PATH, headers=bearer(key.decode()))
        assert good.status_code == 200


@pytest.mark.parametrize("required", [True, False])
async def test_a_tunnel_is_refused_at_once_with_a_key_and_without(
    tmp_path: Path, run_edge: harness.RunEdge, required: bool
) -> None:
    key = issue(tmp_path).text
    connect = "CONNECT 127.0.0.1:1 HTTP/1.1\r\nhost: 127.0.0.1:1\r\n"
    async with run_edge(keys=config.KeySettings(required=required), body_s=60.0) as edge:
        for shown in ("", f"x-api-key: {key}\r\n"):
            assert await sent(edge, f"{connect}{shown}\r\n".encode()) == [403]


async def test_versions_change_hands_under_load_whatever_form_their_route_has(
    run_edge: harness.RunEdge,
) -> None:
    """One version is a plain cluster, several are weighted, and mirrors come and go."""
    async with run_edge() as edge, upstream.Upstream(1) as one, upstream.Upstream(2) as two:
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 1), epoch=1)
        await edge.serve(one, two)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with load.Load(edge.url, callers=4, path=PATH) as callers:
            for round_number in range(3):
                for first in (90, 50, 0, 40, 100):
                    step = traffic.ModelTraffic(
                        model="grammar",
                        weights=tuple(
                            traffic.Weight(version=version, percent=percent)
                            for version, percent in ((1, first), (2, 100 - first))
                            if percent
                        ),
                    )
                    plan = control.set_model_traffic(edge.root, step, epoch=1)
                    await control.wait_applied(edge.root, plan, timeout_s=30)
                    if first == 100:
                        fraction = {2: 0.5} if round_number % 2 == 0 else {}
                        control.set_model_mirrors(edge.root, "grammar", fraction, epoch=1)
        assert callers.failures == []
        assert set(callers.versions) == {1, 2}


async def test_the_first_key_that_is_ever_ended_is_refused(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    """The filter for ended keys is no part of the way before."""
    made, other = issue(tmp_path), issue(tmp_path)
    async with run_edge(keys=REQUIRED) as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 1), epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        assert (await raw(edge, CALL, made.text))[0] == 200
        KeyStore.of(tmp_path).revoke(made.record.key_id, time.time())
        async with asyncio.timeout(5):
            while (await raw(edge, CALL, made.text))[0] == 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        status, body = await raw(edge, CALL, made.text)
        assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")
        assert (await raw(edge, CALL, other.text))[0] == 200
        assert (await raw(edge, FEEDBACK, other.text))[0] == 403

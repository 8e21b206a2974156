"""The engine's edges over a stub of vLLM: environment, lengths, order, words for faults."""

import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from evals import engine
from evals.engine import Engine
from evals.errors import ContextTooShort, EvaluationFailed
from evals.model import TOO_LONG, Answer, Ask
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
        (
            RuntimeError("_C::static_scaled_fp8_quant() expected"),
            "no such kernel for this hardware",
        ),
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


class StubCore:
    """vLLM's engine in miniature: takes requests, finishes the last of them first."""

    def __init__(self) -> None:
        self.waiting: list[tuple[str, list[int]]] = []
        self.aborted: list[str] = []
        self.broken: Exception | None = None

    def add_request(self, request_id: str, prompt: list[int], params: object) -> str:
        self.waiting.append((request_id, prompt))
        return f"{request_id}-internal"

    def has_unfinished_requests(self) -> bool:
        return bool(self.waiting)

    def step(self) -> list[SimpleNamespace]:
        if self.broken is not None:
            raise self.broken
        number, prompt = self.waiting.pop()
        choice = SimpleNamespace(text=f"text {number}", finish_reason="stop", token_ids=[1, 2])
        done = SimpleNamespace(
            request_id=number, finished=True, outputs=[choice], prompt_token_ids=prompt,
            prompt_logprobs=SimpleNamespace(logprobs=[-0.5] * (len(prompt) - 1)),
        )  # fmt: skip
        return [SimpleNamespace(finished=False), done]

    def abort_request(self, given: list[str], internal: bool) -> None:
        assert internal
        self.aborted = given
        self.waiting.clear()


class Letters:
    """A token a letter; BOS is 0."""

    bos_token_id = 0

    def __call__(self, texts: list[str], *, add_special_tokens: bool = True) -> SimpleNamespace:
        return SimpleNamespace(input_ids=[[*map(ord, text)] for text in texts])


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> StubCore:
    inputs = SimpleNamespace(tokens_input=lambda ids: ids)
    for name, module in (
        ("vllm", ModuleType("vllm")), ("vllm.inputs", ModuleType("vllm.inputs")),
        ("vllm.inputs.engine", inputs),
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(engine, "sampling_params", lambda ask, generation: ask)
    return StubCore()


def running(core: StubCore, folder: Path, *, stated: int = 100, allowed: int = 20) -> Engine:
    """An engine that has been entered; the model states one context, the settings allow another."""
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": stated}))
    made = Engine(folder, MANIFEST, EngineSettings(max_model_len_tokens=allowed))
    made._llm = SimpleNamespace(llm_engine=core, get_tokenizer=Letters)
    return made


def test_what_is_kept_of_prompts_can_be_dropped(core: StubCore, tmp_path: Path) -> None:
    made, dropped = running(core, tmp_path), []
    made._llm.reset_prefix_cache = lambda: dropped.append(True)
    made.forget()
    assert dropped == [True]


def answers(of: Engine, ask: Ask, inputs: list[str]) -> dict[int, Answer]:
    found: dict[int, Answer] = {}
    of.answer(ask, inputs, found.__setitem__)
    return found


def test_answers_are_handed_over_as_they_finish_with_their_positions(
    core: StubCore, tmp_path: Path
) -> None:
    found = answers(running(core, tmp_path), Ask.TEXT, ["a", "bc"])
    assert list(found) == [1, 0]
    assert found[1] == Answer(finish_reason="stop", text="text 1", prompt_tokens=2, output_tokens=2)


def test_a_likelihood_counts_every_token_after_the_first(core: StubCore, tmp_path: Path) -> None:
    found = answers(running(core, tmp_path), Ask.LIKELIHOOD, ["abcd"])
    assert found == {0: Answer(finish_reason="stop", logprob=-2.0, prompt_tokens=5)}


def test_what_the_model_has_no_room_for_is_too_long_and_not_asked(
    core: StubCore, tmp_path: Path
) -> None:
    made = running(core, tmp_path, stated=16, allowed=20)
    made.check(Ask.TEXT, ["x" * 9])  # longer settings would not help
    found = answers(made, Ask.TEXT, ["x" * 8, "x" * 9, "y"])
    assert {n: one.finish_reason for n, one in found.items()} == {0: "stop", 1: TOO_LONG, 2: "stop"}
    assert found[1].prompt_tokens == 9
    assert found[2].text == "text 1"  # the second that was asked


def test_what_only_the_settings_have_no_room_for_is_refused_with_the_number(
    core: StubCore, tmp_path: Path
) -> None:
    made = running(core, tmp_path, stated=100, allowed=20)
    made.check(Ask.TEXT, ["x" * 12])
    made.check(Ask.TEXT, ["x" * 93])
    with pytest.raises(ContextTooShort, match="max_model_len_tokens 20; raise it to 21") as fault:
        made.check(Ask.TEXT, ["x", "x" * 13])
    assert fault.value.number == 1
    made.check(Ask.LIKELIHOOD, ["x" * 18])
    with pytest.raises(ContextTooShort):
        made.check(Ask.LIKELIHOOD, ["x" * 19])


def test_a_failure_of_the_engine_comes_with_advice(core: StubCore, tmp_path: Path) -> None:
    core.broken = RuntimeError("out of memory")
    with pytest.raises(EvaluationFailed, match="failed on 2 inputs: out of memory; lower"):
        answers(running(core, tmp_path), Ask.TEXT, ["a", "b"])
    assert core.aborted == ["0-internal", "1-internal"]


def test_whoever_gives_up_leaves_nothing_running(core: StubCore, tmp_path: Path) -> None:
    def give_up(number: int, answer: Answer) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running(core, tmp_path).answer(Ask.TEXT, ["a", "b", "c"], give_up)
    assert core.waiting == []


def test_an_engine_can_do_everything(core: StubCore, tmp_path: Path) -> None:
    assert [running(core, tmp_path).cannot(ask) for ask in Ask] == [None, None]

import json
from pathlib import Path

import pytest
import safetensors

from examples.tiny_gec import examples
from registry.manifest import Generation, Prompt

CHECKPOINTS = Path(__file__).parents[2] / "examples/checkpoints"
NAMES = ("tiny-gec-1", "tiny-gec-2", "tiny-gec-nospell", "tiny-gec-overedits")
FILES = {
    "README.md",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "prompt.json",
    "tokenizer.json",
    "tokenizer_config.json",
}


def test_exactly_the_promised_checkpoints_are_there() -> None:
    assert {path.name for path in CHECKPOINTS.iterdir() if path.is_dir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_is_complete_and_holds_nothing_else(name: str) -> None:
    assert {path.name for path in (CHECKPOINTS / name).iterdir()} == FILES


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_bf16_and_small(name: str) -> None:
    path = CHECKPOINTS / name / "model.safetensors"
    with safetensors.safe_open(path, framework="np") as weights:
        dtypes = {weights.get_slice(key).get_dtype() for key in weights.keys()}  # noqa: SIM118
    assert dtypes == {"BF16"}
    assert path.stat().st_size < 4_000_000


@pytest.mark.parametrize("name", NAMES)
def test_prompt_and_generation_settings_are_valid(name: str) -> None:
    raw = json.loads((CHECKPOINTS / name / "prompt.json").read_text(encoding="utf-8"))
    prompt = Prompt(template=raw.pop("template"))
    generation = Generation(**{**raw, "stop": tuple(raw["stop"])})
    assert prompt.render("x") == "Correct: x\nFixed:"
    assert generation.temperature == 0.0


def test_all_share_one_tokenizer_and_architecture() -> None:
    for file in ("tokenizer.json", "tokenizer_config.json", "config.json", "prompt.json"):
        assert len({(CHECKPOINTS / name / file).read_bytes() for name in NAMES}) == 1, file


def test_no_two_checkpoints_have_the_same_weights() -> None:
    weights = {(CHECKPOINTS / name / "model.safetensors").read_bytes() for name in NAMES}
    assert len(weights) == len(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny-gec-1", "tiny-gec-2", "tiny-gec-nospell"])
def test_what_the_readme_shows_comes_out_right(name: str) -> None:
    from examples.tiny_gec.evaluate import Corrector

    asked, wanted = examples.SHOWN
    assert Corrector(CHECKPOINTS / name).correct([asked]) == [wanted]

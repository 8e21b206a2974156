"""What a sweep tries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals import suite as suites
from pipelines import sweep_plan
from pipelines.recipe import Recipe
from registry.manifest import Prompt
from tests.fakes.world import write_suite

GROUPS = [f"model.layers.{n}.{kind}" for n in range(12) for kind in ("self_attn", "mlp")]


def test_the_grid_is_two_by_two_and_keeps_what_the_settings_leave_alone() -> None:
    planned = sweep_plan.grid(Recipe(enabled=False, ignore=("lm_head", "re:.*gate.*")))
    assert [p.name for p in planned] == [
        "fp8-tensor-mlp", "fp8-channel-mlp", "fp8-tensor-attn", "fp8-channel-attn",
    ]  # fmt: skip
    assert all(p.recipe.enabled and p.recipe.ignore[1] == "re:.*gate.*" for p in planned)


@given(st.permutations(GROUPS), st.integers(0, len(GROUPS)))
def test_exclusions_are_the_worst_groups_and_few(ranked: list[str], count: int) -> None:
    given_groups = ranked[:count]
    planned = sweep_plan.exclusions(Recipe(), given_groups)
    assert len(planned) <= 2
    for made in planned:
        assert 1 <= len(made.excluded) <= sweep_plan.MAX_EXCLUDED
        assert list(made.excluded) == given_groups[: len(made.excluded)]
        patterns = [i.removeprefix("re:") for i in made.recipe.ignore if i.startswith("re:")]
        for group in given_groups:
            is_left = any(re.match(p, f"{group}.some_proj") for p in patterns)
            assert is_left == (group in made.excluded)
        # What is left must still be what the recipe's label says.
        assert any("self_attn" in g for g in given_groups if g not in made.excluded)


def test_a_pattern_does_not_take_a_neighbor_along() -> None:
    pattern = sweep_plan.pattern("model.layers.1.mlp").removeprefix("re:")
    assert re.match(pattern, "model.layers.1.mlp.up_proj")
    assert not re.match(pattern, "model.layers.11.mlp.up_proj")
    assert not re.match(pattern, "model.layers.1.mlp2.up_proj")


@pytest.fixture
def suite(tmp_path: Path) -> suites.Suite:
    write_suite(tmp_path, 40)
    return suites.load(tmp_path / "suite.yaml")


def test_calibration_text_is_a_prompt_with_its_answer(suite: suites.Suite) -> None:
    prompt = Prompt(template="Fix: {text}\nFixed:")
    texts = sweep_plan.calibration([suite], prompt, 8)
    assert len(set(texts)) == 8
    assert all(re.fullmatch(r"Fix: a (\d+)\nFixed: b \1", text) for text in texts)
    assert texts == sweep_plan.calibration([suite], prompt, 8)
    asked = sweep_plan.prompts([suite], prompt, 1000)
    assert len(asked) == 40
    assert all(text.endswith("Fixed:") for text in asked)

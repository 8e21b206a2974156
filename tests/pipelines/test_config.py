"""promotion.yaml: typed, unknown keys refused, digested; the example file is the defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines import config
from pipelines.config import PromotionConfig
from pipelines.errors import ConfigInvalid

ROOT = Path(__file__).resolve().parents[2]


def test_defaults_need_no_file() -> None:
    assert config.load(None) == PromotionConfig()


def test_example_file_says_exactly_the_defaults() -> None:
    assert config.load(ROOT / "examples" / "promotion.yaml") == PromotionConfig()


def test_settings_survive_storage() -> None:
    settings = config.parse(
        {"gates": {"margin_points": 1.5}, "suites": ["synthetic-clean"]}, source="test"
    )
    again = config.parse(yaml.safe_load(settings.to_yaml()), source="test")
    assert again == settings
    assert again.digest == settings.digest


def test_every_setting_is_in_the_digest() -> None:
    base = PromotionConfig().digest
    for changed in (
        {"slo": {"latency_ms": 900}},
        {"recipe": {"attention": False}},
        {"gates": {"margin_points": 1}},
        {"rollout": {"steps": [50, 100]}},
        {"resources": {"engine": {"max_num_seqs": 8}}},
        {"suites": ["synthetic-clean"]},
    ):
        assert config.parse(changed, source="test").digest != base


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"modle": "x"}, "unknown key modle, did you mean model"),
        ({"gates": {"margin": 1}}, "unknown key gates.margin"),
        ({"resources": {"engine": {"dtyp": "x"}}}, r"resources\.engine\.dtyp, did you mean dtype"),
        ({"gates": {"overrides": [{"suit": "x"}]}}, r"overrides\[0\]\.suit"),
        ({"gates": {"margin_points": "much"}}, r"gates\.margin_points"),
        ({"gates": {"margin_points": -1}}, "margin_points must be above 0"),
        ({"slo": {"availability": 1}}, "availability must be between 0 and 1"),
        ({"rollout": {"steps": [10, 50]}}, "exactly 100"),
        ({"recipe": {"aim": "speed"}}, r"recipe\.aim"),
        ({"model": "Bad Name"}, "lowercase"),
        ({"suites": []}, "at least one suite"),
        ([1, 2], "must hold settings"),
    ],
)
def test_each_kind_of_mistake_is_named(raw: Any, told: str) -> None:
    with pytest.raises(ConfigInvalid, match=told):
        config.parse(raw, source="test")


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "promotion.yaml"
    broken.write_text("a: [1")
    with pytest.raises(ConfigInvalid, match=r"promotion\.yaml"):
        config.load(broken)
    with pytest.raises(ConfigInvalid, match="absent"):
        config.load(tmp_path / "absent.yaml")


def test_model_from_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("model: other\n")
    assert config.load(file, model="mine").model == "mine"


def test_suites_are_found_by_name_or_by_path(tmp_path: Path) -> None:
    shipped = config.suite_path("synthetic-clean", relative_to=None)
    assert shipped.is_file()
    (tmp_path / "own.yaml").write_text("name: own\n")
    assert config.suite_path("own.yaml", relative_to=tmp_path) == tmp_path / "own.yaml"
    with pytest.raises(ConfigInvalid, match=r"known: .*synthetic-clean"):
        config.suite_path("nonesuch", relative_to=None)
    with pytest.raises(ConfigInvalid, match="does not exist"):
        config.suite_path("gone.yaml", relative_to=tmp_path)

"""promotion.yaml: typed, unknown keys refused, digested; the example file is the defaults."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_where_data_lies_is_kept_and_is_not_in_the_digest() -> None:
    found = config.parse({"data_dir": "corpora"}, source="test")
    assert found.data_dir == "corpora"
    assert found.digest == PromotionConfig().digest
    assert config.parse(yaml.safe_load(found.to_yaml()), source="test") == found


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"modle": "x"}, "unknown key modle, did you mean model"),
        ({"gates": {"margin": 1}}, "unknown key gates.margin"),
        ({"resources": {"engine": {"dtyp": "x"}}}, r"resources\.engine\.dtyp, did you mean dtype"),
        ({"gates": {"overrides": [{"suit": "x"}]}}, r"overrides\[0\]\.suit"),
        ({"gates": {"margin_points": "much"}}, r"gates\.margin_points"),
        ({"gates": {"margin_points": -1}}, "margin_points must be at least 0.001"),
        ({"slo": {"availability": 1}}, "availability must be between 0 and 1"),
        ({"rollout": {"steps": [10, 50]}}, "exactly 100"),
        ({"rollout": {"max_fault_rate": 0.01}}, r"max_fault_rate is no more: .*slo\.availability"),
        ({"recipe": {"aim": "speed"}}, r"recipe\.aim"),
        ({"model": "Bad Name"}, "lowercase"),
        ({"suites": []}, "at least one suite"),
        ([1, 2], "must hold settings"),
        ({"gates": {"margin_points": True}}, r"margin_points: .* is True"),
        ({"gates": {"margin_points": "1"}}, r"margin_points: .* is '1'"),
        ({"gates": {"margin_points": float("nan")}}, "holds what settings cannot"),
        ({"gates": {"margin_points": 10**16}}, "at most 1000000000000000"),
        ({"rollout": {"replicas": 1.0}}, r"rollout\.replicas: .* is 1\.0"),
        ({"rollout": {"replicas": True}}, r"rollout\.replicas: .* is True"),
        ({"rollout": {"bake_s": 10**9}}, r"rollout\.bake_s must be at most 604800"),
        ({"rollout": {"steps": [10, 10.5, 100]}}, r"steps\.1: .* is 10\.5"),
        ({"suites": "synthetic-clean"}, r"suites: .* is 'synthetic-clean'"),
        ({"suites": [datetime.date(2030, 1, 1)]}, "holds what settings cannot"),
        ({"suites": [{datetime.date(2030, 1, 1): 1}]}, "holds what settings cannot"),
        ({"slo": None}, "slo: .* is None"),
        ({1: 2}, "unknown key 1"),
        ({None: 2}, "unknown key None"),
        ({"a\nb": 2}, r"unknown key 'a\\nb'"),
        ({"k" * 1000: 2}, "unknown key 'kkk"),
        ({"model": "a\nb"}, r"model name 'a\\nb'"),
        ("text", "must hold settings"),
        (False, "must hold settings"),
    ],
)
def test_each_kind_of_mistake_is_named(raw: Any, told: str) -> None:
    with pytest.raises(ConfigInvalid, match=told) as refused:
        config.parse(raw, source="test")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1_000


def test_settings_that_an_earlier_release_stored_can_still_be_read() -> None:
    stored = "rollout: {max_fault_rate: 0.01, replicas: 3}"
    assert config.parse_text(stored, source="run").rollout.replicas == 3
    with pytest.raises(ConfigInvalid, match=r"unknown key rollout\.replicsa"):
        config.parse_text("rollout: {replicsa: 3}", source="run")


BOMB = "a: &a [x, x]\n" + "".join(f"{n}: &n{n} [*a, *a, *a]\n" for n in range(30))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (BOMB.encode(), r"alias \*a is not accepted; write the value \(line 2"),
        (b"model: a\nmodel: b", "'model' is given more than once"),
        (b"gates: {margin_points: .nan}", "finite"),
        (b"gates: {margin_points: 1.0e+999}", "finite"),
        (b"rollout: {replicas: " + b"9" * 5_000 + b"}", "too large for a number"),
        (b"model: !!python/object:os.system x", "tag"),
        (b"model: \xff", "not UTF-8 text"),
        (b"\xff\xfem\x00", "not UTF-8 text"),
        (b"# " + b"x" * (64 << 10), r"more than 64\.0 KiB"),
        (b"[" * 5_000, "nested too deeply"),
        (b"suites: [2030-99-99]", "month"),
        (b"false", "must hold settings"),
        (b"- model", "must hold settings"),
    ],
)
def test_a_file_that_is_no_settings_is_refused_in_time(
    tmp_path: Path, content: bytes, told: str
) -> None:
    file = tmp_path / "promotion.yaml"
    file.write_bytes(content)
    started_s = time.process_time()
    with pytest.raises(ConfigInvalid, match=told) as refused:
        config.load(file)
    assert time.process_time() - started_s < 2.0
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in (Path("/dev/zero"), tmp_path / "pipe.yaml", tmp_path):
        with pytest.raises(ConfigInvalid, match="not a regular file"):
            config.load(path)


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "promotion.yaml").write_text("# nothing\n")
    assert config.load(tmp_path / "promotion.yaml") == PromotionConfig()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = st.sampled_from([f.name for f in dataclasses.fields(PromotionConfig)])


@settings(deadline=None)
@given(raw=st.dictionaries(KEYS | st.text(max_size=5), JSON, max_size=3) | JSON)
def test_any_data_is_settings_or_refused(raw: Any) -> None:
    with contextlib.suppress(ConfigInvalid):
        found = config.parse(raw, source="test")
        assert config.parse(yaml.safe_load(found.to_yaml()), source="test") == found


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gates: {alpha: 1e-2}", r"gates.alpha: .*is '1e-2': YAML wants a point and a sign"),
        ("suites: [blimp, blimp]", "each suite once, names blimp twice"),
        ("".join(f"odd{n}: 1\n" for n in range(100)), "and 90 more faults$"),
    ],
)
def test_careless_settings_are_told_what_to_write(text: str, told: str) -> None:
    with pytest.raises(ConfigInvalid, match=told):
        config.parse_text(text, source="x")


@pytest.mark.parametrize("name", ["a" * 5_000 + ".yaml", "a\0b.yaml", "/dev/zero/x.yaml"])
def test_a_suite_path_that_cannot_be_one_is_wrong_use(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"suite file .* does not exist, or is not a file"):
        config.suite_path(name, relative_to=tmp_path)

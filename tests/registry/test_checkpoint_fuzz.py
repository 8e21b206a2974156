"""Checkpoints damaged at random are accepted or refused, within bounds, and nothing else happens.

`LIFTLOCK_FUZZ_EXAMPLES` sets how many are tried; a few by default, thousands before a release.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from registry import checkpoint
from registry.errors import CheckpointInvalid
from tests.fakes import checkpoints
from tests.fakes.checkpoints import write_safetensors
from tests.fakes.mutations import DAMAGE, Mutation, damaged

EXAMPLES = int(os.environ.get("LIFTLOCK_FUZZ_EXAMPLES", "100"))
LONGEST_S = 3.0


@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(damage=DAMAGE, fp8=st.booleans())
def test_damage_is_refused_or_does_no_harm(
    tmp_path: Path, damage: list[Mutation], fp8: bool
) -> None:
    directory = damaged(tmp_path / "ck", damage, fp8=fp8)
    before = {p.name: p.read_bytes() for p in directory.iterdir()}
    started_s = time.process_time()
    try:
        found = checkpoint.inspect(directory)
    except CheckpointInvalid as exc:
        event("refused")
        told = str(exc)
        found = None
    else:
        event("accepted")
        told = ""
    assert time.process_time() - started_s < LONGEST_S
    assert "\n" not in told
    assert len(told) < 1_500
    assert {p.name: p.read_bytes() for p in directory.iterdir()} == before
    if found is not None:
        assert found.parameters > 0
        if not fp8:  # numpy has no FP8
            load_file(directory / "model.safetensors")


BOMBS = {
    "header of empty lists": b'{"a":[' + b"[]," * 900_000 + b"[]]}",
    "header of numbers": b'{"a":[' + b"1," * 4_000_000 + b"1]}",
    "header of texts": b'{"a":[' + b'"ab",' * 2_000_000 + b'"ab"]}',
    "header of keys": b"{" + b",".join(b'"%d":1' % n for n in range(600_000)) + b"}",
    "header of dimensions": b'{"a":{"dtype":"F32","data_offsets":[0,4],"shape":['
    + b"2," * 900_000 + b"2]}}",
    "header of one name": b'{"' + b"a" * 8_000_000 + b'":1}',
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOMBS)
def test_headers_made_to_be_costly_stay_within_bounds(tmp_path: Path, kind: str) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    header = BOMBS[kind]
    weights = directory / "model.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    tracemalloc.start()
    started_s = time.process_time()
    with pytest.raises(CheckpointInvalid) as refused:
        checkpoint.inspect(directory)
    assert time.process_time() - started_s < 30.0  # tracing makes it several times slower
    assert tracemalloc.get_traced_memory()[1] < 600 << 20
    tracemalloc.stop()
    assert len(str(refused.value)) < 1_500


def test_twenty_thousand_tensors_are_read_in_time(tmp_path: Path) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    header = {
        f"model.layers.{n}.mlp.experts.up_proj.weight": {
            "dtype": "BF16", "shape": [1], "data_offsets": [2 * n, 2 * n + 2]
        }
        for n in range(20_000)
    }  # fmt: skip
    write_safetensors(directory / "model.safetensors", header, b"\0" * 40_000)
    started_s = time.process_time()
    assert checkpoint.inspect(directory).parameters == 20_000
    assert time.process_time() - started_s < 5.0

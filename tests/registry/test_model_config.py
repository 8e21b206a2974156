"""What config.json claims is compared with the tensors and with what the engine knows."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from registry import architectures, checkpoint, model_config
from registry.errors import CheckpointInvalid
from tests.fakes import checkpoints
from tests.fakes.checkpoints import CONFIG


def inspect(directory: Path, **changes: Any) -> checkpoint.Checkpoint:
    """The fake has embeddings of 8 tokens by 4, and one layer."""
    (directory / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    return checkpoint.inspect(directory)


@pytest.mark.parametrize(
    "sizes",
    [
        {"vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1},
        {"text_config": {"vocab_size": 8, "hidden_size": 4}},
        {"hidden_size": 6, "word_embed_proj_dim": 4},
        {"vocab_size": None},
    ],
)
def test_sizes_of_the_tensors_are_accepted(checkpoint_dir: Path, sizes: dict[str, Any]) -> None:
    inspect(checkpoint_dir, **sizes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"vocab_size": 9}, r"vocab_size 9, but the embeddings .* shape \[8, 4\]"),
        ({"hidden_size": 8}, r"hidden_size 8, but the embeddings"),
        ({"text_config": {"vocab_size": 7}}, "vocab_size 7"),
        ({"num_hidden_layers": 2}, "no tensor is of layer 1"),
        ({"num_hidden_layers": 2**31 - 1}, "no tensor is of layer 1"),
        ({"num_hidden_layers": 2**31}, "from 1 to 2147483647"),
        ({"vocab_size": "8"}, "vocab_size must be a whole number from 1 .* is '8'"),
        ({"vocab_size": True}, "is True"),
        ({"vocab_size": 8.0}, "is 8.0"),
        ({"hidden_size": -4}, "is -4"),
        ({"hidden_size": 10**400}, "is 1000"),
        ({"hidden_size": [4]}, r"is \[4\]"),
        ({"model_type": None}, "has no model_type"),
        ({"model_type": ["llama"]}, "has no model_type"),
        ({"architectures": []}, "names no architecture"),
        ({"architectures": "LlamaForCausalLM"}, "names no architecture"),
        ({"architectures": [3]}, "names no architecture"),
        ({"architectures": ["Llama\nForCausalLM"]}, r"architecture 'Llama\\nForCausalLM'"),
        ({"architectures": ["NoSuchForCausalLM"]}, "neither the installed vLLM nor transformers"),
        ({"architectures": ["BertModel"]}, "generates text"),
        ({"auto_map": {"AutoModel": "modeling.X"}}, "auto_map"),
        ({"text_config": {"auto_map": {"AutoModel": "modeling.X"}}}, "auto_map"),
        ({"trust_remote_code": True}, "trust_remote_code"),
        ({"quantization_config": []}, None),
        ({"quantization_config": "fp8"}, "quantization_config"),
        ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
    ],
)
def test_claims_that_are_not_so_are_refused(
    checkpoint_dir: Path, changes: dict[str, Any], told: str | None
) -> None:
    if told is None:
        inspect(checkpoint_dir, **changes)
        return
    with pytest.raises(CheckpointInvalid, match=told):
        inspect(checkpoint_dir, **changes)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "generation_config.json"])
def test_code_is_refused_wherever_it_is_named(checkpoint_dir: Path, name: str) -> None:
    (checkpoint_dir / name).write_text('{"auto_map": {"AutoTokenizer": ["x.X", null]}}')
    with pytest.raises(CheckpointInvalid, match=rf"{name} asks for the checkpoint's own code"):
        checkpoint.inspect(checkpoint_dir)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "JSON"),
        (b"[]", "must be a JSON object"),
        (b"\xff", "not UTF-8 text .byte 0xff at offset 0"),
        (b"\xef\xbb\xbf{}", "JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1, "a": 2}', "more than once"),
        (b" " * (8 << 20) + b"{}", r"more than 8\.0 MiB"),
        (b'{"a": ' + b"1" * 5000 + b"}", "JSON"),
    ],
)
def test_a_configuration_that_is_no_json_is_refused(
    checkpoint_dir: Path, content: bytes, told: str
) -> None:
    (checkpoint_dir / "config.json").write_bytes(content)
    with pytest.raises(CheckpointInvalid, match=rf"config\.json.*{told}"):
        checkpoint.inspect(checkpoint_dir)


def test_a_missing_layer_in_the_middle_is_noticed(tmp_path: Path) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    tensors = {f"model.layers.{n}.mlp.up_proj.weight": np.ones(2, np.float32) for n in (0, 2)}
    save_file(tensors, directory / "model.safetensors")
    with pytest.raises(CheckpointInvalid, match="no tensor is of layer 1"):
        inspect(directory, num_hidden_layers=3)


def test_two_tables_of_embeddings_are_not_compared_with_one_size(tmp_path: Path) -> None:
    tensors = {
        "encoder.embed_tokens.weight": np.ones((3, 2), np.float32),
        "decoder.embed_tokens.weight": np.ones((9, 2), np.float32),
    }
    directory = checkpoints.make(tmp_path / "ck")
    save_file(tensors, directory / "model.safetensors")
    inspect(directory, vocab_size=9)


def test_the_installed_engine_s_architectures_are_read_and_nothing_is_imported() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from registry import architectures; known = architectures.known(); "
        "print(len(known), 'LlamaForCausalLM' in known, 'BertModel' in known, "
        "sorted({'vllm', 'torch', 'transformers'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    count, llama, bert, heavy = ran.stdout.split(maxsplit=3)
    assert int(count) > 200
    assert (llama, bert, heavy.strip()) == ("True", "False", "[]")


def test_without_an_engine_or_with_plugins_no_architecture_is_refused(
    checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(architectures, "known", lambda: None)
    assert inspect(checkpoint_dir, architectures=["OwnForCausalLM"]).architecture == (
        "OwnForCausalLM"
    )


def test_an_engine_whose_lists_moved_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    architectures.known.cache_clear()
    monkeypatch.setattr(architectures, "VLLM_FILE", "no/such/file.py")
    try:
        assert architectures.known() is None
    finally:
        architectures.known.cache_clear()


@pytest.mark.slow
def test_the_lists_are_those_that_vllm_itself_uses() -> None:
    from vllm.model_executor.models import registry

    known = architectures.known()
    assert known is not None
    own = {*registry._TEXT_GENERATION_MODELS, *registry._MULTIMODAL_MODELS}
    assert own <= known
    assert not known & {*registry._REWARD_MODELS, *registry._SPECULATIVE_DECODING_MODELS}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = st.sampled_from(
    ["architectures", "model_type", "vocab_size", "hidden_size", "num_hidden_layers",
     "text_config", "auto_map", "quantization_config", "compression_config"]
)  # fmt: skip
BLOCK = st.fixed_dictionaries(
    {"quant_method": st.just("compressed-tensors")},
    optional={
        "config_groups": st.dictionaries(
            st.text(max_size=3),
            st.dictionaries(st.sampled_from(["weights", "input_activations"]), JSON) | JSON,
            max_size=2,
        )
        | JSON,
        "ignore": JSON,
    },
)


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(config=st.dictionaries(KEYS | st.text(max_size=5), JSON | BLOCK, max_size=4))
@example(config={"quantization_config": {"quant_method": "compressed-tensors"}})
def test_any_configuration_is_accepted_or_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    for make in (checkpoints.make, checkpoints.make_fp8):
        directory = make(tmp_path / make.__name__)
        base = json.loads((directory / "config.json").read_text())
        (directory / "config.json").write_text(json.dumps({**base, **config}))
        with contextlib.suppress(CheckpointInvalid):
            checkpoint.inspect(directory)


def test_text_part_of_a_plain_model_is_the_whole() -> None:
    assert model_config.text_part({"text_config": 3}) == {"text_config": 3}

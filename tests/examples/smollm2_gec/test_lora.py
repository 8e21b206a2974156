import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers

from examples.smollm2_gec import checkpoint, lora, merge
from examples.smollm2_gec.lora import Shape

SHAPE = Shape(rank=2, alpha=4)


@pytest.fixture
def toy() -> transformers.LlamaForCausalLM:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    )
    return transformers.LlamaForCausalLM(config).eval()


def _logits(model: transformers.LlamaForCausalLM) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([[1, 2, 3, 4]])).logits
    return logits


def _disturb(model: transformers.LlamaForCausalLM) -> None:
    with torch.no_grad():
        for _, weight in lora.adapters(model):
            weight.copy_(torch.randn_like(weight).to(torch.bfloat16))


def test_a_new_adapter_changes_nothing(toy: transformers.LlamaForCausalLM) -> None:
    before = _logits(toy)
    lora.attach(toy, SHAPE)
    assert torch.equal(_logits(toy), before)


def test_only_the_adapters_learn(toy: transformers.LlamaForCausalLM) -> None:
    lora.attach(toy, SHAPE)
    learning = {id(weight) for weight in toy.parameters() if weight.requires_grad}
    assert learning == {id(weight) for _, weight in lora.adapters(toy)}
    assert len(learning) == 2 * 2 * len(lora.TARGETS)


def test_merged_weights_answer_as_the_model_with_adapters(
    toy: transformers.LlamaForCausalLM, tmp_path: Path
) -> None:
    weights = {name: weight.clone() for name, weight in toy.state_dict().items()}
    lora.attach(toy, SHAPE)
    _disturb(toy)
    lora.save(toy, SHAPE, tmp_path)
    with_adapters = _logits(toy)
    plain = transformers.LlamaForCausalLM(toy.config).eval()
    plain.load_state_dict(lora.merged(weights, *lora.load(tmp_path)))
    assert torch.allclose(_logits(plain), with_adapters, atol=1e-4)
    assert not torch.allclose(with_adapters, _logits_of(weights, toy.config), atol=1e-2)


def _logits_of(weights: dict[str, torch.Tensor], config: transformers.LlamaConfig) -> torch.Tensor:
    model = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict(weights)
    return _logits(model)


def test_an_adapter_for_another_model_is_refused(
    toy: transformers.LlamaForCausalLM, tmp_path: Path
) -> None:
    weights = dict(toy.state_dict())
    lora.attach(toy, SHAPE)
    lora.save(toy, SHAPE, tmp_path)
    tensors, shape = lora.load(tmp_path)
    name = "model.layers.0.mlp.up_proj.weight"
    with pytest.raises(lora.AdapterInvalid, match="is for"):
        lora.merged(weights | {name: torch.zeros(3, 3)}, tensors, shape)
    del weights[name]
    with pytest.raises(lora.AdapterInvalid, match="which the checkpoint has not"):
        lora.merged(weights, tensors, shape)


def test_a_directory_without_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lora.AdapterInvalid, match="read the adapter"):
        lora.load(tmp_path)


def _base(toy: transformers.LlamaForCausalLM, directory: Path) -> Path:
    toy.to(torch.bfloat16).save_pretrained(directory)
    (directory / "prompt.json").write_text(json.dumps(checkpoint.PROMPT), encoding="utf-8")
    (directory / "tokenizer.json").write_text("{}", encoding="utf-8")
    return directory


def test_a_merged_checkpoint_is_whole_and_differs_in_its_weights_alone(
    toy: transformers.LlamaForCausalLM, tmp_path: Path
) -> None:
    base, out = _base(toy, tmp_path / "base"), tmp_path / "tuned"
    lora.attach(toy, SHAPE)
    _disturb(toy)
    lora.save(toy, SHAPE, tmp_path / "adapter")
    merge.merge(base, tmp_path / "adapter", out)
    merge.merge(base, tmp_path / "adapter", out)  # an older one is replaced
    assert {path.name for path in tmp_path.iterdir()} == {"base", "adapter", "tuned"}
    for path in base.iterdir():
        is_same = path.read_bytes() == (out / path.name).read_bytes()
        assert is_same == (path.suffix != ".safetensors")
    before, after = checkpoint.weights(base), checkpoint.weights(out)
    assert {name: (w.dtype, w.shape) for name, w in before.items()} == {
        name: (w.dtype, w.shape) for name, w in after.items()
    }


def test_nothing_is_left_of_a_merge_that_failed(
    toy: transformers.LlamaForCausalLM, tmp_path: Path
) -> None:
    base = _base(toy, tmp_path / "base")
    with pytest.raises(SystemExit):
        merge.main([str(base), "--adapter", str(tmp_path), "--out", str(tmp_path / "tuned")])
    assert {path.name for path in tmp_path.iterdir()} == {"base"}


COMMITTED = merge.ADAPTER


def test_the_committed_adapter_is_bf16_and_small() -> None:
    path = COMMITTED / lora.WEIGHTS_FILE
    with safetensors.safe_open(path, framework="np") as weights:
        dtypes = {weights.get_slice(key).get_dtype() for key in weights.keys()}  # noqa: SIM118
    assert dtypes == {"BF16"}
    assert path.stat().st_size <= 4_000_000


def test_the_committed_adapter_fits_smollm2() -> None:
    tensors, shape = lora.load(COMMITTED)
    assert shape == Shape()
    layers, hidden, key_value, inner = 30, 576, 192, 1_536
    widths = {"q_proj": (hidden, hidden), "k_proj": (hidden, key_value)}
    widths |= {"v_proj": (hidden, key_value), "o_proj": (hidden, hidden)}
    widths |= {"gate_proj": (hidden, inner), "up_proj": (hidden, inner)}
    widths |= {"down_proj": (inner, hidden)}
    assert len(tensors) == 2 * layers * len(widths)
    for name, tensor in tensors.items():
        into, out = widths[name.split(".")[-3]]
        is_low = ".lora_A." in name
        assert tensor.shape == ((shape.rank, into) if is_low else (out, shape.rank))
        assert tensor.isfinite().all()
        assert tensor.abs().sum() > 0


def test_the_adapter_comes_with_its_license_and_where_it_is_from() -> None:
    card = (COMMITTED / "README.md").read_text(encoding="utf-8")
    for needed in ("Apache-2.0", "WordNet", "codespell", "SmolLM2-135M-Instruct", "JFLEG"):
        assert needed in card

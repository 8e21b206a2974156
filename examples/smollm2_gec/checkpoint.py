"""What a checkpoint directory of this example holds, and how one is written whole or not at all.

Base, tuned and merged checkpoints differ in their weights alone: one prompt, one tokenizer, one
config.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import safetensors.torch
import torch
import transformers

TEMPLATE = "Correct: {text}\nFixed:"
END = "\n"
PROMPT = {"template": TEMPLATE, "max_tokens": 128, "stop": [END], "temperature": 0.0}


def save(
    model: transformers.LlamaForCausalLM,
    tokenizer: transformers.PreTrainedTokenizerBase,
    out: Path,
) -> None:
    """Writes a bf16 checkpoint directory, replacing one that is there."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".saving-") as scratch:
        complete = Path(scratch) / out.name
        model.to(torch.bfloat16).save_pretrained(complete)
        tokenizer.save_pretrained(complete)
        text = json.dumps(PROMPT, indent=2) + "\n"
        (complete / "prompt.json").write_text(text, encoding="utf-8")
        for path in complete.iterdir():
            path.chmod(0o644)
        if out.exists():
            out.rename(Path(scratch) / "replaced")
        complete.rename(out)


def is_complete(directory: Path) -> bool:
    """Whether `save` has written this directory: it appears whole, so one file tells."""
    return (directory / "prompt.json").is_file()


def load(
    directory: Path, dtype: torch.dtype = torch.bfloat16
) -> tuple[transformers.LlamaForCausalLM, transformers.PreTrainedTokenizerBase]:
    """Model, in evaluation mode, and tokenizer of a checkpoint directory."""
    if not is_complete(directory):
        raise FileNotFoundError(
            f"{directory} is no checkpoint of this example: it has no prompt.json; "
            "make one with: python -m examples.smollm2_gec.fetch --out DIR"
        )
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.LlamaForCausalLM.from_pretrained(directory, dtype=dtype).eval()
    return model, tokenizer


def weights(directory: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint directory by name."""
    loaded: dict[str, torch.Tensor] = safetensors.torch.load_file(directory / "model.safetensors")
    return loaded

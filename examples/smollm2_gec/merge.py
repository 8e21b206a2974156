"""Adds an adapter to the base checkpoint: the tuned checkpoint, as it is evaluated and served.

python -m examples.smollm2_gec.merge BASE --adapter ADAPTER --out TUNED
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import safetensors.torch

from examples.smollm2_gec import checkpoint, lora

ADAPTER = Path(__file__).parent / "adapter"


def merge(base: Path, adapter: Path, out: Path) -> None:
    """Writes the merged checkpoint, whole or not at all; everything but the weights is copied."""
    tensors, shape = lora.load(adapter)
    weights = lora.merged(checkpoint.weights(base), tensors, shape)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".merging-") as scratch:
        complete = Path(scratch) / out.name
        shutil.copytree(base, complete, ignore=shutil.ignore_patterns("*.safetensors"))
        path = complete / "model.safetensors"
        safetensors.torch.save_file(weights, path, metadata={"format": "pt"})
        path.chmod(0o644)
        if out.exists():
            out.rename(Path(scratch) / "replaced")
        complete.rename(out)


def main(argv: Sequence[str] | None = None) -> None:
    """Merges."""
    parser = argparse.ArgumentParser(description="Merge an adapter into the base checkpoint.")
    parser.add_argument("base", type=Path)
    parser.add_argument("--adapter", type=Path, default=ADAPTER)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    try:
        merge(options.base, options.adapter, options.out)
    except (lora.AdapterInvalid, OSError) as failure:
        parser.exit(1, f"merge: error: {failure}\n")
    print(f"saved {options.out}")


if __name__ == "__main__":
    main()

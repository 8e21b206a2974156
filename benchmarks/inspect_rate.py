"""How fast is a checkpoint looked at, every byte hashed and every value searched for NaN?

    python -m benchmarks.inspect_rate [MIB]

Writes a checkpoint of so many MiB (default 1024) in shards of 256 MiB, BF16 and F32 in turn,
inspects it and then only hashes it, so that the price of looking at the values is seen. Peak memory
is that of this process, the writing of the checkpoint (in a process of its own) left out.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import machine
from registry import checkpoint
from tests.fakes import checkpoints

MIB = 1 << 20
SHARD_MIB = 256


def write(directory: Path, mebibytes: int) -> None:
    """A valid checkpoint of the given size; every shard holds tensors of 16 MiB."""
    import numpy as np

    checkpoints.make(directory)
    (directory / "model.safetensors").unlink()
    rng = np.random.default_rng(0)
    weight_map: dict[str, str] = {}
    shards = max(mebibytes // SHARD_MIB, 1)
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        dtype, size = (("BF16", 2), ("F32", 4))[shard % 2]
        header = {}
        for place in range(SHARD_MIB // 16):
            tensor = f"model.layers.{shard}.mlp.part_{place}.weight"
            weight_map[tensor] = name
            header[tensor] = {
                "dtype": dtype,
                "shape": [16 * MIB // size],
                "data_offsets": [place * 16 * MIB, (place + 1) * 16 * MIB],
            }
        # Bytes whose exponent is never all ones, in either type.
        data = rng.integers(0, 64, SHARD_MIB * MIB, dtype=np.uint8).tobytes()
        checkpoints.write_safetensors(directory / name, header, data)
    index = json.dumps({"weight_map": weight_map})
    (directory / checkpoint.INDEX_FILE).write_text(index)


def measure(mebibytes: int) -> dict[str, Any]:
    """Seconds of CPU and of the wall, and peak memory."""
    folder = Path(tempfile.mkdtemp(prefix="liftlock-bench-"))
    try:
        writer = multiprocessing.Process(target=write, args=(folder / "ck", mebibytes))
        writer.start()
        writer.join()
        started, used = time.monotonic(), time.process_time()
        found = checkpoint.inspect(folder / "ck")
        inspect_s, inspect_cpu_s = time.monotonic() - started, time.process_time() - used
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        used = time.process_time()
        checkpoint.verify_files(folder / "ck", found.manifest)
        hash_cpu_s = time.process_time() - used
    finally:
        shutil.rmtree(folder)
    size = found.manifest.size_bytes / MIB
    return {
        "mib": round(size),
        "inspect_s": round(inspect_s, 2),
        "inspect_cpu_s": round(inspect_cpu_s, 2),
        "hash_only_cpu_s": round(hash_cpu_s, 2),
        "mib_per_cpu_s": round(size / inspect_cpu_s),
        "peak_memory_mib": round(peak_mib),
    }


def main() -> None:
    """Measures and prints."""
    about = machine.describe()
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    print(machine.result({"benchmark": "inspect_rate", **about, **measure(mebibytes)}))


if __name__ == "__main__":
    main()

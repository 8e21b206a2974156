"""What a worker died of is told with the knob to turn, however it was said."""

from __future__ import annotations

import signal

import pytest

from pipelines import last_words

ENGINE = "evals.harness"


@pytest.mark.parametrize(
    ("code", "last"),
    [
        (-signal.SIGKILL, ["loading"]),
        (128 + signal.SIGKILL, []),
        (1, ["Traceback", "MemoryError"]),
        (-signal.SIGABRT, ["terminate called after throwing an instance of 'std::bad_alloc'"]),
        (1, ["RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"]),
        (1, ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"]),
        (1, ["OSError: [Errno 12] Cannot allocate memory"]),
        (1, ["ValueError: No available memory for the cache blocks. Try increasing `gpu`", ""]),
        (1, ["(3.00 GiB KV cache is needed, which is larger than the available KV cache memory"]),
        (1, ["RuntimeError: Engine core initialization failed. Failed core proc(s): {'E': -9}"]),
        (1, ["ValueError: Available memory is less than desired CPU memory utilization (0.9"]),
    ],
)
def test_an_engine_out_of_memory_is_told_with_its_knobs(code: int, last: list[str]) -> None:
    told = last_words.told(ENGINE, code, last)
    assert told.startswith("the engine ran out of memory (")
    assert "kv_cache_gib" in told
    assert "max_num_seqs" in told
    other = last_words.told("pipelines.quantize", code, last)
    assert other.startswith("pipelines.quantize ran out of memory (")
    assert "kv_cache_gib" not in other


def test_what_a_worker_says_on_purpose_wins() -> None:
    last = ["MemoryError", "error: the moon is not in phase", "No space left on device"]
    assert last_words.told(ENGINE, 1, last) == "the moon is not in phase"


@pytest.mark.parametrize(
    "line",
    [
        "OSError: [Errno 28] No space left on device: '/x'",
        "safetensors_rust.SafetensorError: I/O error: No space left on device (os error 28)",
        "OSError: [Errno 122] Disk quota exceeded",
        "OSError: [Errno 27] File too large",
    ],
)
def test_a_full_disk_in_a_worker_is_told(line: str) -> None:
    told = last_words.told("pipelines.quantize", 1, ["loading", line])
    assert told.startswith("the disk ran full in pipelines.quantize: ")
    assert line in told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (1, "evals.harness ended with code 1: last line"),
        (-signal.SIGSEGV, "evals.harness crashed with SIGSEGV: last line"),
        (-77, "evals.harness was ended by signal 77: last line"),
    ],
)
def test_other_ends_are_told_with_the_last_line(code: int, told: str) -> None:
    assert last_words.told(ENGINE, code, ["first", "last line", ""]).startswith(told)


def test_silence_is_told_too() -> None:
    assert "no output" in last_words.told(ENGINE, 1, [])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "the engine ran out of memory (MemoryError: )"),
        (RuntimeError("Failed core proc(s): {'EngineCore_0': -9}"), "the engine ran out of memory"),
        (ValueError("Unknown\n dtype"), "did not start on /ck: ValueError: Unknown dtype"),
    ],
)
def test_a_replica_s_engine_tells_it_alike(error: Exception, told: str) -> None:
    from serving.engine.vllm_engine import why_not_started

    found = why_not_started(error, "/ck")
    assert told in found
    assert ("kv_cache_gib" in found) is ("memory" in told)

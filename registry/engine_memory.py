"""How it is said that an engine has no memory left, and what to do about it.

Python, C++, torch, CUDA, vLLM and the kernel each say it differently, in an exception, a last line
or an exit code; evaluation and serving tell it alike.
"""

from __future__ import annotations

import re

SAID = re.compile(
    r"MemoryError|std::bad_alloc|out of memory|can(?:'t|not) allocate memory|OutOfMemoryError"
    r"|No available memory for the cache blocks|than (?:the )?available KV cache memory"
    r"|less than desired (?:CPU|GPU) memory utilization|core proc\(s\): \{.*: -9\b",
    re.IGNORECASE,
)
"""The last one: vLLM's engine process was killed, which the kernel does where memory runs out."""
KNOBS = (
    "lower resources.engine.kv_cache_gib (or gpu_memory_utilization where that is null), "
    "max_num_seqs or max_model_len_tokens in promotion.yaml, or free memory"
)


def says(text: str) -> bool:
    """Whether a line or an exception's text means it."""
    return SAID.search(text) is not None


def told(what: str) -> str:
    """The message for people; `what` is how it was said."""
    return f"the engine ran out of memory ({what}); {KNOBS}"

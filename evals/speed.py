"""The worker that measures engines beside each other.

    python -m evals.speed --request request.json --out DIR

All engines live in this one process and take turns at the same prompts, in another order every
round, so that none has a quiet machine to itself. An engine that cannot be started is said and left
out, unless it is the first, which the others are compared with.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals import engine, errors
from evals.engine import Engine
from evals.model import Ask
from evals.pace import Turn
from registry.engine_settings import DeviceKind, EngineSettings
from registry.manifest import Manifest

RESULT_FILE = "turns.json"
LEAST_CACHE_GIB = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One engine to measure; `manifest` is the path of a stored manifest."""

    name: str
    checkpoint_dir: str
    manifest: str
    engine: EngineSettings

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {**plain, "engine": self.engine.to_dict()}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Arm:
        """Reads what `to_dict` made."""
        settings = dict(raw["engine"])
        settings["device"] = DeviceKind(settings["device"])
        return cls(**{**raw, "engine": EngineSettings(**settings)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to measure; the first arm is the reference."""

    arms: tuple[Arm, ...]
    prompts: tuple[str, ...]
    rounds: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "arms": [arm.to_dict() for arm in self.arms],
            "prompts": list(self.prompts),
            "rounds": self.rounds,
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Request:
        """Reads what `to_dict` made."""
        arms = tuple(Arm.from_dict(arm) for arm in raw["arms"])
        return cls(arms=arms, prompts=tuple(raw["prompts"]), rounds=int(raw["rounds"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was measured."""

    turns: tuple[Turn, ...]
    failed: Mapping[str, str]
    """Why an engine could not be started, by arm."""

    def to_json(self) -> str:
        """The stored form."""
        turns = [dataclasses.asdict(turn) for turn in self.turns]
        return json.dumps({"turns": turns, "failed": dict(self.failed)})

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Reads the stored form."""
        raw = json.loads(text)
        return cls(turns=tuple(Turn(**turn) for turn in raw["turns"]), failed=raw["failed"])


def shared(settings: EngineSettings, among: int) -> EngineSettings:
    """The settings of one of several engines that share a machine's memory."""
    if settings.kv_cache_gib is None:
        share = settings.gpu_memory_utilization / among
        return dataclasses.replace(settings, gpu_memory_utilization=share)
    cache = max(min(LEAST_CACHE_GIB, settings.kv_cache_gib), settings.kv_cache_gib / among)
    return dataclasses.replace(settings, kv_cache_gib=cache)


def run(request: Request, report: Callable[[str], None]) -> Result:
    """Starts every engine and lets them take turns.

    Raises:
        EvaluationFailed: the reference cannot be started, or an engine failed on the way.
    """
    failed: dict[str, str] = {}
    turns: list[Turn] = []
    with contextlib.ExitStack() as stack:
        engines: dict[str, Engine] = {}
        for number, arm in enumerate(request.arms):
            report(f"starting {arm.name} ({number + 1} of {len(request.arms)})")
            try:
                engines[arm.name] = stack.enter_context(_engine(arm, len(request.arms)))
            except errors.EvaluationFailed as exc:
                if number == 0:
                    raise
                failed[arm.name] = str(exc)
        by_cpu = request.arms[0].engine.device is DeviceKind.CPU
        for name, model in engines.items():
            _turn(name, -1, model, request.prompts, by_cpu)  # warms up
        for number in range(request.rounds):
            report(f"round {number + 1} of {request.rounds}")
            order = list(engines)
            random.Random(number).shuffle(order)
            turns += [_turn(n, number, engines[n], request.prompts, by_cpu) for n in order]
    return Result(turns=tuple(turns), failed=failed)


def _engine(arm: Arm, among: int) -> Engine:
    manifest = Manifest.from_json(Path(arm.manifest).read_text(encoding="utf-8"))
    return Engine(Path(arm.checkpoint_dir), manifest, shared(arm.engine, among))


def _turn(name: str, number: int, model: Engine, prompts: Sequence[str], by_cpu: bool) -> Turn:
    model.forget()
    wall, cpu = time.perf_counter(), time.process_time()
    model.answer(Ask.TEXT, prompts, lambda position, answer: None)
    wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    # On a GPU this engine alone computes during its turn, and the batch keeps it busy throughout.
    return Turn(
        arm=name, round=number, requests=len(prompts), wall_s=wall_s,
        busy_s=cpu_s if by_cpu else wall_s,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """The worker process: 0 done, 1 a fault that the last line of standard error explains."""
    parser = argparse.ArgumentParser(prog="python -m evals.speed", description=__doc__)
    parser.add_argument("--request", type=Path, required=True, help="the request, JSON")
    parser.add_argument("--out", type=Path, required=True, help="directory for the result")
    options = parser.parse_args(arguments)
    try:
        with engine.environment():
            request = Request.from_dict(json.loads(options.request.read_text(encoding="utf-8")))
            result = run(request, lambda line: print(f"progress {line}", flush=True))
        (options.out / RESULT_FILE).write_text(result.to_json(), encoding="utf-8")
    except (errors.EvalError, OSError) as exc:
        print(f"error: {' '.join(str(exc).split())}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

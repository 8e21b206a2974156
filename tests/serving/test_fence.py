"""One rule says who may act, whatever is asked in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving import fence
from serving.errors import ServingError, StaleEpoch

CLAIMS = st.builds(
    fence.Claim, model=st.just("m"), epoch=st.integers(1, 5), owner=st.sampled_from("abc")
)


@given(st.lists(CLAIMS, min_size=1, max_size=20))
def test_the_epoch_in_force_never_falls_and_has_one_owner(claims: list[fence.Claim]) -> None:
    known: fence.Claim | None = None
    owners: dict[int, str] = {}
    for claim in claims:
        try:
            admitted = fence.admit(known, claim, "act")
        except StaleEpoch:
            assert known is not None
            assert claim.epoch <= known.epoch
        else:
            assert known is None or admitted.epoch >= known.epoch
            assert owners.setdefault(claim.epoch, claim.owner) == claim.owner
            known = admitted


def test_a_refusal_says_what_was_refused_and_who_is_in_force() -> None:
    known = fence.Claim(model="grammar", epoch=7, owner="anna@host 12")
    late = fence.Claim(model="grammar", epoch=5, owner="me")
    with pytest.raises(ServingError, match="refused to deploy grammar-v2 under epoch 5: anna@host"):
        fence.admit(known, late, "deploy grammar-v2")


@pytest.mark.parametrize("wrong", [{"model": ""}, {"epoch": 0}, {"epoch": -1}])
def test_a_claim_that_says_nothing_is_refused(wrong: dict[str, object]) -> None:
    given = {"model": "m", "epoch": 1, "owner": "a", **wrong}
    with pytest.raises(ValueError, match="must"):
        fence.Claim(**given)  # type: ignore[arg-type]

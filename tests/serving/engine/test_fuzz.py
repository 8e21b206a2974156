"""The surface fuzzed from its own published description: no 5xx, no hang, answers as described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from serving.engine import openapi
from tests.fakes.engine import FakeEngine
from tests.serving.engine.loopback import serving

schemathesis = pytest.importorskip(
    "schemathesis", reason="schemathesis is not installed: pip install schemathesis==4.32.5"
)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
EXAMPLES = 120
HANG_S = 10.0
"""Twice the longest deadline of the replica; only a hang takes longer."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    engine = FakeEngine(max_model_len_tokens=256)
    engine.chat = True  # so that system messages are no end either
    with serving(engine) as url:
        yield url


def at_home(case: Any, home: bool) -> Any:
    """The case meant for the model that is served, so that it gets past the first check."""
    if home:
        if isinstance(case.body, dict):
            case.body = {key: value for key, value in case.body.items() if key != "version"}
            case.body.update({"model": "grammar"} if "model" in case.body else {})
        if case.path_parameters:
            case.path_parameters["name"] = "grammar"
        case.headers = {
            name: value for name, value in (case.headers or {}).items()
            if name not in ("x-liftlock-version-pin", "x-request-timeout-ms")
        }  # fmt: skip
    return case


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("path", openapi.OPERATIONS)
def test_whatever_is_sent_is_answered_as_described(url: str, path: str, mode: Any) -> None:
    schema = schemathesis.openapi.from_dict(openapi.document())
    operation = schema[path][openapi.OPERATIONS[path].method.upper()]
    if mode is schemathesis.GenerationMode.NEGATIVE and openapi.OPERATIONS[path].body is None:
        pytest.skip("takes nothing that could be wrong")
    checks = schemathesis.checks
    wanted = [
        checks.not_a_server_error,
        *checks.CHECKS.get_by_names(
            ["status_code_conformance", "content_type_conformance", "response_schema_conformance",
             "response_headers_conformance"]
        ),
    ]  # fmt: skip

    @seed(20251129)
    @settings(
        deadline=None,
        max_examples=EXAMPLES,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
        database=None,
    )
    @given(
        case=operation.as_strategy(generation_mode=mode),
        home=st.sampled_from([True, True, True, False]),
    )
    def fuzz(case: Any, home: bool) -> None:
        at_home(case, home)
        answer = case.call(base_url=url, timeout=HANG_S)
        case.validate_response(answer, checks=wanted)

    fuzz()

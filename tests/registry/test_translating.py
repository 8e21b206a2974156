"""Away, refused, denied and absent are told apart, as a real client on a real server sees them."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator

import pytest

from registry.errors import (
    NotFound,
    RecordDenied,
    RecordRefused,
    RecordUnavailable,
    RegistryError,
)
from registry.mlflow_store import connect
from registry.mlflow_store.translating import translated
from registry.store import Record
from tests.fakes.proxy import Proxy, proxied

Reached = tuple[Record, Proxy, str]


@pytest.fixture(scope="module")
def reached(mlflow_uri: str) -> Iterator[Reached]:
    """A record behind a proxy, and a run in it."""
    with proxied(mlflow_uri) as (address, proxy):
        record = connect(address)
        run = record.evidence.open(f"m-{uuid.uuid4().hex[:10]}", "r", {}, None)
        record.evidence.text(run, "a.txt", "a")
        yield record, proxy, run


CALLS = {
    "open": lambda record, run: record.evidence.open("grammar", "r", {}, None),
    "log": lambda record, run: record.evidence.log(run, params={"a": 1}),
    "text": lambda record, run: record.evidence.text(run, "b.txt", "b"),
    "read": lambda record, run: record.evidence.read(run, "a.txt"),
    "versions": lambda record, run: record.versions.find("grammar", "sha256:x"),
    "ledger": lambda record, run: record.ledger.read("grammar"),
}
ARTIFACT = "/api/2.0/mlflow-artifacts"


def failing(reached: Reached, call: str, how: str | int, where: str = "/") -> RegistryError:
    record, proxy, run = reached
    proxy.from_now(lambda n, method, path: how if where in path else "fine")
    try:
        with pytest.raises(RegistryError) as caught:
            CALLS[call](record, run)
    finally:
        proxy.from_now(lambda n, method, path: "fine")
    return caught.value


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", ["away", "lost", 408, 429, 500, 502, 503, 504])
def test_no_answer_and_not_now_are_away(reached: Reached, call: str, how: str | int) -> None:
    assert type(failing(reached, call, how)) is RecordUnavailable


@pytest.mark.parametrize("call", ["text", "read"])
@pytest.mark.parametrize("how", ["away", "lost", 429, 500, 503])
def test_store_of_files_that_is_away_is_not_taken_for_files_that_are_gone(
    reached: Reached, call: str, how: str | int
) -> None:
    assert type(failing(reached, call, how, ARTIFACT)) is RecordUnavailable


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", [401, 403, 404])
def test_nothing_let_through_is_denied(reached: Reached, call: str, how: int) -> None:
    said = failing(reached, call, how)
    assert type(said) is RecordDenied
    assert "check the tracking address" in str(said)


@pytest.mark.parametrize("how", [401, 403])
def test_files_not_let_through_are_denied(reached: Reached, how: int) -> None:
    assert type(failing(reached, "text", how, ARTIFACT)) is RecordDenied


@pytest.mark.parametrize("how", [400, 413, 422])
def test_bad_request_is_refused(reached: Reached, how: int) -> None:
    assert type(failing(reached, "text", how, ARTIFACT)) is RecordRefused


def test_page_of_something_else_is_not_taken_for_an_answer(reached: Reached) -> None:
    assert isinstance(failing(reached, "open", 200), RegistryError)


def test_server_that_hangs_is_away(reached: Reached, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        with pytest.raises(RecordUnavailable):
            connect(f"http://127.0.0.1:{silent.getsockname()[1]}")


def test_connecting_without_a_check_asks_nothing() -> None:
    record = connect("http://127.0.0.1:9", check=False)
    with pytest.raises(RecordUnavailable):
        record.ledger.read("grammar")


@pytest.mark.parametrize(
    "address", ["", "http://", "http://[::1", "http://no such host", "127.0.0.1:5000", "nonsense"]
)
def test_address_that_is_none_is_said_so(address: str) -> None:
    with pytest.raises(RecordDenied, match="address"):
        connect(address)


@pytest.mark.parametrize(
    ("raised", "wanted"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), RecordRefused),
        (FileNotFoundError(errno.ENOENT, "gone", "model.safetensors"), RecordRefused),
        (PermissionError(errno.EACCES, "no", "model.safetensors"), RecordRefused),
        (ConnectionResetError(errno.ECONNRESET, "reset"), RecordUnavailable),
        (TimeoutError("late"), RecordUnavailable),
        (ImportError("x", name="boto3"), RecordRefused),
    ],
)
def test_fault_of_this_machine_is_not_waited_for(
    raised: Exception, wanted: type[RegistryError]
) -> None:
    with pytest.raises(RegistryError) as caught, translated("uploading"):
        raise raised
    assert type(caught.value) is wanted
    assert caught.value.__cause__ is raised


def test_full_disk_in_a_downloading_thread_is_seen_through_mlflows_wrapping() -> None:
    from mlflow.exceptions import MlflowException

    text = f"The following failures occurred:\n[Errno 28] {os.strerror(28)}: '/x'"
    with pytest.raises(RecordRefused, match="this machine"), translated("downloading"):
        raise MlflowException(text)


def test_own_errors_pass_through() -> None:
    with pytest.raises(NotFound, match="mine"), translated("x"):
        raise NotFound("mine")

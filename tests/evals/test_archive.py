"""Zip files that nobody has to trust."""

import io
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals import archive
from evals.errors import SuiteInvalid


def packed(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for path, data in members:
            file.writestr(path, data)
    return out.getvalue()


def names(data: bytes, pattern: str = "*") -> list[str]:
    return [member.path for member in archive.members(data, "z", pattern)]


def test_matching_members_come_by_path_without_folders() -> None:
    data = packed(("d/", b""), ("d/b.x", b"2"), ("d/a.x", b"1"), ("other", b"3"))
    found = list(archive.members(data, "z", "d/*.x"))
    assert [(member.path, member.data) for member in found] == [("d/a.x", b"1"), ("d/b.x", b"2")]


@pytest.mark.parametrize("data", [b"", b"garbage", packed(("a", b"x"))[:-30]])
def test_garbage_is_not_a_zip_file(data: bytes) -> None:
    with pytest.raises(SuiteInvalid, match="z is not a zip file"):
        names(data)


def test_a_member_packed_wrongly_by_lzma_is_an_error() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("a", b"x" * 10_000)
    data = bytearray(out.getvalue())
    at = data.index(b"\x5d\x00", 30)  # where the options of LZMA begin
    data[at : at + 5] = b"\xff" * 5
    with pytest.raises(SuiteInvalid, match="z: member 'a' cannot be unpacked"):
        names(bytes(data))


def test_nothing_that_matches_is_an_error() -> None:
    with pytest.raises(SuiteInvalid, match="z holds no file like d/"):
        names(packed(("a", b"x")), "d/*")


def test_what_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MEMBER_LIMIT_BYTES", 100_000)
    bomb = packed(("a", bytes(1_000_000)))
    assert len(bomb) < 2_000
    with pytest.raises(SuiteInvalid, match="member 'a' unpacks to more than 100,000 bytes"):
        names(bomb)


def test_what_unpacks_to_too_much_together_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "TOTAL_LIMIT_BYTES", 250_000)
    with pytest.raises(SuiteInvalid, match="member 'c' unpacks to more than"):
        names(packed(("a", bytes(100_000)), ("b", bytes(100_000)), ("c", bytes(100_000))))


def test_size_is_measured_not_believed() -> None:
    data = bytearray(packed(("a", bytes(1_000_000))))
    central = data.index(b"PK\x01\x02")
    data[central + 24 : central + 28] = (10).to_bytes(4, "little")  # says it unpacks to 10 bytes
    with pytest.raises(SuiteInvalid, match="member 'a' cannot be unpacked"):
        names(bytes(data))


def test_too_many_members_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MEMBER_LIMIT", 2)
    with pytest.raises(SuiteInvalid, match="z holds 3 files, more than 2"):
        names(packed(("a", b""), ("b", b""), ("c", b"")))


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_one_path_twice_is_refused() -> None:
    with pytest.raises(SuiteInvalid, match="a file twice under one path"):
        names(packed(("a", b"1"), ("a", b"2")))


@settings(max_examples=200)
@given(st.integers(0, 400), st.integers(0, 255), st.integers(0, 400), st.integers(0, 255))
def test_damaged_archives_are_errors_never_crashes(p: int, a: int, q: int, b: int) -> None:
    data = bytearray(packed(("d/a.x", b"some text " * 20), ("d/b.x", b"other text " * 20)))
    data[p % len(data)] = a
    data[q % len(data)] = b
    problem = "z"
    try:
        names(bytes(data))
    except SuiteInvalid as exc:
        problem = str(exc)
    assert problem.startswith("z")

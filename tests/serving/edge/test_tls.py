"""TLS at a real Envoy: versions, HTTP/2, renewal, and files that cannot be used."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from serving import client as sdk
from serving import errors
from serving.discovery import traffic
from serving.edge import config, control, tls
from tests.fakes import mounted
from tests.serving.edge import certificates, harness, upstream


@pytest.fixture
def authority(tmp_path: Path) -> certificates.Authority:
    return certificates.Authority(tmp_path)


@pytest.fixture
def settings(tmp_path: Path, authority: certificates.Authority) -> config.TlsSettings:
    folder = tmp_path / "tls"
    folder.mkdir()
    made = config.TlsSettings(certificate=folder / "edge.crt", key=folder / "edge.key")
    authority.issue(made.certificate, made.key)
    return made


def trusting(authority: certificates.Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.file)


async def test_callers_get_http2_or_http1_over_a_verified_connection(
    run_edge: harness.RunEdge, authority: certificates.Authority, settings: config.TlsSettings
) -> None:
    async with run_edge(tls=settings) as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 1), epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        status = control.current_status(edge.root)
        assert status is not None
        assert status.url == edge.url.replace("http:", "https:")
        for http2, version in ((True, "HTTP/2"), (False, "HTTP/1.1")):
            async with httpx.AsyncClient(
                verify=trusting(authority), http2=http2, trust_env=False
            ) as client:
                answer = await client.post(status.url)
            assert (answer.status_code, answer.http_version) == (200, version)
        async with sdk.AsyncClient(status.url, tls=trusting(authority)) as asking:
            assert (await asking.correct("She go.")).version == 1
        with pytest.raises(httpx.RemoteProtocolError):
            async with httpx.AsyncClient(trust_env=False, verify=False) as plain:
                await plain.post(edge.url)


async def test_versions_below_1_2_are_refused(
    run_edge: harness.RunEdge, authority: certificates.Authority, settings: config.TlsSettings
) -> None:
    async with run_edge(tls=settings) as edge:
        modern = trusting(authority)
        modern.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await serial(edge, modern)
        old = trusting(authority)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            old.minimum_version = ssl.TLSVersion.TLSv1_1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await serial(edge, old)


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x20\x00\x01\x00\x1f\xfc\x03\x03"])
async def test_a_handshake_that_does_not_go_on_is_ended(
    run_edge: harness.RunEdge, settings: config.TlsSettings, begun: bytes
) -> None:
    async with run_edge(tls=settings, headers_s=0.5) as edge:
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.settings.port)
        writer.write(begun)
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()


async def test_a_renewed_certificate_is_taken_without_a_broken_connection(
    run_edge: harness.RunEdge, authority: certificates.Authority, settings: config.TlsSettings
) -> None:
    async with run_edge(tls=settings) as edge:
        trusted = trusting(authority)
        url = f"https://127.0.0.1:{edge.settings.port}/edge/healthz"
        async with httpx.AsyncClient(verify=trusted, trust_env=False) as client:
            assert (await client.get(url)).status_code == 200
            renewed = authority.issue(settings.certificate, settings.key)
            async with asyncio.timeout(20):
                while await serial(edge, trusted) != renewed:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            assert (await client.get(url)).status_code == 200
        status = control.current_status(edge.root)
        assert status is not None
        assert status.envoy_starts == 1


async def test_a_certificate_is_taken_that_comes_as_kubelet_replaces_mounted_secrets(
    run_edge: harness.RunEdge, authority: certificates.Authority, tmp_path: Path
) -> None:
    mount = mounted.Mount(tmp_path / "mount")

    def renew() -> int:
        made = authority.issue(tmp_path / "tls.crt", tmp_path / "tls.key")
        mount.write({name: (tmp_path / name).read_bytes() for name in ("tls.crt", "tls.key")})
        return made

    first = renew()
    settings = config.TlsSettings(
        certificate=mount.folder / "tls.crt", key=mount.folder / "tls.key"
    )
    async with run_edge(tls=settings) as edge:
        trusted = trusting(authority)
        assert await serial(edge, trusted) == first
        for _ in range(2):  # the links stay, what they lead through is replaced each time
            renewed = renew()
            async with asyncio.timeout(20):
                while await serial(edge, trusted) != renewed:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)


async def serial(edge: harness.Edge, context: ssl.SSLContext) -> int:
    """The serial number of the certificate that a new connection is shown."""
    _, writer = await asyncio.open_connection("127.0.0.1", edge.settings.port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown).serial_number


@pytest.mark.parametrize("broken", ["absent", "empty", "other key", "pass phrase"])
def test_files_that_do_not_belong_together_are_refused_before_anything_starts(
    tmp_path: Path,
    authority: certificates.Authority,
    settings: config.TlsSettings,
    broken: str,
) -> None:
    if broken == "absent":
        settings.key.unlink()
    elif broken == "empty":
        settings.certificate.write_bytes(b"")
    elif broken == "other key":
        authority.issue(tmp_path / "other.crt", settings.key)
    else:
        settings.key.write_text(ENCRYPTED)
    with pytest.raises(errors.EdgeError, match="cannot be used"):
        tls.write_secret(settings, tls.secret_file(tmp_path))
    assert not tls.secret_file(tmp_path).exists()


ENCRYPTED = """-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhO0p2o1sVw3wICCAAw
-----END ENCRYPTED PRIVATE KEY-----
"""

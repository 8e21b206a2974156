"""How connections are made: TLS, proxies, and HTTP/2 where both sides can."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import importlib.util
import ipaddress
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpcore
import httpx
import pytest

from serving.client import AsyncClient, Client, ConnectionFailed, Hedge, limits, transport
from serving.client.transport import Wiring
from tests.serving.client.stand_in import CORRECTION, http

ROOT = Path(__file__).resolve().parents[3]
HAS_H2 = importlib.util.find_spec("h2") is not None


def wiring(*addresses: str) -> Wiring:
    return Wiring(addresses=addresses, tls=None)


@pytest.mark.parametrize("found", [True, False])
def test_http2_is_offered_over_https_where_h2_is_installed(
    found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: (found and name == "h2") or None)
    assert wiring("https://a", "http://b").offers_http2 is found
    assert wiring("http://a").offers_http2 is False


def test_https_is_known_however_it_is_written() -> None:
    assert isinstance(wiring("HTTPS://a").settings(http2=False)["verify"], ssl.SSLContext)


def test_certificates_are_loaded_for_https_alone() -> None:
    assert wiring("http://a").settings(http2=False)["verify"] is False
    secure = wiring("http://a", "https://b")
    loaded = secure.settings(http2=False)["verify"]
    assert isinstance(loaded, ssl.SSLContext)
    assert secure.settings(http2=False)["verify"] is loaded
    assert secure.settings(http2=True)["verify"] is not loaded  # it offers another protocol


def test_where_addresses_are_still_to_come_everything_is_ready_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    found = Wiring(addresses=(), tls=None, grows=True).settings(http2=False)
    assert isinstance(found["verify"], ssl.SSLContext)
    with httpx.Client(**found) as client:
        near, far = (
            client._transport_for_url(httpx.URL(each)) for each in ("http://[::1]:2", "http://a:3")
        )
        assert near is client._transport
        assert far is not client._transport


def test_a_proxy_is_for_others_than_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    addresses = ("http://127.0.0.1:1", "http://[::1]:2", "http://elsewhere:3")
    with httpx.Client(**wiring(*addresses).settings(http2=False)) as client:
        direct = [client._transport_for_url(httpx.URL(each)) for each in addresses]
        assert [each is client._transport for each in direct] == [True, True, False]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 in one file."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stand-in")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.fixture
def hashed(certificate: Path, tmp_path: Path) -> Path:
    """A folder with that certificate under the name by which OpenSSL looks for it."""
    asked = ["openssl", "x509", "-subject_hash", "-noout", "-in", str(certificate)]
    name = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / f"{name}.0").write_bytes(certificate.read_bytes())
    return tmp_path


@contextlib.asynccontextmanager
async def secure(certificate: Path, spoken: list[str | None]) -> AsyncIterator[str]:
    """A server over TLS that offers HTTP/2 and HTTP/1.1; notes what each connection agreed on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        agreed = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        spoken.append(agreed)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await (speak_h2 if agreed == "h2" else speak_http1)(reader, writer)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        for writer in writers:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


async def speak_http1(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(
            (
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if b"length:" in line
            ),
            0,
        )
        await reader.readexactly(size)
        writer.write(http(200, CORRECTION))


async def speak_h2(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    import json

    from h2 import config, connection, events

    state = connection.H2Connection(config.H2Configuration(client_side=False))
    state.initiate_connection()
    writer.write(state.data_to_send())
    while data := await reader.read(65_536):
        for event in state.receive_data(data):
            if isinstance(event, events.StreamEnded):
                state.send_headers(event.stream_id, [(":status", "200")])
                state.send_data(event.stream_id, json.dumps(CORRECTION).encode(), end_stream=True)
        writer.write(state.data_to_send())


async def ask(
    kind: type[Client] | type[AsyncClient],
    url: str,
    tls: ssl.SSLContext | None,
    text: str = "a",
    hedge: Hedge | None = None,
) -> int:
    if kind is AsyncClient:
        async with AsyncClient(url, tls=tls, retries=0, hedge=hedge) as client:
            return (await client.correct(text)).version

    def wait() -> int:
        with Client(url, tls=tls, retries=0, hedge=hedge) as client:
            return client.correct(text).version

    return await asyncio.to_thread(wait)


@pytest.mark.parametrize(("kind", "hedge"), [(AsyncClient, None), (Client, Hedge())])
async def test_over_https_the_best_protocol_that_both_sides_know_is_spoken_on_an_event_loop(
    kind: type[Client] | type[AsyncClient], hedge: Hedge | None, certificate: Path
) -> None:
    spoken: list[str | None] = []
    async with secure(certificate, spoken) as url:
        tls = ssl.create_default_context(cafile=str(certificate))
        assert await ask(kind, url, tls, hedge=hedge) == 1
    assert spoken == ["h2" if HAS_H2 else "http/1.1"]


async def test_a_body_of_more_than_one_frame_goes_over_http1(certificate: Path) -> None:
    spoken: list[str | None] = []
    async with secure(certificate, spoken) as url:
        tls = ssl.create_default_context(cafile=str(certificate))
        assert await ask(AsyncClient, url, tls, "a" * 20_000) == 1
    assert spoken == ["http/1.1"]


async def test_threads_share_no_connection(certificate: Path) -> None:
    """Over HTTP/2 the limit of one call would end those of the others."""
    spoken: list[str | None] = []
    async with secure(certificate, spoken) as url:
        assert await ask(Client, url, ssl.create_default_context(cafile=str(certificate))) == 1
    assert spoken == ["http/1.1"]


def test_what_a_thread_sends_while_another_closes_its_connection_is_not_in_clear(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    ends = socket.socketpair()
    with ThreadPoolExecutor() as threads:
        served = threads.submit(context.wrap_socket, ends[0], server_side=True)
        asking = trusting.wrap_socket(ends[1], server_hostname="127.0.0.1")
    monkeypatch.setattr(socket.socket, "shutdown", lambda sock, _how: sock.send(b"the key"))
    limits._Stream(httpcore._backends.sync.SyncStream(asking)).close()
    with served.result() as listening:
        assert b"the key" not in socket.socket.recv(listening, 65_536)


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
async def test_an_unknown_certificate_is_refused(certificate: Path, scheme: str) -> None:
    async with secure(certificate, []) as url:
        with pytest.raises(ConnectionFailed, match=r"CERTIFICATE_VERIFY_FAILED.*SSL_CERT_FILE"):
            await ask(AsyncClient, url.replace("https", scheme), None)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_certificates_of_the_environment_are_heeded_on_loopback_too(
    certificate: Path, hashed: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    named = {"SSL_CERT_FILE": certificate, "SSL_CERT_DIR": hashed}[variable]
    monkeypatch.setenv(variable, str(named))
    monkeypatch.setattr(transport, "_certificates", transport._certificates.__wrapped__)
    async with secure(certificate, []) as url:
        assert await ask(AsyncClient, url, None) == 1


def test_importing_the_client_loads_httpx_with_its_core_and_no_other_package() -> None:
    code = (
        "import sys, httpx, httpcore; before = set(sys.modules); import serving.client; "
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before} "
        "- set(sys.stdlib_module_names)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "['serving']"

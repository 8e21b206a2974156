"""The server must be who the certificates say, and sees the client's certificate."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import random
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from serving.discovery import errors
from serving.discovery.kubernetes import KubernetesSettings, access, api
from tests.serving.discovery.kubernetes.build import QUICK, line, services


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    certificate: bytes
    key: bytes


def issue(name: str) -> Pem:
    """A certificate that vouches for itself, for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return Pem(
        certificate=certificate.public_bytes(encoding),
        key=key.private_bytes(encoding, pkcs8, serialization.NoEncryption()),
    )


SERVER, CLIENT, STRANGER = issue("server"), issue("client"), issue("stranger")


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """A server that lists nothing, to clients with the right certificate."""
    files = {"server.pem": SERVER.certificate + SERVER.key, "client.pem": CLIENT.certificate}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "client.pem")
    context.load_cert_chain(tmp_path / "server.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    body = line(services())

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def number_listed(url: str, authority: Pem, client: Pem | None) -> int:
    found = access.Access(
        server=url,
        authority=access.Material(data=authority.certificate),
        certificate=client and access.Material(data=client.certificate),
        key=client and access.Material(data=client.key),
    )
    settings = KubernetesSettings(namespace="ns")
    async with api.client(found, QUICK) as http:
        server = api.Api(http, api.SERVICES, settings, QUICK, random.Random(1))
        return len((await server.list(found.headers())).items)


async def test_the_right_certificates_are_let_through(url: str) -> None:
    assert await number_listed(url, SERVER, CLIENT) == 0


@pytest.mark.parametrize(
    ("authority", "client"), [(STRANGER, CLIENT), (SERVER, STRANGER), (SERVER, None)]
)
async def test_any_other_is_not(url: str, authority: Pem, client: Pem | None) -> None:
    with pytest.raises(errors.Interrupted, match="could not be asked to list services"):
        await number_listed(url, authority, client)

"""A certificate authority for a test, and certificates by it."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates for localhost and an address."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        made = _builder(self._name, self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file = folder / "authority.pem"
        self.file.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def issue(self, certificate: Path, key: Path, address: str = "127.0.0.1") -> int:
        """Put a new certificate and its key there, by renames; returns its serial number."""
        private = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "edge")])
        hosts: list[x509.GeneralName] = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address(address)),
        ]
        made = _builder(name, self._name, private.public_key())
        made = made.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        signed = made.sign(self._key, hashes.SHA256())
        pem = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        for path, data in ((key, pem), (certificate, _pem(signed))):
            part = path.with_name(f".{path.name}.new")
            part.write_bytes(data)
            part.replace(path)
        return signed.serial_number


def _builder(
    name: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)

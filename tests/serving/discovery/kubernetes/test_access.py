"""A pod's own account or a kubeconfig; what is not accepted is named, and secrets never are."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from serving.discovery import errors
from serving.discovery.kubernetes import KubernetesSettings, Timing, access

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture(scope="module")
def pem() -> tuple[bytes, bytes]:
    """A certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def config(tmp_path: Path, *, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    path = tmp_path / "config"
    said = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(said))
    return path


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_pod_has_an_account_whose_token_is_read_each_time(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    found = access.in_cluster(POD, tmp_path)
    assert found.server == "https://10.96.0.1:443"
    assert found.headers() == {"Authorization": "Bearer first"}
    (tmp_path / "token").write_text("second")
    assert found.headers() == {"Authorization": "Bearer second"}


def test_an_ipv6_cluster_has_brackets(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    assert (
        access.in_cluster({**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path).server
        == "https://[fd00::1]:443"
    )


def test_outside_of_a_cluster_there_is_no_account(tmp_path: Path) -> None:
    with pytest.raises(errors.AccessInvalid, match="give a kubeconfig"):
        access.in_cluster(POD, tmp_path)
    (tmp_path / "token").touch()
    with pytest.raises(errors.AccessInvalid, match="give a kubeconfig"):
        access.in_cluster({}, tmp_path)


@pytest.mark.parametrize("token", ["", "two\nlines", "n\x00t", "ü"])
def test_a_token_that_is_none_is_not_sent(tmp_path: Path, token: str) -> None:
    (tmp_path / "token").write_text(token)
    with pytest.raises(errors.AccessInvalid, match="no token of one line") as caught:
        access.in_cluster(POD, tmp_path).headers()
    assert not token or token not in str(caught.value)


def test_a_kubeconfig_with_inline_certificates(tmp_path: Path, pem: tuple[bytes, bytes]) -> None:
    certificate, key = pem
    path = config(
        tmp_path,
        cluster={"server": "https://h:6443/", "certificate-authority-data": encoded(certificate)},
        user={"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)},
    )
    found = access.kubeconfig(path)
    assert found.server == "https://h:6443"
    assert found.headers() == {}
    assert found.context().cert_store_stats()["x509"] == 1


def test_a_kubeconfig_with_files_beside_it(tmp_path: Path, pem: tuple[bytes, bytes]) -> None:
    (tmp_path / "ca.pem").write_bytes(pem[0])
    (tmp_path / "token").write_text("t")
    path = config(
        tmp_path,
        cluster={"server": "https://h", "certificate-authority": "ca.pem"},
        user={"tokenFile": "token"},
    )
    found = access.kubeconfig(path)
    assert found.context().cert_store_stats()["x509"] == 1
    assert found.headers() == {"Authorization": "Bearer t"}


@pytest.mark.parametrize(
    ("cluster", "user", "named"),
    [
        ({}, {"exec": {"command": "aws"}}, "exec is not accepted"),
        ({}, {"auth-provider": {"name": "x"}}, "auth-provider is not accepted"),
        ({}, {"username": "a", "password": "hunter2"}, "username is not accepted"),
        ({"insecure-skip-tls-verify": True}, {}, "insecure-skip-tls-verify is not accepted"),
        ({"proxy-url": "http://p"}, {}, "proxy-url is not accepted"),
        ({"server": None}, {}, "server is not a text"),
        ({"certificate-authority-data": "%%"}, {}, "certificate-authority-data is not base64"),
        ({}, {"token": ["x"]}, "token is not a text"),
        ({}, {"client-certificate": "a.pem"}, "go together"),
    ],
)
def test_what_a_kubeconfig_may_not_say_is_named(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], named: str
) -> None:
    path = config(tmp_path, cluster={"server": "https://h", **cluster}, user=user)
    with pytest.raises(errors.AccessInvalid, match=named) as caught:
        access.kubeconfig(path)
    assert str(path) in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "a: &x 1\nb: *x\n", "clusters: 3\n"])
def test_what_is_no_kubeconfig_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(errors.AccessInvalid, match="cannot be used"):
        access.kubeconfig(path)
    with pytest.raises(errors.AccessInvalid, match="cannot be used"):
        access.kubeconfig(tmp_path / "missing")


@pytest.mark.parametrize(
    "server",
    ["", "h:443", "ftp://h", "https://", "https://u:p@h", "https://h:port", "http://[", "http://h"],
)
def test_an_address_that_is_none_or_not_encrypted_is_refused(server: str) -> None:
    with pytest.raises(errors.AccessInvalid):
        access.Access(server=server)


def test_certificates_that_are_none_are_refused() -> None:
    found = access.Access(server="https://h", authority=access.Material(data=b"nonsense"))
    with pytest.raises(errors.AccessInvalid, match="certificates for https://h"):
        found.context()


def test_a_secret_is_not_shown() -> None:
    assert "hunter2" not in repr(
        access.Access(server="https://h", token=access.Material(data=b"hunter2"))
    )


@pytest.mark.parametrize("namespace", ["", "a/b", "../x", "UPPER", "a" * 64, "a?watch=1"])
def test_a_namespace_is_a_name(namespace: str) -> None:
    with pytest.raises(ValueError, match="not a name of Kubernetes"):
        KubernetesSettings(namespace=namespace)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_times_are_finite_and_above_zero(seconds: float) -> None:
    with pytest.raises(ValueError, match="inactivity_s must be"):
        Timing(inactivity_s=seconds)

"""How to reach an API server and as whom: a pod's own account, or a kubeconfig.

What lies in files (a token that is renewed, certificates) is read again whenever it is used.
Ways to log in that run programs or ask for passwords are refused; a service has a token or a
certificate.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from registry import strict_yaml
from serving.discovery import errors
from serving.discovery.kubernetes import fields

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Bytes in a file, read each time, or given as they are. Never shown."""

    path: Path | None = None
    data: bytes = b""

    def read(self) -> bytes:
        """The bytes now; raises AccessInvalid."""
        if self.path is None:
            return self.data
        try:
            return self.path.read_bytes()
        except OSError as exc:
            raise errors.AccessInvalid(
                f"cannot read {self.path} ({exc.strerror}), which the API server is reached with"
            ) from exc

    def __repr__(self) -> str:
        return f"Material({str(self.path) if self.path is not None else 'inline'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The address of an API server, and what to show it. Raises AccessInvalid for an address that
    is none, and for one where a token would travel in the clear."""

    server: str
    authority: Material | None = None
    """Certificates of who may be the server, as PEM; None trusts the machine's own."""
    token: Material | None = None
    certificate: Material | None = None
    key: Material | None = None

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.server)
            host, _ = parts.hostname, parts.port
        except ValueError as exc:
            raise errors.AccessInvalid(f"{self.server!r} is no address: {exc}") from exc
        if parts.scheme not in ("http", "https") or not host or parts.username is not None:
            raise errors.AccessInvalid(f"{self.server!r} is not https://host:port")
        if parts.scheme == "http" and not _is_loopback(host):
            raise errors.AccessInvalid(
                f"{self.server} is not encrypted, and not on this machine; use https"
            )

    def headers(self) -> dict[str, str]:
        """Who is asking; reads the token anew."""
        if self.token is None:
            return {}
        token = self.token.read().decode("latin-1").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise errors.AccessInvalid(f"{self.token} holds no token of one line")
        return {"Authorization": f"Bearer {token}"}

    def context(self) -> ssl.SSLContext:
        """TLS that checks the server; reads the certificates anew."""
        try:
            context = ssl.create_default_context()
            if self.authority is not None:
                context = ssl.create_default_context(cadata=self.authority.read().decode())
            if self.certificate is not None and self.key is not None:
                _load(context, self.certificate.read(), self.key.read())
        except (ssl.SSLError, ValueError) as exc:
            raise errors.AccessInvalid(
                f"the certificates for {self.server} cannot be used: {exc}"
            ) from exc
        return context


def in_cluster(environ: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> Access:
    """The access of a pod; raises AccessInvalid outside of a cluster."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (account / "token").exists():
        raise errors.AccessInvalid(
            "this is no pod of a cluster with a service account; give a kubeconfig"
        )
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        authority=Material(path=account / "ca.crt"),
        token=Material(path=account / "token"),
    )


def kubeconfig(path: Path) -> Access:
    """The current context of a kubeconfig; raises AccessInvalid and says what is not accepted."""
    try:
        config = fields.mapping(strict_yaml.parse(path.read_text(encoding="utf-8")), "it")
        context = _named(config, "contexts", "context", config.get("current-context"))
        cluster = _named(config, "clusters", "cluster", context.get("cluster"))
        user = _named(config, "users", "user", context.get("user"))
        _refuse(cluster, ("insecure-skip-tls-verify", "proxy-url", "tls-server-name"))
        if ("client-certificate" in user or "client-certificate-data" in user) != (
            "client-key" in user or "client-key-data" in user
        ):
            raise ValueError("a client certificate and its key go together")
        _refuse(user, ("exec", "auth-provider", "username", "password", "as"))
        token = user.get("token")
        return Access(
            server=fields.string(cluster.get("server"), "server").rstrip("/"),
            authority=_material(cluster, "certificate-authority", path.parent),
            token=Material(data=fields.string(token, "token").encode())
            if token is not None
            else _file(user, "tokenFile", path.parent),
            certificate=_material(user, "client-certificate", path.parent),
            key=_material(user, "client-key", path.parent),
        )
    except (OSError, ValueError) as exc:
        raise errors.AccessInvalid(f"the kubeconfig {path} cannot be used: {exc}") from exc


def _named(config: Mapping[str, Any], group: str, kind: str, name: Any) -> Mapping[str, Any]:
    for item in fields.items(config.get(group), group):
        entry = fields.mapping(item, f"an entry of {group}")
        if entry.get("name") == name and name is not None:
            return fields.mapping(entry.get(kind), kind)
    raise ValueError(f"{group} has no {name!r}")


def _refuse(entry: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if entry.get(name):
            raise ValueError(
                f"{name} is not accepted; use a token or a client certificate, over TLS"
            )


def _material(entry: Mapping[str, Any], name: str, base: Path) -> Material | None:
    encoded = entry.get(f"{name}-data")
    if encoded is None:
        return _file(entry, name, base)
    try:
        text = fields.string(encoded, f"{name}-data")
        return Material(data=base64.b64decode(text, validate=True))
    except binascii.Error as exc:
        raise ValueError(f"{name}-data is not base64: {exc}") from exc


def _file(entry: Mapping[str, Any], name: str, base: Path) -> Material | None:
    value = entry.get(name)
    return None if value is None else Material(path=base / fields.string(value, name))


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """The ssl module reads a client's certificate from files alone."""
    with tempfile.NamedTemporaryFile() as file:  # readable by its owner only
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

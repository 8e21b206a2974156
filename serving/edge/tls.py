"""TLS of the edge's listener: HTTP/2 where the caller can, 1.2 at least, new certificates taken.

The one idea: the certificate is told to Envoy as a watched file that names two watched files, so
that a renewal needs neither a restart nor a broken connection.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from serving import errors
from serving.discovery import files
from serving.edge import config

_TYPE = "type.googleapis.com/envoy."
_TLS = f"{_TYPE}extensions.transport_sockets.tls.v3."
_NAME = "edge-certificate"


def secret_file(directory: Path) -> Path:
    """Where `write_secret` writes, in an edge's own directory."""
    return directory / "tls" / "certificate.json"


def socket(settings: config.TlsSettings | None, secret: Path) -> dict[str, Any]:
    """What makes a filter chain speak TLS; nothing without settings.

    `secret` is the file that `write_secret` writes.
    """
    if settings is None:
        return {}
    source = {
        "resource_api_version": "V3",
        "path_config_source": {
            "path": str(secret),
            "watched_directory": {"path": str(secret.parent)},
        },
    }
    common = {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
        "tls_certificate_sds_secret_configs": [{"name": _NAME, "sds_config": source}],
    }
    typed = {"@type": f"{_TLS}DownstreamTlsContext", "common_tls_context": common}
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": typed}}


def write_secret(settings: config.TlsSettings, secret: Path) -> None:
    """Tell Envoy where the certificate is, once it is known to be one.

    Raises EdgeError where the files are absent, do not fit each other or are no PEM.
    """
    check(settings)
    resource = {
        "@type": f"{_TLS}Secret",
        "name": _NAME,
        "tls_certificate": {
            "certificate_chain": {"filename": str(settings.certificate)},
            "private_key": {"filename": str(settings.key)},
            # Mounted secrets change by a rename beside the file, not of it.
            "watched_directory": {"path": str(settings.certificate.parent)},
        },
    }
    secret.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = json.dumps({"resources": [resource]}, indent=1).encode()
    files.write_atomic(secret, data, durable=False)


def check(settings: config.TlsSettings) -> None:
    """Raises EdgeError unless certificate and key can be used together; Envoy would wait for
    them with a listener that answers nobody."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A password that is asked for would wait at a terminal.
        context.load_cert_chain(settings.certificate, settings.key, password=_no_password)
    except (OSError, ValueError) as exc:  # ssl.SSLError is an OSError
        raise errors.EdgeError(
            f"the certificate {settings.certificate} with the key {settings.key} cannot be used: "
            f"{exc}; give PEM files that belong together, the key without a pass phrase"
        ) from exc


def _no_password() -> str:
    raise ValueError("the key has a pass phrase")

"""Signing: a key is a JSON web token under ES256 (RFC 7519, RFC 7518 section 3.4).

Signed with an elliptic curve and not with a shared secret, so that an edge, which only checks,
holds nothing that could make a key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

ALGORITHM = "ES256"
ISSUER = "liftlock"


def new_private_key() -> bytes:
    """A fresh signing key on the curve P-256, as PKCS 8 in PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def public_set(private_pem: bytes) -> str:
    """What verifies the keys that `private_pem` signs, as a JSON web key set (RFC 7517).

    Raises:
        ValueError: it is not such a key.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from jwt.algorithms import ECAlgorithm

    private = serialization.load_pem_private_key(private_pem, password=None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise ValueError("it is not a key on the curve P-256")
    public: dict[str, str] = ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    name = hashlib.sha256(json.dumps(public, sort_keys=True).encode()).hexdigest()[:16]
    return json.dumps({"keys": [{**public, "alg": ALGORITHM, "use": "sig", "kid": name}]})


def is_public_set(text: str) -> bool:
    """Whether it is a JSON web key set with at least one key, all of them public halves."""
    try:
        keys = json.loads(text)["keys"]
        return bool(keys) and all("kid" in key and "d" not in key for key in keys)
    except (ValueError, TypeError, KeyError):
        return False


def key_ids(public: str) -> set[str]:
    """Which keys a set holds; equal keys have equal ids."""
    return {key["kid"] for key in json.loads(public)["keys"]}


def sign(private_pem: bytes, claims: Mapping[str, Any]) -> str:
    """The text that a caller shows; about 300 characters."""
    import jwt

    (name,) = key_ids(public_set(private_pem))
    payload = {"iss": ISSUER, **claims}
    return jwt.encode(payload, private_pem, algorithm=ALGORITHM, headers={"kid": name})

"""What a key may do, and which paths that is.

The one idea: whatever is not listed needs the scope that only operators hold. A path that a new
route adds, or one written in an unusual way (`/v1/%66eedback`), is refused until it is listed.
"""

from __future__ import annotations

import enum


class Scope(enum.StrEnum):
    """One thing that a key may allow. None implies another."""

    CALL = "call"
    """Ask the model."""
    FEEDBACK = "feedback"
    """Say what became of an answer."""
    APPROVE = "approve"
    """Answer for a promotion that waits for a person."""
    ADMIN = "admin"
    """Everything else: the replicas' metrics, and paths that nobody listed."""


PREFIXES: dict[str, Scope] = {
    "/v1/corrections": Scope.CALL,
    "/v1/completions": Scope.CALL,
    "/v1/chat/completions": Scope.CALL,
    "/v1/models": Scope.CALL,
    "/invocations": Scope.CALL,
    "/serving-endpoints": Scope.CALL,
    "/healthz": Scope.CALL,
    "/readyz": Scope.CALL,
    "/openapi.json": Scope.CALL,
    "/v1/feedback": Scope.FEEDBACK,
    "/v1/approvals": Scope.APPROVE,
}
"""First parts of paths, whole ones; the longest that fits decides."""

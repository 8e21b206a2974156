"""What a promotion is judged and served with, beside the weights: the runtime and its digest.

New software, other engine settings or another kind of hardware can change answers as new weights
can. So the runtime has a digest, an entry of the ledger names it, and a changed one goes through
the same gates.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from evals import runtime
from pipelines.config import PromotionConfig
from registry.model import content_digest
from registry.versions_of import package_versions

LIBRARIES = ("ray", "llmcompressor")
"""What shapes a deployment or a variant beside what shapes an answer (`evals.runtime`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Versions, engine settings and hardware as plain data."""

    content: dict[str, Any]

    @property
    def digest(self) -> str:
        """`sha256:…` of all of it."""
        return content_digest(self.content)

    def to_json(self) -> str:
        """For the record."""
        return json.dumps({**self.content, "digest": self.digest}, indent=2, sort_keys=True)


def runtime_of(config: PromotionConfig) -> Runtime:
    """The runtime of this machine and environment under these settings.

    Raises:
        EvaluationFailed: a library or the device that the settings ask for is not there.
    """
    found = runtime.runtime(config.resources.engine)
    content = {k: v for k, v in found.items() if k != "digest"}
    content["versions"] = {**content["versions"], **package_versions(LIBRARIES)}
    return Runtime(content=content)

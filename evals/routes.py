"""The ways to a model: an engine in this process, a running endpoint, a baseline.

The one idea: what identifies the answers is known before anything heavy is started, so that an
evaluation that is done already starts nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals import endpoint, engine, errors, metrics, model, runtime
from evals.model import Model, SourceCopy
from evals.request import Baseline, Request
from registry.manifest import Manifest, Prompt

_RULES = {"metrics": metrics.VERSION, "asking": model.VERSION}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What is evaluated, and how to reach it."""

    prompt: Prompt
    checkpoint_digest: str
    """`sha256:…` of a checkpoint, or what stands for it: `endpoint:…`, `baseline:…`."""
    runtime: Mapping[str, Any]
    """What answers are made with, as JSON-ready values, and `digest` over the rest."""
    open: Callable[[], AbstractContextManager[Model]]


def of(request: Request) -> Route:
    """The route that a request names.

    Raises:
        EvaluationFailed: the manifest cannot be read, the endpoint does not answer, or a library
            or device is not there.
    """
    if request.baseline is Baseline.SOURCE_COPY:
        return Route(
            prompt=Prompt(template=SourceCopy.TEMPLATE),
            checkpoint_digest=f"baseline:{request.baseline}",
            runtime=_digested({**_RULES, "baseline": str(request.baseline)}),
            open=lambda: contextlib.nullcontext(SourceCopy()),
        )
    manifest = _manifest(request.manifest)
    if request.endpoint is not None:
        return _to_endpoint(request, request.endpoint, manifest)
    return _to_checkpoint(request, manifest)


def _to_checkpoint(request: Request, manifest: Manifest) -> Route:
    directory = request.checkpoint_dir
    if directory is None:  # the request's own check; for the type checker
        raise errors.EvaluationFailed("the evaluation request names no checkpoint directory")
    return Route(
        prompt=manifest.prompt,
        checkpoint_digest=manifest.digest,
        runtime=runtime.runtime(request.engine),
        open=lambda: engine.Engine(directory, manifest, request.engine),
    )


def _to_endpoint(request: Request, url: str, manifest: Manifest) -> Route:
    """An endpoint that does not say its digest is known by address, model name and prompt."""
    served = endpoint.look(url, model=request.served_model)
    if manifest.files and served.digest not in (None, manifest.digest):
        raise errors.EvaluationFailed(
            f"{url} serves the checkpoint {served.digest}, not the given one {manifest.digest}; "
            "name the checkpoint that it serves, or leave it out and give --prompt"
        )
    asked = {
        "model": served.model,
        "url": endpoint.base(url),
        "prompt": manifest.prompt.template,
        "generation": str(manifest.generation),
    }
    known_by = served.digest or f"endpoint:{_sha256(asked)}"
    return Route(
        prompt=manifest.prompt,
        checkpoint_digest=known_by,
        runtime=_digested({**_RULES, "endpoint": asked}),
        open=lambda: endpoint.Endpoint(
            url, served, manifest.generation, checkpoint_dir=request.checkpoint_dir
        ),
    )


def _manifest(path: Path | None) -> Manifest:
    try:
        return Manifest.from_json((path or Path()).read_text())
    except (OSError, ValueError) as exc:
        raise errors.EvaluationFailed(
            f"cannot read the manifest {path}: {exc}; register the checkpoint again"
        ) from exc


def _digested(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "digest": f"sha256:{_sha256(content)}"}


def _sha256(content: object) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()

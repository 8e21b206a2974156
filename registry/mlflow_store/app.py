"""The application the local tracking server runs: MLflow's own, without its account database.

MLflow 3.17 tries to import `mlflow.server.auth` anew for every search of runs and takes an
`ImportError` to mean that there are no accounts. Without Flask-WTF that import breaks off half
way, so two searches at the same moment can see the half-made module and are answered 500. Saying
beforehand that the module is absent gives the same answer without the race.
"""

from __future__ import annotations

import sys
from typing import Any, cast

NAME = "liftlock"
"""What `mlflow server --app-name` calls it; see the entry point `mlflow.app` in pyproject.toml."""
AUTH = "mlflow.server.auth"


def create_app() -> Any:
    """Makes the ASGI application, in the process that serves it."""
    cast(dict[str, object], sys.modules).setdefault(AUTH, None)
    from mlflow.server.fastapi_app import app

    return app

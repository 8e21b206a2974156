"""Errors of the promotion flow.

PipelineError
├── ConfigInvalid      promotion.yaml: the key, what was found, what is allowed
├── NothingToServe     nothing was promoted, or not that version, so it cannot be served (again)
├── StageFailed        a stage's worker process failed; carries its own last words
├── NotNow             somebody else must finish, or let go, first
│   ├── OwnedByAnother     another command works on this model
│   ├── Fenced             another command has taken over since; this one has changed nothing more
│   └── ModelFrozen        nothing may change until the model is thawed
└── RolloutReverted    the new version was taken back; the old one serves as before
"""


class PipelineError(Exception):
    """Base of everything this package raises on purpose."""


class ConfigInvalid(PipelineError):
    """The promotion settings cannot be used."""


class NothingToServe(PipelineError):
    """There is no such version to serve or to go back to."""


class StageFailed(PipelineError):
    """A stage could not be finished; nothing after it was started."""


class RolloutReverted(PipelineError):
    """The new version did not hold, and traffic is back on the old one."""


class NotNow(PipelineError):
    """The same command may work later; nothing was changed."""


class OwnedByAnother(NotNow):
    """Another command works on this model, and it lives."""


class Fenced(NotNow):
    """Another command has taken this model over; what this one began is no longer its to finish."""


class ModelFrozen(NotNow):
    """Somebody froze the model."""

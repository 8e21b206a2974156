"""Errors of the record.

RegistryError
├── CheckpointInvalid     the checkpoint directory cannot be accepted; the message says why
├── RecordUnavailable     MLflow did not answer or refused
├── RecordConflict        somebody else wrote first (ledger sequence taken, digest mismatch)
└── NotFound              no such model, version or ledger entry
"""


class RegistryError(Exception):
    """Base of everything this package raises on purpose."""


class CheckpointInvalid(RegistryError):
    """The checkpoint directory cannot be accepted; nothing was registered."""


class RecordUnavailable(RegistryError):
    """MLflow did not answer, or answered with a refusal."""


class RecordConflict(RegistryError):
    """Another writer was first, or stored bytes do not match their digest."""


class NotFound(RegistryError):
    """The named model, version or entry does not exist."""

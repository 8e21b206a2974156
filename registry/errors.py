"""Errors of the record.

RegistryError
├── CheckpointInvalid     the checkpoint directory cannot be accepted; the message says why
├── RecordUnavailable     MLflow does not answer now; the same call may work later
├── RecordRefused         the call cannot be done as it is; asking again changes nothing
│   └── RecordDenied      no call would be: credentials, permissions or address are wrong
├── RecordConflict        somebody else wrote first (ledger sequence taken, digest mismatch)
├── BackupInvalid         a file is no backup that can be restored; the message says why
├── OutOfSpace            the local disk has not enough room; the message has the numbers
├── JournalBroken         the local journal or copy of the record cannot be written or read
└── NotFound              no such model, version or ledger entry
"""


class RegistryError(Exception):
    """Base of everything this package raises on purpose."""


class CheckpointInvalid(RegistryError):
    """The checkpoint directory cannot be accepted; nothing was registered."""


class RecordUnavailable(RegistryError):
    """MLflow is away: no connection, no answer in time, or an answer that says `not now`."""


class RecordRefused(RegistryError):
    """MLflow, or this machine, will not do it however often it is asked."""


class RecordDenied(RecordRefused):
    """MLflow lets nothing through: credentials, permissions or the address are wrong."""


class RecordConflict(RegistryError):
    """Another writer was first, or stored bytes do not match their digest."""


class OutOfSpace(RegistryError):
    """The local disk has not enough room; what was being written was removed again."""


class JournalBroken(RegistryError):
    """What is kept on this machine for the record cannot be written or read."""


class NotFound(RegistryError):
    """The named model, version or entry does not exist."""


class BackupInvalid(RegistryError):
    """The file is not a whole backup of a known format; nothing was restored from it."""

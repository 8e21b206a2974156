"""Errors of starting and stopping things.

JobError
├── StackError     a part of the local stack did not start or stop
└── UsageError     the command line asks for something that cannot be
"""


class JobError(Exception):
    """Base of everything this package raises on purpose."""


class StackError(JobError):
    """A part of the local stack did not start or stop."""


class UsageError(JobError):
    """The command line asks for something that cannot be."""

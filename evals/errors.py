"""Errors of evaluation.

EvalError
├── SuiteUnavailable    the suite's data is absent, or its bytes are not the ones it names
├── SuiteInvalid        the suite's definition or data cannot be read as a suite
├── EvaluationFailed    the engine or the harness could not produce outcomes
└── EvidenceMismatch    two sets of outcomes do not belong together and must not be compared
"""


class EvalError(Exception):
    """Base of everything this package raises on purpose."""


class SuiteUnavailable(EvalError):
    """The data of a suite is absent or was changed; fetch it again."""


class SuiteInvalid(EvalError):
    """A suite is malformed; the message names file, line and what to change."""


class EvaluationFailed(EvalError):
    """No outcomes could be produced; the message says which limit or fault and what to do."""


class EvidenceMismatch(EvalError):
    """Outcomes of different suites, examples or software were about to be compared."""

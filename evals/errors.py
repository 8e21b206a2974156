"""Errors of evaluation.

EvalError
├── SuiteUnavailable    the suite's data is absent, or its bytes are not the ones it names
├── SuiteInvalid        the suite's definition or data cannot be read as a suite
├── PolicyInvalid       the gate policy does not fit the suites
├── DataDirInvalid      what is named as the data directory cannot be one
├── EvaluationFailed    the engine or the harness could not produce outcomes
│   └── ContextTooShort an input needs a longer context than the settings give it
├── FetchFailed         published data could not be fetched, or is not what was reviewed
└── EvidenceMismatch    two sets of outcomes do not belong together and must not be compared
"""


class EvalError(Exception):
    """Base of everything this package raises on purpose."""


class SuiteUnavailable(EvalError):
    """The data of a suite is absent or was changed; fetch it again."""


class SuiteInvalid(EvalError):
    """A suite is malformed; the message names file, line and what to change."""


class PolicyInvalid(EvalError):
    """A gate policy speaks of suites or metrics that are not there; the message says which."""


class DataDirInvalid(EvalError):
    """No folder can be what is named as the data directory."""


class EvaluationFailed(EvalError):
    """No outcomes could be produced; the message says which limit or fault and what to do."""


class ContextTooShort(EvaluationFailed):
    """The settings leave an input too little room; `number` is its position, for who names it."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number


class FetchFailed(EvalError):
    """Published data did not arrive; the message says whether the same command may help."""


class EvidenceMismatch(EvalError):
    """Outcomes of different suites, examples or software were about to be compared."""

"""The service level objective as code: what is promised, how fast its budget burns, who is told."""

from serving.slo.promise import SLO, Sli

__all__ = ["SLO", "Sli"]

"""Converters: what a file of a published corpus says, as examples.

Each is a set of options, as they are written in a suite's definition, with a method that makes
examples of verified bytes. They do no I/O.
"""

from typing import Annotated

import pydantic

from evals.converters.base import Files
from evals.converters.labeled import Labeled
from evals.converters.m2 import M2
from evals.converters.parallel import Parallel
from evals.converters.records import Csv, Jsonl
from evals.converters.tei import Tei
from evals.converters.typos import Typos

AnyConverter = Annotated[
    M2 | Parallel | Tei | Csv | Jsonl | Labeled | Typos, pydantic.Field(discriminator="name")
]

__all__ = ["M2", "AnyConverter", "Csv", "Files", "Jsonl", "Labeled", "Parallel", "Tei", "Typos"]

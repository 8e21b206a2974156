"""YAML as settings need it: plain data, each key once, no aliases, no tags, finite numbers.

An alias is a reference when it is read and a copy when it is written down again: ten lines of them
(the "billion laughs") fill any memory. Settings have no use for them, so they are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from typing import Any

import yaml

from registry.wording import SHOWN_CHARS, shown

PLAIN_TAGS = (None, "!")
MAX_INT = 2**63 - 1
_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)")


def parse(text: str) -> Any:
    """The value of a YAML document; None where it is empty.

    Raises:
        ValueError: it is not YAML, or not plain data; says where.
    """
    try:
        return yaml.load(text, Loader=_Strict)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ValueError(f"{exc.problem or exc.context}{where}") from exc
    except yaml.YAMLError as exc:
        raise ValueError(" ".join(str(exc).split())) from exc
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc


class _Strict(yaml.SafeLoader):
    """A SafeLoader that says no more often."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _refused(f"the alias *{event.anchor} is not accepted; write the value", event)
        tag = getattr(event, "tag", None)
        if tag not in PLAIN_TAGS:
            raise _refused(f"the tag {shown(tag)} is not accepted; leave it out", event)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in getattr(node, "value", ()):
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise _refused(f"key {shown(key.value)} is given more than once", key)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)

    def construct_scalar(self, node: Any) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
            raise _refused(f"{shown(value)} holds half a character", node)
        return value

    def construct_yaml_int(self, node: Any) -> int:
        if not _INT.fullmatch(node.value):  # 1:30 is 90 in YAML 1.1 and 0777 is 511
            raise _refused(f"{shown(node.value)} is read in different ways; write it plainly", node)
        value = super().construct_yaml_int(node) if len(node.value) <= SHOWN_CHARS else MAX_INT + 1
        if abs(value) > MAX_INT:
            raise _refused(f"{shown(node.value)} is too large for a number", node)
        return value

    def construct_yaml_float(self, node: Any) -> float:
        if ":" in node.value:
            raise _refused(f"{shown(node.value)} is read in different ways; write it plainly", node)
        value = super().construct_yaml_float(node)
        if not math.isfinite(value):
            raise _refused(f"{shown(node.value)} is not a finite number", node)
        return value


_Strict.add_constructor("tag:yaml.org,2002:float", _Strict.construct_yaml_float)
_Strict.add_constructor("tag:yaml.org,2002:int", _Strict.construct_yaml_int)


def _refused(why: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, why, at.start_mark)

"""The meanings of instruction attributes in words, from their rows or their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from hlo_cli.report.numbers import format_count
from hlo_cli.syntax.attribute_table import Kind, attribute_named, attributes_of

_WINDOW: Final = {
    "stride": "stride",
    "pad": "low_high padding",
    "lhs_dilate": "base dilation",
    "rhs_dilate": "window dilation",
    "rhs_reversal": "reversed (1 = yes):",
}
_IOTA_GROUPS = re.compile(r"\[([0-9]{1,18}),([0-9]{1,18})\]<=")
_GROUP = re.compile(r"\{([\d,\s]*)\}")


def describe_attribute(opcode: str, name: str, value: str) -> str:
    """The meaning of an attribute in an instruction of this opcode; empty if unknown.

    >>> describe_attribute("fusion", "kind", "kLoop"), describe_attribute("transpose", "dimensions", "{1,0}")
    ('loop over the output elements', 'operand dimension of each result dimension')
    """
    row = attributes_of(opcode).get(name) or attribute_named(name)
    if row is None:
        return ""
    if row.kind in _COMPUTED and (description := _COMPUTED[row.kind](value)):
        return description
    return row.words.get(value.strip('"')) or row.meaning


def attribute_label(name: str) -> str:
    """A short label for an attribute, shown in front of its value.

    >>> attribute_label("lhs_contracting_dims"), attribute_label("kind")
    ('lhs contracting', 'kind')
    """
    row = attribute_named(name)
    return (row.label if row is not None else "") or name


def _settings(value: str) -> str:
    """The nonempty settings of a backend configuration, by their keys."""
    import json

    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, dict):
        return ""
    settings = [f"{key} {item}" if isinstance(item, int | str) else str(key) for key, item in found.items() if item]
    return f"backend configuration: {', '.join(settings) or 'all empty'}"


def _groups(value: str) -> str:
    if (iota := _IOTA_GROUPS.match(value)) is not None:
        return f"{format_count(int(iota[1]), 'groups')} of {format_count(int(iota[2]), 'devices')}"
    if value.replace(" ", "") in ("{}", "{{}}"):
        return "one group of all devices"
    sizes = {len(group.split(",")) for group in _GROUP.findall(value[1:])} if value.startswith("{") else set()
    number = len(_GROUP.findall(value[1:])) if sizes else 0
    return f"{format_count(number, 'groups')} of {format_count(sizes.pop(), 'devices')}" if len(sizes) == 1 else ""


def _labels(value: str) -> str:
    parts = re.fullmatch(r"([0-9bf?]+)_([0-9io?]+)->([0-9bf?]+)", value)
    if parts is None:
        return ""
    return (
        f"operands {parts[1]} and {parts[2]}, result {parts[3]} "
        "(b: batch, f: feature, i: input feature, o: output feature, digits: spatial)"
    )


def _window(value: str) -> str:
    fields = dict(part.split("=", 1) for part in value.strip("{}").split() if "=" in part)
    parts = [f"{fields['size'].replace('x', ' × ')} elements"] if "size" in fields else []
    parts += [f"{words} {fields[name].replace('x', ' × ')}" for name, words in _WINDOW.items() if name in fields]
    return ", ".join(parts)


_COMPUTED: Final[dict[Kind, Callable[[str], str]]] = {
    Kind.STRING_OR_JSON: _settings,
    Kind.REPLICA_GROUPS: _groups,
    Kind.DIM_LABELS: _labels,
    Kind.WINDOW: _window,
}
"""Descriptions that are computed from a value."""

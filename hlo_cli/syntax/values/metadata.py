"""Metadata read from the text of its attribute. Mirrors `ParseMetadata` of xla/hlo/parser/hlo_parser.cc."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.notation import unquote
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.syntax.scanning.scanner import STRING

_FIELD = lazy_regex(rf"(?<![A-Za-z_])([A-Za-z_]++)=({STRING}|-?[0-9]++|\{{[0-9, \t]*+\}}|(?=\{{))", re.DOTALL)
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_KINDS: Final = {
    "op_type": str,
    "op_name": str,
    "source_file": str,
    "source_line": int,
    "source_end_line": int,
    "source_column": int,
    "source_end_column": int,
    "profile_type": tuple,
    "deduplicated_name": str,
    "scheduling_name": str,
    "stack_frame_id": int,
    "metadata_payload": str,
}


@lru_cache(maxsize=1 << 14)
def parse_metadata(value: str) -> Metadata:
    """The value of a metadata attribute; keys without a field in `Metadata` are skipped.

    Read once for all instructions with the same text, as clones have it by the hundred.

    >>> parse_metadata('{op_name="jit(f)/add" source_file="a.py" source_line=3}').source_line
    3
    """
    fields: dict[str, str | int | tuple[int, ...]] = {}
    for key, text in _FIELD.findall(value):
        kind, first = _KINDS.get(key), text[:1]
        if kind is str and (first == '"' or first == "'"):
            fields[key] = unquote(text)
        elif kind is int and (first == "-" or first.isdigit()):
            fields[key] = int(text[:18])
        elif kind is tuple and first == "{":
            fields[key] = tuple(map(int, _NUMBER.findall(text)))
    return Metadata(**fields)  # type: ignore[arg-type]

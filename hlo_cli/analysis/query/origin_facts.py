"""Fields of instructions and values that are the keys of `--by`: origins, inferred for those without metadata."""

from __future__ import annotations

from functools import cache
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import Value
from hlo_cli.analysis.origin.origins import By, Keys, keys_of
from hlo_cli.analysis.query.fields import FieldValue, Kind, Reader
from hlo_cli.analysis.query.instruction_facts import ReadFact
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module

ORIGIN_FIELDS: Final[dict[str, By]] = {
    "origin_source": "source",
    "origin_scope": "scope",
    "origin_argument": "argument",
}
"""The fields, and the grouping of `--by` whose keys they have."""


class OriginFacts:
    """Origins of instructions and values, computed on first use."""

    def __init__(self, module: Module) -> None:
        """Prepares the facts; nothing is computed yet."""

        @cache
        def keys(by: By) -> Keys:
            return keys_of(module, by)

        self._keys = keys

    def readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of instructions by name."""

        def reader(by: By) -> ReadFact:
            def read(instruction: Instruction) -> FieldValue:
                return self._keys(by)(instruction)

            return read

        return {name: ("text", reader(by)) for name, by in ORIGIN_FIELDS.items()}

    def value_readers(self) -> dict[str, Reader[Value]]:
        """The same fields of values, which may be elements of tuples."""

        def reader(by: By) -> Reader[Value]:
            return Reader("text", lambda value: self._keys(by)(value.instruction, value.index))

        return {name: reader(by) for name, by in ORIGIN_FIELDS.items()}

"""What tests of protos have in common: what a module says, and the protos in `fixtures/`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import wrapped_opcode
from hlo_cli.source import Source
from hlo_cli.syntax.proto.read_module import read_proto
from hlo_cli.syntax.proto.write_module import unrepresentable_attributes
from hlo_cli.syntax.values.attribute_values import parse_metadata
from strategies import FIXTURES

PROTOS = tuple(sorted(FIXTURES.glob("*/*/*.hlo.pb")))
"""Dumps as XLA writes them: a `HloProto` with buffer assignment and schedule."""

_SUBNORMAL = re.compile(r"\b[0-9.]+e-(?:3[89]|4[0-9])\b")

NOTHING: Mapping[Instruction, Instruction] = MappingProxyType({})
Said = dict[str, object]


def read(data: bytes) -> Module:
    """The module in a proto."""
    return read_proto(data, Source("m.hlo.pb", ""))


def text_beside(path: Path) -> Path:
    """The text of the module in a proto."""
    return path.with_name(path.name.removesuffix(".hlo.pb") + ".txt")


def has_short_forms(module: Module) -> bool:
    """Whether instructions are written in a form that only text has."""
    return any(
        wrapped_opcode(i.opcode) is not None or i.index in i.computation.operand_indices for i in module.instructions
    )


def said(
    module: Module,
    *,
    without: tuple[str, ...] = (),
    elided: frozenset[str] = frozenset(),
    given: Mapping[Instruction, Instruction] = NOTHING,
) -> Said:
    """All that a module says, one entry for each thing that can differ, as values.

    The order of computations follows from the age of who calls them, which text does not tell. The header says it `without` some attributes. Constants that are `elided` have no values.
    `given` are instructions for which others speak.
    """
    passed = (*unrepresentable_attributes(module), *without)
    rows: Said = {"module": (module.name, module.entry.name, module.is_scheduled, module.stack_frames)}
    rows |= {f"header {a.name}": module.header_value(a.name) for a in module.header if a.name not in passed}
    for computation in module.computations:
        root = computation.root.name if computation.root is not None else None
        names = tuple(i.name for i in computation.instructions)
        parameters = tuple(p.name for p in computation.parameters)
        rows[computation.name] = (computation.execution_thread, root, parameters, names)
        for i in computation.instructions:
            operands, called = (tuple(each.name for each in some) for some in (i.operands, i.called_computations))
            place = f"{computation.name} {i.name}"
            i = given.get(i, i)
            rows[place] = (
                i.opcode,
                i.shape,
                operands,
                called,
                parse_metadata(i.attribute("metadata") or ""),
                i.parameter_number,
            )
            rows |= {f"{place} {a.name}": i.value(a.name) for a in i.attributes if a.name != "metadata"}
            if i.literal is not None:
                rows[f"{place} values"] = "{...}" if place in elided else _values(i.literal.to_string())
    return rows


def elided_in(module: Module) -> frozenset[str]:
    """The constants whose values a dump leaves out."""
    found = (i for i in module.instructions if i.literal is not None and i.literal.is_elided)
    return frozenset(f"{i.computation.name} {i.name}" for i in found)


def _values(text: str) -> str:
    """Values as text; TPU compilers print numbers too small for full precision as 0."""
    return _SUBNORMAL.sub("0", text)

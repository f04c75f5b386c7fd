"""What may `--where` of `hlo profile` ask? Measured fields next to those of instructions.

Only filters need this file: it reads the grammar of expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hlo_cli.analysis.profile.profile import Profile
from hlo_cli.analysis.query.fields import fields_of
from hlo_cli.analysis.query.where import Fields, FieldValue, Kind, Predicate, Reader, predicate
from hlo_cli.commands.profile.timed import Timed
from hlo_cli.ir.expressions import Call, Where
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.traces.trace import PS
from hlo_cli.read_input import read_module
from hlo_cli.source import Source
from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES
from hlo_cli.syntax.conditions import parse_where


def timed_where(expression: str, profile: Profile) -> Predicate[Timed]:
    """Whether an expression matches an operation: its times, and its instruction in the module of its program.

    A field of instructions does not apply to kernels without one.
    """
    where = parse_where(expression)
    own = _own_fields(profile.total_ps * PS)
    modules = list(dict.fromkeys(timed.module for timed in profile.programs if timed.module is not None))
    tests: dict[Module | None, Predicate[Timed]] = {}
    for module in modules:
        fields: Fields[Timed] = fields_of(
            module, ATTRIBUTE_NAMES, _instruction, lambda timed: _instruction(timed).shape
        )
        tests[module] = predicate(where, replace(fields, readers={**fields.readers, **own}))
    tests[None] = predicate(where, _without_instruction(modules[0] if modules else _empty_module(), own))

    def holds(timed: Timed) -> bool | None:
        program = timed.operation.program
        module = program.module if program is not None and timed.operation.is_joined else None
        return tests[module](timed)

    return holds


def _instruction(timed: Timed) -> Instruction:
    assert timed.operation.instruction is not None
    return timed.operation.instruction


def _own_fields(total_seconds: float) -> Mapping[str, Reader[Timed]]:
    return {
        "instruction": Reader("name", lambda timed: timed.instruction_name),
        "kernel": Reader("names", lambda timed: timed.operation.kernels or (timed.operation.name,)),
        "joined": Reader("flag", lambda timed: timed.operation.is_joined),
        "category": Reader("text", lambda timed: timed.operation.category or None),
        "module": Reader("text", lambda timed: timed.operation.program.name if timed.operation.program else None),
        "calls": Reader("count", lambda timed: timed.measure.calls),
        "time": Reader("seconds", lambda timed: timed.measure.total),
        "self_time": Reader("seconds", lambda timed: timed.measure.self_time),
        "mean_time": Reader("seconds", lambda timed: timed.measure.mean),
        "share": Reader("share", lambda timed: timed.measure.busy_time / total_seconds if total_seconds else None),
        "achieved_bandwidth": Reader("bytes", lambda timed: timed.rates.bytes),
        "achieved_flops": Reader("count", lambda timed: timed.rates.flops),
        "roofline_fraction": Reader("share", lambda timed: timed.rates.efficiency),
    }


def _without_instruction(module: Module, own: Mapping[str, Reader[Timed]]) -> Fields[Timed]:
    """The fields of kernels without an instruction: those of instructions exist, and have no value."""
    fields: Fields[Timed] = fields_of(module, ATTRIBUTE_NAMES, _instruction, lambda each: _instruction(each).shape)

    def nothing(kind: Kind) -> Reader[Timed]:
        return Reader(kind, _no_value)

    def never(where: Where, call: Call) -> Predicate[Timed]:
        return lambda each: False

    def place(name: str) -> Reader[Timed] | None:
        return nothing("attribute")

    def attribute(name: str) -> Reader[Timed] | None:
        return None if fields.attribute(name) is None else nothing("attribute")

    readers = {name: nothing(reader.kind) for name, reader in fields.readers.items()}
    return Fields(
        {**readers, **own},
        places=dict.fromkeys(fields.places, place),
        attribute=attribute,
        others=fields.others,
        functions=dict.fromkeys(fields.functions, never),
    )


def _empty_module() -> Module:
    """A module without instructions, whose fields have the names of those of any other."""
    return read_module(Source("", "HloModule empty\n\nENTRY e {\n  ROOT r = () tuple()\n}\n"))


def _no_value(each: Timed) -> FieldValue:
    return None

"""`hlo parse --why`: where one instruction comes from, in the user's program and in the compiler."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.origin.inferred_origins import original_array
from hlo_cli.analysis.origin.origins import first_dumps, origins_of
from hlo_cli.analysis.origin.scopes_and_moves import Origin, Step
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of, read_one
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.inputs.dumps import PassName, earlier_dumps, pass_between
from hlo_cli.inputs.input import Input, read_inputs
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix, read_value_name
from hlo_cli.ir.shape import ShapeIndex, subshape
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Fact, Facts, Table, rows_from, rows_from_tuples
from hlo_cli.source import HloError

_PASSED: Final = (
    "argument of a branch",
    "carried by a loop from",
    "element of",
    "loop carry of",
    "operand of",
    "operand of the caller",
    "result of",
    "same value as",
)
"""Relations of values that are passed on without being moved."""
_MOST_MOVES: Final = 3  # the answer is one sentence; the table has all moves
_BODIES: Final = (opcodes.FUSION, opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE)
"""Opcodes whose result is made in a body: its last move does not say what they are."""
_STACK: Final = (
    Column("call", "call", "line", of=lambda number, call: number),
    Column("source", "stack", "source", role="name", of=lambda number, call: str(call)),
    Column("function", "function", of=lambda number, call: call.function or None),
)
_MOVES: Final[tuple[Column[Step], ...]] = (
    Column("relation", "moves", of=lambda step: step.relation),
    Column("name", "value", "name", role="name", of=lambda step: step.value[0].name + index_suffix(step.value[1])),
    Column("opcode", "opcode", "opcode", of=lambda step: step.value[0].opcode),
    Column("shape", "shape", "shape", of=lambda step: str(subshape(step.value[0].shape, step.value[1]) or "")),
    Column("computation", "computation", "name", rank=2, of=lambda step: step.value[0].computation.name),
)


def report_of_origin(loaded: Loaded, name: str, reading: InputOptions, argument: str) -> Report:
    """The origin of an instruction, or of an element of its result, given by name; `argument` names the input."""
    module = loaded.module
    instruction, index = _chosen(module, name)
    origins = origins_of(module)
    origin = origins.of_value(instruction, index)
    own_name = origins.own(instruction).op_name
    moves = origins.moves_of(instruction, index)
    made_by = _made_by(loaded, instruction, reading)
    original = original_array(instruction, index)
    value = instruction.name + index_suffix(index)
    facts = tuple(
        Fact(label, remark=words, is_whole=True)
        for label, words in _facts(instruction, origin, own_name, made_by, str(original or ""))
        if words
    )
    return Report(
        "parse",
        _origin_answer(value, instruction, origin, moves),
        numbers=_numbers(
            value, instruction, origin, own_name, made_by, str(original) if original is not None else None
        ),
        parts=(Facts("origin", facts), _stack(origin), _moves_table(moves)),
        next=(f"hlo parse {argument} --explain {shlex.quote(instruction.name)}",),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def _chosen(module: Module, text: str) -> tuple[Instruction, ShapeIndex]:
    named = read_value_name(text)
    if named is None:
        hint = "use a name such as fusion.2, or fusion.2{1} for a tuple element"
        raise HloError(f"invalid instruction name '{text}'", hint=hint)
    name, index = named
    instruction = module.instruction(name)
    if subshape(instruction.shape, index) is None:
        raise HloError(f"{instruction.name} has no element {index_suffix(index)}: its shape is {instruction.shape}")
    return instruction, index


def _origin_answer(value: str, instruction: Instruction, origin: Origin, moves: Sequence[Step]) -> str:
    """What the value is, whether that is inferred, and the line and the scope that it is from, or for."""
    what = _what(instruction, origin, moves)
    place = os.path.basename(origin.source)
    if not what and not place:
        return f"The origin of {value} is unknown: it has no metadata, and none of its operands and users has"
    inferred = " (inferred)" if origin.is_inferred else ""
    is_for = origin.relation == "used by" or instruction is origin.argument
    scope = f" in {origin.scope}" if origin.scope else ""
    words = f"{', ' if what else ''}{'for' if is_for else 'from'} {place}{scope}" if place else ""
    if instruction is origin.argument or not what:  # which argument it is, is not inferred, but the line is
        return f"{value} is {what}{words}{inferred}"
    return f"{value} is {what}{inferred}{words}"


def _what(instruction: Instruction, origin: Origin, moves: Sequence[Step]) -> str:
    if origin.argument is instruction:
        label = "" if origin.argument_name == instruction.name else f", {origin.argument_name}"
        return f"argument {instruction.parameter_number}{label}"
    relations = list(dict.fromkeys(step.relation for step in moves if step.relation not in _PASSED))
    words = " ".join(_with_article(relation) for relation in relations[:_MOST_MOVES])
    if origin.argument is not None:
        return f"{words} {origin.argument_name}" if words else f"the argument {origin.argument_name}"
    if words and instruction.opcode not in _BODIES:
        return f"{words} {moves[-1].value[0].name}{index_suffix(moves[-1].value[1])}"
    if origin.teller is None:
        return ""
    return f"{_with_article(origin.relation)} {origin.teller.name}"


def _with_article(relation: str) -> str:
    """A relation as it follows `is`.

    >>> _with_article("all-gather of"), _with_article("prefetch of"), _with_article("used by")
    ('an all-gather of', 'a prefetch of', 'used by')
    """
    if not relation.endswith(" of") or relation in ("part of", "result of"):
        return relation
    return f"{'an' if relation[0] in 'aeiou' else 'a'} {relation}"


def _facts(
    instruction: Instruction, origin: Origin, own_name: str, made_by: PassName | None, original: str
) -> Iterator[tuple[str, str]]:
    yield "opcode", f"{instruction.opcode} in {instruction.computation.name}"
    yield "op_name", own_name or origin.op_name
    yield "scope", origin.scope
    if (argument := origin.argument) is not None:
        label = f": {origin.argument_name}" if origin.argument_name != argument.name else ""
        yield "argument", f"{argument.parameter_number}, {argument.name}{label}"
    if (teller := origin.teller) is not None:
        inside = f" in {teller.computation.name}" if teller.computation is not instruction.computation else ""
        yield "inferred from", f"{teller.name}{inside} ({origin.relation})"
    yield "original value", original
    if made_by is not None and made_by.number is None:
        yield "made by", "a pass after the last per-pass dump"
    elif made_by is not None:
        yield "made by", f"pass {made_by.number:04} {made_by.name} of {made_by.pipeline}"


def _stack(origin: Origin) -> Table:
    rows = rows_from_tuples(_STACK, enumerate(origin.stack))
    return Table("stack", _STACK, rows, noun="calls", limit=0)


def _moves_table(moves: Sequence[Step]) -> Table:
    rows = rows_from(_MOVES, moves)
    return Table("moves", _MOVES, rows, noun="moves", main=False, person=len(rows) > 1)


def _numbers(
    value: str, instruction: Instruction, origin: Origin, own_name: str, made_by: PassName | None, original: str | None
) -> dict[str, Cell]:
    argument, teller = origin.argument, origin.teller
    return {
        "value": value,
        "opcode": instruction.opcode,
        "computation": instruction.computation.name,
        "op_name": own_name or origin.op_name or None,
        "scope": origin.scope or None,
        "source": origin.source or None,
        "is_inferred": origin.is_inferred,
        "inferred_from": teller.name if teller is not None else None,
        "relation": origin.relation or None,
        "argument": origin.argument_name or None,
        "argument_number": argument.parameter_number if argument is not None else None,
        "argument_parameter": argument.name if argument is not None else None,
        "original_value": original,
        "pass": made_by.name if made_by is not None and made_by.number is not None else None,
        "pass_number": made_by.number if made_by is not None else None,
        "pipeline": made_by.pipeline if made_by is not None else None,
    }


def _made_by(loaded: Loaded, instruction: Instruction, reading: InputOptions) -> PassName | None:
    """The pass after which the instruction exists; None without per-pass dumps, and for instructions of the program."""
    read = loaded.input
    if read.path is None or read.dump is None or instruction.opcode == opcodes.PARAMETER:
        return None
    dumps = earlier_dumps(read.path, read.dump)
    back = first_dumps(loaded.module, _modules(reversed(dumps), reading), (instruction,))[instruction]
    first = len(dumps) - back
    if not dumps or first == 0:
        return None
    stages = [*(stage for _, stage in dumps), read.dump.stage]
    return pass_between(stages[first - 1], stages[first])


def _modules(dumps: Iterator[tuple[str, str]], reading: InputOptions) -> Iterator[Module]:
    for path, _ in dumps:
        dump: Input
        for dump in read_inputs([path])[:1]:
            yield read_one(dump, reading).module

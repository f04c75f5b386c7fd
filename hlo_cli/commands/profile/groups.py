"""`hlo profile TRACE --by GROUP`: measured times, summed up by what the instructions have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.origin.origins import COMPUTED_KEY, NO_SCOPE_KEY, OTHER_KEYS, UNKNOWN_KEY, Key, keys_of
from hlo_cli.analysis.query.fields import NO_AXES
from hlo_cli.commands.modules.by import Group, group_by, key_cells, key_columns, where_key
from hlo_cli.commands.options.declaring import cause_of
from hlo_cli.commands.options.io_options import format_options
from hlo_cli.commands.profile.columns import rate_cells, rate_columns, time_cells, time_columns
from hlo_cli.commands.profile.timed import NO_INSTRUCTION, Sum, Timed, sum_of
from hlo_cli.commands.profile.words import facts_of, numbers_of
from hlo_cli.report.numbers import format_count, format_percent
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Row, Table

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import By, Keys
    from hlo_cli.analysis.profile.profile import MeasuredProgram
    from hlo_cli.analysis.sharding.collectives import Collective
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.ir.instruction import Computation, Instruction
    from hlo_cli.ir.module import Module

NO_COLLECTIVE: Final = "(no collective)"
_OF: Final = " of "
"""What stands between the name of a computation and that of its program, if several programs have such a one."""
_UNNAMED: Final = (*OTHER_KEYS, NO_INSTRUCTION, NO_COLLECTIVE, NO_AXES)
_TABLES: Final = {
    "source": "sources",
    "scope": "scopes",
    "argument": "arguments",
    "opcode": "opcodes",
    "kind": "kinds",
    "axis": "axes",
    "computation": "computations",
    "module": "modules",
}


def report_of_groups(measured: Measured, grouping: str) -> Report:
    """One row for each key of a grouping, the longest first."""
    groups = sorted(
        ((sum_of(group.members), group) for group in group_by(measured.selected, _key_of(measured, grouping))),
        key=lambda found: (-found[0].busy_time, -found[0].self_time, found[1].key),
    )
    return Report(
        "profile",
        _answer(measured, grouping, groups),
        version=1,
        numbers=numbers_of(measured),
        parts=(facts_of(measured), _table(measured, grouping, groups)),
        next=_next(measured, grouping, groups),
        notes=measured.notes,
        input=measured.loaded.facts,
    )


def _table(measured: Measured, grouping: str, groups: Sequence[tuple[Sum, Group[Timed]]]) -> Table:
    by = cause_of(grouping)
    trips = _trips(measured) if grouping == "computation" else {}
    rates = [rate_cells(measured, each) for each, _ in groups]
    has_inferred = any(group.inferred for _, group in groups)
    columns: tuple[Column, ...] = (
        *time_columns(measured),
        Column("instructions", "instr.", "count", total="sum", rank=6),
        *rate_columns(measured, rates),
    )
    if by is None:
        more = (Column("trips", "trips", "number", person=bool(trips)),) if grouping == "computation" else ()
        columns = (*columns, *more, Column(grouping, grouping, "opcode" if grouping == "opcode" else "text"))
    else:
        keys = key_columns(by, "self_seconds", [group for _, group in groups], has_inferred=has_inferred)
        inferred = Column("inferred_seconds", "inferred", "seconds", total="sum", person=False)
        share = Column("inferred_share", "inferred", "percent", person=has_inferred, from_width=120, rank=4)
        columns = (*columns, keys[0], inferred, share, keys[-1])
    rows = tuple(
        (
            *time_cells(measured, each),
            each.operations,
            *cells,
            *((trips.get(group.key),) if grouping == "computation" else ()),
            *_key_cells(group, by),
        )
        for (each, group), cells in zip(groups, rates, strict=True)
    )
    return Table(_TABLES[grouping], columns, rows, noun="rows")


def _trips(measured: Measured) -> Mapping[str, float]:
    """The measured trip counts of loops by the keys of their bodies."""
    from hlo_cli.analysis.profile.measure import measured_trips

    calls = [each.measure.calls for each in measured.every]
    found = measured_trips(measured.profile, calls)
    keys = _computation_keys(measured)
    bodies = {loop.called_computations[0]: trips for loop, trips in found.items()}
    return {key: bodies[computation] for (_, computation), key in keys.items() if computation in bodies}


def _computation_key(measured: Measured) -> Callable[[Timed], str]:
    keys = _computation_keys(measured)

    def key(each: Timed) -> str:
        instruction, program = each.operation.instruction, each.operation.program
        return NO_INSTRUCTION if instruction is None or program is None else keys[program, instruction.computation]

    return key


def _computation_keys(measured: Measured) -> Mapping[tuple[MeasuredProgram, Computation], str]:
    """The name of each computation, with that of its program if computations of other programs have the same."""
    found = [
        (program, computation)
        for program in measured.profile.programs
        if program.module is not None
        for computation in program.module.computations
    ]
    counts = Counter(computation.name for _, computation in found)
    return {
        (program, computation): f"{computation.name}{_OF}{program.name}"
        if counts[computation.name] > 1
        else computation.name
        for program, computation in found
    }


def _key_cells(group: Group[Timed], by: By | None) -> Row:
    if by is None:
        return (group.key,)
    inferred = sum(each.measure.self_time for each in group.inferred)
    whole = sum(each.measure.self_time for each in group.members)
    layers, _, _, key = key_cells(group, 0, 0)
    return layers, inferred, inferred / whole if whole else None, key


def _key_of(measured: Measured, grouping: str) -> Callable[[Timed], Key]:
    if (by := cause_of(grouping)) is not None:
        return _cause_key(by)
    read = {
        "opcode": lambda each: each.operation.instruction.opcode,
        "kind": lambda each: each.operation.category,
        "computation": _computation_key(measured),
        "module": lambda each: each.operation.program.name,
        "axis": _axis_key(),
    }[grouping]

    def key(each: Timed) -> Key:
        is_known = each.operation.is_joined if grouping != "module" else each.operation.program is not None
        text = read(each) if is_known else NO_INSTRUCTION
        return Key(text, text)

    return key


def _cause_key(by: By) -> Callable[[Timed], Key]:
    found: dict[Module, Keys] = {}
    nothing = Key(NO_INSTRUCTION, NO_INSTRUCTION)

    def key(each: Timed) -> Key:
        instruction, program = each.operation.instruction, each.operation.program
        if instruction is None or program is None or program.module is None:
            return nothing
        if program.module not in found:
            found[program.module] = keys_of(program.module, by)
        return found[program.module].of(instruction)

    return key


def _axis_key() -> Callable[[Timed], str]:
    """The mesh axes of a collective, and of the start, done, or fusion around it."""
    found: dict[Module, dict[Instruction, Collective]] = {}

    def key(each: Timed) -> str:
        from hlo_cli.analysis.sharding.collectives import collectives_of

        instruction, program = each.operation.instruction, each.operation.program
        if instruction is None or program is None or program.module is None:
            return NO_COLLECTIVE
        if program.module not in found:
            listed = collectives_of(program.module)
            found[program.module] = {
                **{collective.caller: collective for collective in listed},
                **{collective.instruction: collective for collective in listed},
            }
        at = [instruction, *(instruction.operands[:1] if instruction.opcode.endswith("-done") else ())]
        collective = next((found[program.module][each] for each in at if each in found[program.module]), None)
        return NO_COLLECTIVE if collective is None else collective.axis or NO_AXES

    return key


def _answer(measured: Measured, grouping: str, groups: Sequence[tuple[Sum, Group[Timed]]]) -> str:
    if not groups:
        return f"No matches among {format_count(len(measured.every), 'operations')}"
    whole, largest = measured.whole, groups[0]
    each, group = next((found for found in groups if found[1].key not in _UNNAMED), largest)
    words = f"{_subject(group.key, grouping)} {'take' if group.key in _UNNAMED else 'takes'}"
    words += f" {format_percent(each.busy_time / whole) if whole else 100}% of {measured.whole_words}"
    if group is not largest[1] and whole:
        share = format_percent(largest[0].busy_time / whole)
        words += f"; {_unnamed_words(largest[1].key, grouping)} take {share}%"
    is_sentence = group.key in _UNNAMED or grouping == "axis"
    return f"{words[0].upper()}{words[1:]}" if is_sentence else words


def _subject(key: str, grouping: str) -> str:
    """A key as the subject of a sentence."""
    if key in _UNNAMED:
        return _unnamed_words(key, grouping)
    if grouping == "source":
        return key.rpartition("/")[2]
    return f"axis {key}" if grouping == "axis" and key != "-" else key


def _unnamed_words(key: str, grouping: str) -> str:
    """What has a key that names no cause."""
    words = {
        NO_INSTRUCTION: "kernels without an instruction",
        NO_COLLECTIVE: "operations that are not collectives",
        NO_AXES: "collectives of no axis",
        UNKNOWN_KEY: f"instructions of unknown {grouping}",
        NO_SCOPE_KEY: "instructions without a scope",
        COMPUTED_KEY: "computed values",
    }
    return words.get(key, key.strip("()"))


def _next(measured: Measured, grouping: str, groups: Sequence[tuple[Sum, Group[Timed]]]) -> tuple[str, ...]:
    command, by = measured.command, cause_of(grouping)
    key = next((group.key for _, group in groups if group.key not in _UNNAMED), None)
    if not command or key is None:
        return ()
    if by is not None:
        where = where_key(by, key)
    else:
        field = {"opcode": "opcode", "kind": "category", "axis": "axis", "computation": "computation"}.get(grouping)
        key, _, program = key.partition(_OF) if grouping == "computation" else (key, "", "")
        where = f"--where '{field or 'module'} == \"{key}\"'" if not set(key) & set("'\"\\") else None
        if where is not None and program and measured.module is None:
            where = f"{format_options((('--module', program),))} {where}"
    return () if where is None else (f"{command} {where}",)

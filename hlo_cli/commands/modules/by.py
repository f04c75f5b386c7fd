"""Which line, scope, argument, or pass causes a cost? The keys of `--by`, their groups, and the first line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Generic, TypeAlias, TypeVar

from hlo_cli.analysis.origin.origins import (
    ARGUMENTS_KEY,
    COMPUTED_KEY,
    LATER_KEY,
    NO_SCOPE_KEY,
    OTHER_KEYS,
    PROGRAM_KEY,
    UNKNOWN_KEY,
    By,
    Key,
    Keys,
    first_dumps,
    keys_of,
)
from hlo_cli.commands.modules.loading import Loaded, read_one
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import earlier_dumps, pass_between
from hlo_cli.inputs.input import read_inputs
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.report.numbers import format_bytes, format_part, format_percent, format_seconds
from hlo_cli.report.table import Column, Share, Table, Unit, with_cell, with_columns
from hlo_cli.source import HloError

# --- the keys of a module ---
# The keys of `--by`: those of a module or, for `pass`, those that its per-pass dumps give.


def keys_for(loaded: Loaded, by: By) -> Keys:
    """The keys of a module's values; HloError for `pass` if there are no per-pass dumps next to the module."""
    return keys_of(loaded.module, by, _passes(loaded) if by == "pass" else None)


def _passes(loaded: Loaded) -> Mapping[Instruction, str]:
    """The pass that made each instruction: the one before the first dump from which on it is in all dumps."""
    read = loaded.input
    dumps = [] if read.path is None or read.dump is None else earlier_dumps(read.path, read.dump)
    if read.dump is None or not dumps:
        raise HloError(
            "--by pass requires per-pass dumps in the directory of the dump",
            hint="create them with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'",
        )
    stages = [*(stage for _, stage in dumps), read.dump.stage]
    names = [
        PROGRAM_KEY,
        *(pass_between(before, stage).name for before, stage in pairwise(stages)),
    ]
    if pass_between(stages[-2], stages[-1]).number is None:
        names[-1] = LATER_KEY
    back = first_dumps(loaded.module, _modules(reversed(dumps)))
    return {instruction: names[len(dumps) - number] for instruction, number in back.items()}


def _modules(dumps: Iterable[tuple[str, str]]) -> Iterator[Module]:
    for path, _ in dumps:
        for each in read_inputs([path])[:1]:
            yield read_one(each, InputOptions()).module


# --- keys as columns ---
# Keys of `--by` as columns of tables with a row for each value, kernel, or transfer, for use in `--where`.


_COLUMNS: Final = (
    Column("origin_source", "origin", "source", rank=4, from_width=120),
    Column("origin_scope", "scope", "op_name", rank=3, from_width=120),
    Column("origin_argument", "argument", "op_name", rank=3, from_width=120),
)
_IN_DOUBLE_QUOTES: Final = frozenset('"\\$`!')
"""Characters that mean something else in a text in double quotes."""


def with_origins(
    table: Table, places: Iterable[tuple[Instruction, ShapeIndex]], module: Module, asked: Collection[str] | str
) -> Table:
    """Adds the origins of rows to a table: the columns that an expression or other texts name, as they take time.

    `places` are the instructions of the rows, with an index where a row is an element of a tuple.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('r = f32[2] iota(), iota_dimension=0, metadata={source_file="a.py" source_line=3}')
    >>> table = Table("values", (Column("value", "value", "name"),), (("r",),))
    >>> with_origins(table, [(module.entry.root, ())], module, "origin_source == x").rows
    (('r', 'a.py:3'),)
    """
    texts = (asked,) if isinstance(asked, str) else asked
    added = [column for column in _COLUMNS if any(column.name in text for text in texts)]
    if not added:
        return table
    from hlo_cli.analysis.query.fields import ORIGIN_FIELDS

    columns = [with_cell(column, _of_place(keys_of(module, ORIGIN_FIELDS[column.name]))) for column in added]
    return with_columns(table, columns, places)


def _of_place(keys: Keys) -> Callable[[tuple[Instruction, ShapeIndex]], str]:
    return lambda place: keys(*place)


def next_command(
    command: str, by: By, keys: Sequence[str], *, condition: str = "", options: str = ""
) -> tuple[str, ...]:
    """The command for the rows of the first of several keys that names a cause, else of the first one.

    `command` ends with its input; it is empty for an input that a command cannot name.

    >>> print(*next_command("hlo memspace DUMP", "source", ("(unknown)", "a.py:3")))
    hlo memspace DUMP --where 'origin_source == "a.py:3"'
    """

    key = next((key for key in keys if key not in OTHER_KEYS), next(iter(keys), None))
    where = None if key is None or not command else where_key(by, key, condition)
    return () if where is None else (f"{command} {where}{f' {options}' if options else ''}",)


def where_key(by: By, key: str, more: str = "") -> str | None:
    """The option that selects the rows of a key, for a shell; None if the key cannot be quoted, or for a pass.

    `more` is a condition to add.

    >>> where_key("source", "a.py:3", "kernel"), where_key("argument", "params['w']")
    ('--where \\'kernel and origin_source == "a.py:3"\\'', '--where "origin_argument == \\\\"params[\\'w\\']\\\\""')
    """
    if by == "pass" or '"' in key or "\\" in key:
        return None
    condition = f'{f"{more} and " if more else ""}origin_{by} == "{key}"'
    if "'" not in key:
        return f"--where {shlex.quote(condition)}"
    if _IN_DOUBLE_QUOTES & set(key):
        return None
    escaped = condition.replace('"', '\\"')
    return f'--where "{escaped}"'


# --- groups with one key ---
# Groups of values, kernels, or transfers with one key.


T = TypeVar("T")

_UNITS: Final[dict[str, Unit]] = {"source": "source", "scope": "op_name", "argument": "name", "pass": "text"}


@dataclass(frozen=True, slots=True)
class Group(Generic[T]):
    """The members with a key; those in `inferred` have it from other instructions.

    `layers` is the number of distinct names that the key stands for, such as 12 for `layers/*/attention`.
    """

    key: str
    members: tuple[T, ...]
    inferred: tuple[T, ...]
    layers: int


def group_by(members: Iterable[T], key_of: Callable[[T], Key]) -> tuple[Group[T], ...]:
    """The groups of members, in the order of their first members.

    >>> from hlo_cli.analysis.origin.origins import Key
    >>> [group] = group_by("ab", lambda letter: Key("f/*", f"f/{letter}", letter == "b"))
    >>> group.key, group.members, group.inferred, group.layers
    ('f/*', ('a', 'b'), ('b',), 2)
    """
    found: dict[str, tuple[list[T], list[T], set[str]]] = {}
    for member in members:
        key = key_of(member)
        all_members, inferred, names = found.setdefault(key.text, ([], [], set()))
        all_members.append(member)
        names.add(key.name)
        if key.is_inferred:
            inferred.append(member)
    return tuple(Group(key, tuple(many), tuple(few), len(names)) for key, (many, few, names) in found.items())


@dataclass(frozen=True, slots=True)
class KeyCost:
    """A group with its cost, of which the part `inferred` is that of members whose key is inferred."""

    group: Group[Any]
    cost: int
    inferred: int


def key_columns(
    by: By, cost: str, groups: Sequence[Group[T]], *, has_inferred: bool, inferred_from_width: int = 0
) -> tuple[Column[KeyCost], ...]:
    """The columns of the key: layers, the share of the bytes in column `cost` with an inferred key, and the key.

    `inferred_from_width` is the narrowest screen that shows the share.

    >>> from hlo_cli.report.table import row_from
    >>> row_from(key_columns("source", "bytes", (), has_inferred=True), KeyCost(Group("a.py:3", ("x",), (), 1), 8, 2))
    (1, 2, 0.25, 'a.py:3')
    """
    has_layers = by in ("scope", "argument") and any(group.layers > 1 for group in groups)
    return (
        Column("layers", "layers", "count", person=has_layers, of=lambda key: key.group.layers),
        Column("inferred_bytes", "inferred", "bytes", total="sum", person=False, of=lambda key: key.inferred),
        Column("inferred_share", "inferred", "percent", total=Share("inferred_bytes", cost), person=has_inferred,
               from_width=inferred_from_width,
               of=lambda key: key.inferred / key.cost if key.cost else None),
        Column(by, by, _UNITS[by], of=lambda key: key.group.key),
    )  # fmt: skip


# --- the first line of a report ---
# The first line of a report by cause: which key costs most, and how much of the whole.


Verb: TypeAlias = tuple[str, str]
"""A verb in the plural and in the singular."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How costs are formatted: one alone, and one out of the sum of all."""

    alone: Callable[[float], str]
    of: Callable[[float, float], str]


IN_BYTES: Final = Amount(lambda cost: format_bytes(int(cost)), lambda cost, whole: format_part(int(cost), int(whole)))
IN_SECONDS: Final = Amount(
    format_seconds, lambda cost, whole: f"{format_seconds(cost)} of the estimated {format_seconds(whole)}"
)


def describe_costs(
    costs: Sequence[tuple[str, float]], by: By, *, noun: str, verb: Verb, amount: Amount, place: str = ""
) -> str:
    """Which keys have the highest cost; `costs` are sorted, highest first, and `amount` formats them.

    If the first key names no cause, such as `(arguments)`, the first one that does is added. `noun` is that of the
    members of a key, in the plural, and `verb` what members do and what a key does.

    >>> costs = (("(arguments)", 300), ("a/b.py:3", 60), ("c.py:1", 40))
    >>> describe_costs(costs, "source", noun="values", verb=("hold", "holds"), amount=IN_BYTES, place="at the HBM peak")
    'Arguments hold 300 of 400 B at the HBM peak (75%); b.py:3 holds 60 B (15%)'
    """
    whole = sum(cost for _, cost in costs)
    first, *others = costs
    words = (_subject(first[0], by, noun, verb), amount.of(first[1], whole), *([place] if place else []))
    lead = f"{' '.join(words)}{_share(first[1], whole)}"
    lead = f"{lead[0].upper()}{lead[1:]}" if first[0] in OTHER_KEYS else lead
    if first[0] not in OTHER_KEYS:
        return lead
    named = next(((key, cost) for key, cost in others if key not in OTHER_KEYS and cost), None)
    if named is None:
        return lead
    return f"{lead}; {_subject(named[0], by, noun, verb)} {amount.alone(named[1])}{_share(named[1], whole)}"


def _share(cost: float, whole: float) -> str:
    return f" ({format_percent(cost / whole)}%)" if whole else ""


def _subject(key: str, by: By, noun: str, verb: Verb) -> str:
    """A key as the subject of a sentence, with its verb."""
    match key:
        case _ if key == UNKNOWN_KEY:
            return f"{noun} of unknown {by} {verb[0]}"
        case _ if key == ARGUMENTS_KEY:
            return f"arguments {verb[0]}"
        case _ if key == COMPUTED_KEY:
            return f"{'computed values' if noun == 'values' else f'{noun} of computed values'} {verb[0]}"
        case _ if key == PROGRAM_KEY:
            return f"{noun} of the program before the first pass {verb[0]}"
        case _ if key == LATER_KEY:
            return f"{noun} of passes after the last pass dump {verb[0]}"
        case _ if key == NO_SCOPE_KEY:
            return f"{noun} without a scope {verb[0]}"
        case _:
            return f"{key.rpartition('/')[2] if by == 'source' else key} {verb[1]}"

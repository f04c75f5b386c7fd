"""What can a shell complete? Chips, rules, columns, stages, modules, and names in the dump of the command line.

Completers have the signature that click's `shell_complete=` expects: the context with what is typed so far, the
parameter, and the incomplete word. Unreadable input completes to nothing: a shell has no place for errors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from hlo_cli.inputs.dumps import DumpName
    from hlo_cli.inputs.input import Input


Completer: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"
Choices: TypeAlias = "Callable[[], Iterable[str | tuple[str, str]]]"
"""The values of an option, each with or without a description."""

_INSTRUCTION = lazy_regex(r"(?m)^[ \t]*(?:ROOT )?%?([\w.\-]+) = (?:\(\)|\(*+[a-z]\w*+\[)")
_COMPUTATION = lazy_regex(r"(?m)^(?:ENTRY )?%?([\w.\-]+)(?: \(.*)? \{$")
_COLUMN = lazy_regex(r"(?m)^- \*\*(\w+)\*\*[^:\n]*: (.*) Shown by ([\w, -]+)\.$")
_MESH = lazy_regex(r"#sdy\.mesh<\[([^\[\]]*+)\]")
_AXIS = lazy_regex(r'"([^"]++)"=([0-9]{1,9})')
_SIZES = lazy_regex(r"\w++\[([0-9,]++)\]")
_TILES = lazy_regex(r"\{devices=\[([0-9]{1,9}(?:,[0-9]{1,9})*+)\]")
_MAXIMUM_RANK: Final = 16  # one choice for each dimension: a longer list helps nobody
_MAXIMUM_BYTES: Final = 64 << 20  # reading more would take longer than a user waits for Tab
_MAXIMUM_NAMES: Final = 1_000
"""Limits that keep a shell responsive: larger files are not read, and further names not offered."""
_MAXIMUM_PARSED: Final = 2 << 20
"""Bytes of modules that are parsed to tell which is the main one; it takes about a second."""


def one_of(choices: Choices, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes one of the values that `choices` returns; `partial` with `choices` is a completer.

    >>> import click
    >>> context, option = click.Context(click.Command("x")), click.Option(["--chip"])
    >>> [item.value for item in one_of(lambda: ("v5e", "v5p", ("h100", "NVIDIA H100")), context, option, "V5")]
    ['v5e', 'v5p']
    """
    return _matching(choices(), incomplete)


def some_of(choices: Choices, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The same for a comma-separated list of values: completes the last of them.

    >>> import click
    >>> context, option = click.Context(click.Command("x")), click.Option(["--x"])
    >>> [item.value for item in some_of(lambda: ("HLO101", "HLO102"), context, option, "HLO2,HLO1")]
    ['HLO2,HLO101', 'HLO2,HLO102']
    """
    done, comma, last = incomplete.rpartition(",")
    return _matching(choices(), last, before=done + comma)


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files and directories, listed by the shell; `DUMP:` continues with the instructions of the dump."""
    from click.shell_completion import CompletionItem

    dump, colon, start = incomplete.rpartition(":")
    if colon and os.path.exists(dump):
        return _matching(_names(ctx, (dump,), _instruction_names), start, before=f"{dump}:")
    return [CompletionItem(incomplete, type="file")]


def file_and_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The dump, and then the name of an instruction in it, such as the arguments of `hlo fuse`."""
    return (instructions if _inputs(ctx) else files)(ctx, param, incomplete)


def instructions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The instructions of the dump on the command line; of a comma-separated list, the last."""
    done, comma, last = incomplete.rpartition(",")
    return _matching(_names(ctx, _inputs(ctx), _instruction_names), last, before=done + comma)


def computations(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The computations of the dump on the command line."""
    return _matching(_names(ctx, _inputs(ctx), _computation_names), incomplete)


def stages(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The stages of compilation in the directories on the command line."""
    return _matching((dump.stage for dump in _dumps(ctx)), incomplete)


def modules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The modules in the directories on the command line."""
    return _matching((dump.module or "" for dump in _dumps(ctx)), incomplete)


def meshes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The meshes that the dump on the command line names, in the stage that is read and before optimizations."""
    meshes = (_names(ctx, _inputs(ctx), _mesh_names, stage=stage) for stage in (None, "before_optimizations"))
    return _matching((name for names in meshes for name in names), incomplete)


def shardings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shardings of the array on the command line: replicated, and along one of its dimensions."""
    shape, sharding, *_ = (*_inputs(ctx), "", "")
    sizes, tiles = _SIZES.match(shape), _TILES.search(sharding)
    rank = sizes[1].count(",") + 1 if sizes is not None else 0
    shardings = ["{replicated}"]
    if tiles is not None and 0 < rank <= _MAXIMUM_RANK:
        count = prod(map(int, tiles[1].split(",")))
        for dimension in range(rank):
            parts = ["1"] * rank
            parts[dimension] = str(count)
            shardings.append(f"{{devices=[{','.join(parts)}]<=[{count}]}}")
    return _matching(shardings, incomplete)


def tables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tables of the reports of a command."""
    from hlo_cli.report.table_meanings import table_names

    return _matching((*table_names(ctx.info_name or ""), "help"), incomplete)


def column(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A column of the command, as the glossary lists them."""
    return _matching(_columns_of(ctx.info_name or ""), incomplete)


def columns(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The columns of the command, in a comma-separated list: the last of them."""
    return some_of(lambda: _columns_of(ctx.info_name or ""), ctx, param, incomplete)


def _matching(choices: Iterable[str | tuple[str, str]], start: str, *, before: str = "") -> list[CompletionItem]:
    """The choices that begin with what is typed, in either case, each once."""
    from itertools import islice

    from click.shell_completion import CompletionItem

    helps: dict[str, str] = {}
    for choice in choices:
        value, meaning = (choice, "") if isinstance(choice, str) else choice
        if value and value.lower().startswith(start.lower().removeprefix("%")):
            helps.setdefault(value, meaning)
    return [
        CompletionItem(before + value, help=meaning or None) for value, meaning in islice(helps.items(), _MAXIMUM_NAMES)
    ]


def _inputs(ctx: click.Context) -> tuple[str, ...]:
    """The inputs on the command line so far: an argument that takes several is a tuple.

    If the last word is an option whose value is to be completed, click leaves the arguments in `args`.
    """
    import click

    arguments = [ctx.params.get(param.name or "") for param in ctx.command.params if isinstance(param, click.Argument)]
    values = (each for value in arguments for each in (value if isinstance(value, tuple) else (value,)))
    return tuple(str(value) for value in (*values, *ctx.args) if value is not None)


def _names(
    ctx: click.Context, inputs: Iterable[str], names_in: Callable[[str], Iterator[str]], *, stage: str | None = None
) -> Iterator[str]:
    """The names in the first input that is a file or directory, in its main module, found in the text."""
    from hlo_cli.inputs.input import read_inputs

    dump = next(filter(os.path.exists, inputs), None)
    if dump is None:
        return
    module = ctx.params.get("module")
    stage = stage or ctx.params.get("stage")
    try:
        chosen = _main_of(read_inputs([dump], stage=stage, module=module, maximum_bytes=_MAXIMUM_BYTES))
    except (HloError, OSError):
        return
    if chosen.proto is None:
        yield from names_in(chosen.source.text)


def _main_of(inputs: Sequence[Input]) -> Input:
    """The main module, as commands take it; the largest of many that are too large to be parsed while a user waits."""
    from hlo_cli.inputs.input import select_module
    from hlo_cli.scan_modules import main_input

    if len(inputs) <= 1 or sum(each.size for each in inputs) > _MAXIMUM_PARSED:
        return select_module(inputs)
    return main_input(inputs)


def _instruction_names(text: str) -> Iterator[str]:
    return (match[1] for match in _INSTRUCTION.finditer(text))


def _computation_names(text: str) -> Iterator[str]:
    return (match[1] for match in _COMPUTATION.finditer(text))


def _mesh_names(text: str) -> Iterator[str]:
    for match in _MESH.finditer(text):
        yield ",".join(f"{name}={size}" for name, size in _AXIS.findall(match[1]))


def _columns_of(command: str) -> Iterator[tuple[str, str]]:
    """The columns that a command can show, each with its meaning."""
    from pkgutil import get_data

    glossary = get_data("hlo_cli.commands.help", "topics/glossary.md") or b""
    for name, meaning, commands in _COLUMN.findall(glossary.decode("utf-8")):
        if command in commands.split(", "):
            yield name, meaning


def _dumps(ctx: click.Context) -> Iterator[DumpName]:
    """The decoded file names in the directories on the command line."""
    from hlo_cli.inputs.dumps import walk_directories

    for path in filter(os.path.isdir, _inputs(ctx)):
        with suppress(HloError, OSError):
            yield from (dump for directory in walk_directories(path) for _, dump in directory.dumps)


def _chip_names() -> Iterator[tuple[str, str]]:
    from hlo_cli.analysis.hardware.chips import known_chips

    return ((chip.name, chip.meaning) for chip in known_chips())


def _tpu_names() -> Iterator[str]:
    from hlo_cli.analysis.hardware.chips import tpu_generations

    return (generation.name for generation in tpu_generations())


def _space_names() -> Iterator[str]:
    from hlo_cli.ir.memory_space import space_words

    return iter((*space_words(), "all"))


def _rule_codes() -> Iterator[tuple[str, str]]:
    from hlo_cli.lint.run import ALL_RULES, RULES

    yield from ((rule.code, rule.name) for rule in RULES)
    yield (ALL_RULES, "all rules")


def _setting_names() -> Iterator[tuple[str, str]]:
    from hlo_cli.lint.settings import MEANINGS

    return ((f"{name}=", meaning) for name, (_, meaning) in MEANINGS.items())


chips = partial(one_of, _chip_names)
tpus = partial(one_of, _tpu_names)
memory_spaces = partial(one_of, _space_names)
rules = partial(some_of, _rule_codes)
settings = partial(one_of, _setting_names)

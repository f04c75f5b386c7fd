"""`hlo diff DUMP --normalize`: one module as text that is independent of names and order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from hlo_cli.commands.modules.loading import input_facts, load_one, notes_of
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.commands.options.writing import print_diagnostics, write, write_report
from hlo_cli.render.registry import FORMATS
from hlo_cli.report.figure import Figure, fixed
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table
from hlo_cli.source import HloError
from hlo_cli.transform.normalize import normalize

_AS_TEXT: Final = ("table", "screen", "hlo")
_ALWAYS_OMITTED: Final = frozenset(("metadata", "schedule"))
_PARTS_OF_SHAPES: Final = frozenset(("layout", "tiling", "memory_space"))
_ATTRIBUTES: Final = frozenset(("sharding", "backend_config"))
_COLUMNS: Final = (
    Column("module", "module", "name"),
    Column("instructions", "instructions", "count"),
    Column("sha256", "sha256"),
    Column("text", "text"),
)


def write_normalized(
    arguments: Sequence[str], reading: InputOptions, ignored: Sequence[str], output: OutputOptions
) -> int:
    """Writes the text itself, or a report that holds it with its digest, and returns the exit code."""
    _check(arguments, output)
    loaded = load_one(arguments, reading, about="--normalize")
    module = loaded.module
    if module.errors:
        return print_diagnostics(notes_of(loaded), module.errors, output)
    chunks = normalize(module, ignored).chunks()
    if output.format in _AS_TEXT:
        write(chunks, output.path)
        return print_diagnostics(notes_of(loaded), (), output)
    text = "".join(chunks)
    digest = sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    rows = ((module.name, module.instruction_count, digest, text),)
    report = Report(
        "diff-normalized",
        f"{format_count(module.instruction_count, 'instructions')}, sha256 {digest}",
        numbers={"module": module.name, "instructions": module.instruction_count, "sha256": digest},
        parts=(
            Table("modules", _COLUMNS, rows, noun="modules", person=False),
            Figure("text", fixed(*text.rstrip().splitlines()), data={"lines": text.count("\n")}),
        ),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )
    return write_report(report, output)


def check_ignorable_kinds(ignored: Iterable[str], kinds: Iterable[str]) -> None:
    """Raises HloError for kinds of changes that no text can omit, such as opcodes and operands."""
    omissible = _PARTS_OF_SHAPES | _ATTRIBUTES | _ALWAYS_OMITTED
    for word in ignored:
        if word in kinds and word not in omissible:
            hint = f"--normalize supports --ignore with {', '.join(sorted(omissible))}, or an attribute name"
            raise HloError(f"'{word}' cannot be omitted", hint=hint)


def _check(arguments: Sequence[str], output: OutputOptions) -> None:
    if len(arguments) > 1:
        raise HloError(
            f"--normalize requires exactly one input, got {len(arguments)}", hint="run `hlo diff DUMP --normalize`"
        )
    known = (*_AS_TEXT, *(each.name for each in FORMATS if each.holds_text))
    if output.format not in known:
        raise HloError(f"--normalize does not support --format {output.format}", hint=f"available: {', '.join(known)}")

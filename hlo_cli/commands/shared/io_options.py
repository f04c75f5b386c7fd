"""What every command has in common: the options about input and output, and writing reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import click

from hlo_cli.commands.shared.late_help import LateHelp
from hlo_cli.dataclass import dataclass
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.render.registry import Kind
    from hlo_cli.render.style import Style
    from hlo_cli.report.report import Report

_F = TypeVar("_F", bound=Callable[..., object])

_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""What `-o` takes for standard output, to which it adds: a file behind it, opened anew, would lose what it holds."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How the user wants to see a report."""

    format: str = "table"
    path: str | None = None
    top: int | None = None
    columns: tuple[str, ...] = ()
    sort: str | None = None
    color: str = "auto"
    ascii: bool = False
    verbose: bool = False

    @property
    def is_for_person(self) -> bool:
        """Whether somebody reads the output, not a program or a file."""
        return self.format == "table" and (_is_terminal(1) or self.color == "always") and self.path is None

    @property
    def asked_columns(self) -> tuple[str, ...]:
        """The columns that are named, to be shown or to order rows by.

        >>> OutputOptions(columns=("name", "flops"), sort="-bytes").asked_columns
        ('name', 'flops', 'bytes')
        """
        return (*self.columns, *([self.sort.removeprefix("-")] if self.sort else []))

    @property
    def is_module(self) -> bool:
        """Whether a module is wanted, as text, rather than a report: by its format or the ending of the file.

        >>> OutputOptions(format="hlo").is_module, OutputOptions(path="new.txt").is_module
        (True, False)
        """
        return self.format == "hlo"

    def style(self, stream: int) -> Style:
        """The look of what goes to a standard stream: 1 is output, 2 is errors, which only a terminal breaks."""
        from hlo_cli.render.style import Style

        terminal = _is_terminal(stream) and not (stream == 1 and self.path)
        width = _columns() if terminal or "COLUMNS" in os.environ else 80
        return Style(
            width=width,
            color=_wants_color(self.color, terminal),
            ascii=self.ascii or _is_ascii(stream),
            top=self.top,
            wraps=terminal or stream == 1,
        )


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How the user wants the input to be chosen and read."""

    stage: str | None = None
    module: str | None = None
    strict: bool = False

    def again(self, inputs: Sequence[str]) -> str:
        """What reads the same once more, as a person types it; nothing for several inputs, `-` for standard input.

        >>> InputOptions(stage="before_optimizations").again(["my dump/"]), InputOptions().again(["a", "b"])
        ("'my dump/' --stage before_optimizations", '')
        """
        if len(inputs) != 1 or inputs[0] == "-":
            return "-" if len(inputs) == 1 else ""
        return worded((("", inputs[0]), ("--stage", self.stage), ("--module", self.module)))


def worded(options: Iterable[tuple[str, str | None]]) -> str:
    """Options with their values as a person types them, those that are given.

    >>> worded((("--chip", "v5e"), ("--limit", None), ("", "a b")))
    "--chip v5e 'a b'"
    """
    from shlex import quote

    return " ".join(f"{option} {quote(value)}".lstrip() for option, value in options if value is not None)


def input_options(function: _F) -> _F:
    """`--stage`, `--module`, `--strict`: given to the command as one `reading`."""
    for option in (
        click.option("--strict", is_flag=True, help="Reject what XLA's own parser rejects."),
        click.option("--module", metavar="NAME", help="Which module of a directory."),
        click.option("--stage", metavar="STAGE", help="Which stage of a directory; the newest if not given."),
    ):
        function = option(function)
    return function


def output_options_of(*kinds: Kind) -> Callable[[_F], _F]:
    """Format, file, rows, columns and colour; the help of `--format` lists formats of these kinds."""

    def format_help() -> str:
        from hlo_cli.render.registry import format_words

        return format_words(*kinds)

    def add(function: _F) -> _F:
        for option in (
            click.option("--verbose", is_flag=True, help="All notes."),
            click.option("--ascii", is_flag=True, envvar="HLO_ASCII", help="No glyphs beyond ASCII."),
            click.option(
                "--color", type=click.Choice(("auto", "always", "never")), default="auto", help="When to colour."
            ),
            click.option("--columns", metavar="LIST", help="Which columns, in this order, with commas between."),
            click.option("--sort", metavar="COLUMN", help="Order rows by a column; -COLUMN turns it round."),
            click.option("--top", type=click.IntRange(min=0), metavar="N", help="How many rows; 0 is all."),
            click.option("-o", "--output", "path", metavar="FILE", help="Write to a file, whole or not at all."),
            click.option("--format", cls=LateHelp, metavar="FORMAT", late_help=format_help),
        ):
            function = option(function)
        return function

    return add


def io_options_of(*kinds: Kind) -> Callable[[_F], _F]:
    """The options of every command about its input and its output, with formats of these kinds; `io_of` takes them."""

    def add(function: _F) -> _F:
        return input_options(output_options_of(*kinds)(function))

    return add


io_options = io_options_of()
"""The same options, with the formats that every report has."""


def io_of(given: dict[str, object], *, writes: Collection[str] = ()) -> tuple[OutputOptions, InputOptions]:
    """What the options about output and input ask for, taken out of a command's parameters; `writes` as `output_of`."""
    return output_of(given, writes=writes), reading_of(given)


def output_of(options: dict[str, object], *, writes: Collection[str] = ()) -> OutputOptions:
    """The output options among a command's parameters, taken out of them; what it `writes` besides reports, by ending.

    HloError for a file whose name asks for a form that the command does not write, unless a format is given.
    """
    columns = str(options.pop("columns") or "")
    top = options.pop("top")
    path = _text(options.pop("path"))
    return OutputOptions(
        format=_text(options.pop("format")) or _format_of(path, writes),
        path=path,
        top=top if isinstance(top, int) else None,
        columns=tuple(name.strip() for name in columns.split(",") if name.strip()),
        sort=_text(options.pop("sort")),
        color=str(options.pop("color")),
        ascii=bool(options.pop("ascii")),
        verbose=bool(options.pop("verbose")),
    )


def reading_of(options: dict[str, object]) -> InputOptions:
    """The input options among a command's parameters, taken out of them."""
    return InputOptions(_text(options.pop("stage")), _text(options.pop("module")), bool(options.pop("strict")))


def write_report(report: Report, output: OutputOptions, errors: Sequence[Diagnostic] = (), *, read: str = "") -> int:
    """Write a report and what there is to say about its input; the exit code."""
    from hlo_cli.render.registry import renderer

    notes = (*(note for part in report.parts if part.kind == "table" for note in part.notes), *report.notes)
    whole = replace(report, notes=notes, errors=tuple(errors))
    arranged = whole.arrange(columns=output.columns, sort=output.sort)
    style = output.style(1)
    render = renderer(output.format, person=output.is_for_person, findings=arranged.has_findings)
    write(render(arranged, style), output.path)
    return print_diagnostics(notes, errors, output, read=read)


def print_diagnostics(
    notes: Sequence[Diagnostic], errors: Sequence[Diagnostic], output: OutputOptions, *, read: str = ""
) -> int:
    """Write notes and errors to standard error; the exit code, 2 if there are errors."""
    if sys.stdout is not None:
        sys.stdout.flush()
    if not (notes or errors):
        return 0
    from hlo_cli.render.draw.diagnostics import render_diagnostics, render_notes

    style = output.style(2)
    for chunk in render_notes(notes, style, verbose=output.verbose):
        click.echo(chunk, err=True, nl=False, color=True)
    for chunk in render_diagnostics(errors, style, summary=read) if errors else ():
        click.echo(chunk, err=True, nl=False, color=True)
    return 2 if errors else 0


def write(chunks: Iterable[str], path: str | None) -> None:
    """Write text to standard output or to a file: to a plain file whole or not at all, to a device as it comes."""
    if path is None or path in _STANDARD_OUTPUT:
        for chunk in _blocks(chunks) if sys.stdout is not None else ():
            sys.stdout.write(chunk)
        return
    _to_file((chunk.encode("utf-8", "surrogateescape") for chunk in _blocks(chunks)), path)


def write_bytes(chunks: Iterable[bytes], path: str | None) -> None:
    """The same for bytes, which a terminal is spared."""
    if path is not None and path not in _STANDARD_OUTPUT:
        _to_file(chunks, path)
    elif _is_terminal(1):
        raise HloError("this is binary: a terminal cannot show it", hint="-o FILE writes it to a file")
    elif sys.stdout is not None:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)


def _to_file(chunks: Iterable[bytes], path: str) -> None:
    target = os.path.realpath(path)
    is_plain = os.path.isfile(path) or not os.path.exists(path)  # a pipe behind /dev/fd has no real path
    if is_plain and os.path.exists(target) and not os.access(target, os.W_OK):
        raise HloError(f"cannot write {path}: it is read-only")
    beside = f"{target}.{os.getpid()}.part" if is_plain else path
    try:
        with open(beside, "wb") as file:
            file.writelines(chunks)
        if is_plain:
            if os.path.exists(target):
                from shutil import copymode

                copymode(target, beside)
            os.replace(beside, target)
    except OSError as error:
        raise HloError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if is_plain:
            with suppress(OSError):
                os.unlink(beside)


def _blocks(chunks: Iterable[str], size: int = 1 << 16) -> Iterator[str]:
    """The chunks joined to pieces that are worth a system call."""
    held: list[str] = []
    length = 0
    for chunk in chunks:
        held.append(chunk)
        length += len(chunk)
        if length >= size:
            yield "".join(held)
            held, length = [], 0
    yield "".join(held)


def _format_of(path: str | None, writes: Collection[str]) -> str:
    """The format that the name of a file asks for."""
    if not path:
        return "table"
    from hlo_cli.render.registry import format_of

    return format_of(path, writes)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_terminal(stream: int) -> bool:
    file = sys.stdout if stream == 1 else sys.stderr
    return file is not None and file.isatty()


def _columns() -> int:
    from shutil import get_terminal_size  # loads every compression there is

    return get_terminal_size().columns


def _is_ascii(stream: int) -> bool:
    file = sys.stdout if stream == 1 else sys.stderr
    encoding = (getattr(file, "encoding", None) or "ascii").lower().replace("-", "")
    return os.environ.get("TERM") == "dumb" or not encoding.startswith("utf")


def _wants_color(when: str, terminal: bool) -> bool:
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return (terminal and os.environ.get("TERM") != "dumb") or bool(os.environ.get("FORCE_COLOR"))

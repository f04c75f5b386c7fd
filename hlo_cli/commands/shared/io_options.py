"""The options for input and output that all commands have."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from hlo_cli.commands.shared.late_help import LateHelp
from hlo_cli.dataclass import dataclass

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from hlo_cli.render.registry import Kind
    from hlo_cli.render.style import Style

_TABLE_HELP = "Show only the table NAME; help lists the tables. [default: all, or the main table in a pipe]"
_NO_HEADER_HELP = "Omit the header line of csv, tsv, and pipe output."
_F = TypeVar("_F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a report is written."""

    format: str = "table"
    path: str | None = None
    top: int | None = None
    columns: tuple[str, ...] = ()
    sort: str | None = None
    table: str | None = None
    header: bool = True
    color: str = "auto"
    ascii: bool = False
    verbose: bool = False

    @property
    def is_for_person(self) -> bool:
        """Whether the output is for a person, not for a program or a file."""
        return self.format == "table" and (is_terminal(1) or self.color == "always") and self.path is None

    @property
    def asked_columns(self) -> tuple[str, ...]:
        """The columns that are named, to be shown or sorted by.

        >>> OutputOptions(columns=("name", "flops"), sort="-bytes").asked_columns
        ('name', 'flops', 'bytes')
        """
        return (*self.columns, *([self.sort.removeprefix("-")] if self.sort else []))

    @property
    def is_module(self) -> bool:
        """Whether the output is a module as text, rather than a report, by its format or the file extension.

        >>> OutputOptions(format="hlo").is_module, OutputOptions(path="new.txt").is_module
        (True, False)
        """
        return self.format == "hlo"

    def style(self, stream: int) -> Style:
        """The style of a standard stream: 1 is output, 2 is errors, which are wrapped only on a terminal."""
        from hlo_cli.render.style import Style

        terminal = is_terminal(stream) and not (stream == 1 and self.path)
        width = _columns() if terminal or "COLUMNS" in os.environ else 80
        return Style(
            width=width,
            color=_wants_color(self.color, terminal),
            ascii=self.ascii or _is_ascii(stream),
            top=self.top,
            header=self.header,
            wraps=terminal or stream == 1,
        )


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How the input is selected and read."""

    stage: str | None = None
    module: str | None = None
    strict: bool = False

    def again(self, inputs: Sequence[str]) -> str:
        """The command-line arguments that read the same input; empty for several inputs, `-` for standard input.

        >>> InputOptions(stage="before_optimizations").again(["my dump/"]), InputOptions().again(["a", "b"])
        ("'my dump/' --stage before_optimizations", '')
        """
        if len(inputs) != 1 or inputs[0] == "-":
            return "-" if len(inputs) == 1 else ""
        return worded((("", inputs[0]), ("--stage", self.stage), ("--module", self.module)))


def worded(options: Iterable[tuple[str, str | None]]) -> str:
    """Given options with their values as on a command line.

    >>> worded((("--chip", "v5e"), ("--limit", None), ("", "a b")))
    "--chip v5e 'a b'"
    """
    from shlex import quote

    return " ".join(f"{option} {quote(value)}".lstrip() for option, value in options if value is not None)


def io_options_of(*kinds: Kind) -> Callable[[_F], _F]:
    """The options for input and output, parsed by `io_of`; the help of `--format` lists formats of these kinds."""

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
            click.option("--no-header", "header", flag_value=False, default=True, help=_NO_HEADER_HELP),
            click.option("--table", metavar="NAME", shell_complete=_table_items, help=_TABLE_HELP),
            click.option("--columns", metavar="LIST", help="Which columns, in this order, with commas between."),
            click.option("--sort", metavar="COLUMN", help="Order rows by a column; -COLUMN turns it round."),
            click.option("--top", type=click.IntRange(min=0), metavar="N", help="How many rows; 0 is all."),
            click.option("-o", "--output", "path", metavar="FILE", help="Write to a file, whole or not at all."),
            click.option("--format", cls=LateHelp, metavar="FORMAT", late_help=format_help),
            click.option("--strict", is_flag=True, help="Reject what XLA's own parser rejects."),
            click.option("--module", metavar="NAME", help="Which module of a directory."),
            click.option("--stage", metavar="STAGE", help="Which stage of a directory; the newest if not given."),
        ):
            function = option(function)
        return function

    return add


io_options = io_options_of()
"""The same options, with the formats that every report has."""


def io_of(given: dict[str, object], *, writes: Collection[str] = ()) -> tuple[OutputOptions, InputOptions]:
    """The options for output and input, removed from a command's parameters.

    `writes` are the file extensions that the command supports besides reports. HloError for an extension that it
    does not support, unless a format is given.
    """
    columns, top, path = str(given.pop("columns") or ""), given.pop("top"), _text(given.pop("path"))
    output = OutputOptions(
        format=_text(given.pop("format")) or _format_of(path, writes),
        path=path,
        table=_text(given.pop("table")),
        header=bool(given.pop("header")),
        top=top if isinstance(top, int) else None,
        columns=tuple(name.strip() for name in columns.split(",") if name.strip()),
        sort=_text(given.pop("sort")),
        color=str(given.pop("color")),
        ascii=bool(given.pop("ascii")),
        verbose=bool(given.pop("verbose")),
    )
    return output, InputOptions(_text(given.pop("stage")), _text(given.pop("module")), bool(given.pop("strict")))


def _table_items(context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """The table names of a command that begin with the typed text, for shell completion."""
    from click.shell_completion import CompletionItem

    from hlo_cli.report.table_meanings import table_names

    names = (*table_names(context.info_name or ""), "help")
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def _format_of(path: str | None, writes: Collection[str]) -> str:
    """The format that a file's extension selects."""
    if not path:
        return "table"
    from hlo_cli.render.registry import format_of

    return format_of(path, writes)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def is_terminal(stream: int) -> bool:
    """Whether standard output, 1, or standard error, 2, is a terminal."""
    file = sys.stdout if stream == 1 else sys.stderr
    return file is not None and file.isatty()


def _columns() -> int:
    from shutil import get_terminal_size  # imports all compression modules

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

"""Which input, and which output? The options that all commands have, and the errors for options in conflict."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.declaring import INPUT, OUTPUT, flag, option, options
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.render.registry import Kind
    from hlo_cli.render.style import Style


# --- input and output ---
# The options for input and output that all commands have.


_F = TypeVar("_F", bound=Callable[..., object])

COLOR_CHOICES: Final = ("auto", "always", "never")


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
    spreadsheet: bool = False
    color: str = "auto"
    ascii: bool = False
    verbose: bool = False
    quiet: bool = False
    is_format_given: bool = True

    @property
    def is_for_person(self) -> bool:
        """Whether the output is for a person, not for a program or a file."""
        return self.format == "table" and (is_terminal(1) or self.color == "always") and self.path is None

    @property
    def requested_columns(self) -> tuple[str, ...]:
        """The columns that are named, to be shown or sorted by.

        >>> OutputOptions(columns=("name", "flops"), sort="-bytes").requested_columns
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
        return Style(
            width=_columns() if terminal or "COLUMNS" in os.environ else 80,
            color=_wants_color(self.color, terminal),
            ascii=self.ascii or _is_ascii(stream),
            top=self.top,
            header=self.header,
            wraps=terminal or stream == 1,
            verbose=self.verbose,
            spreadsheet=self.spreadsheet,
        )


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How the input is selected and read."""

    stage: str | None = None
    module: str | None = None
    strict: bool = False
    quiet: bool = False

    def command_line(self, inputs: Sequence[str]) -> str:
        """The command-line arguments that read the same input; empty for several inputs, `-` for standard input.

        >>> InputOptions(stage="before_optimizations").command_line(["my dump/"])
        "'my dump/' --stage before_optimizations"
        >>> InputOptions().command_line(["a", "b"])
        ''
        """
        if len(inputs) != 1 or inputs[0] == "-":
            return "-" if len(inputs) == 1 else ""
        return format_options((("", inputs[0]), ("--stage", self.stage), ("--module", self.module)))


def format_options(options: Iterable[tuple[str, str | None]]) -> str:
    """Given options with their values as on a command line.

    >>> format_options((("--chip", "v5e"), ("--limit", None), ("", "a b")))
    "--chip v5e 'a b'"
    """
    from shlex import quote

    return " ".join(f"{option} {quote(value)}".lstrip() for option, value in options if value is not None)


path_option: Final = option(
    "-o",
    "--output",
    "path",
    group=OUTPUT,
    is_common=True,
    metavar="FILE",
    shell_complete=completion.files,
    help="Write output to FILE; its extension selects the format.",
)
color_option: Final = option(
    "--color",
    group=OUTPUT,
    type=click.Choice(COLOR_CHOICES),
    metavar="WHEN",
    default="auto",
    help=f"Control when to use color: {joined_by_or(COLOR_CHOICES)}.",
)
ascii_option: Final = flag("--ascii", group=OUTPUT, envvar="HLO_ASCII", help="Use only ASCII characters.")
"""Options of output that `hlo help` has as well."""

_INPUT_OPTIONS: Final = (
    option(
        "--stage",
        group=INPUT,
        is_common=True,
        metavar="STAGE",
        default_text="latest",
        shell_complete=completion.stages,
        help="Read this stage of a dump directory.",
    ),
    option(
        "--module",
        group=INPUT,
        is_common=True,
        metavar="NAME",
        shell_complete=completion.modules,
        help="Read only the module NAME from the input.",
    ),
    flag("--strict", group=INPUT, help="Reject input that XLA's own parser would reject."),
)


_OUTPUT_OPTIONS: Final = (
    flag("--json", group=OUTPUT, is_common=True, help="Write JSON, like --format json."),
    path_option,
    option(
        "--top",
        group=OUTPUT,
        is_common=True,
        type=click.IntRange(min=0),
        metavar="N",
        default_text="one screen on a terminal, else all",
        help="Show at most N rows; 0 shows all.",
    ),
    option(
        "--sort",
        group=OUTPUT,
        is_common=True,
        metavar="COLUMN",
        shell_complete=completion.column,
        help="Sort rows by COLUMN; prefix with - to reverse the order.",
    ),
    option(
        "--columns",
        group=OUTPUT,
        metavar="LIST",
        shell_complete=completion.columns,
        help="Show only these columns, in this order (comma-separated).",
    ),
    option(
        "--table",
        group=OUTPUT,
        metavar="NAME",
        shell_complete=completion.tables,
        default_text="all; in a pipe, the main table",
        help="Show only the table NAME; `help` lists the tables.",
    ),
    flag("--no-header", group=OUTPUT, help="Omit the header line of csv, tsv, and pipe output."),
    flag(
        "--spreadsheet",
        group=OUTPUT,
        help="Write csv and tsv for spreadsheets, which run text such as =A1 unless quoted.",
    ),
    color_option,
    ascii_option,
    flag("-q", "--quiet", group=OUTPUT, help="Hide notes, hints, and progress bars."),
    flag("-v", "--verbose", group=OUTPUT, help="Show all notes instead of the first three."),
)


def io_options_of(*kinds: Kind) -> Callable[[_F], _F]:
    """The options for input and output, parsed by `io_of`; the help of `--format` lists formats of these kinds."""

    def names() -> tuple[str, ...]:
        from hlo_cli.render.registry import format_names

        return format_names(*kinds)

    format_option = option(
        "--format",
        group=OUTPUT,
        is_common=True,
        metavar="FORMAT",
        default_text="full on a terminal, else concise" if "findings" in kinds else "table",
        shell_complete=completion.one_of(names),
        help=lambda: f"Set the output format: {joined_by_or(names())}.",
    )
    return options(*_INPUT_OPTIONS, format_option, *_OUTPUT_OPTIONS)


io_options = io_options_of()
"""The same options, with the formats that every report has."""


def io_of(given: dict[str, object], *, writes: Collection[str] = ()) -> tuple[OutputOptions, InputOptions]:
    """The options for output and input, removed from a command's parameters.

    `writes` are the file extensions that the command supports besides reports. HloError for an extension that it
    does not support, unless a format is given.
    """
    columns, top, path = str(given.pop("columns") or ""), given.pop("top"), _text(given.pop("path"))
    verbose, quiet = bool(given.pop("verbose")), bool(given.pop("quiet"))
    if verbose and quiet:
        raise HloError("--quiet cannot be used with --verbose", hint="use only one of them")
    if given["sort"] == "":
        raise HloError("--sort requires a column", hint="run `hlo help glossary` to list all columns")
    format_name = _given_format(given)
    output = OutputOptions(
        format=format_name or _format_of(path, writes),
        path=path,
        table=_text(given.pop("table")),
        header=not given.pop("no_header"),
        spreadsheet=bool(given.pop("spreadsheet")),
        top=top if isinstance(top, int) else None,
        columns=tuple(name.strip() for name in columns.split(",") if name.strip()),
        sort=_text(given.pop("sort")),
        color=str(given.pop("color")),
        ascii=bool(given.pop("ascii")),
        verbose=verbose,
        quiet=quiet,
        is_format_given=format_name is not None,
    )
    stage, module = _text(given.pop("stage")), _text(given.pop("module"))
    return output, InputOptions(stage, module, bool(given.pop("strict")), quiet)


def _given_format(given: dict[str, object]) -> str | None:
    """The format that --format or --json selects."""
    name, is_json = _text(given.pop("format")), bool(given.pop("json"))
    if is_json and name not in (None, "json"):
        raise HloError(f"--json cannot be used with --format {name}", hint="use only one of them")
    return "json" if is_json else name


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


# --- options in conflict ---
# Conflicts between options: one that would have no effect is an error.


Idle: TypeAlias = Mapping[str, tuple[str, ...]]
"""For each option, the others that have no effect with it."""


def conflict_error(option: str, other: str, *, hint: str = "use only one of them") -> HloError:
    """The error for two options, or other arguments, that conflict.

    >>> print(conflict_error("--tree", "--explain").diagnostic.message)
    --tree cannot be used with --explain
    """
    return HloError(f"{option} cannot be used with {other}", hint=hint)


def requirement_error(option: str, required: str, *, hint: str = "") -> HloError:
    """The error for an option that has no effect without another; the hint is to add that one.

    >>> requirement_error("--limit", "--reorder latency").diagnostic.hint
    'add --reorder latency'
    """
    return HloError(f"{option} requires {required}", hint=hint or f"add {required}")


def check_conflicts(
    given: Mapping[str, bool], output: OutputOptions, idle: Idle, why: Mapping[str, str]
) -> frozenset[str]:
    """The names of the given options; HloError for two of which one would have no effect.

    `given` holds all options but those of every table; `why` is the hint, by the option that takes effect.

    >>> sorted(check_conflicts({"--text": True, "--jobs": False}, OutputOptions(sort="line"), {}, {}))
    ['--sort', '--text']
    >>> against, why = {"--text": ("--sort",)}, {"--text": "lines have an order"}
    >>> check_conflicts({"--text": True}, OutputOptions(sort="line"), against, why)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: --sort cannot be used with --text
    """
    rows = {"--top": output.top is not None, "--sort": bool(output.sort), "--columns": bool(output.columns)}
    rows |= {"--table": output.table is not None, "--no-header": not output.header}
    there = frozenset(option for option, is_given in {**given, **rows}.items() if is_given)
    for name, others in idle.items():
        for other in others:
            if {name, other} <= there:
                raise conflict_error(other, name, hint=why[name])
    return there

"""Which input, and which output? The options that all commands have, and the errors for options in conflict."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.declaring import INPUT, OUTPUT, Declaration, declarations, flag, option, taken
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    import click

    from hlo_cli.commands.options.click_command import CommandFunction
    from hlo_cli.commands.options.declaring import Rules
    from hlo_cli.render.registry import Kind
    from hlo_cli.render.style import Style


# --- input and output ---
# The options for input and output that all commands have.


COLOR_CHOICES: Final = ("auto", "always", "never")
_USUAL_WIDTH: Final = 80  # of pipes and files, and of terminals that do not tell theirs


def _names_in(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in (value or "").split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a report is written; the help of `--format` lists the formats of the command, see `io_options_of`."""

    format: str = option(
        "--format", "FORMAT", group=OUTPUT, is_common=True, default="table", is_computed=True, help=lambda: ""
    )
    json: bool = flag("--json", group=OUTPUT, is_common=True, help="Write JSON, like --format json.")
    path: str | None = option(
        "--output",
        "FILE",
        short="-o",
        group=OUTPUT,
        is_common=True,
        complete=completion.files,
        help="Write output to FILE; its extension selects the format.",
    )
    top: int | None = option(
        "--top",
        "N",
        group=OUTPUT,
        is_common=True,
        least=0,
        default_text="one screen on a terminal, else all",
        help="Show at most N rows; 0 shows all.",
    )
    sort: str | None = option(
        "--sort",
        "COLUMN",
        group=OUTPUT,
        is_common=True,
        complete=completion.column,
        help="Sort rows by COLUMN; prefix with - to reverse the order.",
    )
    columns: tuple[str, ...] = option(
        "--columns",
        "LIST",
        group=OUTPUT,
        default=(),
        is_computed=True,
        callback=_names_in,
        complete=completion.columns,
        help="Show only these columns, in this order (comma-separated).",
    )
    table: str | None = option(
        "--table",
        "NAME",
        group=OUTPUT,
        complete=completion.tables,
        default_text="all; in a pipe, the main table",
        help="Show only the table NAME; `help` lists the tables.",
    )
    header: bool = flag(
        "--no-header", default=True, group=OUTPUT, help="Omit the header line of csv, tsv, and pipe output."
    )
    spreadsheet: bool = flag(
        "--spreadsheet",
        group=OUTPUT,
        help="Write csv and tsv for spreadsheets, which run text such as =A1 unless quoted.",
    )
    color: str = option(
        "--color",
        "WHEN",
        group=OUTPUT,
        choices=COLOR_CHOICES,
        default="auto",
        help=f"Control when to use color: {joined_by_or(COLOR_CHOICES)}.",
    )
    ascii: bool = flag("--ascii", group=OUTPUT, envvar="HLO_ASCII", help="Use only ASCII characters.")
    quiet: bool = flag("--quiet", short="-q", group=OUTPUT, help="Hide notes, hints, and progress bars.")
    verbose: bool = flag(
        "--verbose", short="-v", group=OUTPUT, excludes=("--quiet",), help="Show all notes instead of the first three."
    )
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
            width=_width(stream) if terminal or "COLUMNS" in os.environ else _USUAL_WIDTH,
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

    stage: str | None = option(
        "--stage",
        "STAGE",
        group=INPUT,
        is_common=True,
        default_text="latest",
        complete=completion.stages,
        help="Read this stage of a dump directory.",
    )
    module: str | None = option(
        "--module",
        "NAME",
        group=INPUT,
        is_common=True,
        complete=completion.modules,
        help="Read only the module NAME from the input.",
    )
    strict: bool = flag("--strict", group=INPUT, help="Reject input that XLA's own parser would reject.")
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


def io_options_of(*kinds: Kind) -> Callable[[CommandFunction], CommandFunction]:
    """The options for input and output, parsed by `io_of`; the help of `--format` lists formats of these kinds."""

    def names() -> tuple[str, ...]:
        from hlo_cli.render.registry import format_names

        return format_names(*kinds)

    format_of_command = {
        "default_text": "full on a terminal, else concise" if "findings" in kinds else "table",
        "shell_complete": partial(completion.one_of, names),
        "help": lambda: f"Set the output format: {joined_by_or(names())}.",
    }

    def add(function: CommandFunction) -> CommandFunction:
        from hlo_cli.commands.options.click_command import with_options  # an answer without options needs no click

        return with_options(InputOptions)(with_options(OutputOptions, format=format_of_command)(function))

    return add


io_options = io_options_of()
"""The same options, with the formats that every report has."""


def io_of(given: dict[str, object], *, writes: Collection[str] = ()) -> tuple[OutputOptions, InputOptions]:
    """The options for output and input, removed from a command's parameters.

    `writes` are the file extensions that the command supports besides reports. HloError for an extension that it
    does not support, unless a format is given.
    """
    written, read = taken(OutputOptions, given), taken(InputOptions, given)
    if written["sort"] == "":
        raise HloError("--sort requires a column", hint="run `hlo help glossary` to list all columns")
    named = written.pop("format") or None
    output = OutputOptions(**_without_empty(written))
    check_options(output)
    if output.json and named not in (None, "json"):
        raise HloError(f"--json cannot be used with --format {named}", hint="use only one of them")
    named = "json" if output.json else named
    output = replace(output, format=named or _format_of(output.path, writes), is_format_given=named is not None)
    return output, InputOptions(**_without_empty(read), quiet=output.quiet)


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    """The values with None for an empty text, which is what a script passes that has none."""
    return {name: None if value == "" else value for name, value in values.items()}


def _format_of(path: str | None, writes: Collection[str]) -> str:
    """The format that a file's extension selects."""
    if not path:
        return "table"
    from hlo_cli.render.registry import format_of

    return format_of(path, writes)


def is_terminal(stream: int) -> bool:
    """Whether standard output, 1, or standard error, 2, is a terminal."""
    file = sys.stdout if stream == 1 else sys.stderr
    return file is not None and file.isatty()


def _width(stream: int) -> int:
    """The width of a standard stream's terminal in characters: what COLUMNS says, or the terminal, or 80.

    `shutil.get_terminal_size` asks `sys.__stdout__`, which has no terminal once it is detached for a buffered stream.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and len(columns) < 6 and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream).columns or _USUAL_WIDTH
    except OSError:  # not a terminal, or one without a size
        return _USUAL_WIDTH


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


_ONLY_ONE: Final = "use only one of them"


def conflict_error(option: str, other: str, *, hint: str = _ONLY_ONE) -> HloError:
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


def check_options(*chosen: object) -> None:
    """Raises HloError for two given options of which one would have no effect, or for one that lacks another.

    `chosen` are values of classes of options; the rules are those of their fields, see `declaring.Rules`. An
    option is given if its value is not the default. Of several that lack another, the first field is named.

    >>> check_options(OutputOptions(quiet=True, verbose=True))
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: --quiet cannot be used with --verbose
      help: use only one of them
    """
    given_rules = {declaration.name: (declaration.rules, value) for declaration, value in given_options(*chosen)}
    chosen_of: dict[str, tuple[str, str]] = {}
    for name, (rules, _) in given_rules.items():
        options, _, part = rules.get("one_of", "").partition("/")
        other, other_part = chosen_of.setdefault(options, (name, part)) if options else (name, part)
        if other != name and not (part and part == other_part):
            raise conflict_error(other, name)
    applied = {
        f"{name} {rules.get('only_for', '')}".rstrip(): rules
        for name, (rules, value) in given_rules.items()
        if rules.get("only_for", value) == value
    }
    for name, rules in applied.items():
        if any(_is_given(other, given_rules) for other in rules.get("unless", ())):
            continue
        excluded = rules.get("excludes", ())
        hints = excluded if isinstance(excluded, Mapping) else {}
        for other in excluded:
            if _is_given(other, given_rules):
                raise conflict_error(other, name, hint=hints.get(other) or rules.get("excludes_hint", _ONLY_ONE))
    for name, rules in applied.items():
        needed = rules.get("needs", "")
        if needed and not any(
            _is_given(option, given_rules) for option in (*_options_in(needed), *rules.get("or_needs", ()))
        ):
            raise requirement_error(name, needed, hint=rules.get("needs_hint", ""))


def given_options(*chosen: object) -> Iterator[tuple[Declaration, object]]:
    """The declarations of the given options with their values, in the order of the fields.

    >>> [(option.name, value) for option, value in given_options(OutputOptions(top=3, header=False))]
    [('--top', 3), ('--no-header', False)]
    """
    for options in chosen:
        declared = declarations(options)
        for field in fields(options):  # type: ignore[arg-type]  # all are dataclasses
            if field.name in declared and (value := getattr(options, field.name)) != field.default:
                yield declared[field.name], value


def given_about(options: object, *kinds: str) -> list[str]:
    """The given options that are `about` an input of one of these kinds, as typed."""
    return [declaration.name for declaration, _ in given_options(options) if declaration.rules.get("about") in kinds]


def given_in(options: object, *sets: str) -> list[str]:
    """The given options of a set of which one can be given, as typed."""
    sets_of = {declaration.name: declaration.rules.get("one_of", "") for declaration, _ in given_options(options)}
    return [name for name, one_of in sets_of.items() if one_of.partition("/")[0] in sets]


def _options_in(words: str) -> Iterator[str]:
    """The options and the arguments that an error names, each with its value if there is one.

    >>> [*_options_in("--slice NAME, --desugar, or --format hlo")]
    ['--slice NAME', '--desugar', '--format hlo']
    >>> [*_options_in("NAME")], [*_options_in("NAME or --where EXPR")]
    (['NAME'], ['NAME', '--where EXPR'])
    """
    argument, *options = words.split("--")
    if argument := argument.strip().removesuffix(" or").rstrip(","):
        yield argument
    for part in options:
        name, _, value = part.partition(" ")
        value = f" {value}".rstrip().removesuffix(" or").strip().rstrip(",")
        yield f"--{name.rstrip(',')} {value}".rstrip()


def _is_given(words: str, given: Mapping[str, tuple[Rules, object]]) -> bool:
    """Whether an option is given, with the value in `words` if that is none that stands for all, such as NAME."""
    name, _, value = words.partition(" ")
    return name in given and (not value or value.isupper() or given[name][1] == value)

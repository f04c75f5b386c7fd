"""How is an option of `hlo` declared, and how does the help show it?

An option is a field of a frozen class of options, see `option`: click's parameter, the value that the command gets, and
the errors for conflicts are all made from that field. An option names its group; the groups are shown in the order of
the first options that name them, then those of LAST. -h shows one screen, --help everything. `--by`, `--where`, and
`--each` are here too: most commands have them.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack

import click

from hlo_cli.dataclass import dataclass
from hlo_cli.report.unknown_choice import choice_hint
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import By
    from hlo_cli.commands.options.completion import Completer

    class Rules(TypedDict, total=False):
        """With what an option can be used, as data for `io_options.check_options`.

        about: "one" for an option that requires a single module, "dump" or "shape" for one that requires such an input.
        one_of: the name of a set of options of which at most one can be given, such as "report"; options of one part
            of it, such as "report/calls", can be given together.
        excludes: the options that have no effect next to this one, or each with the hint of its error.
        needs: the options of which one is required, as the error names them, such as "--slice, --desugar, or --sugar".
        or_needs: further ones that do as well, but that the error does not name.
        only_for: the value to which `excludes` and `needs` are limited; the error names it.
        unless: the options next to which `excludes` does not apply.
        """

        about: str
        one_of: str
        excludes: Sequence[str] | Mapping[str, str]
        excludes_hint: str
        needs: str
        or_needs: Sequence[str]
        needs_hint: str
        only_for: str
        unless: Sequence[str]

    class Settings(Rules, total=False):
        """What else an option may have besides its name, metavar, and help."""

        group: str
        is_common: bool
        default: object
        default_text: str
        is_computed: bool
        choices: Sequence[str]
        least: int
        type: click.ParamType[Any, Any]
        multiple: bool
        nargs: int
        envvar: str
        short: str
        unlisted: str
        complete: Completer
        callback: Callable[[click.Context, click.Parameter, Any], Any]


# --- an option for click ---


CommandFunction = TypeVar("CommandFunction", bound=Callable[..., object])
"""A function that becomes a command, with the parameters that are declared for it."""

INPUT: Final = "Input"
OUTPUT: Final = "Output"
LAST: Final = (INPUT, OUTPUT)
"""The groups that all commands have, in the order in which they end the help."""
SCREEN_LINES: Final = 50
"""The most lines of the help for -h."""

_HELP_WIDTH = 80  # the width of the narrowest usual terminal
_MAX_NAMES_WIDTH = 24  # a longer name has its help below it, so that one name does not narrow all texts
_NO_BREAK = "\N{NO-BREAK SPACE}"


class Option(click.Option):
    """An option with a group; `is_common` ones are shown by -h, and `default_text` describes a computed default.

    `unlisted` is a second name that the help does not show.
    `help` can be a function that returns the text, which is called when the help is shown.

    >>> top = Option(["--top"], group="Output", help="Show at most N rows.", type=int, metavar="N", default=5)
    >>> top.get_help_record(click.Context(click.Command("layout")))
    ('--top N', 'Show at most N rows. [default: 5]')
    """

    def __init__(
        self,
        declarations: Sequence[str],
        *,
        group: str,
        help: str | Callable[[], str],
        is_common: bool = False,
        default_text: str = "",
        unlisted: str = "",
        **settings: Any,
    ) -> None:
        declarations = (*declarations, unlisted) if unlisted else declarations
        super().__init__(declarations, help=help if isinstance(help, str) else None, **settings)
        self.group = group
        self.is_common = is_common
        self.default_text = default_text
        self.unlisted = unlisted
        self._help = help

    @property
    def names(self) -> str:
        """The listed names of the option and its metavar."""
        metavar = "" if self.is_flag else f" {self.metavar or str(self.name).upper()}"
        listed = (name for name in self.opts if name != self.unlisted)
        return f"{', '.join(sorted(listed, key=len))}{metavar}"

    @property
    def text(self) -> str:
        """The help of the option, without its default."""
        return self._help if isinstance(self._help, str) else self._help()

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option with its metavar, and its help with the default and the environment variable; None if hidden."""
        if self.hidden:
            return None
        default = self.default_text
        if not default and not self.is_flag and isinstance(value := self.get_default(ctx), str | int):
            default = str(value)
        notes = [f"[default: {default}]"] if default else []
        notes += [f"[env: {self.envvar}]"] if self.envvar else []
        return self.names, " ".join((self.text, *notes))

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """The converted value; HloError for an invalid one."""
        try:
            return super().type_cast_value(ctx, value)
        except click.BadParameter as error:
            raise self._invalid(value) from error

    def _invalid(self, value: object) -> HloError:
        message = f"invalid value '{value}' for {max(self.opts, key=len)}"
        if isinstance(self.type, click.Choice):
            return HloError(message, hint=choice_hint("value", str(value), self.type.choices))
        expected = "true or false" if self.is_flag else "an integer"
        if isinstance(self.type, click.IntRange) and self.type.min is not None:
            expected = f"an integer of at least {self.type.min}"
        return HloError(f"{message}: expected {expected}")


# --- an option as a field of a class ---
# The one place of an option: its type and default are those of the field, all else is in the field's metadata.


_KEY: Final = "option"
"""The key of the declaration in the metadata of a field."""


_RULES: Final = frozenset(
    ("about", "one_of", "excludes", "excludes_hint", "needs", "or_needs", "needs_hint", "only_for", "unless")
)
"""The names of `Rules`, which exists only for checkers of types; all other settings are for click."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a field says of its option: the name as typed, all names, the settings for click, and the rules.

    An argument has no names: click does not make it an option.
    """

    name: str
    names: tuple[str, ...]
    click: Mapping[str, Any]
    rules: Rules


def option(name: str, metavar: str, *, help: str | Callable[[], str], **settings: Unpack[Settings]) -> Any:
    """A field of a class of options that is an option with a value; `with_options` adds the option to a command.

    The default is None, or () for an option that is `multiple`. `least` is the least value of an integer. With
    `is_computed`, the command is passed None without the option and computes the value, whose default is the field's.

    >>> @dataclass(frozen=True, slots=True)
    ... class Shown:
    ...     top: int | None = option("--top", "N", least=0, group=OUTPUT, help="Show at most N rows.")
    ...     reverse: bool = flag("--reverse", group=OUTPUT, needs="--top", help="Reverse the rows.")
    >>> @click.command(cls=Command)
    ... @with_options(Shown)
    ... def command(**given): return Shown(**given)
    >>> command.main(["--top", "3"], standalone_mode=False)
    Shown(top=3, reverse=False)
    """
    declared: dict[str, Any] = {"metavar": metavar, **settings}
    if "choices" in declared:
        declared["type"] = click.Choice(tuple(declared.pop("choices")))
    if "least" in declared:
        declared["type"] = click.IntRange(min=declared.pop("least"))
    if "complete" in declared:
        declared["shell_complete"] = declared.pop("complete")
    default = declared.get("default", () if declared.get("multiple") else None)
    if declared.pop("is_computed", False):
        declared.pop("default")
    return _field(name, help, default, declared)


def flag(name: str, *, help: str | Callable[[], str], **settings: Unpack[Settings]) -> Any:
    """A field of a class of options that is an option without a value: False, or True if it is given.

    With `default=True` the option turns something off.
    """
    default = settings.get("default", False)
    return _field(name, help, default, {**settings, "is_flag": True, "default": default, "flag_value": not default})


def argument(name: str, **rules: Unpack[Rules]) -> Any:
    """A field for an argument, or for what the command reads from one: it has rules, but is no option for click.

    Errors call it `name`, and other rules may name it.
    """
    return dataclasses.field(default=None, metadata={_KEY: Declaration(name, (), {}, rules)})


def _field(name: str, help: str | Callable[[], str], default: object, settings: dict[str, Any]) -> Any:
    names = (*((settings.pop("short"),) if "short" in settings else ()), name)
    rules: Any = {rule: settings.pop(rule) for rule in _RULES & settings.keys()}
    declaration = Declaration(name, names, {"help": help, **settings}, rules)
    return dataclasses.field(default=default, metadata={_KEY: declaration})


def declarations(options: Any) -> dict[str, Declaration]:
    """The declarations of a class of options, or of a value of it, by the names of the fields."""
    return {field.name: field.metadata[_KEY] for field in dataclasses.fields(options) if _KEY in field.metadata}


def with_options(
    options: type, *, only: Collection[str] = (), **changes: Mapping[str, Any]
) -> Callable[[CommandFunction], CommandFunction]:
    """The decorator that adds the options of a class to a command, or `only` some, in the order of the fields.

    Their values are passed to the command by the names of the fields. `changes` are settings for click of single
    fields, for a command that differs in these.
    """

    def add(function: CommandFunction) -> CommandFunction:
        for field, declaration in reversed(declarations(options).items()):
            if not declaration.names or (only and field not in only):
                continue
            settings = {**declaration.click, **changes.get(field, {})}
            function = click.option(*declaration.names, field, cls=Option, **settings)(function)
        return function

    return add


def taken(options: type, given: dict[str, Any]) -> dict[str, Any]:
    """The values of the options of a class, removed from a command's parameters."""
    return {field: given.pop(field) for field, declaration in declarations(options).items() if declaration.names}


# --- the command, and its help ---


GIVEN: Final = "hlo_cli.given"
"""The key in click's context of the values of the options of a command that has answered."""


class Command(click.Command):
    """A command whose help shows two `examples` and the common options first.

    `help` begins with the summary and is shown by -h as well; `details` are shown by --help alone. Both are shown as
    they are, in lines of at most 80 characters.
    """

    def __init__(self, name: str | None, *, examples: Sequence[str] = (), details: str = "", **settings: Any) -> None:
        super().__init__(name, add_help_option=False, **settings)
        self.examples = tuple(examples)
        self.details = details
        self.params += [_HelpOption("-h", self.get_short_help, hidden=True), _HelpOption("--help", self.get_help)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line; errors know the command."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; the context's `obj` is a function that answers an error, or raises it again."""
        given = dict(ctx.params)
        try:
            code = super().invoke(ctx)
        except HloError as error:
            answer = ctx.find_root().obj
            if not callable(answer):
                raise
            return answer(error, ctx)
        ctx.meta[GIVEN] = given
        return code

    def get_help(self, ctx: click.Context) -> str:
        """The help for --help: the screen of -h, then the other options, details, and examples."""
        if self._is_one_page(ctx):
            return _joined(self._one_page(ctx))
        rest = (option for option in self._options() if not option.is_common)
        parts = (*self._first_screen(ctx), "More options", *self._groups(ctx, rest))
        return _joined((*parts, self.details.strip("\n"), _examples("More examples", self.examples[2:])))

    def get_short_help(self, ctx: click.Context) -> str:
        """The help for -h: the common options, or all of them if they fit one screen."""
        if self._is_one_page(ctx):
            return _joined(self._one_page(ctx))
        more = f"Run `{ctx.command_path} --help` to list all options."
        return _joined((*self._first_screen(ctx), more))

    def _is_one_page(self, ctx: click.Context) -> bool:
        return _joined(self._one_page(ctx)).count("\n") < SCREEN_LINES

    def _one_page(self, ctx: click.Context) -> Sequence[str]:
        return (*self._head(ctx, self.examples), *self._groups(ctx, self._options()), self.details.strip("\n"))

    def _first_screen(self, ctx: click.Context) -> Sequence[str]:
        common = (option for option in self._options() if option.is_common)
        return (*self._head(ctx, self.examples[:2]), *self._groups(ctx, common))

    def _head(self, ctx: click.Context, examples: Sequence[str]) -> Sequence[str]:
        return self.get_usage(ctx), (self.help or "").strip("\n"), _examples("Examples", examples)

    def _options(self) -> Iterator[Option]:
        return (param for param in self.params if isinstance(param, Option) and not param.hidden)

    def option_groups(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """All options by group, in the order of the help: the names of each with its help."""
        return _grouped(ctx, self._options())

    def _groups(self, ctx: click.Context, options: Iterable[Option]) -> Iterator[str]:
        """The options under the headings of their groups; all groups of a command are aligned."""
        width = min(_MAX_NAMES_WIDTH, max(len(option.names) for option in self._options()))
        for group, records in _grouped(ctx, options).items():
            rows = (line for record in records for line in _lines(*record, width))
            yield "\n".join((f"{group}:", *rows))


class _HelpOption(Option):
    """One of -h and --help: writes a page and ends the command."""

    def __init__(self, name: str, page: Callable[[click.Context], str], *, hidden: bool = False) -> None:
        super().__init__(
            [name],
            group=OUTPUT,
            help="Show this help and exit; -h shows the common options.",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            hidden=hidden,
            callback=self._write,
        )
        self.page = page

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """One row for both options."""
        return None if self.hidden else (f"-h, {self.names}", self.text)

    def _write(self, ctx: click.Context, _: click.Parameter, value: object) -> None:
        if value and not ctx.resilient_parsing:
            click.echo(self.page(ctx))
            ctx.exit()


def _grouped(ctx: click.Context, options: Iterable[Option]) -> dict[str, list[tuple[str, str]]]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for option in options:
        if record := option.get_help_record(ctx):
            groups.setdefault(option.group, []).append(record)
    own = (group for group in groups if group not in LAST)
    return {group: groups[group] for group in (*own, *(group for group in LAST if group in groups))}


def _examples(title: str, lines: Sequence[str]) -> str:
    return "\n".join((f"{title}:", *(f"  {line}" for line in lines))) if lines else ""


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _lines(names: str, text: str, width: int) -> Iterator[str]:
    """The lines of an option: its names, and next to them its help; commands and defaults are not broken."""
    import re
    from textwrap import wrap

    column = width + 4
    text = re.sub(r"`[^`]*`|\([^()]{,24}\)|\[[^\]]*\]", lambda match: match[0].replace(" ", _NO_BREAK), text)
    words = wrap(text, _HELP_WIDTH - column, break_on_hyphens=False, break_long_words=False)
    if len(names) > width:
        yield f"  {names}"
        names = ""
    for line in words:
        yield f"  {names:<{width}}  {line}".replace(_NO_BREAK, " ")
        names = ""


# --- --by ---
# `--by`: the option, which several commands have with groupings of their own.


CAUSES: Final[tuple[By, ...]] = ("source", "scope", "argument", "pass")
"""The groupings by cause, which all commands with `--by` have."""


def by_option(
    purpose: str, *, before: tuple[str, ...] = (), after: tuple[str, ...] = (), **rules: Unpack[Rules]
) -> Any:
    """The field of `--by`; `purpose` begins the help.

    `before` and `after` are the command's own groupings, listed around those by cause; the first of `before` is the
    default.
    """
    groupings = (*before, *CAUSES, *after)
    return option(
        "--by",
        "GROUP",
        group="Reports",
        is_common=True,
        choices=groupings,
        default=before[0] if before else None,
        help=f"{purpose}: {joined_by_or(groupings)}.",
        **rules,
    )


def cause_of(grouping: str | None) -> By | None:
    """The grouping if it is one by cause.

    >>> cause_of("scope"), cause_of("opcode"), cause_of(None)
    ('scope', None, None)
    """
    return next((cause for cause in CAUSES if cause == grouping), None)


# --- --where ---


def where_option(**rules: Unpack[Rules]) -> Any:
    """The field of `--where`."""
    return option(
        "--where",
        "EXPR",
        group="Filters",
        is_common=True,
        help="Show only rows that match EXPR (see `hlo help where`).",
        **rules,
    )


# --- --each, --jobs, and --timeout ---
# `--each`, `--jobs`, and `--timeout`: a row for each of many modules, the number of processes, and their time.


DEFAULT_TIMEOUT_TEXT: Final = "600 with --jobs"
"""`DEFAULT_TIMEOUT` of `inputs.parallel`, which only commands on several inputs import; a test compares both."""


def each_option(help: str = "Print one row per module, helpers of JAX included.", **rules: Unpack[Rules]) -> Any:
    """The field of `--each`; without `help`, for commands that report on one module or write a row for each."""
    return flag("--each", group=INPUT, help=help, **rules)


def jobs_option(help: str = "Use N processes with --each; 0 uses all CPU cores.") -> Any:
    """The field of `--jobs`."""
    return option("--jobs", "N", group=INPUT, least=0, default_text="1", help=help)


def timeout_option() -> Any:
    """The field of `--timeout`, which `timeout_given` reads: it is for the reader of inputs, not for the command."""
    return option(
        "--timeout",
        "SECONDS",
        group=INPUT,
        least=1,
        default_text=DEFAULT_TIMEOUT_TEXT,
        help="Stop reading an input after SECONDS and report an error for that input.",
    )


def timeout_given() -> float | None:
    """The value of `--timeout` of the running command in seconds; None if it is not given."""
    context = click.get_current_context(silent=True)
    timeout = None if context is None else context.params.get("timeout")
    return None if timeout is None else float(timeout)


def processes(jobs: int | None, work: int) -> int:
    """The number of processes for some pieces of work: one by default, one for each core for 0.

    >>> processes(None, 100), processes(4, 100), processes(4, 2)
    (1, 4, 2)
    """
    return min(1 if jobs is None else jobs or os.cpu_count() or 1, max(work, 1))

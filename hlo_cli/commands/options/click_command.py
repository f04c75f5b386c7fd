"""How is a command of `hlo` one of click, and how does its help show the options?

-h shows one screen, --help everything: the groups of options in the order of the first options that name them, then
those that all commands have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from hlo_cli.commands.options.declaring import LAST, OUTPUT, declarations
from hlo_cli.report.unknown_choice import choice_hint
from hlo_cli.source import HloError

# --- an option for click ---


CommandFunction = TypeVar("CommandFunction", bound=Callable[..., object])
"""A function that becomes a command, with the parameters that are declared for it."""

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


def with_options(
    options: type, *, only: Collection[str] = (), **changes: Mapping[str, Any]
) -> Callable[[CommandFunction], CommandFunction]:
    """The decorator that adds the options of a class to a command, or `only` some, in the order of the fields.

    Their values are passed to the command by the names of the fields. `changes` are settings for click of single
    fields, for a command that differs in these.

    >>> from hlo_cli.commands.options.declaring import flag, option
    >>> from hlo_cli.dataclass import dataclass
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

    def add(function: CommandFunction) -> CommandFunction:
        for field, declaration in reversed(declarations(options).items()):
            if not declaration.names or (only and field not in only):
                continue
            settings = {**declaration.click, **changes.get(field, {})}
            if "choices" in settings:
                settings["type"] = click.Choice(tuple(settings.pop("choices")))
            if "least" in settings:
                settings["type"] = click.IntRange(min=settings.pop("least"))
            function = click.option(*declaration.names, field, cls=Option, **settings)(function)
        return function

    return add


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

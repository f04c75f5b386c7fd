"""How is an option of `hlo` declared?

An option is a field of a frozen class of options, see `option`: click's parameter, the value that the command gets, and
the errors for conflicts are all made from that field. An option names its group; the groups are shown in the order of
the first options that name them, then those of LAST. `--by`, `--where`, and `--each` are here too: most commands have
them. Nothing here imports click: an answer without options does not need it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from hlo_cli.dataclass import dataclass
from hlo_cli.source import joined_by_or

if TYPE_CHECKING:
    import click

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


INPUT: Final = "Input"
OUTPUT: Final = "Output"
LAST: Final = (INPUT, OUTPUT)
"""The groups that all commands have, in the order in which they end the help."""


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
    """A field of a class of options that is an option with a value; `click_command.with_options` adds it to a command.

    The default is None, or () for an option that is `multiple`. `least` is the least value of an integer. With
    `is_computed`, the command is passed None without the option and computes the value, whose default is the field's.

    >>> @dataclass(frozen=True, slots=True)
    ... class Shown:
    ...     top: int | None = option("--top", "N", least=0, group=OUTPUT, help="Show at most N rows.")
    ...     reverse: bool = flag("--reverse", group=OUTPUT, needs="--top", help="Reverse the rows.")
    >>> Shown(top=3), declarations(Shown)["top"].names
    (Shown(top=3, reverse=False), ('--top',))
    """
    declared: dict[str, Any] = {"metavar": metavar, **settings}
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


def taken(options: type, given: dict[str, Any]) -> dict[str, Any]:
    """The values of the options of a class, removed from a command's parameters."""
    return {field: given.pop(field) for field, declaration in declarations(options).items() if declaration.names}


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
    import click

    context = click.get_current_context(silent=True)
    timeout = None if context is None else context.params.get("timeout")
    return None if timeout is None else float(timeout)


def processes(jobs: int | None, work: int) -> int:
    """The number of processes for some pieces of work: one by default, one for each core for 0.

    >>> processes(None, 100), processes(4, 100), processes(4, 2)
    (1, 4, 2)
    """
    return min(1 if jobs is None else jobs or os.cpu_count() or 1, max(work, 1))

"""Which options of `hlo lint` go together: one that would change nothing is refused, not passed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hlo_cli.commands.options import Output
from hlo_cli.source import HloError

_OF_LOOKING: Final = ("--baseline", "--write-baseline", "--expect", "--statistics", "--exit-zero", "--jobs", "--top")
_OF_SETTINGS: Final = ("--select", "--ignore", "--severity", "--set", "--isolated", "--strict")
_NOTHING_TO: Final[Mapping[str, tuple[str, ...]]] = {
    "--explain": (*_OF_LOOKING, *_OF_SETTINGS, "--list-rules", "--show-settings"),
    "--list-rules": (*(each for each in _OF_LOOKING if each != "--top"), *_OF_SETTINGS, "--show-settings"),
    "--show-settings": tuple(each for each in _OF_LOOKING if each != "--top"),
    "--write-baseline": ("--baseline", "--expect", "--statistics", "--top"),
}
"""For what can be asked for in place of findings, the options that change nothing there."""
_WHY: Final = {
    "--explain": "the page of a rule is the same whatever is looked through",
    "--list-rules": "all rules are listed; --show-settings says which are chosen",
    "--show-settings": "nothing is looked through",
    "--write-baseline": "it writes every finding; what --expect states is never part of it",
}


def refuse_together(given: Mapping[str, bool], output: Output) -> None:
    """HloError for two options of which one would be ignored; `given` says which there are, by their names.

    >>> refuse_together({"--explain": True, "--select": True}, Output())
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: --explain and --select do not go together
    """
    rows = {"--top": output.top is not None, "--sort": bool(output.sort), "--columns": bool(output.columns)}
    there = {option for option, is_given in {**given, **rows}.items() if is_given}
    for asked, others in _NOTHING_TO.items():
        for other in others:
            if {asked, other} <= there:
                raise HloError(f"{asked} and {other} do not go together", hint=_WHY[asked])
    _refuse_tables(there, output.format)


def _refuse_tables(there: set[str], name: str) -> None:
    """HloError for what makes a table of findings, in a format that is of findings as they are."""
    from hlo_cli.render.formats import FORMATS, OF_FINDINGS

    for option in ("--statistics", "--sort", "--columns"):
        if option in there and name in OF_FINDINGS:
            hint = f"{option} is of tables; their formats: {', '.join(FORMATS)}"
            raise HloError(f"{option} and --format {name} do not go together", hint=hint)

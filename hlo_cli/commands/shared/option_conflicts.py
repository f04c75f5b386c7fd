"""Conflicts between options: one that would have no effect is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hlo_cli.commands.shared.io_options import OutputOptions
from hlo_cli.source import HloError

Idle: TypeAlias = Mapping[str, tuple[str, ...]]
"""For each option, the others that have no effect with it."""


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
    hlo_cli.source.HloError: error: --text and --sort do not go together
    """
    rows = {"--top": output.top is not None, "--sort": bool(output.sort), "--columns": bool(output.columns)}
    rows |= {"--table": output.table is not None, "--no-header": not output.header}
    there = frozenset(option for option, is_given in {**given, **rows}.items() if is_given)
    for asked, others in idle.items():
        for other in others:
            if {asked, other} <= there:
                raise HloError(f"{asked} and {other} do not go together", hint=why[asked])
    return there

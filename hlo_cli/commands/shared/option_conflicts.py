"""Conflicts between options: one that would have no effect is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hlo_cli.commands.shared.io_options import OutputOptions
from hlo_cli.source import HloError

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

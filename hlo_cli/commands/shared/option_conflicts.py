"""Which options go together: one that would change nothing is refused, not passed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hlo_cli.commands.shared.io_options import Output
from hlo_cli.source import HloError

Idle: TypeAlias = Mapping[str, tuple[str, ...]]
"""For an option the others that change nothing beside it."""


def refuse_idle(given: Mapping[str, bool], output: Output, idle: Idle, why: Mapping[str, str]) -> frozenset[str]:
    """The options that there are, by their names; HloError for two of which one would change nothing.

    `given` says which there are, those of every table aside; `why` is the hint, by the option that stands.

    >>> sorted(refuse_idle({"--text": True, "--jobs": False}, Output(sort="line"), {}, {}))
    ['--sort', '--text']
    >>> refuse_idle({"--text": True}, Output(sort="line"), {"--text": ("--sort",)}, {"--text": "lines have an order"})
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: --text and --sort do not go together
    """
    rows = {"--top": output.top is not None, "--sort": bool(output.sort), "--columns": bool(output.columns)}
    there = frozenset(option for option, is_given in {**given, **rows}.items() if is_given)
    for asked, others in idle.items():
        for other in others:
            if {asked, other} <= there:
                raise HloError(f"{asked} and {other} do not go together", hint=why[asked])
    return there

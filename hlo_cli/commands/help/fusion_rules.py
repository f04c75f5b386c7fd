"""The generated part of `hlo help fusion`: the rules for pairs of producer and consumer."""

from __future__ import annotations

from hlo_cli.analysis.fusion.cpu_rules import PAIR_RULES


def markdown() -> str:
    """The rules that `hlo fuse --why-not` names, as a Markdown table.

    >>> markdown().splitlines()[2]
    '| `loop` | allowed: the producer can be fused into the loop of the consumer |'
    """
    rows = (
        f"| `{rule.name}` | {'allowed: ' if rule.fuses else ''}{rule.explain('the producer', 'the consumer')} |"
        for rule in PAIR_RULES
    )
    return "\n".join(("| rule | meaning |", "|---|---|", *rows))

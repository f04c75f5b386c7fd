"""Names of pairs in `--why-not NAME` and `--why-not PRODUCER,CONSUMER`, and what holds for all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hlo_cli.commands.fuse_gpu.pairs_table import PairRow

ALL_CONSUMERS: Final = (
    "XLA fuses a producer into all of its consumers or into none: a reason can be that of another consumer, and "
    "times include all of them"
)


def is_selected(names: Sequence[str], producer: str, consumer: str) -> bool:
    """Whether a pair has the one name that is given, or is the pair of two names, in any order.

    >>> is_selected(("a",), "a", "b"), is_selected(("b", "a"), "a", "b"), is_selected(("a", "c"), "a", "b")
    (True, True, False)
    """
    return {producer, consumer}.issuperset(names) and len(set(names)) == len(names)


def no_pair(names: Sequence[str]) -> str:
    """The answer if no pair has the given names.

    >>> no_pair(("a", "b"))
    'a and b are not producer and consumer in separate kernels'
    """
    if len(names) > 1:
        return f"{' and '.join(names)} are not producer and consumer in separate kernels"
    return f"{names[0]} is not a producer or consumer in a pair of kernels"


def next_pair(argument: str, rows: Sequence[PairRow], option: str = "") -> tuple[str, ...]:
    """The command that explains the first of several pairs whose times decided; none for a single pair."""
    found = next((row for row in rows if row.fused_seconds is not None), rows[0] if rows else None)
    if found is None or len(rows) == 1 or not argument or argument == "-":
        return ()
    return (f"hlo fuse {argument} {found.producer},{found.consumer} --why-not{option}",)

"""Groups of values, kernels, or transfers with one key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from hlo_cli.dataclass import dataclass
from hlo_cli.report.table import Column, Share, Unit

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import By, Key

T = TypeVar("T")

_UNITS: Final[dict[str, Unit]] = {"source": "source", "scope": "op_name", "argument": "name", "pass": "text"}


@dataclass(frozen=True, slots=True)
class Group(Generic[T]):
    """The members with a key; those in `inferred` have it from other instructions.

    `layers` is the number of distinct names that the key stands for, such as 12 for `layers/*/attention`.
    """

    key: str
    members: tuple[T, ...]
    inferred: tuple[T, ...]
    layers: int


def group_by(members: Iterable[T], key_of: Callable[[T], Key]) -> tuple[Group[T], ...]:
    """The groups of members, in the order of their first members.

    >>> from hlo_cli.analysis.origin.origins import Key
    >>> [group] = group_by("ab", lambda letter: Key("f/*", f"f/{letter}", letter == "b"))
    >>> group.key, group.members, group.inferred, group.layers
    ('f/*', ('a', 'b'), ('b',), 2)
    """
    found: dict[str, tuple[list[T], list[T], set[str]]] = {}
    for member in members:
        key = key_of(member)
        all_members, inferred, names = found.setdefault(key.text, ([], [], set()))
        all_members.append(member)
        names.add(key.name)
        if key.is_inferred:
            inferred.append(member)
    return tuple(Group(key, tuple(many), tuple(few), len(names)) for key, (many, few, names) in found.items())


def key_columns(
    by: By, cost: str, groups: Sequence[Group[T]], *, has_inferred: bool, inferred_from_width: int = 0
) -> tuple[Column, ...]:
    """The columns of the key: layers, the share of the bytes in column `cost` with an inferred key, and the key.

    `inferred_from_width` is the narrowest screen that shows the share.
    """
    has_layers = by in ("scope", "argument") and any(group.layers > 1 for group in groups)
    return (
        Column("layers", "layers", "count", person=has_layers),
        Column("inferred_bytes", "inferred", "bytes", total="sum", person=False),
        Column(
            "inferred_share",
            "inferred",
            "percent",
            total=Share("inferred_bytes", cost),
            person=has_inferred,
            from_width=inferred_from_width,
        ),
        Column(by, by, _UNITS[by]),
    )


def key_cells(group: Group[T], cost: int, inferred: int) -> tuple[int, int, float | None, str]:
    """The cells of `key_columns`, of a group with this cost, of which a part has an inferred key.

    >>> key_cells(Group("a.py:3", ("x",), (), 1), 8, 2)
    (1, 2, 0.25, 'a.py:3')
    """
    return group.layers, inferred, inferred / cost if cost else None, group.key

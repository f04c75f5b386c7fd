"""The exposed part of all transfers: of async pairs, and synchronous transfers as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.dataclass import dataclass
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, number_of


@dataclass(frozen=True, slots=True)
class Exposed:
    """Bytes of all transfers and of the exposed ones; with a chip, exposed seconds and their share of an execution.

    `seconds` is None without a chip and if all times are unknown; it is a lower bound unless `is_known`. `share` is
    None unless all times are known.
    """

    transfers: int
    total_bytes: int
    bytes: int
    seconds: float | None
    is_known: bool
    share: float | None


def exposed_of(schedule: Report) -> Exposed:
    """The numbers of the report on async pairs, summed up over both kinds of transfers.

    >>> numbers = {"pairs": 2, "bytes": 8, "exposed_bytes": 4, "synchronous": 1, "synchronous_bytes": 2}
    >>> times = {"exposed_seconds": 1.0, "synchronous_seconds": 1.0, "execution_seconds": 8.0, "lower_bounds": ()}
    >>> found = exposed_of(Report("schedule", "", numbers={**numbers, **times}))
    >>> found.transfers, found.bytes, found.total_bytes, found.seconds, found.share
    (3, 6, 10, 2.0, 0.25)
    """
    numbers = schedule.numbers
    names = ("exposed_seconds", "synchronous_seconds")
    has_times = "execution_seconds" in numbers
    is_known = has_times and all(number_of(numbers.get(name)) is not None for name in names)
    known = [number_of(numbers.get(name)) or number_of(numbers.get(f"known_{name}")) or 0.0 for name in names]
    seconds = sum(known) if is_known or any(known) else None
    execution = number_of(numbers.get("execution_seconds"))
    is_exact = is_known and not numbers.get("lower_bounds")
    return Exposed(
        transfers=_count(numbers, "pairs") + _count(numbers, "synchronous"),
        total_bytes=_count(numbers, "bytes") + _count(numbers, "synchronous_bytes"),
        bytes=_count(numbers, "exposed_bytes") + _count(numbers, "synchronous_bytes"),
        seconds=seconds if has_times else None,
        is_known=is_known,
        share=seconds / execution if is_exact and seconds is not None and execution else None,
    )


def _count(numbers: Mapping[str, Cell], name: str) -> int:
    cell = numbers.get(name)
    return cell if isinstance(cell, int) else 0

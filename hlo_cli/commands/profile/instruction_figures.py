"""Figures of one operation: how its times are spread, and what its tiles take at the peak bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.operation_times import Calls, TouchedTiles, histogram
from hlo_cli.report.figure import Figure
from hlo_cli.report.numbers import format_rate, format_seconds
from hlo_cli.report.table import Cell
from hlo_cli.report.text import Line, line_of

if TYPE_CHECKING:
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.timed import Timed

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_MOST_BINS: Final = 60


def histogram_of(calls: Calls) -> Figure:
    """How many events took how long, from the least to the greatest time."""
    seconds = calls.seconds
    least, greatest = format_seconds(min(seconds)), format_seconds(max(seconds))

    def draw(room: int) -> tuple[Line, ...]:
        bins = max(min(room - len(least) - len(greatest) - 2, _MOST_BINS), 1)
        counts = histogram(seconds, bins)
        most = max(counts)
        bars = "".join(_BLOCKS[-(-count * len(_BLOCKS) // most) - 1] if count else " " for count in counts)
        return (line_of(f"{least} {bars} {greatest}"),)

    data: dict[str, Cell] = {
        "least_seconds": min(seconds),
        "greatest_seconds": max(seconds),
        "counts": tuple(histogram(seconds, 20)),
    }
    return Figure("histogram", draw, data=data)


def bars_of(measured: Measured, timed: Timed, tiles: Sequence[TouchedTiles]) -> Figure | None:
    """The measured time of a call next to the times that its bytes and its tiles take at the peak bandwidth."""
    peaks = measured.roofs.peaks(timed.operation)
    if not tiles or peaks is None or not peaks.main_bytes or not timed.measure.calls:
        return None
    touched = sum(each.bytes for each in tiles)
    rows = [("bytes, XLA's count", (timed.operation.bytes or 0.0) / peaks.main_bytes)]
    rows.append(("tiles, once", touched / peaks.main_bytes))
    if any(each.is_written for each in tiles):
        written = sum(each.bytes for each in tiles if each.is_written)
        rows.append(("tiles, read and written", (touched + written) / peaks.main_bytes))
    rows.append(("measured", timed.measure.total / timed.measure.calls))
    longest = max(seconds for _, seconds in rows)
    names = max(len(name) for name, _ in rows)
    times = [format_seconds(seconds) for _, seconds in rows]
    width = max(map(len, times))

    def draw(room: int) -> tuple[Line, ...]:
        bars = max(room - names - width - 4, 1)
        return tuple(
            line_of(f"{time:>{width}}  {name:<{names}}  {'▇' * max(round(seconds / longest * bars), 1)}")
            for time, (name, seconds) in zip(times, rows, strict=True)
        )

    title = f"At {format_rate(peaks.main_bytes, 'B')}"
    return Figure("tile_times", draw, title=title, data=dict(rows))

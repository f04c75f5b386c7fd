"""The axes of a picture: bytes on the left, steps below, marks above, and loops as brackets under the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.render.bins import Axis, tick_interval
from hlo_cli.render.draw.loops import loop_levels, trips_text
from hlo_cli.render.sanitize import sanitize
from hlo_cli.render.web.markup import safe, short, shortened
from hlo_cli.render.web.picture import GLYPH, HEIGHT, Frame, Room
from hlo_cli.report.loop import Loop
from hlo_cli.report.numbers import (
    BYTE_UNITS,
    SECOND_UNITS,
    axis_unit,
    format_count,
    format_scaled,
    format_seconds,
    in_second_unit,
)
from hlo_cli.report.timeline import Mark

BETWEEN_TICKS: Final = 40
BETWEEN_STEPS: Final = 80
AXIS_HEIGHT: Final = 24
LOOP_HEIGHT: Final = 24
MAX_LEVELS: Final = 6
MAX_BRACKETS: Final = 300
MIN_WIDTH: Final = 2
MIN_NAME: Final = 12


def byte_axis(frame: Frame) -> Iterator[str]:
    """Horizontal lines at round numbers of bytes, with the numbers on the left; all in one unit.

    >>> [line.partition(">")[2] for line in byte_axis(Frame(0, 9, 3594 * 1024)) if "text" in line]
    ['0</text>', '1</text>', '2</text>', '3 MiB</text>']
    """
    room = frame.room
    unit = axis_unit(frame.scale)
    part = 10 if unit else 1
    interval = tick_interval(max(frame.scale * part // 1024**unit, 1), HEIGHT, BETWEEN_TICKS)
    ticks = range(0, frame.scale * part // 1024**unit + 1, interval)
    for tenths in ticks:
        y = frame.y(tenths * 1024**unit / part)
        words = format_scaled(tenths, part, 1 if interval % part else 0)
        sign = f" {BYTE_UNITS[unit]}" if tenths == ticks[-1] else ""
        yield f'<path class="grid" d="M{room.left} {short(y)}h{room.width}"/>'
        yield f'<text class="quiet end" x="{room.left - 6}" y="{short(y + 4)}">{words}{sign}</text>'


def step_axis(frame: Frame, steps: int, y: float) -> Iterator[str]:
    """Ticks at round steps, and the number of steps at the end."""
    room = frame.room
    axis = Axis(0, frame.columns, steps)
    last = f"{format_count(steps, 'steps')}"
    for step in range(0, steps, tick_interval(steps, room.width, BETWEEN_STEPS)):
        x = frame.x(axis.cell(step))
        yield f'<path class="bracket" d="M{short(x)} {short(y)}v5"/>'
        if x <= room.right - GLYPH * (len(last) + len(f"{step:,}")):
            yield f'<text class="quiet middle" x="{short(x)}" y="{short(y + 17)}">{step:,}</text>'
    yield f'<text class="quiet end" x="{room.right}" y="{short(y + 17)}">{last}</text>'


def time_axis(frame: Frame, seconds: float, y: float) -> Iterator[str]:
    """Ticks at round times, all in one unit, and the total time at the end.

    >>> [line.partition(">")[2] for line in time_axis(Frame(0, 9, 0), 25e-6, 0) if "text" in line]
    ['0</text>', '5</text>', '10</text>', '15</text>', '20</text>', '25.0 µs</text>']
    """
    room = frame.room
    unit = SECOND_UNITS.index(format_seconds(seconds).rpartition(" ")[2])
    whole = in_second_unit(seconds, unit)
    last = format_seconds(seconds)
    parts = 1 if whole >= 10 else 10
    interval = tick_interval(max(int(whole * parts), 1), room.width, BETWEEN_STEPS)
    for tick in range(0, int(whole * parts) + 1, interval):
        x = room.left + room.width * tick / (whole * parts)
        words = format_scaled(tick, parts, 0 if parts == 1 or interval % 10 == 0 else 1)
        yield f'<path class="bracket" d="M{short(x)} {short(y)}v5"/>'
        if x <= room.right - GLYPH * (len(last) + len(words)):
            yield f'<text class="quiet middle" x="{short(x)}" y="{short(y + 17)}">{words}</text>'
    yield f'<text class="quiet end" x="{room.right}" y="{short(y + 17)}">{last}</text>'


def pointer(mark: Mark, role: str, frame: Frame, steps: int, y: float) -> Iterator[str]:
    """A mark: a triangle with its words above a step, and a line down to the axis."""
    axis = Axis(0, frame.columns, steps)
    x = frame.x(axis.cell(mark.step) + 0.5)
    room = frame.room
    ends = x > room.left + room.width / 2
    looks, at = ("end", x - 8) if ends else ("start", x + 8)
    line = "peak" if role == "alarm" else "mark"
    yield f'<path class="{line}" d="M{short(x)} {short(y)}V{short(frame.top + HEIGHT)}"/>'
    yield f'<text class="{role} middle" x="{short(x)}" y="{short(y)}">▼</text>'
    words = shortened(mark.label, int(room.width / 2 / GLYPH))
    yield f'<text class="{role} {looks}" x="{short(at)}" y="{short(y)}">{safe(words)}</text>'


def brackets(
    loops: Sequence[Loop], frame: Frame, steps: int, top: float, *, counts_steps: bool = True
) -> tuple[list[str], float]:
    """The loops below the steps, inner ones below outer ones, and their total height."""
    axis = Axis(0, frame.columns, steps)
    drawn: list[str] = []
    depth = 0
    for level in loop_levels(loops, steps)[:MAX_LEVELS]:
        longest = sorted(level, key=lambda loop: (loop.start - loop.end, loop.start))[:MAX_BRACKETS]
        placed = [(frame.x(axis.cell(loop.start)), frame.x(axis.cell(loop.end) + 1), loop) for loop in longest]
        wide = [(left, right, loop) for left, right, loop in placed if right - left >= MIN_WIDTH]
        names = _names(wide, frame.room)
        for left, right, loop in wide:
            drawn += _bracket(loop, left, right, top + depth * LOOP_HEIGHT, names.get(loop, ""), counts_steps)
        depth += bool(wide)
    return drawn, depth * LOOP_HEIGHT


def _names(placed: Sequence[tuple[float, float, Loop]], room: Room) -> dict[Loop, str]:
    """The names of loops that have room for one, centered below its bracket; those of the longest loops first."""
    taken: list[tuple[float, float]] = []
    names = {}
    for left, right, loop in placed:
        words = sanitize(loop.name) + trips_text(loop)
        length = min(len(words), max(int((right - left) / GLYPH), MIN_NAME))
        name = words if length == len(words) else shortened(loop.name, max(length - len(trips_text(loop)), 4))
        name = name if name == words else name + trips_text(loop)
        half, middle = len(name) * GLYPH / 2 + 3, (left + right) / 2
        begin, end = middle - half, middle + half
        if begin >= 0 and end <= room.page and all(end <= other or begin >= last for other, last in taken):
            taken.append((begin, end))
            names[loop] = name
    return names


def _bracket(loop: Loop, left: float, right: float, y: float, name: str, counts_steps: bool) -> Iterator[str]:
    words = loop.name + trips_text(loop)
    title = f"{words}, steps {loop.start:,}–{loop.end:,}" if counts_steps else words
    path = f"M{short(left + 1)} {short(y)}v6H{short(right - 1)}v-6"
    yield f'<g><title>{safe(title)}</title><path class="bracket" d="{path}"/>'
    if name:
        yield f'<text class="code middle" x="{short((left + right) / 2)}" y="{short(y + 18)}">{safe(name)}</text>'
    yield "</g>"

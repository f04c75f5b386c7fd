"""Timelines as pictures: one for each track from top to bottom, with the loops below the last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from hlo_cli.render.web.axes import AXIS_HEIGHT, brackets, byte_axis, pointer, step_axis
from hlo_cli.render.web.markup import safe, short, shortened
from hlo_cli.render.web.picture import HEIGHT, NARROW, WIDE, Frame, Room, areas, document, legend, limit_line
from hlo_cli.render.web.stack import Stack, stack_of
from hlo_cli.report.numbers import format_bytes
from hlo_cli.report.timeline import Mark, Timeline, Track

HEADING: Final = 20
MARK_LINE: Final = 16
BELOW: Final = 18
MAX_NAME_LENGTH: Final = 60


def drawing(
    timeline: Timeline, top: float, *, key: str = "t", with_readout: bool = False, room: Room = WIDE
) -> tuple[list[str], float]:
    """The elements of the picture from `top` on, and its lower edge.

    With `with_readout`, every track has, for each column, its step, bytes, and instruction.

    >>> elements, end = drawing(Timeline("memory", (Track("HBM", (5, 8)),)), 0)
    >>> elements[0], end
    ('<g class="track">', 318)
    """
    elements: list[str] = []
    tracks = [track for track in timeline.tracks if track.totals]
    for at, track in enumerate(tracks):
        stack = stack_of(track, room.width)
        lines = 1 + len(track.marks)
        frame = Frame(top + HEADING * (1 + room.is_narrow) + lines * MARK_LINE, len(stack.steps), stack.top, room)
        readout = f" {_readout(stack, frame, timeline)}" if with_readout else ""
        elements.append(f'<g class="track"{readout}>')
        elements += _track(track, stack, frame, timeline, f"{key}{at}")
        bottom = frame.top + HEIGHT + AXIS_HEIGHT + BELOW
        if at == len(tracks) - 1:
            drawn, height = brackets(timeline.loops, frame, timeline.steps, bottom - BELOW)
            elements += drawn
            bottom += height
        drawn, end = legend(stack, frame, f"{key}{at}", bottom - BELOW if room.is_narrow else frame.top)
        elements += drawn
        elements.append("</g>")
        top = max(bottom, end + BELOW)
    return elements, top


def figure_of_timeline(timeline: Timeline, key: str) -> Iterator[str]:
    """The picture for a page, in a wide and a narrow form, of which the page shows the one that fits."""
    label = f"Live bytes at every step: {', '.join(track.name for track in timeline.tracks)}"
    for room in (WIDE, NARROW):
        with_readout = not room.is_narrow  # the values at a pointer, which small screens do not have
        elements, height = drawing(timeline, 0, key=f"{key}{room.name[0]}", with_readout=with_readout, room=room)
        yield from document(elements, height, label=label, room=room)


def _track(track: Track, stack: Stack, frame: Frame, timeline: Timeline, key: str) -> Iterator[str]:
    yield from _heading(track, stack, frame, timeline)
    yield from byte_axis(frame)
    yield f'<g class="areas">{"".join(areas(stack, frame, key))}</g>'
    yield from limit_line(stack.scale.limit, frame)
    yield from step_axis(frame, timeline.steps, frame.top + HEIGHT)
    y = frame.top - 5
    if stack.scale.step is not None:
        yield from pointer(Mark(stack.scale.step, "peak"), "alarm", frame, timeline.steps, y)
    for line, mark in enumerate((mark for mark in track.marks if 0 <= mark.step < timeline.steps), start=1):
        yield from pointer(mark, "strong", frame, timeline.steps, y - line * MARK_LINE)


def _heading(track: Track, stack: Stack, frame: Frame, timeline: Timeline) -> Iterator[str]:
    """The name of the memory, and its peak; in a narrow picture on two lines."""
    y = frame.top - (1 + len(track.marks)) * MARK_LINE - 4
    words = "empty"
    if (step := stack.scale.step) is not None:
        words = f"peak {format_bytes(stack.scale.peak)} at step {step:,}"
        if step < len(timeline.instructions) and not frame.room.is_narrow:
            words += f", {shortened(timeline.instructions[step], MAX_NAME_LENGTH)}"
    if track.limit_bytes is not None:
        words += f"; limit {format_bytes(track.limit_bytes)}"
    left = frame.room.left
    if frame.room.is_narrow:
        name = safe(shortened(track.name, MAX_NAME_LENGTH // 2))
        yield f'<text class="head" x="{left}" y="{short(y - HEADING)}">{name}</text>'
        yield f'<text class="quiet" x="{left}" y="{short(y)}">{safe(words)}</text>'
        return
    name = f'<tspan class="head">{safe(shortened(track.name, MAX_NAME_LENGTH))}</tspan>'
    yield f'<text x="{left}" y="{short(y)}">{name} <tspan class="quiet" dx="6">{safe(words)}</tspan></text>'


def _readout(stack: Stack, frame: Frame, timeline: Timeline) -> str:
    """The data for the script that shows the values at the pointer."""
    names = timeline.instructions
    rows = [
        [step, total, shortened(names[step], MAX_NAME_LENGTH) if step < len(names) else ""]
        for step, total in zip(stack.steps, stack.totals, strict=True)
    ]
    box = f"{frame.room.left} {short(frame.top)} {frame.room.width} {HEIGHT}"
    return f'data-box="{box}" data-steps="{safe(json.dumps(rows, separators=(",", ":")))}"'

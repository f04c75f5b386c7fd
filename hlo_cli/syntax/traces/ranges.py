"""Which NVTX ranges of XLA are around a point of time in a thread: the innermost module and instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hlo_cli.ir.traces.trace import Value
from hlo_cli.syntax.traces.annotations import MODULE, annotation_of, step_of

_OPEN: Final = 1 << 63
Values = Mapping[str, Value]


class Point(NamedTuple):
    """A point of time in a thread: the place among those of the thread, in the order of asking."""

    thread: int
    place: int


class Ranges:
    """Ranges and points are added first; `solve` then finds the ranges around all points at once.

    >>> ranges = Ranges()
    >>> _ = ranges.add("XlaModule:#hlo_module=f,program_id=1#", 0, 100, 7)
    >>> _ = ranges.add("Thunk:#hlo_op=dot.1#", 10, 20, 7)
    >>> inside, after = ranges.point(15, 7), ranges.point(50, 7)
    >>> ranges.solve()
    >>> ranges.around(inside)[1], ranges.around(after)[1]
    ({'hlo_op': 'dot.1'}, None)
    """

    def __init__(self) -> None:
        self._ranges: dict[int, list[tuple[int, int, str, Values]]] = {}
        self._points: dict[int, list[int]] = {}
        self._found: dict[int, list[tuple[Values | None, Values | None]]] = {}

    def add(self, text: str, start: int, end: int | None, thread: int) -> tuple[str, Values] | None:
        """Adds a range if it is one of XLA; one without an end is open. A step is returned instead."""
        annotation = annotation_of(text)
        if annotation is None:
            return step_of(text)
        self._ranges.setdefault(thread, []).append((start, _OPEN if end is None else end, *annotation))
        return None

    def point(self, time: int, thread: int) -> Point:
        """Adds a point."""
        points = self._points.setdefault(thread, [])
        points.append(time)
        return Point(thread, len(points) - 1)

    def around(self, point: Point) -> tuple[Values | None, Values | None]:
        """What the innermost module and the innermost instruction around a point hold."""
        return self._found[point.thread][point.place]

    def solve(self) -> None:
        """Finds the ranges around all points, in one pass over each thread in the order of time."""
        for thread, points in self._points.items():
            ranges = sorted(self._ranges.get(thread, ()), key=lambda each: (each[0], -each[1]))
            order = sorted(range(len(points)), key=points.__getitem__)
            found: list[tuple[Values | None, Values | None]] = [(None, None)] * len(points)
            stack: list[tuple[int, Values | None, Values | None]] = []
            following = 0
            for at in order:
                time = points[at]
                while following < len(ranges) and ranges[following][0] <= time:
                    start, end, kind, values = ranges[following]
                    following += 1
                    while stack and stack[-1][0] < start:
                        stack.pop()
                    module = stack[-1][1] if stack else None
                    inner = (values, None) if kind == MODULE else (module, values)
                    stack.append((end, *inner))
                while stack and stack[-1][0] < time:
                    stack.pop()
                found[at] = stack[-1][1:] if stack else (None, None)
            self._found[thread] = found

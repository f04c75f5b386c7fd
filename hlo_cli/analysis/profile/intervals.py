"""Lengths of unions and intersections of intervals of time, in picoseconds."""

from __future__ import annotations

import numpy as np

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.traces.trace import Integers


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Intervals that are sorted, not empty, and do not touch."""

    begins: Integers
    ends: Integers

    @property
    def length(self) -> int:
        """The sum of the lengths.

        >>> union(np.array([0, 5, 6]), np.array([2, 7, 9])).length
        6
        """
        return int((self.ends - self.begins).sum())

    def covered(self, begins: Integers, ends: Integers) -> Integers:
        """How much of each interval from `begins` to `ends` lies in these.

        >>> union(np.array([0, 5]), np.array([2, 9])).covered(np.array([1, 3]), np.array([6, 4])).tolist()
        [2, 0]
        """
        return self._until(ends) - self._until(begins)

    def _until(self, times: Integers) -> Integers:
        """How much of these lies before each time."""
        if not len(self.begins):
            return np.zeros(len(times), np.int64)
        lengths = np.concatenate(([0], np.cumsum(self.ends - self.begins)))
        at = np.searchsorted(self.begins, times, side="right")
        before = np.maximum(at - 1, 0)
        inside = np.minimum(times, self.ends[before]) - self.begins[before]
        result: Integers = np.where(at > 0, lengths[before] + inside, 0)
        return result


def union(begins: Integers, ends: Integers) -> Intervals:
    """The union of intervals; those that are empty add nothing.

    >>> found = union(np.array([4, 0, 1]), np.array([5, 2, 3]))
    >>> found.begins.tolist(), found.ends.tolist()
    ([0, 4], [3, 5])
    """
    kept = ends > begins
    begins, ends = begins[kept], ends[kept]
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    if not len(begins):
        return Intervals(begins, ends)
    reached = np.maximum.accumulate(ends)
    first = np.concatenate(([True], begins[1:] > reached[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Intervals(begins[first], reached[last])

"""Busy time that several operations share is divided between those that run: picosecond by picosecond."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from hlo_cli.analysis.profile.profile import Occurrences, busy_of, shared_times

Row = tuple[int, int, int, int]
"""Device, line, begin, and end of an operation."""


def nested(random: Random, device: int, line: int, begin: int, end: int, depth: int = 0) -> list[Row]:
    """Operations on a line, one after another with gaps, others inside of them."""
    rows: list[Row] = []
    at = begin + random.randrange(3)
    while at < end:
        until = min(end, at + random.randrange(1, 9))
        rows.append((device, line, at, until))
        if depth < 2 and random.random() < 0.5:
            rows += nested(random, device, line, at, until, depth + 1)
        at = until + random.randrange(3)
    return rows


def innermost(rows: list[Row], time: int) -> list[int]:
    """The operations that run at a time: on each line that which no other is inside of, the last to begin."""
    running: dict[tuple[int, int], int] = {}
    for number, (device, line, begin, end) in enumerate(rows):
        if begin <= time < end:  # those inside come after the one around them
            running[device, line] = number
    return list(running.values())


def occurrences(rows: list[Row]) -> Occurrences:
    own = Counter(number for time in range(64) for number in innermost(rows, time))
    devices, lines, begins, ends = np.array(rows, np.int64).T
    zeros = np.zeros(len(rows), np.int64)
    self_ps = np.array([own[number] for number in range(len(rows))], np.int64)
    return Occurrences((), zeros, devices, lines, zeros, begins, ends - begins, self_ps, zeros + 1, zeros, ("0", "1"))


@pytest.mark.parametrize("seed", range(20))
def test_what_runs_at_a_time_shares_it(seed: int) -> None:
    random = Random(seed)
    rows = [row for line in range(1 + seed % 4) for row in nested(random, line % 2, line, 0, 50)]
    expected = [0.0] * len(rows)
    for time in range(64):
        running = innermost(rows, time)
        for device in (0, 1):
            here = [number for number in running if rows[number][0] == device]
            for number in here:
                expected[number] += 1 / len(here)
    found = occurrences(rows)
    shared = shared_times(found)
    np.testing.assert_allclose(found.self_ps if shared is None else shared, expected)
    assert sum(each.length for each in busy_of(found)) == pytest.approx(sum(expected))

"""Several processes: whatever becomes of them, results come in order, one that ends costs one item, and nothing hangs."""

from __future__ import annotations

import multiprocessing.connection
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, islice
from multiprocessing import active_children
from pathlib import Path

import pytest

from hlo_cli.inputs import parallel
from hlo_cli.inputs.parallel import in_order
from processes import is_gone, until

LARGE = 1 << 22
"""Bytes that no pipe takes at once."""

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are stopped and killed as Unix does it"),
]


def _square(number: int) -> int:
    return number * number


def _numbers(jobs: int, items: Iterable[int], function: Callable[[int], int] = _square) -> list[int]:
    return list(in_order(function, items, jobs=jobs, lost=lambda number: -number))


@pytest.mark.parametrize("jobs", [1, 2, 3])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 40])
def test_results_come_in_order(jobs: int, number: int) -> None:
    assert _numbers(jobs, range(number)) == [n * n for n in range(number)]
    assert not active_children()


@pytest.mark.parametrize("number", [1, 2, 3, 4, 7])
def test_answers_may_arrive_together(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do when the first process is stopped for a while, or the machine is busy."""
    wait = multiprocessing.connection.wait

    def wait_for_all(pipes: Sequence[object], timeout: float | None = None) -> list[object]:
        assert pipes, "nobody owes an answer"
        return [pipe for pipe in pipes if wait([pipe], 30)]  # type: ignore[list-item]

    monkeypatch.setattr(multiprocessing.connection, "wait", wait_for_all)
    for jobs in (2, 3):
        assert _numbers(jobs, range(number)) == [n * n for n in range(number)]


def _die_at(death: int, number: int) -> int:
    if number == death:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


@pytest.mark.parametrize("jobs", [2, 4])
@pytest.mark.parametrize("death", [0, 3, 19])
def test_a_process_that_ends_loses_one_item_and_no_more(jobs: int, death: int) -> None:
    found = _numbers(jobs, range(1, 21), partial(_die_at, death + 1))
    assert found == [-number if number == death + 1 else number * number for number in range(1, 21)]


def _die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_all_processes_may_end() -> None:
    assert _numbers(2, range(1, 5), _die) == [-1, -2, -3, -4]


def test_a_process_that_ends_between_items_loses_no_more_than_it_was_given() -> None:
    results = in_order(_square, count(), jobs=2, lost=lambda number: -number)
    assert next(results) == 0
    time.sleep(0.1)  # in which most answer all that they were given
    for process in active_children():
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join(10)
    rest = list(islice(results, 50))
    assert all(found in (number * number, -number) for number, found in enumerate(rest, 1))
    assert sum(found < 0 for found in rest) <= 2
    results.close()


class _Endless:
    """A value that takes a while to write, and whose process ends before it is through with it."""

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        if os.fork() == 0:
            time.sleep(0.3)
            os.kill(os.getppid(), signal.SIGKILL)
            os._exit(0)
        return bytes, (bytes(1 << 28),)


def _endless_at_two(number: int) -> object:
    return _Endless() if number == 2 else number


def test_a_process_may_end_in_the_middle_of_an_answer() -> None:
    """A pool of `concurrent.futures` waits for the rest of the answer for ever."""
    results = in_order(_endless_at_two, range(1, 6), jobs=2, lost=lambda number: -number)
    first = next(results)
    time.sleep(0.6)  # the pipe is full, and nobody reads on until the process has ended
    assert [first, *results] == [1, -2, 3, 4, 5]


def _leave_a_child(path: str, number: int) -> int:
    """Ends, but for a copy of it that keeps its pipe open."""
    if number == 2:
        child = os.fork()
        if child == 0:
            time.sleep(50)
            os._exit(0)
        Path(path).write_text(str(child))
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_process_is_missed_even_where_its_pipe_stays_open(tmp_path: Path) -> None:
    left = tmp_path / "left"
    started = time.monotonic()
    try:
        assert _numbers(2, range(1, 5), partial(_leave_a_child, str(left))) == [1, -2, 3, 4]
    finally:
        os.kill(int(left.read_text()), signal.SIGKILL)
    assert time.monotonic() - started < 45


def _stop_at(stop: int, path: str, number: int) -> int:
    if number == stop:
        with open(path, "a") as file:
            file.write(f"{os.getpid()}\n")
        os.kill(os.getpid(), signal.SIGSTOP)
    return number * number


def test_a_process_that_is_stopped_goes_on(tmp_path: Path) -> None:
    stopped = tmp_path / "stopped"

    def items() -> Iterator[int]:
        for number in range(60):
            if number == 25:
                until(stopped.exists)
                time.sleep(1.5 * parallel._SILENCE)  # so that it is looked at while it is stopped
                os.kill(int(stopped.read_text()), signal.SIGCONT)
            yield number

    assert _numbers(2, items(), partial(_stop_at, 3, str(stopped))) == [n * n for n in range(60)]


def test_a_process_that_is_stopped_delays_nobody_who_wants_no_more(tmp_path: Path) -> None:
    stopped = tmp_path / "stopped"
    results = in_order(partial(_stop_at, 1, str(stopped)), count(), jobs=2, lost=lambda number: -number)
    assert next(results) == 0
    until(stopped.exists)
    started = time.monotonic()
    results.close()
    assert time.monotonic() - started < parallel._FAREWELL
    assert is_gone(int(stopped.read_text()))
    assert not active_children()


@pytest.mark.parametrize("jobs", [1, 2, 4])
@pytest.mark.parametrize("number", [0, 1, 2, 5, 40])
def test_what_items_raise_comes_after_the_results_before_it(jobs: int, number: int) -> None:
    def items() -> Iterator[int]:
        yield from range(number)
        raise LookupError("no more")

    results = in_order(_square, items(), jobs=jobs, lost=lambda number: -number)
    assert list(islice(results, number)) == [n * n for n in range(number)]
    with pytest.raises(LookupError, match="no more"):
        next(results)
    assert not active_children()


def _raise_at_three(number: int) -> int:
    if number == 3:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - where the process would show its stack
        raise LookupError
    return number


def test_what_the_function_raises_loses_one_item() -> None:
    assert _numbers(2, range(1, 8), _raise_at_three) == [1, 2, -3, 4, 5, 6, 7]


def test_who_stops_early_leaves_no_process() -> None:
    results = in_order(_square, count(), jobs=3, lost=lambda number: -number)
    assert next(results) == 0
    assert active_children()
    results.close()
    assert not active_children()
    results = in_order(_square, count(), jobs=3, lost=lambda number: -number)
    with pytest.raises(ZeroDivisionError):
        any(1 // result for result in results)
    del results
    assert not active_children()


def test_items_are_taken_only_as_there_is_work() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100_000):
            taken.append(number)
            yield number

    results = in_order(abs, items(), jobs=2, lost=abs)
    assert list(islice(results, 3)) == [0, 1, 2]
    assert len(taken) < 100


def _larger(given: bytes) -> bytes:
    return given + bytes(LARGE)


def test_items_and_results_may_be_larger_than_pipes() -> None:
    items = [bytes(LARGE + number) for number in range(8)]
    for result, item in zip(in_order(_larger, items, jobs=2, lost=bytes), items, strict=True):
        time.sleep(0.01)  # which gives every process time to fill its pipe
        assert len(result) == len(item) + LARGE

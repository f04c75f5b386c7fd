"""One function over many items in several processes: results in order, a bounded number under way, no one lost.

`concurrent.futures` gives up all that is under way when one process ends, and `multiprocessing.Pool` waits for it for
ever; here each process has a pipe of its own, so that it is known which item a process ended with.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 16
"""How many items for each process may be done before an earlier one is."""


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, jobs: int, lost: Callable[[Item], Result]
) -> Iterator[Result]:
    """What the function gives for each item, in their order; `lost` gives it where a process ended without a word.

    With one job all is done in this process. With more, function, items and results are pickled, and what the function
    raises ends its process; items are taken only as there is work for them.

    >>> list(in_order(abs, [-1, 2], jobs=1, lost=str))
    [1, 2]
    """
    if jobs <= 1:
        yield from map(function, items)
        return
    team = _Team(function, jobs)
    try:
        yield from team.results(iter(items), lost)
    finally:
        team.end()


class _Team(Generic[Item, Result]):
    """Processes with what each of them is at."""

    def __init__(self, function: Callable[[Item], Result], jobs: int) -> None:
        self._function = function
        self._jobs = jobs
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, int, Item]] = {}

    def results(self, items: Iterator[Item], lost: Callable[[Item], Result]) -> Iterator[Result]:
        done: dict[int, Result] = {}
        due = number = 0
        more = True
        while more or self._busy:
            while more and len(self._busy) < self._jobs and number < due + _AHEAD * self._jobs:
                try:
                    item = next(items)
                except StopIteration:
                    more = False
                    break
                self._give(number, item)
                number += 1
            done.update(self._answers(lost))
            while due in done:
                yield done.pop(due)
                due += 1

    def _give(self, number: int, item: Item) -> None:
        worker = self._idle.pop() if self._idle else _Worker(self._function)
        worker.pipe.send(item)
        self._busy[worker.pipe] = worker, number, item

    def _answers(self, lost: Callable[[Item], Result]) -> Iterator[tuple[int, Result]]:
        for pipe in wait(list(self._busy)) if self._busy else ():
            assert isinstance(pipe, Connection)
            worker, number, item = self._busy.pop(pipe)
            try:
                result: Result = pipe.recv()
            except EOFError:
                worker.end()
                yield number, lost(item)
            else:
                self._idle.append(worker)
                yield number, result

    def end(self) -> None:
        for worker in (*self._idle, *(worker for worker, _, _ in self._busy.values())):
            worker.end()


class _Worker:
    """A process and this end of the pipe to it."""

    def __init__(self, function: Callable[[Item], object]) -> None:
        # A copy of this process starts at once, but must not be made beside other threads.
        alone = sys.platform == "linux" and threading.active_count() == 1
        context = multiprocessing.get_context("fork") if alone else multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(function, other), daemon=True)
        self._process.start()
        other.close()

    def end(self) -> None:
        self.pipe.close()
        self._process.terminate()
        self._process.join()


def _serve(function: Callable[[Item], object], pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process is told, and ends the others
    with suppress(EOFError, OSError):
        while True:
            pipe.send(function(pipe.recv()))

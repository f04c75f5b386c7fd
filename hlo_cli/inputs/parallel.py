"""One function over many items in several processes: results in order, a bounded number under way, no one lost.

`concurrent.futures` gives up all that is under way when one process ends, and `multiprocessing.Pool` waits for it for
ever; here each process has a pipe of its own, so that it is known which item a process ended with.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 16
"""How many items for each process may be done before an earlier one is."""
_QUICK = 0.1
"""Seconds within which an item is done where it costs nothing to have the next one wait behind it."""


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, jobs: int, lost: Callable[[Item], Result]
) -> Iterator[Result]:
    """What the function gives for each item, in their order; `lost` gives it where a process ended without a word.

    With one job all is done in this process. With more, function, items and results are pickled, and what the function
    raises ends its process; items are taken only as there is work for them, and have to fit into a pipe's buffer.

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
    """Processes, each with the items that it has been given and not answered yet."""

    def __init__(self, function: Callable[[Item], Result], jobs: int) -> None:
        self._function = function
        self._jobs = jobs
        self._workers: dict[Connection, _Worker[Item]] = {}
        self._given_back: list[tuple[int, Item]] = []

    def results(self, items: Iterator[Item], lost: Callable[[Item], Result]) -> Iterator[Result]:
        done: dict[int, Result] = {}
        due = 0
        numbered = enumerate(items)
        more = True
        last = -1
        while more or self._given_back or any(worker.given for worker in self._workers.values()):
            while (worker := self._with_room()) is not None and last < due + _AHEAD * self._jobs:
                following = self._given_back.pop() if self._given_back else next(numbered, None)
                if following is None:
                    more = False
                    break
                last = max(last, following[0])
                worker.give(*following)
            done.update(self._answers(lost))
            while due in done:
                yield done.pop(due)
                due += 1

    def _with_room(self) -> _Worker[Item] | None:
        """The process to give the next item to: an idle one, else a new one, else one that is quick."""
        worker = min(self._workers.values(), key=lambda worker: len(worker.given), default=None)
        if (worker is None or worker.given) and len(self._workers) < self._jobs:
            worker = _Worker(self._function)
            self._workers[worker.pipe] = worker
        return worker if worker is not None and worker.has_room else None

    def _answers(self, lost: Callable[[Item], Result]) -> Iterator[tuple[int, Result]]:
        from multiprocessing.connection import Connection, wait

        for pipe in wait([worker.pipe for worker in self._workers.values() if worker.given]):
            assert isinstance(pipe, Connection)
            worker = self._workers[pipe]
            try:
                result: Result = pipe.recv()
            except (EOFError, OSError):
                self._workers.pop(pipe).end()
                number, item = worker.given.popleft()
                self._given_back.extend(worker.given)
                yield number, lost(item)
            else:
                yield worker.done(), result

    def end(self) -> None:
        for worker in self._workers.values():
            worker.end()


class _Worker(Generic[Item]):
    """A process, this end of the pipe to it, and what it has been given and not answered, by number.

    What it does next lies ready for one that is quick, so that it need not wait for this process.
    """

    def __init__(self, function: Callable[[Item], object]) -> None:
        import multiprocessing  # which one input alone does without

        # A copy of this process starts at once, but must not be made beside other threads.
        alone = sys.platform == "linux" and threading.active_count() == 1
        context = multiprocessing.get_context("fork") if alone else multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.given: deque[tuple[int, Item]] = deque()
        self._since = 0.0
        self._is_quick = False
        self._process = context.Process(target=_serve, args=(function, other), daemon=True)
        self._process.start()
        other.close()

    @property
    def has_room(self) -> bool:
        return len(self.given) < (2 if self._is_quick else 1)

    def give(self, number: int, item: Item) -> None:
        if not self.given:
            self._since = time.monotonic()
        self.given.append((number, item))
        with suppress(OSError):  # that it has ended is seen when its answer does not come
            self.pipe.send(item)

    def done(self) -> int:
        """Note an answer; the number of the item that it is for."""
        now = time.monotonic()
        self._is_quick = now - self._since < _QUICK
        self._since = now
        return self.given.popleft()[0]

    def end(self) -> None:
        self.pipe.close()
        self._process.terminate()
        self._process.join()


def _serve(function: Callable[[Item], object], pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process is told, and ends the others
    with suppress(EOFError, OSError):
        while True:
            pipe.send(function(pipe.recv()))

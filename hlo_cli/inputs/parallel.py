"""One function over many items in several processes: results in order, a bounded number under way, no one lost.

Each process has a pipe of its own, so that it is known which item a process ended with. The pools of the standard
library share theirs: `multiprocessing.Pool` never hears of a process that ended, and `concurrent.futures` gives up all
that is under way, or waits for ever where that happened in the middle of an answer.

The two ends of a pipe take turns. A process that has been given nothing reads, and one that has been given an item
works and then writes, so never do both ends write. Every wait ends: writing, when the process has read or has ended;
waiting for answers, which is done only while some process owes one, when it has answered or has ended.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 16
"""How many items for each process may be done before an earlier one is."""
_SILENCE = 1.0
"""Seconds without any answer after which the processes are looked at."""
_FAREWELL = 5.0
"""Seconds for a process to be gone after it was killed; only the system can delay it."""


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, jobs: int, lost: Callable[[Item], Result]
) -> Generator[Result, None, None]:
    """What the function gives for each item, in their order; `lost` gives it where a process ended without a word.

    With one job all is done in this process. With more, function, items and results are pickled, and what the function
    raises ends its process; items are taken only as there is work for them. What taking them raises is raised once
    those before have been answered.

    >>> list(in_order(abs, [-1, 2], jobs=1, lost=str))
    [1, 2]
    """
    if jobs <= 1:
        yield from map(function, items)
        return
    team = _Team(function, items, jobs)
    try:
        yield from team.results(lost)
    finally:
        team.end()


class _Team(Generic[Item, Result]):
    """Processes that do one item each at a time, and the items that none has been given yet."""

    def __init__(self, function: Callable[[Item], Result], items: Iterable[Item], jobs: int) -> None:
        self._function = function
        self._numbered = enumerate(items)
        self._jobs = jobs
        self._workers: list[_Worker[Item, Result]] = []
        self._last = -1
        self._failure: Exception | None = None

    def results(self, lost: Callable[[Item], Result]) -> Iterator[Result]:
        """Rounds of giving items to whoever is idle, waiting for answers and passing on those that are due."""
        done: dict[int, Result] = {}
        due = 0
        while True:
            self._give_out(due + _AHEAD * self._jobs)
            busy = [worker for worker in self._workers if worker.given is not None]
            if not busy:  # nobody was given anything, and what was due is passed on: there are no more items
                break
            done.update(self._answers(busy, lost))
            while due in done:
                yield done.pop(due)
                due += 1
        if self._failure is not None:
            raise self._failure

    def _give_out(self, until: int) -> None:
        """Give items with numbers up to that to all processes that are idle, as long as there are any."""
        while self._last < until and (worker := self._idle()) is not None:
            try:
                following = next(self._numbered, None)
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is raised in its turn
                self._failure, following = failure, None
            if following is None:
                self._numbered = enumerate(())
                return
            self._last, _ = following
            worker.give(following)

    def _idle(self) -> _Worker[Item, Result] | None:
        """A process with nothing to do, a new one where there may be more; not one that ended meanwhile."""
        for worker in self._workers:
            if worker.given is None:
                if worker.is_alive():
                    return worker
                self._dismiss(worker)
                break
        if len(self._workers) == self._jobs:
            return None
        self._workers.append(_Worker(self._function, beside=[worker.pipe for worker in self._workers]))
        return self._workers[-1]

    def _answers(
        self, busy: list[_Worker[Item, Result]], lost: Callable[[Item], Result]
    ) -> Iterator[tuple[int, Result]]:
        """What those who owe an answer have said when one of them has, with the number of its item; or nothing yet."""
        from multiprocessing.connection import wait

        assert busy
        wait([worker.pipe for worker in busy], _SILENCE)
        for worker in busy:
            assert worker.given is not None
            number, item = worker.given
            has_ended = not worker.is_alive()  # asked first: whoever had ended before says no more afterwards
            try:
                if worker.pipe.poll():
                    yield number, worker.answer()
                elif has_ended:
                    raise EOFError
            except (EOFError, OSError):
                self._dismiss(worker)
                yield number, lost(item)

    def _dismiss(self, worker: _Worker[Item, Result]) -> None:
        self._workers.remove(worker)
        worker.kill()
        worker.join()

    def end(self) -> None:
        """End all processes, whatever they are at."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.join()


class _Worker(Generic[Item, Result]):
    """A process, this end of the pipe to it, and the item that it has been given and not answered, with its number."""

    def __init__(self, function: Callable[[Item], Result], *, beside: list[Connection]) -> None:
        import multiprocessing  # which one input alone does without

        # A copy of this process starts at once, but must not be made beside other threads: they may hold locks.
        alone = sys.platform == "linux" and threading.active_count() == 1
        context = multiprocessing.get_context("fork") if alone else multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.given: tuple[int, Item] | None = None
        copied = [*beside, self.pipe] if alone else []
        self._process = context.Process(target=_serve, args=(other, copied), daemon=True)
        with _deaf_to_interrupts():
            self._process.start()
        other.close()  # so that the pipe ends with the process
        self._send(function)

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def give(self, numbered: tuple[int, Item]) -> None:
        self.given = numbered
        self._send(numbered[1])

    def answer(self) -> Result:
        result: Result = self.pipe.recv()
        self.given = None
        return result

    def kill(self) -> None:
        self.pipe.close()
        self._process.kill()  # which ends one that is stopped, too

    def join(self) -> None:
        self._process.join(_FAREWELL)

    def _send(self, value: object) -> None:
        with suppress(OSError):  # that the process has ended is seen when its answer does not come
            self.pipe.send(value)


def _serve(pipe: Connection, copied: Iterable[Connection]) -> None:
    """What a process does: it reads a function, then items until the pipe ends, and answers each.

    What is `copied` are the first process's ends of pipes, which end with that only where no other process has them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process is told, and ends the others
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for other in copied:
        other.close()
    with suppress(EOFError, OSError):
        function = pipe.recv()
        while True:
            pipe.send(function(pipe.recv()))


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ctrl-C waits until the block is done: a process that starts in it is never told before it can ignore that."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

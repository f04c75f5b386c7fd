"""One function over many items in several processes: results in order, a bounded number in progress, no item lost.

Each process has its own pipe, so that the item of a process that died is known. The pools of the standard
library share pipes: `multiprocessing.Pool` does not notice that a process died, and `concurrent.futures` abandons all
items in progress, or hangs if the process died in the middle of an answer.

The two ends of a pipe take turns. An idle process reads, and a busy one computes and then writes, so both ends never
write at once. Every wait ends: a write, when the process has read or died; a wait for answers, which happens only
while a process is busy, when it has answered or died.
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
"""The number of items per process that may be completed before an earlier one."""
_SILENCE = 1.0
"""Seconds without any answer after which the processes are checked."""
_FAREWELL = 5.0
"""Seconds to wait for a killed process to end; only the system can delay it."""


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, jobs: int, lost: Callable[[Item], Result]
) -> Generator[Result, None, None]:
    """The function's result for each item, in order; `lost` makes the result if a process died.

    With one job, everything runs in this process. With more, function, items, and results are pickled, and an exception
    of the function ends its process; items are consumed only as processes need them. An exception of the iterator of
    items is raised after the results of the items before it.

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
    """Worker processes, each with at most one item, and the items not yet assigned."""

    def __init__(self, function: Callable[[Item], Result], items: Iterable[Item], jobs: int) -> None:
        self._function = function
        self._numbered = enumerate(items)
        self._jobs = jobs
        self._workers: list[_Worker[Item, Result]] = []
        self._last = -1
        self._failure: Exception | None = None

    def results(self, lost: Callable[[Item], Result]) -> Iterator[Result]:
        """Hands items to idle workers and yields results in order."""
        done: dict[int, Result] = {}
        due = 0
        while True:
            self._give_out(due + _AHEAD * self._jobs)
            busy = [worker for worker in self._workers if worker.given is not None]
            if not busy:  # no worker is busy, and all results are yielded: there are no more items
                break
            done.update(self._answers(busy, lost))
            while due in done:
                yield done.pop(due)
                due += 1
        if self._failure is not None:
            raise self._failure

    def _give_out(self, until: int) -> None:
        """Hands items with numbers up to `until` to idle workers."""
        while self._last < until and (worker := self._idle()) is not None:
            try:
                following = next(self._numbered, None)
            except Exception as failure:  # noqa: BLE001 - any exception is raised in its turn
                self._failure, following = failure, None
            if following is None:
                self._numbered = enumerate(())
                return
            self._last, _ = following
            worker.give(following)

    def _idle(self) -> _Worker[Item, Result] | None:
        """An idle worker that still runs, or a new one if the number of jobs allows it."""
        for worker in self._workers:
            if worker.given is None:
                if worker.is_alive():
                    return worker
                self._dismiss(worker)
                break
        if len(self._workers) == self._jobs:
            return None
        self._workers.append(_Worker(self._function, others=[worker.pipe for worker in self._workers]))
        return self._workers[-1]

    def _answers(
        self, busy: list[_Worker[Item, Result]], lost: Callable[[Item], Result]
    ) -> Iterator[tuple[int, Result]]:
        """Waits briefly for an answer; yields the answers that have arrived, with their item numbers."""
        from multiprocessing.connection import wait

        assert busy
        wait([worker.pipe for worker in busy], _SILENCE)
        for worker in busy:
            assert worker.given is not None
            number, item = worker.given
            has_ended = not worker.is_alive()  # checked first: a process that had died before sends nothing afterwards
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
        """Kills all processes, busy or not."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.join()


class _Worker(Generic[Item, Result]):
    """A process, this end of its pipe, and its unanswered item with the number."""

    def __init__(self, function: Callable[[Item], Result], *, others: list[Connection]) -> None:
        import multiprocessing  # not needed for a single input

        # A copy of this process starts at once, but must not be made while other threads run: they may hold locks.
        alone = sys.platform == "linux" and threading.active_count() == 1
        context = multiprocessing.get_context("fork") if alone else multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.given: tuple[int, Item] | None = None
        copied = [*others, self.pipe] if alone else []
        self._process = context.Process(target=_serve, args=(other, copied), daemon=True)
        with _interrupts_deferred():
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
        self._process.kill()  # which also ends a stopped process

    def join(self) -> None:
        self._process.join(_FAREWELL)

    def _send(self, value: object) -> None:
        with suppress(OSError):  # a dead process is detected when its answer does not arrive
            self.pipe.send(value)


def _serve(pipe: Connection, copied: Iterable[Connection]) -> None:
    """Main loop of a worker: reads a function, then items until the pipe ends, and answers each.

    `copied` are the first process's ends of pipes; a pipe ends with that process only if no other process has a copy.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process gets it, and ends the others
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for other in copied:
        other.close()
    with suppress(EOFError, OSError):
        function = pipe.recv()
        while True:
            pipe.send(function(pipe.recv()))


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Defers Ctrl-C until the block is done, so that a process started in it can first ignore it."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

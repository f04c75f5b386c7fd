"""One function over many items in several processes: results in order, a bounded number in progress, no item lost.

Each process has its own pipe, so that the item of a process that died is known. The pools of the standard
library share pipes: `multiprocessing.Pool` does not notice that a process died, and `concurrent.futures` abandons all
items in progress, or hangs if the process died in the middle of an answer.

The two ends of a pipe take turns. An idle process reads, and a busy one computes and then writes, so both ends never
write at once. Every wait ends: a write, when the process has read, died, or not read in time; a wait for answers, which
happens only while a process is busy, when it has answered, died, or not answered in time. A process may be stopped
(SIGSTOP, a debugger, a frozen container) in the middle of a message, so this end never waits for the rest of one.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

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
DEFAULT_TIMEOUT: Final = 600.0
"""Seconds for one item: a hundred times what the slowest report on a dump of 15 MB takes."""
_BLOCK: Final = 1 << 18
"""Bytes per read of an answer."""
_SHORT_HEADER, _LONG_HEADER = struct.Struct("!i"), struct.Struct("!Q")
"""The length before each message of `multiprocessing.connection`: -1 and a long one for messages over 2 GiB."""


def in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    jobs: int,
    lost: Callable[[Item], Result],
    timeout: float | None = None,
    late: Callable[[Item], Result] | None = None,
) -> Generator[Result, None, None]:
    """The function's result for each item, in order; `lost` makes the result if a process died.

    With one job, everything runs in this process. With more, function, items, and results are pickled, and an exception
    of the function ends its process; items are consumed only as processes need them. An exception of the iterator of
    items is raised after the results of the items before it. A process that has not answered after `timeout` seconds,
    10 minutes by default, is replaced, and `late` (else `lost`) makes the result; with a `timeout`, one job has a
    process too.

    >>> list(in_order(abs, [-1, 2], jobs=1, lost=str))
    [1, 2]
    """
    if jobs <= 1 and timeout is None:
        yield from map(function, items)
        return
    team = _Team(function, items, jobs, DEFAULT_TIMEOUT if timeout is None else timeout)
    try:
        yield from team.results(lost, late or lost)
    finally:
        team.end()


class _Team(Generic[Item, Result]):
    """Worker processes, each with at most one item, and the items not yet assigned."""

    def __init__(self, function: Callable[[Item], Result], items: Iterable[Item], jobs: int, timeout: float) -> None:
        self._function = function
        self._numbered = enumerate(items)
        self._jobs = max(jobs, 1)
        self._timeout = timeout
        self._workers: list[_Worker[Item, Result]] = []
        self._last = -1
        self._failure: Exception | None = None

    def results(self, lost: Callable[[Item], Result], late: Callable[[Item], Result]) -> Iterator[Result]:
        """Hands items to idle workers and yields results in order."""
        done: dict[int, Result] = {}
        due = 0
        while True:
            self._give_out(due + _AHEAD * self._jobs)
            busy = [worker for worker in self._workers if worker.given is not None]
            if not busy:  # no worker is busy, and all results are yielded: there are no more items
                break
            done.update(self._answers(busy, lost, late))
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
        others = [worker.pipe for worker in self._workers]
        self._workers.append(_Worker(self._function, others=others, timeout=self._timeout))
        return self._workers[-1]

    def _answers(
        self, busy: list[_Worker[Item, Result]], lost: Callable[[Item], Result], late: Callable[[Item], Result]
    ) -> Iterator[tuple[int, Result]]:
        """Waits briefly for an answer; yields the answers that have arrived, with their item numbers."""
        from multiprocessing.connection import wait

        assert busy
        began = time.monotonic()
        wait([worker.pipe for worker in busy], min(_SILENCE, self._timeout))
        # a pause of this process, which was stopped with all others (Ctrl-Z), is not time that an item has taken
        waited = min(time.monotonic() - began, 2 * _SILENCE)
        for worker in busy:
            assert worker.given is not None
            number, item = worker.given
            worker.seconds += waited
            has_ended = not worker.is_alive()  # checked first: a process that had died before sends nothing afterwards
            try:
                if worker.has_answer():
                    yield number, worker.answer()
                elif has_ended:
                    raise EOFError
                elif worker.seconds >= self._timeout:
                    self._dismiss(worker)
                    yield number, late(item)
            except (EOFError, OSError, pickle.UnpicklingError):  # a worker that died, even while it wrote its answer
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
    """A process, this end of its pipe, and its unanswered item with the number; `seconds` since that was given."""

    def __init__(self, function: Callable[[Item], Result], *, others: list[Connection], timeout: float) -> None:
        import multiprocessing  # not needed for a single input

        # A copy of this process starts at once, but must not be made while other threads run: they may hold locks.
        alone = sys.platform == "linux" and threading.active_count() == 1
        context = multiprocessing.get_context("fork") if alone else multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.given: tuple[int, Item] | None = None
        self.seconds = 0.0
        self._timeout = timeout
        self._received = bytearray()
        copied = [*others, self.pipe] if alone else []
        self._process = context.Process(target=_serve, args=(other, copied), daemon=True)
        with _interrupts_deferred():
            self._process.start()
        other.close()  # so that the pipe ends with the process
        if sys.platform != "win32":
            os.set_blocking(self.pipe.fileno(), False)
        self._send(function)

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def give(self, numbered: tuple[int, Item]) -> None:
        self.given = numbered
        self.seconds = 0.0
        self._send(numbered[1])

    def has_answer(self) -> bool:
        """Whether a whole answer has arrived, without waiting for it; EOFError if none can come any more."""
        if sys.platform == "win32":
            return bool(self.pipe.poll())
        while self._message() is None:
            try:
                data = os.read(self.pipe.fileno(), _BLOCK)
            except BlockingIOError:
                return False
            if not data:
                raise EOFError
            self._received += data
        return True

    def answer(self) -> Result:
        """The answer that has arrived."""
        result: Result
        if sys.platform == "win32":
            result = self.pipe.recv()
        else:
            message = self._message()
            assert message is not None
            result = pickle.loads(self._received[slice(*message)])
            self._received.clear()  # the ends take turns: nothing follows an answer
        self.given = None
        return result

    def _message(self) -> tuple[int, int] | None:
        """Where in the received bytes the message begins and ends; None if it is not whole."""
        begin = _SHORT_HEADER.size
        if len(self._received) < begin:
            return None
        [length] = _SHORT_HEADER.unpack_from(self._received)
        if length < 0:
            if len(self._received) < begin + _LONG_HEADER.size:
                return None
            [length] = _LONG_HEADER.unpack_from(self._received, begin)
            begin += _LONG_HEADER.size
        return (begin, begin + length) if len(self._received) >= begin + length else None

    def kill(self) -> None:
        self.pipe.close()
        self._process.kill()  # which also ends a stopped process

    def join(self) -> None:
        self._process.join(_FAREWELL)

    def _send(self, value: object) -> None:
        """Sends a value; a process that is dead or does not read is found when its answer does not arrive."""
        from multiprocessing.reduction import ForkingPickler

        if sys.platform == "win32":
            with suppress(OSError):
                self.pipe.send(value)
            return
        data = ForkingPickler.dumps(value)
        # the format of multiprocessing.Connection: a length of 32 bits, or -1 and one of 64
        is_short = len(data) < 1 << 31
        header = _SHORT_HEADER.pack(len(data)) if is_short else _SHORT_HEADER.pack(-1) + _LONG_HEADER.pack(len(data))
        until = time.monotonic() + self._timeout
        for part in (memoryview(header), memoryview(data)):
            while part:
                try:
                    part = part[os.write(self.pipe.fileno(), part) :]
                except BlockingIOError:
                    if time.monotonic() >= until:
                        self.seconds = self._timeout
                        return
                    _await_writable(self.pipe, _SILENCE)
                except OSError:
                    return


def _serve(pipe: Connection, copied: Iterable[Connection]) -> None:
    """Main loop of a worker: reads a function, then items until the pipe ends, and answers each.

    `copied` are the first process's ends of pipes; a pipe ends with that process only if no other process has a copy.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process gets it, and ends the others
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what the first process cleans up is not this one's
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for other in copied:
        other.close()
    with suppress(EOFError, OSError):
        function = pipe.recv()
        while True:
            pipe.send(function(pipe.recv()))


def _await_writable(pipe: Connection, seconds: float) -> None:
    """Waits until a pipe takes more, or has ended; a file number may be too large for `select`."""
    import selectors

    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_WRITE)
        selector.select(seconds)


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

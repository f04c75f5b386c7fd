"""Copies of this process that work something out, with limits to their time and memory, whatever becomes of them."""

from __future__ import annotations

import os
import resource
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from typing import Generic, NoReturn, TypeVar

Answer = TypeVar("Answer")

_MORE_MEMORY = 4 << 30
"""Bytes that a limited copy may take besides what it has from the start; a test takes less than one gigabyte."""
_ON_THE_WALL = 10
"""Seconds on the wall for one of the processor, as on a machine with many processes for each core."""


class Fork(Generic[Answer]):
    """A copy of this process that works something out; `late` says that it was ended because it took too long."""

    def __init__(self, work: Callable[[], Answer], seconds: int = 0) -> None:
        self.late = False
        self._seconds = seconds
        self._answers, answering = Pipe(duplex=False)
        self._process = os.fork()
        if not self._process:
            os.setpgid(0, 0)
            _limit(seconds)
            _work(work, answering.send)
        answering.close()

    def answer(self) -> Answer | None:
        """What the copy has worked out, once it ends; None if it died or did not end in its time."""
        found: Answer | None = None
        try:
            if self._answers.poll(_ON_THE_WALL * self._seconds or None):
                found = self._answers.recv()
            else:
                self.late = True
        except EOFError:  # it died
            pass
        with suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)  # with what it has started
        _, status = os.waitpid(self._process, 0)
        self._answers.close()
        self.late |= found is None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
        return found


def _work(work: Callable[[], Answer], send: Callable[[Answer], None]) -> NoReturn:
    code = 1
    try:
        send(work())
        code = 0
    except BaseException:  # noqa: BLE001 - there is nobody above
        traceback.print_exc()
    finally:
        os._exit(code)


def end_after(seconds: float) -> None:
    """Ends this process after so many seconds of processor time from now, unless this is called again before."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, resource.RLIM_INFINITY))


def _limit(seconds: int) -> None:
    """Ends this process after so many seconds of processor time, and refuses it much memory; never if 0."""
    if seconds:
        end_after(seconds)
        with open("/proc/self/statm", encoding="ascii") as file:
            has = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (has + _MORE_MEMORY, has + _MORE_MEMORY))

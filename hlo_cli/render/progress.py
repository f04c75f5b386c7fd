"""Progress on standard error for work that takes more than a second, if that is a terminal: a bar, or a count."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Item = TypeVar("Item")

_SECONDS_BEFORE_BAR = 1.0
"""Seconds before the bar is shown: what is done sooner needs none, and a bar that flashes disturbs."""


def watched(items: Iterable[Item], count: int, what: str, *, quiet: bool = False) -> Iterator[Item]:
    """The items, with a bar that shows how many of `count` are done, if standard error is a terminal that can draw it.

    >>> list(watched("ab", 2, "dumps"))
    ['a', 'b']
    """
    if quiet or not _can_draw():
        yield from items
        return
    began, done, source = monotonic(), 0, iter(items)
    for item in source:
        yield item
        done += 1
        if monotonic() - began > _SECONDS_BEFORE_BAR:
            break
    yield from _with_bar(source, done, count, what)


def _with_bar(items: Iterator[Item], done: int, count: int, what: str) -> Iterator[Item]:
    if done >= count:
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} {task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=count, completed=done)
        for item in items:
            yield item
            bar.advance(task)


def _can_draw() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def counted(
    what: str, *, expect: Callable[[], str] | None = None, quiet: bool = False
) -> Iterator[Callable[[int], None] | None]:
    """A function that shows how many are done when it is called with their number; None without a terminal.

    `expect` returns a sentence for work that is expected to take more than a second, which is shown before it begins.
    If the number becomes smaller, a new part of the work has begun, and its number is added.

    >>> with counted("instructions") as show: print(show)
    None
    """
    if quiet or not _can_draw():
        yield None
        return
    count = _Count(what)
    if expect is not None and (words := expect()):
        sys.stderr.write(f"{words}\n")
        sys.stderr.flush()
        count.start()
    try:
        yield count
    finally:
        count.stop()


class _Count:
    """The number of what is done, shown after a second."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = monotonic()
        self._before = self._last = 0
        self._shown: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int) -> None:
        if done < self._last:
            self._before += self._last
        self._last = done
        if self._shown is None and monotonic() - self._began > _SECONDS_BEFORE_BAR:
            self.start()
        if self._shown is not None:
            bar, task = self._shown
            bar.update(task, completed=self._before + done)

    def start(self) -> None:
        """Shows the number from now on."""
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.completed:,.0f} {task.description}"),
            TimeElapsedColumn(),
        )
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._shown = bar, bar.add_task(self._what, total=None)
        bar.start()

    def stop(self) -> None:
        """Removes what is shown."""
        if self._shown is not None:
            self._shown[0].stop()

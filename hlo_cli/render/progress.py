"""A progress bar on standard error for work that takes more than a second, if that is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

Item = TypeVar("Item")

_PATIENCE = 1.0
"""Seconds before the bar is shown."""


def watched(items: Iterable[Item], count: int, what: str, *, quiet: bool = False) -> Iterator[Item]:
    """The items, with a bar that shows how many of `count` are done, if standard error is a terminal that can draw it.

    >>> list(watched("ab", 2, "dumps"))
    ['a', 'b']
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield from items
        return
    began, done, source = monotonic(), 0, iter(items)
    for item in source:
        yield item
        done += 1
        if monotonic() - began > _PATIENCE:
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

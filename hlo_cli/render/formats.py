"""The table of formats: each is a file in this package with a function `render`, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final, TypeAlias

from hlo_cli.render.style import Style
from hlo_cli.report.choice import not_among
from hlo_cli.report.report import Report

Render: TypeAlias = Callable[[Report, Style], Iterator[str]]

FORMATS: Final = ("table", "screen", "json", "jsonl", "csv", "tsv", "md", "html", "svg")
"""What `--format` takes. `table` is for whoever reads: `screen` for a person, `plain` for a pipe."""

BY_NAME: Final = {f".{name}": name for name in ("json", "jsonl", "csv", "tsv", "md", "html", "svg")}
"""The formats that the name of a file asks for by its ending, if nothing else does."""


def renderer(name: str, *, person: bool) -> Render:
    """The function that writes a format; `table` depends on whether a person reads it.

    >>> renderer("table", person=False).__module__
    'hlo_cli.render.plain'
    >>> renderer("jsno", person=False)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: no format jsno; did you mean json?
    """
    if name not in FORMATS:
        raise not_among("format", name, FORMATS)
    file = ("screen" if person else "plain") if name == "table" else name
    render: Render = import_module(f"hlo_cli.render.{file}").render
    return render

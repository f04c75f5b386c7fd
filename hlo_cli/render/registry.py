"""The table of formats: each is a file in this package with a function `render`, imported when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from typing import Final, TypeAlias

from hlo_cli.render.style import Style
from hlo_cli.report.report import Report
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import HloError

Render: TypeAlias = Callable[[Report, Style], Iterator[str]]

FORMATS: Final = ("table", "screen", "json", "jsonl", "csv", "tsv", "md", "html", "svg")
"""What `--format` takes. `table` is for whoever reads: `screen` for a person, `plain` for a pipe."""

OF_FINDINGS: Final = ("full", "concise", "summary", "github", "gitlab", "junit", "sarif")
"""What it takes besides for findings: `full` quotes the lines, `concise` has one line each, `summary` one a rule."""

BY_NAME: Final = {f".{name}": name for name in ("json", "jsonl", "csv", "tsv", "md", "html", "svg", "sarif")}
"""The formats that the name of a file asks for by its ending, if nothing else does."""


FOREIGN: Final = frozenset(
    "arrow avi bmp bz2 db doc docx dot eps feather gif gz h5 hdf5 hlo jpeg jpg mlir mp4 npy npz ods odt parquet pb pdf"
    " pickle pkl png pptx proto ps sqlite tar tex tgz tif tiff toml webp xls xlsx xml xz yaml yml zip zst".split()
)
"""Endings of files that are never a table as text, so that `-o x.pdf` does not write one under that name."""


def format_of(path: str, others: Collection[str] = ()) -> str:
    """The format that a file's name asks for: by its ending, `table` for any ending that promises nothing.

    `others` are endings that a command writes besides reports. HloError for those of forms that are not written.

    >>> format_of("memory.csv"), format_of("memory.txt"), format_of("new.hlo", ("hlo",))
    ('csv', 'table', 'hlo')
    >>> format_of("memory.pdf")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: cannot write memory.pdf: this command has no format .pdf
    """
    ending = os.path.splitext(path)[1].lower()
    if ending[1:] in others:
        return ending[1:]
    if ending[1:] in FOREIGN:
        written = (*(f".{each}" for each in FORMATS if f".{each}" in BY_NAME), *(f".{each}" for each in others))
        hint = f"endings: {' '.join(written)}; --format FORMAT overrides them"
        raise HloError(f"cannot write {path}: this command has no format {ending}", hint=hint)
    return BY_NAME.get(ending, "table")


def renderer(name: str, *, person: bool, findings: bool = False) -> Render:
    """The function that writes a format; `table` depends on whether a person reads it, and whether there are findings.

    >>> renderer("table", person=False).__module__, renderer("table", person=False, findings=True).__module__
    ('hlo_cli.render.formats.plain', 'hlo_cli.render.formats.concise')
    >>> renderer("jsno", person=False)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: no format jsno; did you mean json?
    """
    known = FORMATS + (OF_FINDINGS if findings else ())
    if name not in known:
        raise unknown_choice_error("format", name, known)
    file = "screen" if name == "full" else name
    if name == "table":
        file = "screen" if person else "concise" if findings else "plain"
    render: Render = import_module(f"hlo_cli.render.formats.{file}").render
    return render

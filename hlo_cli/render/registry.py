"""The table of formats: each is a function in a file of formats/, imported on first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from hlo_cli.dataclass import dataclass
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.render.style import Style
    from hlo_cli.report.report import Report

Render: TypeAlias = "Callable[[Report, Style], Iterator[str]]"
Kind: TypeAlias = Literal["reader", "findings", "data", "document", "picture", "graph"]


@dataclass(frozen=True, slots=True)
class Format:
    """A value of `--format`: its name, its kind, and its file in formats/, which has a function `render_NAME`.

    With `same_as`, it is another format under a second name. With `is_extension`, it is selected for output files with
    the extension `.name`. With `holds_text`, a cell can hold a whole module. With `includes_errors`, the output has
    errors too, for programs that do not see standard error.
    """

    name: str
    kind: Kind
    file: str
    same_as: str = ""
    is_extension: bool = True
    holds_text: bool = False
    includes_errors: bool = False

    @property
    def module(self) -> str:
        """The name of the module that writes it."""
        return f"hlo_cli.render.formats.{self.file}"

    @property
    def render(self) -> Render:
        """The function that writes it."""
        render: Render = getattr(import_module(self.module), f"render_{self.same_as or self.name}")
        return render


FORMATS: Final = (
    Format("table", "reader", "plain", is_extension=False),
    Format("screen", "reader", "screen", is_extension=False),
    Format("full", "findings", "screen", "screen", is_extension=False),
    Format("concise", "findings", "screen", is_extension=False),
    Format("summary", "findings", "screen", is_extension=False),
    Format("github", "findings", "ci_servers", is_extension=False, includes_errors=True),
    Format("gitlab", "findings", "ci_servers", is_extension=False, includes_errors=True),
    Format("junit", "findings", "ci_servers", is_extension=False, includes_errors=True),
    Format("sarif", "findings", "ci_servers", includes_errors=True),
    Format("json", "data", "data", holds_text=True, includes_errors=True),
    Format("jsonl", "data", "data", holds_text=True),
    Format("csv", "data", "data"),
    Format("tsv", "data", "data"),
    Format("md", "document", "document", holds_text=True),
    Format("html", "document", "document", holds_text=True),
    Format("svg", "picture", "drawing"),
    Format("dot", "graph", "drawing", is_extension=False),
    Format("tree", "graph", "drawing", is_extension=False),
)
"""Every format, in the order in which help lists them."""
_SPECIAL: Final[tuple[Kind, ...]] = ("findings", "graph")
"""The kinds of formats of reports that have such parts."""


def format_names(*kinds: Kind) -> tuple[str, ...]:
    """The names of formats of the given kinds; by default, of those that every report supports.

    >>> format_names("data", "picture"), format_names()[:3]
    (('json', 'jsonl', 'csv', 'tsv', 'svg'), ('table', 'screen', 'json'))
    """
    return tuple(each.name for each in FORMATS if (each.kind in kinds if kinds else each.kind not in _SPECIAL))


FOREIGN: Final = frozenset(
    "arrow avi bmp bz2 db doc docx eps feather gif gz h5 hdf5 hlo jpeg jpg mlir mp4 npy npz ods odt parquet pb pdf"
    " pickle pkl png pptx proto ps sqlite tar tex tgz tif tiff toml webp xls xlsx xml xz yaml yml zip zst".split()
)
"""Extensions of files that never contain a text table, so that `-o x.pdf` does not write a table to such a file."""


def format_of(path: str, others: Collection[str] = ()) -> str:
    """The format for a file's name: selected by its extension, `table` for a neutral one.

    `others` are extensions that a command writes in addition to reports. HloError for unsupported formats.

    >>> format_of("memory.csv"), format_of("memory.txt"), format_of("new.hlo", ("hlo",))
    ('csv', 'table', 'hlo')
    >>> format_of("memory.pdf")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: cannot write memory.pdf: unsupported format .pdf
      help: available: .json, .jsonl, .csv, .tsv, .md, .html, .svg; or select a format with --format
    """
    ending = os.path.splitext(path)[1].lower()
    if ending[1:] in others:
        return ending[1:]
    named = next((each.name for each in FORMATS if each.is_extension and f".{each.name}" == ending), None)
    if named is None and ending[1:] in FOREIGN:
        endings = (each.name for each in FORMATS if each.is_extension and each.kind != "findings")
        written = (*(f".{each}" for each in endings), *(f".{each}" for each in others))
        hint = f"available: {', '.join(written)}; or select a format with --format"
        raise HloError(f"cannot write {path}: unsupported format {ending}", hint=hint)
    return named or "table"


def renderer(name: str, *, person: bool, findings: bool = False, graph: bool = False) -> Render:
    """The function that writes a format; `table` depends on whether a person reads it and whether there are findings.

    Formats of findings and of graphs are known only for reports that have them.

    >>> renderer("table", person=False).__name__, renderer("table", person=False, findings=True).__name__
    ('render_table', 'render_concise')
    >>> renderer("jsno", person=False)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: unknown format 'jsno'
      help: did you mean 'json'?
    """
    hidden = {"findings": not findings, "graph": not graph}
    known = {each.name: each for each in FORMATS if not hidden.get(each.kind, False)}
    if name not in known:
        raise unknown_choice_error("format", name, sorted(known, key=lambda each: known[each].kind == "findings"))
    if name == "table" and (person or findings):
        name = "screen" if person else "concise"
    return known[name].render

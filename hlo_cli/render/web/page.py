"""What is in a page that is complete without a script, and in the fragment of it for notebooks?"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from hlo_cli.render.draw.prose import BETWEEN
from hlo_cli.render.style import Style
from hlo_cli.render.web.colors import in_variables, picture_css, roles, variables
from hlo_cli.render.web.html_parts import MAX_ROWS, charts_of, part_css, part_lines
from hlo_cli.render.web.markup import path_shortener, safe
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell

# --- scripts and styles ---
# ES modules in `js/` and style sheets in `css/`, inlined when a page is written.


_IMPORT: Final = re.compile(r'import \{[^{}\n]*\} from "\./([a-z_]+)\.js";')


@cache
def script(entry: str) -> str:
    """The module `js/ENTRY.js` and those it imports as one script, each once, after those that it needs.

    All modules share one scope, so each top-level name belongs to one module. An import is one line,
    `import {a, b} from "./x.js";`, and only declarations are exported.

    >>> "import " in script("report"), "export " in script("report")
    (False, False)
    """
    modules: dict[str, str] = {}
    _add(entry, modules, ())
    return '"use strict";\n(() => {\n' + "".join(modules.values()) + "})();\n"


@cache
def style_sheets(*names: str) -> str:
    """The style sheets `css/NAME.css`, one after another."""
    return "".join(_read("css", f"{name}.css") for name in names)


def policy(text: str) -> str:
    """The Content-Security-Policy of a page whose only script is `text`: no network, no storage, no other script.

    >>> policy("")[:48]
    "default-src 'none'; style-src 'unsafe-inline'; s"
    """
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    allowed = f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _add(name: str, modules: dict[str, str], importers: tuple[str, ...]) -> None:
    """Adds the text of a module after those that it imports."""
    if name in modules:
        return
    if name in importers:
        raise ValueError(f"circular import of {name}.js by {importers[-1]}.js")
    own = []
    for line in _read("js", f"{name}.js").splitlines(keepends=True):
        found = _IMPORT.fullmatch(line.rstrip("\n"))
        if found is not None:
            _add(found[1], modules, (*importers, name))
        else:
            own.append(line.removeprefix("export "))
    modules[name] = "".join(own)


def _read(folder: str, name: str) -> str:
    return (files("hlo_cli.render.web") / folder / name).read_text("utf-8")


# --- the subject of a page ---
# Module, chip, dump, and stage, from the facts on the input of a report.


TARGETS: Final = {"tpu": "TPU", "gpu": "GPU", "cpu": "CPU"}
_SUFFIXES: Final = re.compile(r"(?:\.(?:txt|hlo|pb|pbtxt|gz|zst|xz|bz2))+$")


class Subject(NamedTuple):
    """The title of a page, empty if nothing was read, and details for the line below it."""

    title: str
    details: str


def subject_of(report: Report) -> Subject:
    """The module and where it runs; below, the command, the dump, and the stage.

    >>> facts = {"path": "dumps/v5e_mlp/after_optimizations.txt.gz", "module": "jit_f", "target": "tpu"}
    >>> report = Report("memspace", "It fits", input={**facts, "stage": "after_optimizations"}, numbers={"chip": "v5e"})
    >>> subject_of(report)
    Subject(title='jit_f on TPU v5e', details='hlo memspace · v5e_mlp, after optimizations')
    >>> subject_of(Report("layout", "No padding"))
    Subject(title='', details='hlo layout')
    """
    facts = report.input
    before, after = facts.get("before"), facts.get("after")
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        both = dict.fromkeys(name for each in (before, after) if (name := _text(each, "module")))
        return _subject(" → ".join(both), report, " → ".join(_dump(each) for each in (before, after)))
    paths = facts.get("paths")
    if isinstance(paths, tuple | list) and paths:
        modules = facts.get("modules")
        names = [name for name in modules if isinstance(name, str)] if isinstance(modules, tuple | list) else []
        dumps = dump_name(str(paths[0])) if len(paths) == 1 else format_count(len(paths), "dumps")
        return _subject(names[0] if len(names) == 1 else dumps, report, dumps if len(names) == 1 else "")
    module = _text(facts, "module") or _text(facts, "shape")
    place = _place(report)
    title = f"{module} on {place}" if module and place else module
    dump = _dump(facts) if "path" in facts else ""
    return _subject(title or dump, report, dump if title else "")


def dump_name(path: str, stage: str = "") -> str:
    """The name of a dump without the directories of its machine: the file, or its directory if that says more.

    >>> dump_name("/home/me/v5e_mlp/after_optimizations.txt.gz"), dump_name("a/module_0001.jit_f.before.txt")
    ('v5e_mlp', 'module_0001.jit_f.before')
    """
    directories, _, file = path.rstrip("/").rpartition("/")
    name = _SUFFIXES.sub("", file)
    directory = directories.rpartition("/")[2]
    is_stage = name == stage or name in ("after_optimizations", "before_optimizations")
    return directory if is_stage and directory not in ("", ".", "..") else name or path


def _subject(title: str, report: Report, dump: str) -> Subject:
    return Subject(title, BETWEEN.join(part for part in (f"hlo {report.command}", dump) if part))


def _dump(facts: Mapping[str, Cell]) -> str:
    stage = _text(facts, "stage")
    path = _text(facts, "path")
    name = "standard input" if path == "-" else dump_name(path, stage)
    return f"{name}, {stage.replace('_', ' ')}" if stage and stage != name else name


def _place(report: Report) -> str:
    """The chip with its kind, or the kind alone."""
    target = TARGETS.get(_text(report.input, "target"), "")
    models = (report.numbers, report.numbers.get("model"), report.numbers.get("time_model"))
    chip = next((name for each in models if isinstance(each, Mapping) and (name := _text(each, "chip"))), "")
    return " ".join(part for part in (target, chip if target == "TPU" else chip.upper()) if part)


def _text(facts: Mapping[str, Cell], name: str) -> str:
    value = facts.get(name)
    return value if isinstance(value, str) else ""


# --- static pages ---
# Complete without a script; the script sorts, filters, and links charts with tables.


SCRIPT: Final = "static"  # the module in `js/` that enhances pages


def page(report: Report, style: Style) -> Iterator[str]:
    r"""The page, in pieces: the head, the answer, charts, the other parts, and what to run next.

    >>> written = "".join(page(Report("diff", "No <difference>", next=("hlo parse a",)), Style()))
    >>> written[written.index("<h1>"):written.index("</header>")]
    '<h1>No &lt;difference&gt;</h1>\n<p class="details">hlo diff</p>\n'
    """
    code = script(SCRIPT)
    subject = subject_of(report)
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy(code)}"/>\n'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1"/>\n'
    yield '<meta name="referrer" content="no-referrer"/>\n'
    title = " · ".join(part for part in (subject.title, subject.details) if part)
    yield f"<title>{safe(title)}</title>\n<style>{page_css()}{style_sheets('static', 'spans')}"
    yield report_css(report, "part")
    yield "</style></head>\n"
    yield '<body class="hlo"><header>\n'
    yield f"<h1>{safe(subject.title or report.answer)}</h1>\n" if subject.title or report.answer else ""
    yield f'<p class="details">{safe(subject.details)}</p>\n</header>\n<main>\n'
    yield f'<p class="answer">{safe(report.answer)}</p>\n' if subject.title and report.answer else ""
    for line in body_lines(report, style, "part"):
        yield line + "\n"
    yield f"</main>\n<script>{code}</script></body></html>\n"


def body_lines(report: Report, style: Style, key: str, most: int = MAX_ROWS) -> Iterator[str]:
    """The parts of a report, the charts first, then the commands to run next and the notes."""
    parts = [(f"{key}{at}", part) for at, part in enumerate(report.seen_parts)]
    for name, part in parts:
        yield from charts_of(part, style, name)
    for name, part in parts:
        yield from part_lines(part, style, name, most)
    shorten = path_shortener(report, ())
    if report.next:
        commands = "\n      ".join(safe(shorten(line)) for line in report.next)
        yield f'<pre class="quiet" tabindex="0" role="group" aria-label="Next commands">next: {commands}</pre>'
    for note in report.notes:
        yield f'<p class="quiet">{safe(note.severity)}: {safe(shorten(note.message))}</p>'


def report_css(report: Report, key: str) -> str:
    """The style of the columns of all parts; `key` begins the classes of their tables."""
    return "".join(part_css(part, f"{key}{at}") for at, part in enumerate(report.seen_parts))


def page_css() -> str:
    """The style of a page, including pictures: all rules are about the class `hlo` and what is in it.

    >>> "--ink:#1f2328" in page_css()
    True
    """
    light, dark = variables()
    schemes = (
        f".hlo{{{light}}}@media(prefers-color-scheme:dark){{.hlo{{{dark}}}}}"
        f"[data-theme=light] .hlo{{{light}}}[data-theme=dark] .hlo{{{dark}}}\n"
    )
    return schemes + _part_style()


def _part_style() -> str:
    """The style of parts and pictures, with the colors of variables."""
    return style_sheets("parts") + in_variables(roles(".hlo ")) + picture_css(variables=True)


# --- fragments for notebooks ---
# Answer, charts, and tables, without a script.


WHOLE = 250  # the width from which no column is omitted
FRAGMENT_ROWS = 100
# notebooks stripe and center tables, in colors of their own
_RESET = """\
.hlo.fragment table{margin-left:0;margin-right:0;table-layout:auto}
.hlo.fragment tbody tr:nth-child(n){background:none}
.hlo.fragment tbody tr:nth-child(n):hover{background:color-mix(in srgb,var(--rule) 45%,transparent)}
"""
_PLACEHOLDER = "\x00"  # no sanitized text has it
# what notebooks set on elements around an output when their own scheme is light or dark
_LIGHT = '[data-jp-theme-light="true"] .hlo,.vscode-light .hlo,[data-theme=light] .hlo,html[theme=light] .hlo'
_DARK = '[data-jp-theme-light="false"] .hlo,.vscode-dark .hlo,[data-theme=dark] .hlo,html[theme=dark] .hlo'


def fragment(report: Report, *, top: int | None = None) -> str:
    """The answer, charts, and tables of a report as one element; `top` is the number of rows of main tables.

    All styles are about the class `hlo`; no element has an id, and columns have classes that depend on the content, so
    several fragments can be on one page. The same report gives the same text.

    >>> text = fragment(Report("memspace", "It <fits>"))
    >>> text[:24], text[text.index("</style>"):]
    ('<div class="hlo fragment', '</style>\\n<p class="answer">It &lt;fits&gt;</p>\\n</div>\\n')
    """
    style = Style(width=WHOLE, top=top)
    # the classes of columns are those of a digest of the content, so the content is written with a placeholder first
    body = "\n".join(body_lines(report, style, _PLACEHOLDER, FRAGMENT_ROWS))
    key = "k" + hashlib.sha256(body.encode()).hexdigest()[:10]
    answer = [f'<p class="answer">{safe(report.answer)}</p>'] if report.answer else []
    css = f"{_scheme_css()}{_part_style()}{_RESET}{report_css(report, key)}"
    lines = (
        f'<div class="hlo fragment">\n<style>\n{css}</style>',
        *answer,
        *([body.replace(_PLACEHOLDER, key)] if body else []),
        "</div>\n",
    )
    return "\n".join(lines)


def _scheme_css() -> str:
    """The colors of a fragment: those of the notebook if it names its scheme, else those of the system.

    >>> "prefers-color-scheme:dark" in _scheme_css()
    True
    """
    light, dark = variables()
    system = f".hlo{{{light}}}@media(prefers-color-scheme:dark){{.hlo{{{dark}}}}}"
    return f"{system}\n{_LIGHT}{{{light}}}\n{_DARK}{{{dark}}}\n"

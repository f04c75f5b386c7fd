"""Holds the scripts and styles of pages to their plan: small plain modules in one scope, safe with any text."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from hlo_cli.render.web.page import policy, script, style_sheets

WEB = Path(__file__).parent.parent / "hlo_cli" / "render" / "web"
MODULES = sorted((WEB / "js").glob("*.js"))
STYLES = sorted((WEB / "css").glob("*.css"))
ENTRIES = ("graph", "report", "static", "manual")
LONGEST_FILE = 300
LONGEST_FUNCTION = 60
LONGEST_LINE = 120

IMPORT = re.compile(r'^import \{([^{}\n]*)\} from "\./([a-z_]+)\.js";$', re.MULTILINE)
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
EXPORTED = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)", re.MULTILINE)
UNSAFE = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser",
    "createContextualFragment", "localStorage", "sessionStorage", "indexedDB", "document.cookie", "fetch(",
    "XMLHttpRequest", "WebSocket", "sendBeacon", "importScripts", "srcdoc",
)  # fmt: skip
"""What no script of a page may use: markup from text, code from text, storage, and the network."""


@pytest.mark.parametrize("path", [*MODULES, *STYLES], ids=lambda path: path.name)
def test_files_are_small_and_ascii(path: Path) -> None:
    """With --ascii, other characters would become references, and the script another one than its hash says."""
    text = path.read_text("utf-8")
    assert text.isascii()
    lines = text.splitlines()
    assert len(lines) <= LONGEST_FILE
    assert max(map(len, lines)) <= LONGEST_LINE
    assert lines[0].startswith(("// ", "/* ")), "the first line says what the file is"
    assert "</script" not in text.lower()
    assert "</style" not in text.lower()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_scripts_use_nothing_unsafe(path: Path) -> None:
    text = path.read_text("utf-8")
    assert [word for word in UNSAFE if word in text] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_imports_are_used_and_exported(path: Path) -> None:
    text = path.read_text("utf-8")
    body = IMPORT.sub("", text)
    assert not re.search(r"^import ", body, re.MULTILINE), "an import is one line"
    assert not re.search(r"^export (?!async function|function|const|class)", body, re.MULTILINE)
    for names, home in IMPORT.findall(text):
        exported = set(EXPORTED.findall((WEB / "js" / f"{home}.js").read_text("utf-8")))
        for name in (each.strip() for each in names.split(",")):
            assert name in exported, f"{home}.js does not export {name}"
            assert re.search(rf"\b{name}\b", body), f"{name} is imported and not used"


def reached(*entries: str) -> set[str]:
    """The modules that pages with these entries consist of."""
    found: set[str] = set()
    waiting = list(entries)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [home for _, home in IMPORT.findall((WEB / "js" / f"{name}.js").read_text("utf-8"))]
    return found


def test_every_module_is_used() -> None:
    assert {path.stem for path in MODULES} == reached(*ENTRIES)


def test_exports_are_used() -> None:
    """An export that no other file imports is no export."""
    texts = {path.stem: path.read_text("utf-8") for path in MODULES}
    imported = {
        (home, name.strip())
        for text in texts.values()
        for names, home in IMPORT.findall(text)
        for name in names.split(",")
    }
    exported = {(home, name) for home, text in texts.items() for name in EXPORTED.findall(text)}
    assert exported - imported == set()


@pytest.mark.parametrize("entry", ENTRIES)
def test_names_belong_to_one_module(entry: str) -> None:
    """All modules of a page share one scope."""
    texts = [(WEB / "js" / f"{name}.js").read_text("utf-8") for name in reached(entry)]
    counts = Counter(name for text in texts for name in set(DECLARED.findall(text)))
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_functions_are_short(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    start = None
    for at, line in enumerate(lines):
        if re.match(r"(?:export )?(?:async )?function ", line):
            start = at
        if line == "}" and start is not None:
            assert at - start < LONGEST_FUNCTION, lines[start]
            start = None


@pytest.mark.parametrize("entry", ENTRIES)
def test_pages_inline_one_script(entry: str) -> None:
    """The same text each time, and without what only modules may have."""
    text = script(entry)
    assert text == script(entry)
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)
    assert policy(text).count("sha256-") == 1


def test_styles_load_nothing() -> None:
    text = style_sheets(*(path.stem for path in STYLES))
    assert "url(" not in text
    assert "@import" not in text

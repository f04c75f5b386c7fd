"""The scripts and styles of pages: ES modules in `js/` and style sheets in `css/`, inlined when a page is written."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Final

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
def style(*names: str) -> str:
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

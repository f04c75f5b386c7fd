"""The columns in the glossary: their names, titles, and commands are those of the code, their descriptions are kept.

Columns whose names are computed are listed in `COMPUTED`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from console import ROOT

PACKAGE = ROOT / "hlo_cli"
MISSING = "no description"

COMPUTED = {
    "commands/by/groups.py": dict.fromkeys(("source", "scope", "argument", "pass"), ""),
    "commands/diff/causes.py": dict.fromkeys(("source", "scope", "argument"), ""),
    "commands/diff/summary.py": {"before": "before", "after": "after", "before_bytes": "", "after_bytes": ""},
    "commands/diff/tables.py": {"changed": "", "added": "", "removed": "", "moved": ""},
    "commands/layout/dump.py": dict.fromkeys(("instruction", "computation", "opcode", "op_name"), ""),
    "commands/lint/modules.py": {"errors": "", "warnings": "", "notes": ""},
    "commands/memspace/totals.py": dict.fromkeys(("op_name", "kind", "shape", "opcode"), ""),
    "commands/profile/against_tables.py": {
        **dict.fromkeys(("matched", "changed", "added", "removed", "moved"), ""),
        **{
            f"{side}_{name}": title
            for side in ("before", "after")
            for name, title in (
                *(("calls", "calls"), ("least_seconds", "min"), ("median_seconds", "median")),
                ("greatest_seconds", "max"),
            )
        },
    },
    "commands/profile/groups.py": dict.fromkeys(("opcode", "kind", "axis", "computation", "module"), ""),
    "commands/schedule/sequence.py": {"hbm_bytes": "HBM", "vmem_bytes": "VMEM"},
    "commands/tile_index/tables.py": {"tile_index": "tile", "index_in_tile": "in tile"},
    "report/facts.py": {"count": "", "bytes": "", "step": ""},
}
"""Columns whose names are computed, and their titles, by file."""

_SHARED = ("by", "shared")
"""Rooms of files that several commands use."""
_ENTRY = re.compile(r"(?ms)^- \*\*([\w ]+)\*\*[^:]*?:\s+(.*?)(?: Shown by ([^.]*)\.)?$(?=\n- |\n\n|\Z)")
_HEAD = "## Columns\n"


@dataclass(slots=True)
class Shown:
    """The titles of a column, and the commands that show it."""

    titles: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)


@cache
def columns_in_code() -> dict[str, Shown]:
    """Every column that a command shows, by its machine name."""
    found: dict[str, Shown] = defaultdict(Shown)
    files = {path.relative_to(PACKAGE).as_posix(): _tree(path) for path in _files()}
    imported_by = _importers(files)
    for name, tree in files.items():
        for column, title in (*_columns(tree), *COMPUTED.get(name, {}).items()):
            found[column].titles.add(title)
            found[column].commands |= _commands(name, imported_by)
    return found


def with_columns(text: str) -> str:
    """The glossary with the names, titles, and commands of the code."""
    before, head, section = text.partition(_HEAD)
    section, tail_head, tail = section.partition("\n## ")
    introduction, _, entries = section.partition("\n- ")
    descriptions = {found[1]: " ".join(found[2].split()) for found in _ENTRY.finditer("- " + entries.rstrip())}
    lines = "\n".join(
        _entry(name, shown, descriptions.get(name, MISSING)) for name, shown in sorted(columns_in_code().items())
    )
    return f"{before}{head}{introduction}\n{lines}\n{tail_head}{tail}"


def files_with_computed_names() -> set[str]:
    """The files with a column whose name is not a text in the code."""
    return {
        path.relative_to(PACKAGE).as_posix()
        for path in _files()
        for node in _column_calls(_tree(path))
        if not _texts(node.args[0])
    }


def _entry(name: str, shown: Shown, description: str) -> str:
    titles = sorted(title for title in shown.titles if title and title.lower() != name.replace("_", " "))
    others = f" ({', '.join(f'**{title}**' for title in titles)})" if titles else ""
    commands = f" Shown by {', '.join(sorted(shown.commands))}." if shown.commands else ""
    return f"- **{name}**{others}: {description}{commands}"


def _files() -> Iterator[Path]:
    yield from (path for folder in ("commands", "report") for path in PACKAGE.glob(f"{folder}/**/*.py"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _columns(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The names and titles of columns that are texts in the code, and of those that are one of two texts."""
    for node in _column_calls(tree):
        titles = _texts(node.args[1]) if len(node.args) > 1 else ()
        for name in _texts(node.args[0]):
            yield from ((name, title) for title in titles or ("",))


def _column_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Column" and node.args:
            yield node


def _texts(node: ast.expr) -> tuple[str, ...]:
    match node:
        case ast.Constant(str(text)):
            return (text,)
        case ast.IfExp(_, body, orelse):
            return (*_texts(body), *_texts(orelse))
        case _:
            return ()


def _importers(files: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Which files import each file."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, tree in files.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                found[node.module.removeprefix("hlo_cli.").replace(".", "/") + ".py"].add(name)
    return found


def _commands(name: str, imported_by: dict[str, set[str]]) -> set[str]:
    """The commands whose files have the column, or import the file that has it."""
    own = _command(name)
    if own:
        return {own}
    shared = {other for other in imported_by[name] if other.startswith("commands/") and _room(other) in _SHARED}
    users = imported_by[name].union(*(imported_by[other] for other in shared))
    return {command for other in users if (command := _command(other))}


def _room(name: str) -> str:
    """The folder of a file of the commands."""
    return name.split("/")[1]


def _command(name: str) -> str:
    folder, _, rest = name.partition("/")
    command = rest.partition("/")[0].replace("_", "-")
    if folder != "commands" or command in (*_SHARED, "help", "front", "__init__.py"):
        return ""
    return "parse" if command == "pasted" else command  # answers to texts that are not modules are those of `hlo FILE`

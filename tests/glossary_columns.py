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

from hlo_cli.commands.profile.timed import PART_WORDS
from parsed import PACKAGE, text_of, tree_of

MISSING = "no description"

COMPUTED = {
    "commands/modules/by.py": dict.fromkeys(("source", "scope", "argument", "pass"), ""),
    "commands/diff/report.py": {
        **dict.fromkeys(("source", "scope", "argument", "changed", "added", "removed", "moved"), ""),
        "before": "before",
        "after": "after",
        "before_bytes": "",
        "after_bytes": "",
    },
    "commands/layout/dump.py": dict.fromkeys(("instruction", "computation", "opcode", "op_name"), ""),
    "commands/memspace/report.py": dict.fromkeys(("op_name", "kind", "shape", "opcode"), ""),
    "commands/profile/budget.py": {f"{part}_seconds": words for part, words in PART_WORDS.items()},
    "commands/profile/against.py": {
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
    "commands/prints/runtime_prints.py": {},  # those of the tool that printed them
    "commands/prints/device_tables.py": {"total_bytes": "total", "total_seconds": "total"},
    "commands/profile/by_group.py": dict.fromkeys(("opcode", "kind", "axis", "computation", "module"), ""),
    "commands/schedule/sequence.py": {"hbm_bytes": "HBM", "vmem_bytes": "VMEM"},
    "commands/tile_index/report.py": {"tile_index": "tile", "index_in_tile": "in tile"},
    "report/table.py": {"count": "", "bytes": "", "step": ""},
}
"""Columns whose names are computed, and their titles, by file."""

_Definition = tuple[str, str]
"""A file, and the name of what it defines."""
_SHARED = ("modules", "options", "shape")
"""Rooms of files that several commands use."""
_SHARED_FILES = ("commands/memspace/usage.py",)
"""Chapters of a command whose tables others show as well."""
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
    trees = {path.relative_to(PACKAGE).as_posix(): tree_of(path) for path in _files()}
    users = _users(trees)
    for name, tree in trees.items():
        if "Column(" not in text_of(PACKAGE / name):
            continue
        computed = COMPUTED.get(name, {})
        for statement in tree.body:
            is_computed = any(not _texts(call.args[0]) for call in _column_calls(statement))
            for column, title in (*_columns(statement), *(computed.items() if is_computed else ())):
                found[column].titles.add(title)
                found[column].commands |= _commands((name, _defined(statement)), users)
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
        for node in (_column_calls(tree_of(path)) if "Column(" in text_of(path) else ())
        if not _texts(node.args[0])
    }


def _entry(name: str, shown: Shown, description: str) -> str:
    titles = sorted(title for title in shown.titles if title and title.lower() != name.replace("_", " "))
    others = f" ({', '.join(f'**{title}**' for title in titles)})" if titles else ""
    commands = f" Shown by {', '.join(sorted(shown.commands))}." if shown.commands else ""
    return f"- **{name}**{others}: {description}{commands}"


def _files() -> Iterator[Path]:
    yield from (path for folder in ("commands", "report") for path in PACKAGE.glob(f"{folder}/**/*.py"))


def _defined(statement: ast.stmt) -> str:
    match statement:
        case ast.FunctionDef(name) | ast.ClassDef(name) | ast.AnnAssign(ast.Name(name)) | ast.Assign([ast.Name(name)]):
            return name
        case _:
            return ""


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


def _users(trees: dict[str, ast.Module]) -> dict[_Definition, set[_Definition]]:
    """Which definitions use each definition, in its file or through an import."""
    found: dict[_Definition, set[_Definition]] = defaultdict(set)
    for name, tree in trees.items():
        imported = dict(_imported(tree))
        own = {_defined(statement) for statement in tree.body}
        for statement in tree.body:
            user = (name, _defined(statement))
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and (node.id in imported or node.id in own):
                    found[imported.get(node.id, (name, node.id))].add(user)
    return found


def _imported(tree: ast.Module) -> Iterator[tuple[str, _Definition]]:
    """The names that a file imports, and what they are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            home = node.module.removeprefix("hlo_cli.").replace(".", "/") + ".py"
            yield from ((alias.asname or alias.name, (home, alias.name)) for alias in node.names)


def _commands(column: _Definition, users: dict[_Definition, set[_Definition]]) -> set[str]:
    """The commands whose files have the column, or use what has it: a command does not show what another one shows."""
    waiting, seen, commands = [column], {column}, set[str]()
    while waiting:
        here = waiting.pop()
        command = _command(here[0])
        if command:
            commands.add(command)
            continue
        waiting.extend(users[here] - seen)
        seen |= users[here]
    return commands


def _command(name: str) -> str:
    if name in _SHARED_FILES:
        return ""
    folder, _, rest = name.partition("/")
    command = rest.partition("/")[0].replace("_", "-")
    if folder != "commands" or command in (*_SHARED, "help", "front", "__init__.py"):
        return ""
    return (
        "parse" if command in ("pasted", "prints") else command
    )  # answers to texts that are not modules are those of `hlo FILE`

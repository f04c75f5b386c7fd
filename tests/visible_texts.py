"""The texts that a person reads: the strings of the code, the pages of lint rules, the help topics, and project files.

Docstrings are not visible, except those of lint rules, which are the pages of `hlo lint --explain`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parsed import parsed_files, tree_of

ROOT = Path(__file__).parent.parent
PROJECT_FILES = ("README.md", "action.yml", ".pre-commit-hooks.yaml")

_NOT_TEXT = frozenset(
    ("compile", "LazyRegex", "lazy_regex", "sub", "match", "fullmatch", "search", "finditer", "split")
)
"""Functions whose arguments are patterns or lists of names."""

_WITHOUT_TEXT = (ast.Name, ast.alias, ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
"""Nodes with no text below them: half of all."""


@dataclass(frozen=True)
class Text:
    """A text and its place; `{}` stands for each value that the code fills in."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.text.split())[:200]}"


def texts_in_code() -> Iterator[Text]:
    """Every string of the package that is not a docstring, a pattern, or a type."""
    for path in parsed_files():
        name = path.relative_to(ROOT).as_posix()
        yield from (Text(name, line, text) for line, text in strings_of(tree_of(path)))


def texts_of_rules() -> Iterator[Text]:
    """The pages of all lint rules, which are docstrings."""
    for path in sorted((ROOT / "hlo_cli" / "lint" / "rules").glob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list and (page := ast.get_docstring(node)):
                yield Text(path.relative_to(ROOT).as_posix(), node.lineno, page)


def strings_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The strings below a node with their lines, f-strings as one text.

    >>> list(strings_of(ast.parse('x: "int" = f"a {y} b" + c("d")\\nre.compile("e")')))
    [(1, 'a {} b'), (1, 'd')]
    """
    match tree:
        case ast.Constant(value=str(text), lineno=line):
            yield line, text
        case ast.JoinedStr(values=values, lineno=line):
            yield line, "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in values)
            for each in values:
                if isinstance(each, ast.FormattedValue):
                    yield from strings_of(each.value)
        case ast.Expr(value=ast.Constant()):
            return  # a docstring
        case ast.AnnAssign(value=value):
            if value is not None:
                yield from strings_of(value)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _NOT_TEXT:
            return
        case _:
            for name in tree._fields:  # as `ast.iter_child_nodes`, in half its time
                value = getattr(tree, name, None)
                for child in value if isinstance(value, list) else (value,):
                    if isinstance(child, ast.AST) and not isinstance(child, _WITHOUT_TEXT):
                        yield from strings_of(child)


def texts_in_files() -> Iterator[Text]:
    """Every line of the help topics and of the project files that users read, without what commands printed."""
    pages = sorted((ROOT / "hlo_cli").rglob("*.md"))
    for path in [*pages, *(ROOT / name for name in PROJECT_FILES)]:
        name = path.relative_to(ROOT).as_posix()
        prose = re.sub(r"(?s)```.*?```", lambda block: "\n" * block[0].count("\n"), path.read_text(encoding="utf-8"))
        yield from (Text(name, at, line) for at, line in enumerate(prose.splitlines(), 1) if line.strip())

"""The code of the package for all tests that read it: its texts and syntax trees, once a process."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "hlo_cli"


@cache
def files() -> tuple[Path, ...]:
    """The files of the package."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def text_of(path: Path) -> str:
    """The text of a file."""
    return path.read_text(encoding="utf-8")


def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file of the package, or of another."""
    found = _trees().get(path)
    return ast.parse(text_of(path)) if found is None else found


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the tree of a file, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(path)))


@cache
def _trees() -> dict[Path, ast.Module]:
    """The tree of each file of the package: a million nodes, which no garbage collection looks at while or after."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return {path: ast.parse(text_of(path)) for path in files()}
    finally:
        gc.freeze()  # with collections, parsing takes five times as long, and each later one a second more
        if was_enabled:
            gc.enable()

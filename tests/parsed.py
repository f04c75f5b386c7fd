"""The code of the package for all tests that read it: its texts, and syntax trees that the tests of one file share."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "hlo_cli"


@cache
def files() -> tuple[Path, ...]:
    """The files of the package."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def parsed_files() -> tuple[Path, ...]:
    """The files of the package, after all were parsed: for tests that need the trees of most of them."""
    with _without_collections():
        for path in files():
            tree_of(path)
        gc.freeze()  # later collections pass over a million nodes else, each for a second
    return files()


@cache
def text_of(path: Path) -> str:
    """The text of a file."""
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    with _without_collections():
        return ast.parse(text_of(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the tree of a file, in the order of `ast.walk`, in half its time."""
    nodes: list[ast.AST] = [tree_of(path)]
    for node in nodes:
        for name in node._fields:
            value = getattr(node, name)
            if isinstance(value, ast.AST):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
    return tuple(nodes)


def forget_trees() -> None:
    """Give back the 300 MB of all trees, which processes that tests start as copies of this one would pay for."""
    for function in (parsed_files, tree_of, nodes_of):
        function.cache_clear()


@contextmanager
def _without_collections() -> Iterator[None]:
    """Parsing takes five times as long with garbage collections, and makes no garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

"""Measures how the package reads: chapters, imports, reasons, names. `python tests/house.py` prints each figure and its goal.

`tests/test_architecture.py` holds each to what was reached: a figure may only get better.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from parsed import PACKAGE, files, nodes_of, parsed_files, text_of

DUMP = PACKAGE.parent / "fixtures" / "tpu" / "v5e_conv" / "after_optimizations.txt"
SMALL = 150
"""Lines below which a file with a single importer, a neighbour, is a section of that neighbour."""
FULL_ROOM = 15
"""Chapters that a reader can hold in view at once."""
COMMON = 3
"""Rooms in which a file name may not stand without saying less than it should; `command.py` is the same in all."""


@dataclass(frozen=True)
class Figure:
    """What is counted, what was reached, and what it must reach.

    Sizes are shares of the whole: what the package can do may grow, and with it its files and lines.
    """

    name: str
    reached: float
    goal: float


FIGURES = (
    Figure("files in 100,000 lines", 272, 231),
    Figure("lines of imports in 1,000 lines", 54, 49),
    Figure("chapters run by layout SHAPE", 34, 18),
    Figure("chapters run by memspace", 96, 45),
    Figure("chapters run by lint", 120, 60),
    Figure("small files with one importer, a neighbour", 5, 20),
    Figure("rooms with more than 15 chapters", 0, 0),
    Figure("file names in three rooms or more", 2, 15),
    Figure("lines of code for a reason", 30, 30),
    Figure("numbers without a reason", 0, 0),
)


def measured() -> dict[str, float]:
    """Every figure of FIGURES but those of commands, which `chapters_run` counts, by its name."""
    code, reasons, bare = 0, 0, 0
    for path in parsed_files():
        page = Page(text_of(path), nodes_of(path))
        code, reasons, bare = code + page.code, reasons + page.reasons, bare + len(page.numbers_without_reason())
    lines = sum(_lines(path) for path in files())
    rooms = Counter(path.parent for path in files() if path.name != "__init__.py")
    return {
        "files in 100,000 lines": 100_000 * len(files()) / lines,
        "lines of imports in 1,000 lines": 1000 * sum(len(_import_lines(nodes_of(path))) for path in files()) / lines,
        "small files with one importer, a neighbour": len(single_importer_files()),
        "rooms with more than 15 chapters": sum(count > FULL_ROOM for count in rooms.values()),
        "file names in three rooms or more": len(common_names()),
        "lines of code for a reason": code / reasons,
        "numbers without a reason": bare,
    }


def _lines(path: Path) -> int:
    return len(text_of(path).splitlines())


def _import_lines(nodes: Iterable[ast.AST]) -> set[int]:
    found = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return {line for node in found for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def single_importer_files() -> list[str]:
    """Files below SMALL lines that one file imports, which is in the same room: sections of that neighbour."""
    importers: dict[str, set[str]] = defaultdict(set)
    modules = {_module(path): path for path in files()}
    for module, path in modules.items():
        for name in _imported(nodes_of(path), modules):
            importers[name].add(module)
    return [
        module
        for module, path in modules.items()
        if len(importers[module]) == 1
        and path.name != "__init__.py"
        and modules[next(iter(importers[module]))].parent == path.parent
        and _lines(path) < SMALL
    ]


def _module(path: Path) -> str:
    parts = ("hlo_cli", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(nodes: Iterable[ast.AST], modules: dict[str, Path]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def common_names() -> list[str]:
    """File names that stand in COMMON rooms or more."""
    count = Counter(path.name for path in files() if path.name not in ("__init__.py", "command.py"))
    return [name for name, rooms in count.items() if rooms >= COMMON]


class Page:
    """The text of a file: which lines are code, which comments say why, which numbers nobody explains.

    >>> page = Page("# --- sizes ---\\n# what they are\\n\\nLIMIT = 3\\nWIDTH = 80  # of a terminal\\n")
    >>> page.code, page.reasons, page.numbers_without_reason()
    (2, 1, ['LIMIT'])
    """

    def __init__(self, text: str, nodes: Sequence[ast.AST] = ()) -> None:
        self.nodes = nodes or tuple(ast.walk(ast.parse(text)))
        self.lines = text.splitlines()
        self.comments = dict(_comments(text))

    @property
    def code(self) -> int:
        """Lines of code: without blank lines, comments, docstrings, and imports."""
        other = _import_lines(self.nodes) | {line for node in self._docstrings() for line in _span(node)}
        return sum(
            bool(line.strip()) and number not in other and not line.lstrip().startswith("#")
            for number, line in enumerate(self.lines, 1)
        )

    @property
    def reasons(self) -> int:
        """Comments, a block counted once; the heads of sections and the words to tools say no reason."""
        count, last, head = 0, 0, False
        for number, comment in sorted(self.comments.items()):
            own = self.lines[number - 1].lstrip().startswith("#")
            follows = own and last == number - 1
            head = own and (comment.startswith("# ---") or (head and follows))
            last = number if own else 0
            count += not (head or follows or re.match(r"# (noqa|type:|pragma|fmt:)", comment))
        return count

    def numbers_without_reason(self) -> list[str]:
        """Constants of the file that are plain numbers without a comment beside or above them, or a docstring."""
        return [
            name
            for at, statement in enumerate(self._body)
            if (name := _number_named(statement)) and not self._has_reason(at, statement)
        ]

    def _has_reason(self, at: int, statement: ast.stmt) -> bool:
        after = self._body[at + 1 : at + 2]
        commented = any(line in self.comments for line in range(statement.lineno - 1, (statement.end_lineno or 0) + 1))
        return commented or (bool(after) and _is_text(after[0]))

    def _docstrings(self) -> Iterator[ast.stmt]:
        return (node for node in self.nodes if isinstance(node, ast.Expr) and _is_text(node))

    @property
    def _body(self) -> list[ast.stmt]:
        return self.nodes[0].body if isinstance(self.nodes[0], ast.Module) else []


_STRING_OR_COMMENT = re.compile(
    r"""(?sx) "{3} (?: \\. | [^\\] )*? "{3} | '{3} (?: \\. | [^\\] )*? '{3}
    | " (?: \\. | [^"\\] )* " | ' (?: \\. | [^'\\] )* ' | \# [^\n]*"""
)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a file with their lines, as `tokenize` has them, in a tenth of its time.

    >>> list(_comments('a = "#"  # one\\n# two\\n'))
    [(1, '# one'), (2, '# two')]
    """
    line, last = 1, 0
    for found in _STRING_OR_COMMENT.finditer(text):
        if found[0][0] == "#":
            line, last = line + text.count("\n", last, found.start()), found.start()
            yield line, found[0]


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or 0) + 1)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _number_named(statement: ast.stmt) -> str:
    """The name of a constant that is a number, or arithmetic of numbers; else nothing."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return ""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    if not isinstance(target, ast.Name) or not re.fullmatch(r"_?[A-Z][A-Z0-9_]*", target.id):
        return ""
    parts = list(ast.walk(statement.value))
    plain = all(isinstance(part, ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop) for part in parts)
    return target.id if plain and any(_is_number(part) for part in parts) else ""


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


_RUN = """
import os, sys
entered = set()
def enter(frame, event, argument):
    if event == "call" and frame.f_code.co_name != "<module>":
        entered.add(frame.f_code.co_filename)
class Ended(BaseException): pass
def end(code): raise Ended
os._exit = end
shown = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
sys.setprofile(enter)
try:
    from hlo_cli.cli import main
    main()
except (SystemExit, Ended): pass
sys.setprofile(None)
ours = [f for f in entered if f.startswith(os.environ["HLO_PACKAGE"]) and not f.endswith("__init__.py")]
os.write(shown, "\\n".join(sorted(ours)).encode())
"""


def chapters_run(*arguments: str) -> list[str]:
    """The files of the package of which a command runs a function."""
    run = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments],
        env={**os.environ, "HLO_PACKAGE": str(PACKAGE) + os.sep, "PYTHONPATH": str(PACKAGE.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=100,
        check=False,
    )
    return run.stdout.splitlines()


COMMANDS = {
    "chapters run by layout SHAPE": ("layout", "f32[100,50]{1,0:T(8,128)}"),
    "chapters run by memspace": ("memspace", str(DUMP)),
    "chapters run by lint": ("lint", str(DUMP)),
}


def main() -> None:
    """Prints the figures."""
    now = measured() | {name: len(chapters_run(*arguments)) for name, arguments in COMMANDS.items()}
    print(f"{'figure':45} {'now':>9} {'reached':>9} {'goal':>9}")
    for figure in FIGURES:
        print(f"{figure.name:45} {now[figure.name]:>9,.0f} {figure.reached:>9,.0f} {figure.goal:>9,.0f}")


if __name__ == "__main__":
    main()

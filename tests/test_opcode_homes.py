"""Few files name an opcode: the data on opcodes is in the table of operations, which the other files use.

Only string literals are counted, `"add"` or `"add subtract"`; uses of constants such as `opcodes.ADD` are not.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import pytest

from hlo_cli.ir import opcodes
from hlo_cli.ir.operations import OPERATIONS
from parsed import PACKAGE, files, nodes_of, parsed_files, text_of

TABLE = "ir/operation_table.py"
HOMES = (
    TABLE,
    "ir/opcodes.py",
    "ir/operations.py",
    "syntax/stablehlo/",
    "mlir/",
    "analysis/kernel_values/",
    "analysis/kernels/",
)
"""Where opcodes are words: the table, and what reads other languages, whose operations have these names too."""
TOPICS = (
    *("commands/help/catalog.py", "commands/reduce/", "cli.py", "report/table_meanings.py"),
    "syntax/compiler_messages/message_families.py",
)
"""Where `fusion` is a page, `reduce` a command, and `convolution` a kind of errors."""
MOST_FILES = 12
_NAME = re.compile(r"\b[A-Z][A-Z_]+\b")

pytestmark = pytest.mark.code


def test_few_files_name_an_opcode() -> None:
    many = {opcode: sorted(files) for opcode, files in _named().items() if len(files) > MOST_FILES}
    assert not many, "name them as `opcodes.NAME`, or give their rows a trait"


@pytest.mark.parametrize("opcode", ["erf", "collective-broadcast"])
def test_a_new_opcode_touches_three_files_at_most(opcode: str) -> None:
    row = {file for file, text in _texts().items() if file.startswith(TABLE) and f'"{opcode}"' in text}
    name = f"opcodes.{opcode.upper().replace('-', '_')}"
    named = {file for file, text in _texts().items() if name in text}
    assert len(row) == 1
    assert len(row | named | _named()[opcode]) <= 3


def test_names_of_opcodes_are_used() -> None:
    used = {name for file, text in _texts().items() if not file.startswith(HOMES) for name in _NAME.findall(text)}
    assert {name for name in vars(opcodes) if name.isupper()} <= used


@cache
def _named() -> dict[str, set[str]]:
    """The files, besides the homes of opcodes, that hold an opcode as a literal, or as a word in a list of opcodes."""
    found: dict[str, set[str]] = defaultdict(set)
    parsed_files()
    for file in _texts():
        for literal in () if file.startswith((*HOMES, *TOPICS)) else _literals(nodes_of(PACKAGE / file)):
            words = literal.split()
            if literal in OPERATIONS or (len(words) > 1 and OPERATIONS.keys() >= set(words)):
                for word in words:
                    found[word].add(file)
    return found


@cache
def _texts() -> dict[str, str]:
    return {str(path.relative_to(PACKAGE)): text_of(path) for path in files()}


def _literals(nodes: Sequence[ast.AST]) -> list[str]:
    """The literals of a file, but for docstrings, the names of columns, and types: these name no opcodes."""
    aside: set[int] = set()
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant() as docstring):
                aside.add(id(docstring))
            case ast.Call(func=ast.Name("Column")) | ast.Subscript(value=ast.Name("Literal")):
                aside |= {id(inner) for inner in ast.walk(node)}
    constants = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in aside)
    return [node.value for node in constants if isinstance(node.value, str)]

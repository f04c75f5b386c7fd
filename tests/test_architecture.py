"""Holds the package to its plan: which part imports which, where each library lives, and how files are cut."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import house
from parsed import PACKAGE, files, nodes_of, parsed_files, text_of, tree_of

FILES = files()
LONGEST_FILE = 1000  # a file is a chapter: one question, 300 to 800 lines
LONGEST_FUNCTION = 60

# part → the parts that it may import, besides itself; the names are those of the packages and files in hlo_cli/
ARROWS: dict[str, set[str]] = {
    "source": set(),
    "displayed": {"source"},
    "alignment": set(),
    "wire": {"source"},  # the one reader of protocol buffers: a leaf that every part may read
    "ir": {"source"},
    "mlir": {"source", "ir"},  # kernels in MLIR bytecode, read in the analyses that open them: below all that reads HLO
    "syntax": {"source", "wire", "ir", "mlir"},
    "inputs": {"source", "wire", "mlir"},  # programs that `jax.export` serializes are bytecode
    "analysis": {"source", "wire", "alignment", "ir", "mlir"},  # traces keep small messages in the statistics of events
    "transform": {"source", "alignment", "ir", "analysis"},
    "lint": {"source", "ir", "analysis", "report"},
    "read_input": {"source", "ir", "syntax", "inputs", "analysis"},
    "read_traces": {"source", "wire", "ir", "syntax", "inputs"},
    "frameworks": {"source", "ir", "syntax", "inputs", "read_input"},
    "scan_modules": {"source", "ir", "inputs", "analysis", "read_input"},
    "report": {"source", "alignment"},
    "render": {"source", "report"},
    "commands": {
        "source",
        "ir",
        "mlir",
        "syntax",
        "inputs",
        "analysis",
        "transform",
        "lint",
        "read_input",
        "read_traces",
        "scan_modules",
        "report",
        "render",
    },
    "cli": {"source", "commands"},
}
# room → the rooms of the same part that it may import; files that stand beside the rooms are not listed
ROOMS: dict[str, dict[str, set[str]]] = {
    "ir": {
        "attributes": set(),
        "traces": set(),
    },
    "syntax": {
        "scanning": set(),
        "traces": set(),
        "compiler_files": {"scanning"},
        "compiler_messages": {"scanning"},
        "values": {"scanning"},
        "out_of_memory": {"compiler_files", "scanning"},
        "text": {"scanning", "values"},
        "proto": {"scanning", "text", "values"},
        "stablehlo": {"scanning", "values"},
    },
    "inputs": {
        "pasted": set(),
    },
    "analysis": {
        "dataflow": set(),
        "hardware": set(),
        "shapes": set(),
        "matching": {"dataflow"},
        "cost": {"dataflow", "hardware", "kernels"},
        "layout": {"dataflow", "hardware"},
        "kernels": {"hardware", "layout"},
        "fusion": {"cost", "dataflow", "hardware", "kernels"},
        "custom_calls": {"cost", "dataflow", "hardware", "layout"},
        "memory": {"dataflow", "hardware", "kernels", "layout"},
        "semantics": {"layout"},
        "sharding": {"dataflow", "hardware", "layout", "shapes"},
        "graphs": {"dataflow", "fusion", "matching"},
        "origin": {"dataflow", "fusion"},
        "kernel_values": {"kernels", "layout", "semantics"},
        "evaluate": {"cost", "dataflow", "kernel_values", "layout", "semantics", "shapes", "sharding"},
        "schedule": {"cost", "dataflow", "fusion", "hardware", "layout", "shapes", "sharding"},
        "comparison": {"cost", "dataflow", "evaluate", "matching", "semantics", "sharding"},
        "profile": {"cost", "dataflow", "hardware", "matching", "origin", "schedule", "sharding"},
        "query": {"cost", "dataflow", "fusion", "hardware", "layout", "memory", "origin", "schedule", "sharding"},
        "statements": {"cost", "dataflow", "fusion", "matching", "memory", "origin", "query", "sharding"},
    },
    "transform": {
        "reduction": set(),
        "schedule": set(),
        "fusion": {"schedule"},
    },
    "lint": {
        "rules": set(),
    },
    "render": {
        "draw": set(),
        "web": {"draw"},
        "formats": {"draw", "web"},
    },
    "commands": {
        "options": set(),
        "modules": {"options"},
        "diff": {"modules", "options"},
        "fuse": {"modules", "options"},
        "kernel": {"modules", "options"},
        "memspace": {"modules", "options"},
        "shape": {"modules", "options"},
        "profile": {"diff", "modules", "options"},
        "run": {"diff", "modules", "options"},
        "reduce": {"diff", "modules", "options", "run"},
        "bisect": {"diff", "modules", "options", "reduce", "run"},
        "graph": {"diff", "memspace", "modules", "options"},
        "schedule": {"memspace", "modules", "options"},
        "front": {"options", "overview", "shape"},
        "layout": {"modules", "options", "shape"},
        "shard": {"modules", "options", "shape"},
        "tile_index": {"modules", "options", "shape"},
        "lint": {"memspace", "modules", "options", "profile"},
        "parse": {"modules", "options", "profile", "shape"},
        "help": {"front", "options"},
        "report": {
            "fuse",
            "kernel",
            "layout",
            "lint",
            "memspace",
            "modules",
            "options",
            "profile",
            "schedule",
            "shard",
        },
        "overview": {"fuse", "lint", "memspace", "modules", "options", "parse", "report", "schedule"},
        "prints": {"layout", "modules", "options", "parse", "profile", "shape", "shard"},
        "pasted": {"diff", "layout", "memspace", "modules", "options", "parse", "prints", "profile", "shape", "shard"},
    },
}
FREE = {
    "__init__",
    "__main__",
    "library",
    "notebook",
}  # the faces of the library and of `python -m` import what they need
LEAVES = {"_version", "dataclass", "displayed", "lazy_regex"}  # import at most `source`, and everything may import them

HOMES = {
    "pyparsing": {"syntax"},
    "numpy": {"analysis", "ir.traces", "syntax.traces"},  # a trace is columns of millions of numbers
    "rich": {"render"},
    "click": {"commands", "cli"},
    "markdown_it": {"commands"},
}
NUMPY_ON_USE = "hlo_cli.syntax.literal"  # files that begin so may import numpy in a function, to read a literal
NUMPY_TYPES = "hlo_cli.ir.attributes.value_types"  # may name its types


pytestmark = [pytest.mark.code, pytest.mark.usefixtures("trees")]


@pytest.fixture(scope="module")
def trees() -> None:
    """All files are parsed at once."""
    parsed_files()


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, and whether it is imported with its importer, when a function runs, or for types only."""

    module: str
    line: int
    on_use: bool
    types_only: bool


def module_name(path: Path) -> str:
    """The dotted name of a file of the package."""
    parts = ("hlo_cli", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """The part of the package that a module belongs to, as ARROWS names it."""
    return module.split(".")[1] if "." in module else "__init__"


MODULES = {module_name(path): path for path in FILES}


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """Everything that a file imports; `from package import module` counts as the module."""
    return tuple(_walk(tree_of(path), on_use=False, types_only=False))


def _walk(node: ast.AST, *, on_use: bool, types_only: bool) -> Iterator[Import]:
    match node:
        case ast.Import():
            yield from (Import(alias.name, node.lineno, on_use, types_only) for alias in node.names)
        case ast.ImportFrom():
            assert node.module, f"a relative import in line {node.lineno}"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield Import(inner if inner in MODULES else node.module, node.lineno, on_use, types_only)
        case ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            for statement in node.body:
                yield from _walk(statement, on_use=on_use, types_only=True)
            for statement in node.orelse:
                yield from _walk(statement, on_use=on_use, types_only=types_only)
        case _:
            on_use = on_use or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    continue  # has no statements in it
                yield from _walk(child, on_use=on_use, types_only=types_only)


def test_every_part_is_in_the_plan() -> None:
    assert {part_of(module) for module in MODULES} <= ARROWS.keys() | FREE | LEAVES


def test_imports_follow_the_arrows() -> None:
    against = [
        f"{path}:{found.line}: {part_of(module)} may not import {found.module}"
        for module, path in MODULES.items()
        for found in imports_of(path)
        if found.module.split(".")[0] == "hlo_cli" and not _may_import(part_of(module), part_of(found.module))
    ]
    assert not against, "\n".join(against)


def _may_import(part: str, other: str) -> bool:
    return part in FREE or other in ARROWS.get(part, set()) | {part, *LEAVES}


def test_every_room_is_in_the_plan() -> None:
    rooms = {part: {path.parent.name for path in (PACKAGE / part).glob("*/__init__.py")} for part in ARROWS}
    assert {part: found for part, found in rooms.items() if found} == {part: set(plan) for part, plan in ROOMS.items()}


def test_imports_follow_the_arrows_between_rooms() -> None:
    """All imports count, those for types and those within functions too."""
    against = [
        f"{path}:{found.line}: {room} may not import {found.module}"
        for module, path in MODULES.items()
        for found in imports_of(path)
        if (room := room_of(module)) and not _may_enter(room, room_of(found.module))
    ]
    assert not against, "\n".join(against)


def room_of(module: str) -> str:
    """The room that a module is in, as `part.room`; nothing for what stands beside the rooms.

    >>> room_of("hlo_cli.analysis.memory.heaps"), room_of("hlo_cli.analysis.cache"), room_of("rich")
    ('analysis.memory', '', '')
    """
    parts = module.split(".")
    return ".".join(parts[1:3]) if len(parts) > 2 and parts[2] in ROOMS.get(parts[1], {}) else ""


def _may_enter(room: str, other: str) -> bool:
    part, name = room.split(".")
    where, _, other_name = other.partition(".")
    return where != part or other_name == name or other_name in ROOMS[part][name]


def test_no_circles_between_rooms() -> None:
    """A file that stands beside the rooms is a room of its own."""
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        if part_of(module) == "ir":
            continue
        here = room_of(module) or module
        inner = {room_of(found.module) or found.module for found in imports_of(path) if found.module in MODULES}
        graph.setdefault(here, set()).update(inner - {here, "hlo_cli"})
    _assert_no_circle(graph)


def test_the_house_only_gets_better() -> None:
    """What is new is a section of a chapter that exists, or a chapter of its own; `python tests/house.py` shows all."""
    now = house.measured() | {name: len(house.chapters_run(*command)) for name, command in house.COMMANDS.items()}
    assert {figure.name for figure in house.FIGURES} == now.keys()
    assert all(now[name] for name in house.COMMANDS), "a command ran no chapter"
    worse = [f"{figure} is now {now[figure.name]}" for figure in house.FIGURES if now[figure.name] > figure.reached]
    assert worse == []


def test_section_heads_are_no_reasons() -> None:
    page = house.Page(
        "# --- sizes ---\n# what they are\n\nLIMIT = 3\nWIDTH = 80  # of a terminal\n# as XLA\n# does\n_SIDE = 2**4\n"
    )
    assert (page.code, page.reasons, page.numbers_without_reason()) == (3, 2, ["LIMIT"])


def test_each_library_has_one_home() -> None:
    away = [
        f"{path}:{found.line}: {found.module}"
        for module, path in MODULES.items()
        for found in imports_of(path)
        if not {part_of(module), room_of(module)} & HOMES.get(found.module.split(".")[0], {part_of(module)})
        and not (found.module.startswith("numpy") and _may_name_numpy(module, found))
    ]
    assert not away, "\n".join([*away, f"the homes are {HOMES}"])


def _may_name_numpy(module: str, found: Import) -> bool:
    if found.types_only:
        return module == NUMPY_TYPES or module.startswith(NUMPY_ON_USE)
    return found.on_use and module.startswith(NUMPY_ON_USE)


def test_indices_are_written_in_one_place() -> None:
    copy = re.compile(r"""["{]" \+ ","\.join\(map\(str, [^()]*\)\) \+ "[})]"|\{\{\{','\.join\(map\(str, """)
    copies = [str(path.relative_to(PACKAGE)) for path in FILES if copy.search(text_of(path))]
    assert copies == [], "hlo_cli.ir.notation writes and reads them"


def test_no_import_cycles() -> None:
    """Of any kind: imports for types and in functions count, as two files in a circle can only be read together."""
    _assert_no_circle(
        {
            module: {found.module for found in imports_of(path) if found.module in MODULES}
            for module, path in MODULES.items()
        }
    )


def _assert_no_circle(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))


def test_files_are_short() -> None:
    sizes = {str(path): len(text_of(path).splitlines()) for path in FILES}
    assert {path: lines for path, lines in sizes.items() if lines > LONGEST_FILE} == {}


WITHOUT_CELLS = {
    # columns whose cells are computed elsewhere, given to `with_cell` before there are rows
    "commands/modules/by.py": 3,
    "commands/modules/instruction_tables.py": 4,
    "commands/parse/instruction_list.py": 2,
    "commands/report/sources.py": 13,
    # amounts of facts and figures, whose columns are what the facts have
    "commands/parse/explain.py": 2,
    "report/figure.py": 4,
    "report/table.py": 4,
    # rows that the values of the model make of themselves
    "report/diff.py": 6,
    "report/timeline.py": 10,
}
"""The files with columns without `of`, and how many: this may only get less, and no file may be added."""


def test_a_column_and_its_cell_are_one_expression() -> None:
    found: dict[str, int] = {}
    for path in FILES:
        name = path.relative_to(PACKAGE).as_posix()
        bare = sum("of" not in {keyword.arg for keyword in call.keywords} for call in _column_calls(path))
        if name.startswith(("commands/", "report/")) and bare:
            found[name] = bare
    assert {name: count for name, count in found.items() if count > WITHOUT_CELLS.get(name, 0)} == {}
    assert {name for name in WITHOUT_CELLS if name not in found} == set(), "these have cells now: take them out"


def _column_calls(path: Path) -> Iterator[ast.Call]:
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Column" and node.args:
            yield node


def test_functions_are_short() -> None:
    long = {
        f"{module_name(path)}.{node.name}"
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    }
    assert long == set()


def test_files_say_what_they_are() -> None:
    assert [str(path) for path in FILES if not (ast.get_docstring(tree_of(path)) or "").strip()] == []


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py" and path.parent != PACKAGE])
def test_rooms_name_what_they_answer_with(path: Path) -> None:
    """The `__init__` of a room is its docstring, and every `module.name` in it is in the room.

    Two parts have the names of functions of the library, so they can be called: `hlo_cli.lint(module)`.
    """
    statement, *others = tree_of(path).body
    assert isinstance(statement, ast.Expr)
    assert not others or module_name(path) in ("hlo_cli.lint", "hlo_cli.report")
    for name in re.findall(r"`([a-z_]+\.\w+)`", ast.get_docstring(tree_of(path)) or ""):
        module, _, inner = name.partition(".")
        if inner != "py":
            assert hasattr(import_module(f"{module_name(path)}.{module}"), inner), name


def test_the_reader_of_imports_sees_all_kinds(tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text(
        "import os.path\n"
        "from hlo_cli import source\n"
        "from hlo_cli.source import Span\n"
        "if TYPE_CHECKING:\n    import rich\n"
        "class C:\n    def f(self):\n        import numpy\n"
    )
    assert imports_of(source) == (
        Import("os.path", 1, on_use=False, types_only=False),
        Import("hlo_cli.source", 2, on_use=False, types_only=False),
        Import("hlo_cli.source", 3, on_use=False, types_only=False),
        Import("rich", 5, on_use=False, types_only=True),
        Import("numpy", 8, on_use=True, types_only=False),
    )

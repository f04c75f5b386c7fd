"""`hlo parse --tree`: nested loops, branches, and calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.dataflow.executions import CallTreeNode, call_tree
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import DeepCall, run_deep
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Branch, Cell, Column, Tree

_COLUMNS = (
    Column("name", "computation", "name", role="name"),
    Column("trip_count", "trips", "count"),
    Column("instructions", "instr.", "count"),
    Column("fusions", "fusions", "count"),
    Column("carried_bytes", "carried", "bytes"),
    Column("body", "body", "name", from_width=120, rank=2),
    Column("op_name", "op_name", "op_name", from_width=120, rank=2),
    Column("source", "source", "source", rank=3),
)


def report_of_tree(loaded: Loaded) -> Report:
    """The call structure below the entry, with the size of each computation and the bytes that loops carry."""
    module = loaded.module
    root = call_tree(module)
    nodes = list(_walk(root))
    loops = sum(node.caller is not None and node.caller.opcode == opcodes.WHILE for node in nodes)
    branches = sum(node.caller is not None and node.caller.opcode == opcodes.CONDITIONAL for node in nodes)
    calls = len([node for node in nodes if node.caller is not None]) - loops - branches
    return Report(
        "parse",
        _answer(module, loops, branches, calls),
        numbers={
            "module": module.name,
            "loops": loops,
            "branches": branches,
            "calls": calls,
            "instructions": module.instruction_count,
            "computations": len(module.computations),
        },
        parts=(Tree("calls", _COLUMNS, (run_deep(_branch(module, root)),), noun="computations"),),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def _answer(module: Module, loops: int, branches: int, calls: int) -> str:
    parts = [(loops, "loops"), (branches, "branches"), (calls, "calls")]
    calls_made = [format_count(number, noun) for number, noun in parts if number]
    computations = format_count(len(module.computations), "computations")
    size = f"{format_count(module.instruction_count, 'instructions')} in {computations}"
    words = f"with {_enumeration(calls_made)}" if calls_made else "with no loops, branches, or calls"
    return f"{module.entry.name}: {size}, {words}"


def _enumeration(items: Sequence[str]) -> str:
    """Items as in prose: `a`, `a and b`, or `a, b, and c`."""
    if len(items) < 3:
        return " and ".join(items)
    return f"{', '.join(items[:-1])}, and {items[-1]}"


def _walk(node: CallTreeNode) -> Iterator[CallTreeNode]:
    pending = [node]
    while pending:
        here = pending.pop()
        yield here
        pending.extend(here.children)


def _branch(module: Module, node: CallTreeNode) -> DeepCall[Branch]:
    children = list[Branch]()
    for child in node.children:
        children.append((yield _branch(module, child)))
    return Branch(_cells(module, node), tuple(children))


def _cells(module: Module, node: CallTreeNode) -> tuple[Cell, ...]:
    caller, computation = node.caller, node.computation
    instructions = computation.instructions if computation is not None else ()
    name = caller.name if caller is not None else computation.name if computation is not None else ""
    location = module.location(caller) if caller is not None else None
    return (
        f"{node.branch}: {name}" if node.branch is not None else name,
        _trips(node),
        len(instructions) if computation is not None else None,
        _fusions(instructions) if computation is not None else None,
        caller.shape.padded_bytes if caller is not None else None,
        computation.name if computation is not None else None,
        (caller.metadata.op_name or None) if caller is not None else None,
        str(location) if location is not None else None,
    )


def _trips(node: CallTreeNode) -> Cell:
    if node.caller is None or node.caller.opcode != opcodes.WHILE:
        return None
    return node.trips if node.trips is not None else UNKNOWN


def _fusions(instructions: tuple[Instruction, ...]) -> int:
    return sum(instruction.opcode == opcodes.FUSION for instruction in instructions)

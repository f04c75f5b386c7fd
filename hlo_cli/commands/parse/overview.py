"""What is in a dump? Arguments, results, computations, opcodes, the largest values; and how calls nest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hlo_cli.analysis.dataflow.dependencies import Value
from hlo_cli.analysis.dataflow.executions import CallTreeNode, Kind, call_tree, computation_kinds
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.buffer_sizes import data_values
from hlo_cli.commands.modules.instruction_tables import source_of
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of, partition_notes
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import DeepCall, run_deep
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.opcodes import FUSION, PARAMETER
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import (
    UNKNOWN,
    Amount,
    Branch,
    Cell,
    Column,
    Fact,
    Facts,
    LazyRows,
    Table,
    Tree,
    row_from,
    rows_from,
    rows_from_tuples,
)
from hlo_cli.source import Diagnostic

# --- the summary ---
# `hlo parse DUMP`: summary of a module: arguments, results, kinds of computations, opcodes, and largest values.


_KIND_NAMES: dict[Kind, str] = {
    "fused": "fusions",
    "body": "loop bodies",
    "condition": "conditions",
    "branch": "branches",
    "called": "called",
    "asynchronous": "async",
    "applied": "applied",
    "unused": "unused",
}
_LARGEST = 3  # the overview is one screen; `hlo layout` has all values
_OPCODES = 4  # as many as fit a line


def report_of_module(loaded: Loaded, argument: str) -> Report:
    """The summary of a module."""
    module = loaded.module
    target = target_of(module)
    opcodes = Counter(instruction.opcode for instruction in module.instructions)
    parameters = [parameter.shape for parameter in module.entry.parameters]
    root = module.entry.root
    results = [leaf for _, leaf in root.shape.leaves] if root is not None else None
    return Report(
        "parse",
        _summary_answer(module, target),
        numbers={
            "module": module.name,
            "target": target,
            "is_scheduled": module.is_scheduled,
            "instructions": module.instruction_count,
            "computations": len(module.computations),
            "arguments": len(parameters),
            "argument_bytes": sum(shape.padded_bytes for shape in parameters),
            "results": len(results) if results is not None else UNKNOWN,
            "result_bytes": sum(shape.padded_bytes for shape in results) if results is not None else UNKNOWN,
            "aliased_results": len(module.input_output_alias),
            "errors": len(module.errors),
        },
        parts=(
            _facts(loaded, opcodes, parameters, results),
            _largest_values(module),
            _signature(module),
            _opcode_table(opcodes),
        ),
        next=_next(argument, opcodes) if argument and argument != "-" else (),
        notes=(*_partition_notes(loaded), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _partition_notes(loaded: Loaded) -> tuple[Diagnostic, ...]:
    """The note on a module that is not partitioned yet; one with a schedule is."""
    if loaded.module.is_scheduled:
        return ()

    return partition_notes(loaded)


def lone_instruction(module: Module) -> Instruction | None:
    """The instruction of a text that has only one, outside of any computation; None for any other text.

    >>> from hlo_cli import parse_module
    >>> lone_instruction(parse_module("ENTRY e { ROOT y = f32[2] constant({1, 2}) }")) is None
    True
    """
    operations = [instruction for instruction in module.instructions if instruction.opcode != PARAMETER]
    if len(operations) != 1 or len(module.computations) != 1 or module.errors:
        return None
    text = module.source.text
    is_outside = bool(text) and not any(word in text for word in ("HloModule", "ENTRY", "->", "{\n"))
    return operations[0] if is_outside else None


def _next(argument: str, opcodes: Counter[str]) -> tuple[str, ...]:
    """The commands that answer the next questions about a module: what it costs, and what is most of it."""
    if any(opcode.endswith("-start") or opcode in COLLECTIVES for opcode in opcodes):
        further = f"hlo schedule {argument}"
    else:
        further = f"hlo fuse {argument}" if opcodes[FUSION] else f"hlo parse {argument} --tree"
    return f"hlo overview {argument}", further


def _summary_answer(module: Module, target: str | None) -> str:
    order = "scheduled" if module.is_scheduled else "unscheduled"
    kind = f"{order} {target.upper()} module" if target else f"{order} module"
    count = format_count(module.instruction_count, "instructions")
    size = f"{count} in {format_count(len(module.computations), 'computations')}"
    return f"Part of a module: {size}" if module.is_part else f"{module.name}: {kind} with {size}"


def _facts(
    loaded: Loaded, opcodes: Counter[str], parameters: Sequence[Shape], results: Sequence[Shape] | None
) -> Facts:
    module = loaded.module
    stage = loaded.input.stage
    alias = len(module.input_output_alias)
    facts = [Fact("stage", remark=stage)] if stage else []
    facts += [
        _sizes("inputs" if module.is_part else "arguments", module, parameters, ""),
        _sizes(
            "results", module, results, f"{alias:,} {'aliases' if alias == 1 else 'alias'} an argument" if alias else ""
        ),
        Fact("computations", (Amount("count", len(module.computations)),), _format_kinds(module)),
        Fact("opcodes", (Amount("count", len(opcodes)),), _most_common(opcodes)),
    ]
    return Facts("module", tuple(facts))


def _sizes(label: str, module: Module, shapes: Sequence[Shape] | None, remark: str) -> Fact:
    if shapes is None:
        return Fact(label, (Amount("count", UNKNOWN), Amount("bytes", UNKNOWN, "bytes")), "root instruction missing")
    amounts = (Amount("count", len(shapes)), Amount("bytes", sum(shape.padded_bytes for shape in shapes), "bytes"))
    spaces: Counter[int] = Counter()
    for leaf in _arrays(shapes):
        spaces[leaf.memory_space] += leaf.padded_bytes
    parts = [remark] if remark else []
    if set(spaces) - {0}:
        target = target_of(module)
        parts.append(", ".join(f"{space_name(s, target)} {format_bytes(n)}" for s, n in sorted(spaces.items())))
    return Fact(label, amounts, "; ".join(parts))


def _arrays(shapes: Iterable[Shape]) -> Iterable[ArrayShape]:
    return (leaf for shape in shapes for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))


def _format_kinds(module: Module) -> str:
    """The number of instructions in computations of each kind: `fusions (228) 2,982`."""
    counts: Counter[Kind] = Counter()
    sizes: Counter[Kind] = Counter()
    for computation, kind in computation_kinds(module).items():
        counts[kind] += 1
        sizes[kind] += len(computation.instructions)
    parts = [f"entry {sizes['entry']:,}"]
    parts += [f"{name} ({counts[kind]:,}) {sizes[kind]:,}" for kind, name in _KIND_NAMES.items() if counts[kind]]
    return f"instructions: {', '.join(parts)}"


def _most_common(opcodes: Counter[str]) -> str:
    ranked = sorted(opcodes.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{opcode} {number:,}" for opcode, number in ranked[:_OPCODES])
    return listed + (" …" if len(ranked) > _OPCODES else "")


def _largest_values(module: Module) -> Table:
    columns: tuple[Column[Value], ...] = (
        Column("padded_bytes", "", "bytes", of=lambda value: value.shape.padded_bytes),
        Column("logical_bytes", "data", "bytes", from_width=120, of=lambda value: value.shape.logical_bytes),
        Column("value", "largest values", "name", role="name", of=lambda value: str(value)),
        Column("opcode", "opcode", "opcode", from_width=120, rank=3, of=lambda value: value.instruction.opcode),
        Column("shape", "shape", "shape", of=lambda value: str(value.shape)),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2,
               of=lambda value: value.instruction.metadata.op_name or None),
        Column("source", "source", "source", rank=3, of=lambda value: source_of(module, value.instruction)),
    )  # fmt: skip
    values = sorted(data_values(module), key=lambda v: (-v.shape.padded_bytes, str(v)))
    rows = LazyRows(len(values), lambda: (row_from(columns, value) for value in values))
    return Table("values", columns, rows, noun="values", sorted_by="padded_bytes", limit=_LARGEST)


def _signature(module: Module) -> Table:
    """Arguments and results, for programs; the screen shows their sums."""
    columns: tuple[Column[_SignatureValue], ...] = (
        Column("direction", "direction", of=lambda value: value.direction),
        Column("index", "index", "index", of=lambda value: value.position),
        Column("name", "name", "name", of=lambda value: value.name),
        Column("padded_bytes", "bytes", "bytes", of=lambda value: value.leaf.padded_bytes),
        Column("space", "space", "count", of=lambda value: _space(value.leaf)),
        Column("shape", "shape", "shape", of=lambda value: str(value.leaf)),
        Column("aliased", "aliased", "text", of=lambda value: value.aliased),
    )
    aliased = {(a.parameter_number, a.parameter_index): a.output_index for a in module.input_output_alias}
    outputs = {a.output_index: f"{a.parameter_number}" for a in module.input_output_alias}
    values: list[_SignatureValue] = []
    for number, parameter in enumerate(module.entry.parameters):
        for index, leaf in parameter.shape.leaves:
            alias = aliased.get((number, index))
            where = None if alias is None else index_text(alias)
            values.append(_SignatureValue("argument", (number, *index), parameter.name, leaf, where))
    for index, leaf in module.entry.root.shape.leaves if module.entry.root else ():
        name = module.entry.root.name if module.entry.root else ""
        values.append(_SignatureValue("result", index, name, leaf, outputs.get(index)))
    return Table("signature", columns, rows_from(columns, values), noun="values", main=False, person=False)


@dataclass(frozen=True, slots=True)
class _SignatureValue:
    """An array that is passed or returned; `aliased` is the result or the argument that has the same memory."""

    direction: str
    position: ShapeIndex
    name: str
    leaf: Shape
    aliased: str | None


def _space(leaf: Shape) -> int | None:
    return leaf.memory_space if isinstance(leaf, ArrayShape) else None


def _opcode_table(opcodes: Counter[str]) -> Table:
    ranked = sorted(opcodes.items(), key=lambda item: (-item[1], item[0]))
    columns: tuple[Column[str, int], ...] = (
        Column("opcode", "opcode", "opcode", of=lambda opcode, count: opcode),
        Column("count", "count", "count", of=lambda opcode, count: count),
    )
    rows = rows_from_tuples(columns, ranked)
    return Table("opcodes", columns, rows, noun="opcodes", sorted_by="count", main=False, person=False)


# --- --tree: loops, branches, and calls ---
# `hlo parse --tree`: nested loops, branches, and calls.


def report_of_tree(loaded: Loaded) -> Report:
    """The call structure below the entry, with the size of each computation and the bytes that loops carry."""
    module = loaded.module
    root = call_tree(module)
    nodes, columns = list(_walk(root)), _tree_columns(module)
    loops = sum(node.caller is not None and node.caller.opcode == opcodes.WHILE for node in nodes)
    branches = sum(node.caller is not None and node.caller.opcode == opcodes.CONDITIONAL for node in nodes)
    calls = len([node for node in nodes if node.caller is not None]) - loops - branches
    return Report(
        "parse",
        _tree_answer(module, loops, branches, calls),
        numbers={
            "module": module.name,
            "loops": loops,
            "branches": branches,
            "calls": calls,
            "instructions": module.instruction_count,
            "computations": len(module.computations),
        },
        parts=(Tree("calls", columns, (run_deep(_branch(columns, root)),), noun="computations"),),
        notes=notes_of(loaded),
        input=input_facts(loaded),
    )


def _tree_columns(module: Module) -> tuple[Column[CallTreeNode], ...]:
    return (
        Column("name", "computation", "name", role="name",
               of=lambda node: f"{node.branch}: {_name(node)}" if node.branch is not None else _name(node)),
        Column("trip_count", "trips", "count", of=lambda node: _trips(node)),
        Column("instructions", "instr.", "count",
               of=lambda node: len(node.computation.instructions) if node.computation is not None else None),
        Column("fusions", "fusions", "count",
               of=lambda node: _fusions(node.computation.instructions) if node.computation is not None else None),
        Column("carried_bytes", "carried", "bytes",
               of=lambda node: node.caller.shape.padded_bytes if node.caller is not None else None),
        Column("body", "body", "name", from_width=120, rank=2,
               of=lambda node: node.computation.name if node.computation is not None else None),
        Column("op_name", "op_name", "op_name", from_width=120, rank=2,
               of=lambda node: node.caller.metadata.op_name or None if node.caller is not None else None),
        Column("source", "source", "source", rank=3,
               of=lambda node: source_of(module, node.caller) if node.caller is not None else None),
    )  # fmt: skip


def _tree_answer(module: Module, loops: int, branches: int, calls: int) -> str:
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


def _branch(columns: Sequence[Column[CallTreeNode]], node: CallTreeNode) -> DeepCall[Branch]:
    children = list[Branch]()
    for child in node.children:
        children.append((yield _branch(columns, child)))
    return Branch(row_from(columns, node), tuple(children))


def _name(node: CallTreeNode) -> str:
    named = node.caller if node.caller is not None else node.computation
    return "" if named is None else named.name


def _trips(node: CallTreeNode) -> Cell:
    if node.caller is None or node.caller.opcode != opcodes.WHILE:
        return None
    return node.trips if node.trips is not None else UNKNOWN


def _fusions(instructions: tuple[Instruction, ...]) -> int:
    return sum(instruction.opcode == opcodes.FUSION for instruction in instructions)

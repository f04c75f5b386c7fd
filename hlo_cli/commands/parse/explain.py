"""What does one instruction mean? `--explain`: each part underlined and named, with its meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hlo_cli.analysis.dataflow.executions import computation_kinds, trip_count
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.layout_steps import shape_tokens
from hlo_cli.analysis.query.fields import rounded
from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.commands.shape.explained import NAMED, default_space, shape_numbers, shape_segments
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import NamedSharding, Sharding, TupleSharding
from hlo_cli.ir.instruction import Attribute, Computation, Instruction
from hlo_cli.ir.memory_space import TpuMemorySpace, space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix, index_text
from hlo_cli.ir.operations import CALLING_ATTRIBUTES, OPERATIONS, wrapped_opcode
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, ShapeIndex, TupleShape, UnknownShape, subshape
from hlo_cli.report.figure import Anatomy, Break, Explanation, Segment
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Table, rows_from
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.attribute_table import Kind, attribute_named, attributes_of
from hlo_cli.syntax.scanning.error_help import check_types
from hlo_cli.syntax.text.parser import parse_module

if TYPE_CHECKING:
    from hlo_cli.analysis.kernels.pallas_kernels import KernelWindow
    from hlo_cli.analysis.sharding.collectives import Collective

# --- opcodes ---
# Descriptions of opcodes: the first sentence of an explanation, and details.


class OpcodeDescription(NamedTuple):
    """The description of an opcode: `does` begins a sentence about an instruction, `about` describes how it works."""

    does: str
    about: str


def describe_opcode(opcode: str) -> OpcodeDescription:
    """Describes an opcode of XLA, an asynchronous form of one, or an unknown opcode.

    >>> describe_opcode("tanh").does, describe_opcode("slice-start").does, describe_opcode("frob").does
    ('Computes hyperbolic tangents', 'Starts an async slice', 'Unknown opcode')
    """
    if (known := OPERATIONS.get(opcode)) is not None:
        return OpcodeDescription(known.does, known.about)
    wrapped = wrapped_opcode(opcode)
    if wrapped is None:
        return OpcodeDescription("Unknown opcode", "kept as text")
    if opcode.endswith("-done"):
        return OpcodeDescription(f"Waits for an async {wrapped}", OPERATIONS["async-done"].about)
    if opcode.endswith("-update"):
        return OpcodeDescription(f"Updates an async {wrapped}", OPERATIONS["async-update"].about)
    return OpcodeDescription(f"Starts an async {wrapped}", OPERATIONS[wrapped].about)


def _describe_operation(instruction: Instruction) -> OpcodeDescription:
    """Describes what an instruction does: its opcode, or the annotation that a custom call is.

    >>> from hlo_cli import parse_module
    >>> text = 'r = f32[4] custom-call(f32[4] p), custom_call_target="{}"'
    >>> [_describe_operation(parse_module(text.format(name)).entry.root).does for name in ("Sharding", "my_op")]
    ['Sharding annotation', 'Calls external code']
    """
    if instruction.opcode == opcodes.CUSTOM_CALL:
        from hlo_cli.analysis.custom_calls.targets import known_target

        known = known_target(instruction.string("custom_call_target") or "")
        if known.category == "annotation":
            words = known.description
            return OpcodeDescription(words[:1].upper() + words[1:], "for the compiler; no code runs")
    return describe_opcode(instruction.opcode)


# --- attributes ---
# The meanings of instruction attributes in words, from their rows or their values.


_WINDOW: Final = {
    "stride": "stride",
    "pad": "low_high padding",
    "lhs_dilate": "base dilation",
    "rhs_dilate": "window dilation",
    "rhs_reversal": "reversed (1 = yes):",
}
_IOTA_GROUPS = re.compile(r"\[([0-9]{1,18}),([0-9]{1,18})\]<=")
_GROUP = re.compile(r"\{([\d,\s]*)\}")


def describe_attribute(opcode: str, name: str, value: str) -> str:
    """The meaning of an attribute in an instruction of this opcode; empty if unknown.

    >>> describe_attribute("fusion", "kind", "kLoop"), describe_attribute("transpose", "dimensions", "{1,0}")
    ('loop over the output elements', 'operand dimension of each result dimension')
    """
    row = attributes_of(opcode).get(name) or attribute_named(name)
    if row is None:
        return ""
    if row.kind in _COMPUTED and (description := _COMPUTED[row.kind](value)):
        return description
    return row.words.get(value.strip('"')) or row.meaning


def attribute_label(name: str) -> str:
    """A short label for an attribute, shown in front of its value.

    >>> attribute_label("lhs_contracting_dims"), attribute_label("kind")
    ('lhs contracting', 'kind')
    """
    row = attribute_named(name)
    return (row.label if row is not None else "") or name


def _settings(value: str) -> str:
    """The nonempty settings of a backend configuration, by their keys."""
    import json

    try:
        config = json.loads(value)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(config, dict):
        return ""
    settings = [f"{key} {item}" if isinstance(item, int | str) else str(key) for key, item in config.items() if item]
    return f"backend configuration: {', '.join(settings) or 'all empty'}"


def _groups(value: str) -> str:
    if (iota := _IOTA_GROUPS.match(value)) is not None:
        return f"{format_count(int(iota[1]), 'groups')} of {format_count(int(iota[2]), 'devices')}"
    if value.replace(" ", "") in ("{}", "{{}}"):
        return "one group of all devices"
    sizes = {len(group.split(",")) for group in _GROUP.findall(value[1:])} if value.startswith("{") else set()
    number = len(_GROUP.findall(value[1:])) if sizes else 0
    return f"{format_count(number, 'groups')} of {format_count(sizes.pop(), 'devices')}" if len(sizes) == 1 else ""


def _labels(value: str) -> str:
    parts = re.fullmatch(r"([0-9bf?]+)_([0-9io?]+)->([0-9bf?]+)", value)
    if parts is None:
        return ""
    return (
        f"operands {parts[1]} and {parts[2]}, result {parts[3]} "
        "(b: batch, f: feature, i: input feature, o: output feature, digits: spatial)"
    )


def _window(value: str) -> str:
    fields = dict(part.split("=", 1) for part in value.strip("{}").split() if "=" in part)
    parts = [f"{fields['size'].replace('x', ' × ')} elements"] if "size" in fields else []
    parts += [f"{words} {fields[name].replace('x', ' × ')}" for name, words in _WINDOW.items() if name in fields]
    return ", ".join(parts)


_COMPUTED: Final[dict[Kind, Callable[[str], str]]] = {
    Kind.STRING_OR_JSON: _settings,
    Kind.REPLICA_GROUPS: _groups,
    Kind.DIM_LABELS: _labels,
    Kind.WINDOW: _window,
}
"""Descriptions that are computed from a value."""


# --- shardings ---
# `hlo parse --explain` of an instruction with a sharding: which device holds what.


def _sharding_meaning(instruction: Instruction, module: Module | None) -> str:
    """The shard of an instruction and who holds what, in one sentence; empty without a sharding that can be read.

    Without a `module`, it is unknown whether the shape is that of the whole array or of a shard.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m, num_partitions=2  ENTRY e { p = f32[8] parameter(0)  ROOT r = f32[8] "
    ...     "negate(p), sharding={devices=[2]<=[2]} }")
    >>> _sharding_meaning(module.entry.root, module)
    'each of 2 devices holds f32[4]: device 0 [0:4], device 1 [4:8]'
    >>> _sharding_meaning(module.entry.root, None)
    'dimension 0 in 2 parts; each of 2 devices holds its own part'
    """
    sharding = instruction.sharding
    if sharding is None:
        return ""
    from hlo_cli.analysis.sharding.placement import describe_sharding

    if module is None or isinstance(sharding, TupleSharding):
        return describe_sharding(sharding)
    return _of_value(instruction, module, sharding)


def _of_value(instruction: Instruction, module: Module, sharding: Sharding | NamedSharding) -> str:
    from hlo_cli.analysis.sharding.entry_arrays import array_of_value
    from hlo_cli.analysis.sharding.placement import describe_sharding, describe_shards

    array = array_of_value(module, instruction)
    if array is None or array.whole is None:
        return describe_sharding(sharding)
    try:
        words = describe_shards(array.whole, sharding)
    except HloError as error:
        return f"invalid: {error.diagnostic.message}"
    if array.whole.sizes != array.shape.sizes:  # the shape in the text is that of a shard
        return f"of {array.whole.to_string(layout=False)}, {words}"
    return words


# --- collectives ---
# What a collective does, in the explanation of an instruction: its mesh axes, its groups, and its bytes.


def _collective_at(instruction: Instruction, module: Module) -> Collective | None:
    """The collective of an instruction, or of an async-start or fusion around one; None for others."""
    from hlo_cli.analysis.sharding.meshes import is_collective

    called = (callee for computation in instruction.called_computations for callee in computation.instructions)
    if not is_collective(instruction) and not any(map(is_collective, called)):
        return None
    from hlo_cli.analysis.sharding.collectives import collectives_of

    own_collectives = [
        collective
        for collective in collectives_of(module)
        if instruction in (collective.instruction, collective.caller)
    ]
    return own_collectives[0] if len(own_collectives) == 1 else None


def _collective_rows(collective: Collective, module: Module) -> Iterator[Explanation]:
    """Rows on the axes, the groups, and the bytes of a collective."""
    if (axes := _axes_in_words(collective, module)) is not None:
        yield Explanation(None, "axes", "", axes)
    from hlo_cli.analysis.sharding.collectives import groups_text

    if collective.groups is None:
        yield Explanation(None, "devices", "", collective.problem)
        return
    if collective.groups or collective.pairs:
        yield Explanation(None, "devices", "", groups_text(collective) or "")
    yield Explanation(None, "sends", "", _bytes_in_words(collective))


def _collective_numbers(collective: Collective) -> dict[str, Cell]:
    """The axes and bytes of a collective, for programs."""
    return {
        "collective": collective.kind,
        "axis": collective.axis,
        "devices": collective.devices,
        "payload_bytes": collective.payload_bytes,
        "wire_bytes": None if collective.wire_bytes is None else rounded(collective.wire_bytes),
        "trips": collective.runs.known,
    }


def _axes_in_words(collective: Collective, module: Module) -> str | None:
    from hlo_cli.analysis.sharding.collectives import mesh_of
    from hlo_cli.analysis.sharding.meshes import mesh_words

    known = mesh_of(module)
    if known is None or collective.groups is None or known.is_inferred:
        return None
    mesh = f"of mesh {mesh_words(known.mesh)} ({known.origin})"
    if collective.axis is None:
        return f"no axes {mesh}"
    return f"{', '.join(map(str, collective.shifts)) or collective.axis} {mesh}"


def _bytes_in_words(collective: Collective) -> str:
    assert collective.wire_bytes is not None
    bound = "at most " if collective.is_bound else ""
    words = f"{bound}{format_bytes(rounded(collective.wire_bytes))} from each device per run"
    payload = collective.payload_bytes
    words += f", for {format_bytes(payload)}" if payload is not None else ""
    runs = collective.runs.known
    if runs is None:
        return f"{words}; in a loop of unknown trip count"
    return f"{words}; {format_count(runs, 'runs')}" if runs > 1 else words


# --- the parts of a line ---
# The parts of an instruction's line, shape, operands, and attributes, each with its meaning.


MANY: Final = 8
"""The most operands, or elements of a tuple, that are quoted; more would leave no room for their meanings."""
_LONG_VALUE: Final = 48  # a value and its meaning are to fit a line of 80
_ELIDED: Final = frozenset(("metadata", "backend_config"))
_MIN_INSIDE: Final = 2  # the bodies of a loop or a branch are named; a list of more is no explanation

Segments = list[Segment]
Rows = list[Explanation]


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """The context of an instruction: module, target, whether it is typed alone, and whether it is inside a kernel."""

    module: Module
    target: str | None
    is_alone: bool = False
    is_in_memory: bool = True
    most_operands: int = MANY

    def space(self, space: int) -> str:
        """The name of a memory space; empty where values are not in memory."""
        return space_name(space, self.target) if self.is_in_memory else ""


def _shape_parts_of(shape: Shape, setting: ExplainContext, segments: Segments, rows: Rows) -> None:
    """Adds the parts of the shape; those of a tuple by leaf, each with its size."""
    first = _next_part(rows)
    array = shape.array if isinstance(shape, BufferShape) else shape
    if isinstance(array, ArrayShape):
        new, meanings = shape_segments(shape_tokens(shape), first, array, numbered=True, target=setting.target)
        segments += new
        rows += meanings
        if not array.memory_space and setting.is_in_memory:
            rows.append(Explanation(None, "space", "not specified", default_space(setting.target)))
    elif isinstance(shape, TupleShape):
        _tuple_parts(shape, setting, segments, rows)
    elif shape != UnknownShape():
        segments.append(Segment(str(shape), first))
        rows.append(Explanation(first, "type", str(shape), _ZERO_SIZE.get(str(shape), "unknown type")))
    if shape != UnknownShape():
        segments.append(Segment(" "))


def _operand_parts(instruction: Instruction, setting: ExplainContext, segments: Segments, rows: Rows) -> None:
    """Adds the parts between the parentheses: operands, a parameter number, or a constant."""
    segments.append(Segment("("))
    argument = instruction.text.argument
    if argument and not instruction.operands:
        part = _next_part(rows)
        shown = _short(argument)
        segments.append(Segment(shown, part))
        is_number = instruction.opcode == opcodes.PARAMETER
        rows.append(Explanation(part, "number" if is_number else "value", shown, _argument(instruction)))
    count, most = len(instruction.operands), setting.most_operands
    shown_count = count if not most or count <= most + 1 else most
    for index in range(shown_count):
        segments += [Segment(", ")] if index else []
        _operand_part(instruction, index, setting, segments, rows)
    if shown_count < count:
        segments.append(Segment(f", … {count - shown_count:,} more", None, Break.NEVER))
        shapes = [instruction.operand_shape(index) for index in range(shown_count, count)]
        total = sum(shape.padded_bytes for shape in shapes)
        rows.append(Explanation(None, "operands", f"{count - shown_count:,} more", "", (total, "")))
    segments.append(Segment(")"))


def _attribute_parts(instruction: Instruction, setting: ExplainContext, segments: Segments, rows: Rows) -> None:
    """Adds each attribute with its meaning; for metadata, the location in the user's program."""
    for attribute in instruction.attributes:
        segments.append(Segment(", "))
        part = _next_part(rows)
        value = _value(attribute)
        segments.append(Segment(f"{attribute.name}={value}", part, Break.MAY))
        if attribute.name == "metadata":
            rows.append(_source_of(setting.module, instruction, part))
            continue
        meaning = describe_attribute(instruction.opcode, attribute.name, attribute.value)
        if attribute.name in CALLING_ATTRIBUTES:
            meaning = _called(instruction, attribute.value, meaning)
        if attribute.name == "sharding":
            meaning = _sharding_meaning(instruction, None if setting.is_alone else setting.module) or meaning
        meaning = meaning or "unknown attribute"
        rows.append(Explanation(part, attribute_label(attribute.name), value, meaning))


def _tuple_parts(shape: TupleShape, setting: ExplainContext, segments: Segments, rows: Rows) -> None:
    shown = 0
    leaves = sum(1 for _ in shape.leaves)
    most = leaves if leaves <= MANY + 1 else MANY
    for piece in shape_tokens(shape):
        if piece.role != "leaf":
            segments.append(Segment(piece.text))
            continue
        if shown == most:
            segments.append(Segment(f"… {leaves - shown:,} more)"))
            total = sum(leaf.padded_bytes for _, leaf in tuple(shape.leaves)[shown:])
            rows.append(Explanation(None, "elements", f"{leaves - shown:,} more", "", (total, "")))
            return
        shown += 1
        part = _next_part(rows)
        segments.append(Segment(piece.text, part, Break.MAY))
        leaf = subshape(shape, piece.index) or UnknownShape()
        rows.append(Explanation(part, "element", index_text(piece.index), str(leaf), _details(leaf, setting)))


def _operand_part(instruction: Instruction, at: int, setting: ExplainContext, segments: Segments, rows: Rows) -> None:
    operand, index = instruction.operands[at], instruction.operand_index(at)
    shape, part = instruction.operand_shape(at), _next_part(rows)
    suffix = "".join(f"#{i}" for i in index)
    segments.append(Segment(f"{operand.name}{suffix}", part, Break.MAY))
    name = operand.name + index_suffix(index)
    if shape == UnknownShape():
        rows.append(Explanation(part, "operand", name, "shape not in the text"))
    else:
        rows.append(Explanation(part, "operand", name, str(shape), _details(shape, setting)))


def _details(shape: Shape, setting: ExplainContext) -> tuple[Cell, ...]:
    if isinstance(shape, ArrayShape | BufferShape):
        return shape.padded_bytes, setting.space(shape.layout.memory_space)
    return (shape.padded_bytes, "") if isinstance(shape, TupleShape) else ("", "")


def _argument(instruction: Instruction) -> str:
    if instruction.opcode == opcodes.PARAMETER:
        return "parameter number, from 0"
    argument = instruction.text.argument
    if "..." in argument:
        return "omitted from the dump"
    return "constant value" if argument == _short(argument) else "first values of the constant"


def _source_of(module: Module, instruction: Instruction, part: int) -> Explanation:
    location = module.location(instruction)
    source = str(location) if location is not None else ""
    op_name = instruction.metadata.op_name
    if not op_name and not source:
        return Explanation(part, "metadata", "{…}", "no source information")
    return Explanation(part, "source", op_name or source, source if op_name else "")


def _called(instruction: Instruction, value: str, meaning: str) -> str:
    """The role of a called computation, and its operation if it has only one."""
    named = value.replace("%", "").strip("{} ").split(", ")
    called = [c for c in instruction.called_computations if c.name in named]
    return f"{meaning}: {', '.join(map(_inside, called))}" if 0 < len(called) <= _MIN_INSIDE else meaning


def _inside(computation: Computation) -> str:
    inside = [i for i in computation.instructions if i.opcode != opcodes.PARAMETER]
    if len(inside) == 1:
        return inside[0].opcode
    return format_count(len(computation.instructions), "instructions")


def _value(attribute: Attribute) -> str:
    if attribute.name in _ELIDED:
        return "{…}"
    value = attribute.value.replace("%", "") if attribute.name in CALLING_ATTRIBUTES else attribute.value
    return _short(value)


def _short(value: str) -> str:
    if len(value) <= _LONG_VALUE:
        return value
    closing = value[-1] if value[-1] in "}])\"'" else ""
    return value[: _LONG_VALUE - 2].rstrip() + "…" + closing


def _next_part(rows: Sequence[Explanation]) -> int:
    return sum(row.part is not None for row in rows)


_ZERO_SIZE: Final = {
    "token[]": "token: orders side effects, holds no data",
    "opaque[]": "opaque: contents known only to producer and consumers",
}


# --- the explanation ---
# `hlo parse --explain`: one instruction explained, each part underlined and named.


_DETAILS: Final = (Column("bytes", "", "bytes"), Column("space", ""))


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand with its element, its shape, and the name of its memory space."""

    instruction: Instruction
    index: ShapeIndex
    shape: Shape
    space: str | None

    @property
    def is_known(self) -> bool:
        """Whether its shape is."""
        return self.shape != UnknownShape()


_OPERANDS: Final[tuple[Column[_Operand], ...]] = (
    Column("operand", "operand", "name", of=lambda operand: operand.instruction.name),
    Column("index", "element", "index", of=lambda operand: operand.index or None),
    Column(
        "logical_bytes", "data", "bytes", of=lambda operand: operand.shape.logical_bytes if operand.is_known else None
    ),
    Column("padded_bytes", "", "bytes", of=lambda operand: operand.shape.padded_bytes if operand.is_known else None),
    Column("space", "space", of=lambda operand: operand.space),
    Column("shape", "shape", "shape", of=lambda operand: str(operand.shape) or None),
)


def explain_instruction(module: Module, instruction: Instruction, *, most_operands: int = MANY) -> Report:
    """Explains an instruction of a module part by part; at most `most_operands` operands are quoted.

    >>> module = parse_module("HloModule m  ENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] add(x, x) }")
    >>> explain_instruction(module, module.entry.root).answer
    'Adds two arrays: 2 f32 elements, 8 B, no padding'
    """
    kind = computation_kinds(module)[instruction.computation]
    is_in_memory = kind not in ("fused", "applied")
    setting = ExplainContext(module, target_of(module), is_in_memory=is_in_memory, most_operands=most_operands)
    return _report(instruction, setting, is_named=True)


def explain_text(text: str, *, most_operands: int = MANY) -> Report:
    """Explains an instruction given as text; HloError, with its span, if the text is not an instruction.

    >>> explain_text("add.1 = bf16[8,128]{1,0:T(8,128)(2,1)S(1)} add(a, b)").answer
    'Adds two arrays: 1,024 bf16 elements, 2 KiB in VMEM, no padding'
    """
    check_types(text)
    module = parse_module(Source("instruction", text), infer=omitted_shape)
    if module.errors:
        raise HloError.of(module.errors)
    return explain_alone(module, module.entry.root or module.entry.instructions[-1], most_operands=most_operands)


def explain_alone(
    module: Module, instruction: Instruction, *, most_operands: int = MANY, notes: Sequence[Diagnostic] = ()
) -> Report:
    """Explains the only instruction of a text, with notes on the text; its operands are not in the text.

    >>> module = parse_module("%y = f32[2] add(f32[2] %x, f32[2] %x)")
    >>> explain_alone(module, module.instruction("y")).answer
    'Adds two arrays: 2 f32 elements, 8 B, no padding'
    """
    setting = ExplainContext(module, target_of(module), is_alone=True, most_operands=most_operands)
    report = _report(instruction, setting, is_named=bool(NAMED.match(module.source.text.strip())))
    return replace(report, notes=(*notes, *report.notes))


def _report(instruction: Instruction, setting: ExplainContext, *, is_named: bool) -> Report:
    users = () if setting.is_alone else _users(instruction)
    return Report(
        "parse",
        _instruction_answer(instruction, setting),
        numbers=_numbers(instruction, users, setting),
        parts=(_anatomy(instruction, users, setting, is_named=is_named), _operand_table(instruction, setting)),
        notes=_notes(instruction),
    )


def _anatomy(
    instruction: Instruction, users: Sequence[Instruction], setting: ExplainContext, *, is_named: bool
) -> Anatomy:
    segments: list[Segment] = []
    rows: list[Explanation] = []
    if is_named:
        segments += [Segment(instruction.name, 0), Segment(" = ")]
        label = "instruction name; the leading % is optional" if setting.is_alone else ""
        rows.append(Explanation(0, "name", instruction.name, label))
    _shape_parts_of(instruction.shape, setting, segments, rows)
    part = sum(row.part is not None for row in rows)
    segments.append(Segment(instruction.opcode, part, Break.SHOULD))
    rows.append(Explanation(part, "opcode", instruction.opcode, _describe_operation(instruction).about))
    _operand_parts(instruction, setting, segments, rows)
    _attribute_parts(instruction, setting, segments, rows)
    if (collective := _collective_at(instruction, setting.module)) is not None:
        rows += _collective_rows(collective, setting.module)
    rows += _kernel_rows(instruction)
    if not setting.is_alone:
        rows.append(Explanation(None, "in", "", _place(instruction)))
    if users:
        shown = ", ".join(user.name for user in users[:3])
        rows.append(Explanation(None, "used by", "", shown + (f" … {len(users) - 3} more" if len(users) > 3 else "")))
    return Anatomy("instruction", tuple(segments), tuple(rows), _DETAILS)


def _kernel_rows(instruction: Instruction) -> Iterator[Explanation]:
    """The grid, the windows, and the VMEM of a Pallas kernel."""
    from hlo_cli.analysis.hardware.target import is_pallas

    if not is_pallas(instruction):
        return
    from hlo_cli.analysis.kernels.pallas_kernels import kernel_of

    kernel = kernel_of(instruction)
    if kernel.error:
        yield Explanation(None, "kernel", "", f"Pallas kernel that cannot be read: {kernel.error}")
        return
    sizes = " × ".join("?" if size is None else f"{size:,}" for size in kernel.grid)
    steps = f" = {format_count(kernel.steps, 'steps')}" if len(kernel.grid) > 1 and kernel.steps is not None else ""
    yield Explanation(None, "kernel", "", f"{kernel.name}: {f'grid {sizes}{steps}' if sizes else 'no grid'}")
    for window in kernel.windows:
        yield Explanation(None, "window", window.label, _window_words(window))
    held = f"{format_bytes(kernel.vmem_bytes)} of windows and scratch"
    yield Explanation(None, TpuMemorySpace.VMEM.label, "", held)


def _window_words(window: KernelWindow) -> str:
    """The block of an operand or a result at each step."""
    if not window.index_map:
        return f"whole array in {window.space.upper()}, which the kernel moves by itself"
    block = f"block [{','.join(map(str, window.block))}] at ({', '.join(window.index_map)})"
    if not window.buffers:
        return f"{block}, where the array is"
    return f"{block}, {format_count(window.buffers, 'buffers')}, {format_bytes(window.bytes)}"


def _place(instruction: Instruction) -> str:
    computation = instruction.computation
    position = f"{computation.name}, instruction {instruction.index + 1:,} of {len(computation.instructions):,}"
    return f"{position} (root)" if instruction.is_root else position


def _instruction_answer(instruction: Instruction, setting: ExplainContext) -> str:
    """One sentence on what the instruction does and how large its result is."""
    if instruction.opcode == opcodes.FUSION:
        parts = [format_count(len(instruction.operands), "operands")]
        parts += [format_count(len(called.instructions), "instructions") for called in instruction.called_computations]
        return f"Fusion with {' and '.join(parts)}; {_output(instruction.shape, setting)}"
    size = _size(instruction.shape, setting)
    return f"{_does(instruction)}: {size}" if size else _does(instruction)


def _does(instruction: Instruction) -> str:
    match instruction.opcode:
        case opcodes.PARAMETER if (number := instruction.parameter_number) is not None:
            return f"Parameter {number} of {instruction.computation.name}"
        case opcodes.WHILE if (trips := trip_count(instruction)) is not None:
            return f"Loop with trip count {trips:,}"
        case _:
            return _describe_operation(instruction).does


def _size(shape: Shape, setting: ExplainContext) -> str:
    match shape:
        case ArrayShape():
            what = format_count(shape.elements, f"{shape.element_type} elements")
            if not setting.is_in_memory:
                return f"{what}, not stored in memory"
            where = setting.space(shape.memory_space) if shape.memory_space else ""
            where = f" in {where}" if where else ""
            return f"{what}, {format_bytes(shape.padded_bytes)}{where}, {_padding(shape)}"
        case TupleShape():
            return f"{format_count(sum(1 for _ in shape.leaves), 'values')}, {format_bytes(shape.padded_bytes)}"
        case UnknownShape():
            return f"of {shape}" if shape.text else "shape not given"
        case _:
            return format_bytes(shape.padded_bytes) if shape.padded_bytes else ""


def _padding(shape: ArrayShape) -> str:
    padding = shape.padded_bytes - shape.metadata_bytes - shape.logical_bytes
    return f"{format_percent(padding / shape.padded_bytes)}% padding" if padding > 0 else "no padding"


def _output(shape: Shape, setting: ExplainContext) -> str:
    if not setting.is_in_memory:
        return "part of the enclosing kernel"
    spaces = {leaf.layout.memory_space for _, leaf in shape.leaves if leaf.layout is not None}
    where = f" to {setting.space(spaces.pop())}" if len(spaces) == 1 and setting.target else ""
    return f"writes {format_bytes(shape.padded_bytes)}{where}"


def _users(instruction: Instruction) -> tuple[Instruction, ...]:
    return tuple(user for user in instruction.computation.instructions if instruction in user.operands)


def _operand_table(instruction: Instruction, setting: ExplainContext) -> Table:
    """All operands, for programs."""
    operands = (_operand(instruction, index, setting) for index in range(len(instruction.operands)))
    return Table("operands", _OPERANDS, rows_from(_OPERANDS, operands), noun="operands", main=False, person=False)


def _operand(instruction: Instruction, at: int, setting: ExplainContext) -> _Operand:
    shape = instruction.operand_shape(at)
    space = shape.layout.memory_space if shape.layout is not None else None
    known = None if space is None else setting.space(space) or None
    return _Operand(instruction.operands[at], instruction.operand_index(at), shape, known)


def _numbers(instruction: Instruction, users: Sequence[Instruction], setting: ExplainContext) -> dict[str, Cell]:
    location = setting.module.location(instruction)
    shape = instruction.shape
    collective = _collective_at(instruction, setting.module)
    fits = isinstance(shape, ArrayShape) and shape.problem is None
    return {
        "name": instruction.name,
        "opcode": instruction.opcode,
        "computation": instruction.computation.name,
        "step": instruction.index,
        "target": setting.target,
        "in_memory": setting.is_in_memory,
        "shape": str(shape) or None,
        "logical_bytes": shape.logical_bytes,
        "padded_bytes": shape.padded_bytes,
        "array": shape_numbers(shape) if fits and isinstance(shape, ArrayShape) else None,
        "attributes": {attribute.name: attribute.value for attribute in instruction.attributes},
        "argument": instruction.text.argument or None,
        "called_computations": tuple(called.name for called in instruction.called_computations),
        "users": tuple(user.name for user in users),
        "op_name": instruction.metadata.op_name or None,
        "source": str(location) if location is not None else None,
        **({} if collective is None else {"collective": _collective_numbers(collective)}),
    }


def _notes(instruction: Instruction) -> tuple[Diagnostic, ...]:
    problems = [
        f"{leaf}: {leaf.problem}"
        for _, leaf in instruction.shape.leaves
        if isinstance(leaf, ArrayShape) and leaf.problem is not None
    ]
    return tuple(Diagnostic("note", problem) for problem in problems)

"""Which fields can conditions use of instructions, values, and table rows, and how is each read?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from hlo_cli.analysis.cost.counting import Cost, Number
from hlo_cli.analysis.cost.matmuls import LIBRARY_CONVOLUTIONS, is_matmul, matmul_of, valid_positions
from hlo_cli.analysis.dataflow.dependencies import Value, reached, users_of
from hlo_cli.analysis.dataflow.executions import (
    NO_EXECUTIONS,
    Executions,
    computation_kinds,
    executions_of,
    loop_computations,
)
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.buffer_sizes import data_values, orders_of
from hlo_cli.analysis.origin.origins import By, Keys, keys_of, origins_of
from hlo_cli.analysis.origin.scopes_and_moves import is_rematerialized
from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.analysis.query.patterns import EXACT, call_matcher, is_exact, opcode_check, opcodes_of
from hlo_cli.analysis.query.where import Fields, FieldValue, Kind, Predicate, Reader
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import ConvolutionDimensionNumbers, Window
from hlo_cli.ir.expressions import Call, Comparison, Text, Where
from hlo_cli.ir.instruction import Computation, Instruction, Users
from hlo_cli.ir.memory_space import MemorySpace, space_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_text, unquote
from hlo_cli.ir.operations import COLLECTIVES, HOST_FEEDS
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.ir.type_names import foreign_type, in_xla_types, xla_type
from hlo_cli.source import did_you_mean, nearest

if TYPE_CHECKING:
    from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
    from hlo_cli.analysis.sharding.collectives import Collective
    from hlo_cli.analysis.sharding.entry_arrays import EntryArray


# --- names, metadata, costs, and the instructions around ---


ReadFact = Callable[[Instruction], FieldValue]
Function = Callable[[Where, Call], Predicate[Instruction]]


class InstructionFacts:
    """Properties of instructions; those that require a pass over the module are computed on first use."""

    def __init__(self, module: Module) -> None:
        """Prepares the facts; nothing is computed yet."""
        self._module = module
        self._users: dict[Computation, Users] = {}
        self._fused: frozenset[Computation] | None = None
        self._in_loops: frozenset[Computation] | None = None
        self._costs: Mapping[Instruction, Cost] | None = None

    def readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of instructions other than shapes."""
        return {
            "name": ("name", lambda i: i.name),
            "opcode": ("text", lambda i: i.opcode),
            "op_name": ("text", lambda i: i.metadata.op_name or None),
            "op_type": ("text", lambda i: i.metadata.op_type or None),
            "source": ("text", self._source),
            "line": ("count", self._line),
            "computation": ("name", lambda i: i.computation.name),
            "operands": ("names", lambda i: tuple([operand.name for operand in i.operands])),
            "users": ("names", lambda i: tuple([user.name for user in self._users_of(i)])),
            "called_computations": ("names", lambda i: tuple([called.name for called in i.called_computations])),
            "is_root": ("flag", lambda i: i.is_root),
            "is_entry": ("flag", lambda i: i.computation.is_entry),
            "fused": ("flag", self._is_fused),
            "loop": ("flag", self._is_in_loop),
            "flops": ("count", lambda i: _as_bound(cost := self._cost(i), cost.flops)),
            "transcendentals": ("count", lambda i: _as_bound(cost := self._cost(i), cost.transcendentals)),
            "bytes": ("bytes", lambda i: _as_bound(cost := self._cost(i), cost.bytes_accessed)),
            "intensity": ("count", lambda i: AtLeast(0) if (cost := self._cost(i)).unknown else cost.intensity),
        }

    def functions(self) -> dict[str, Function]:
        """Functions that take a name in parentheses."""
        return {
            "uses": self._uses,
            "calls": self._calls,
            "depends_on": lambda where, call: self._transitively(where, call, self._users_of),
            "feeds": lambda where, call: self._transitively(where, call, lambda instruction: instruction.operands),
        }

    def _uses(self, where: Where, call: Call) -> Predicate[Instruction]:
        test = call_matcher(where, call)
        self._matching(where, call)
        return lambda instruction: any(test(operand.name) for operand in instruction.operands)

    def _calls(self, where: Where, call: Call) -> Predicate[Instruction]:
        test = call_matcher(where, call)
        if is_exact(call):
            self._check_name(
                # A typing mistake in a name would match nothing, so exact names have to exist.
                where,
                call,
                [computation.name for computation in self._module.computations],
                "computation",
            )
        return lambda instruction: any(test(called.name) for called in instruction.called_computations)

    def _transitively(
        self, where: Where, call: Call, next_to: Callable[[Instruction], tuple[Instruction, ...]]
    ) -> Predicate[Instruction]:
        """Whether an instruction is reachable by at least one step from the instructions of a name."""
        first = (other for instruction in self._matching(where, call) for other in next_to(instruction))
        return reached(first, next_to).__contains__

    def _matching(self, where: Where, call: Call) -> list[Instruction]:
        """Instructions that match a name or pattern; HloError if no instruction has the name."""
        test = call_matcher(where, call)
        found = [instruction for instruction in self._module.instructions if test(instruction.name)]
        if not found and is_exact(call):
            self._check_name(
                where, call, [instruction.name for instruction in self._module.instructions], "instruction"
            )
        return found

    def _check_name(self, where: Where, call: Call, names: Sequence[str], noun: str) -> None:
        name = call.argument.text.removeprefix("%")
        if name not in names:
            hint = did_you_mean(nearest(name, names))
            raise where.error(f"{noun} '{name}' not found in {self._module.name}", call.argument.span, hint)

    def _source(self, instruction: Instruction) -> str | None:
        location = self._module.location(instruction)
        return str(location) if location is not None else None

    # The line of the text, not of the user's program, which `source` has.
    def _line(self, instruction: Instruction) -> int | None:
        span = instruction.span
        return self._module.source.position(span.start).line if span is not None else None

    def _users_of(self, instruction: Instruction) -> tuple[Instruction, ...]:
        computation = instruction.computation
        if computation not in self._users:
            self._users[computation] = users_of(computation)
        return self._users[computation][instruction]

    def _cost(self, instruction: Instruction) -> Cost:
        if self._costs is None:
            from hlo_cli.analysis.cost.cost_analysis import cost_analysis

            self._costs = cost_analysis(self._module)
        return self._costs[instruction]

    def _is_fused(self, instruction: Instruction) -> bool:
        if self._fused is None:
            self._fused = frozenset(c for c, kind in computation_kinds(self._module).items() if kind == "fused")
        return instruction.computation in self._fused

    def _is_in_loop(self, instruction: Instruction) -> bool:
        if self._in_loops is None:
            self._in_loops = loop_computations(self._module)
        return instruction.computation in self._in_loops


def _as_bound(cost: Cost, value: Number) -> FieldValue:
    """Value of a cost, as a lower bound if a part of the cost is unknown."""
    return AtLeast(round(value)) if cost.unknown else round(value)


def _attribute_reader(name: str) -> Callable[[Instruction], str | None]:
    """Reader of an attribute as text without quotes; parses only instructions whose text contains its name."""
    written = f"{name}="

    def read(instruction: Instruction) -> str | None:
        if written not in instruction.raw[1]:
            # An attribute is parsed only where its name occurs: most instructions lack most attributes.
            return None
        value = instruction.attribute(name)
        return unquote(value) if value is not None and value[0] in "\"'" and value[-1] == value[0] else value

    return read


# --- collectives: the mesh axes that they are along, and their bytes ---


NO_AXES: Final = "(no axes)"
"""The axis of groups that no axes of the mesh make, or of unknown groups."""


FindCollective = Callable[[Instruction], "Collective | None"]
ReadCollective = Callable[["Collective"], FieldValue]


class CollectiveFacts:
    """The collectives of a module by instruction."""

    def __init__(self, module: Module) -> None:
        """Prepares the facts; nothing is computed yet."""
        self._module = module

    def readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of a collective, and of the async-start or fusion around it."""
        return self._readers(lambda instruction: self._around.get(instruction))

    def own_readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of a collective itself, so that sums count it once."""
        return self._readers(lambda instruction: self._collectives.get(instruction))

    def _readers(self, find: FindCollective) -> dict[str, tuple[Kind, ReadFact]]:
        def lifted(read: ReadCollective) -> ReadFact:
            def of_instruction(instruction: Instruction) -> FieldValue:
                found = find(instruction)
                return None if found is None else read(found)

            return of_instruction

        return {
            "axis": ("text", lifted(axis_of)),
            "wire_bytes": ("bytes", lifted(wire_bytes_of)),
            "payload_bytes": ("bytes", lifted(payload_bytes_of)),
        }

    @cached_property
    def _collectives(self) -> Mapping[Instruction, Collective]:
        from hlo_cli.analysis.sharding.collectives import collectives_of

        return {each.instruction: each for each in collectives_of(self._module)}

    @cached_property
    def _around(self) -> Mapping[Instruction, Collective]:
        # The instruction itself wins over what it is wrapped in.
        return {**{each.caller: each for each in self._collectives.values()}, **self._collectives}


def axis_of(collective: Collective) -> str:
    """The axes of a collective as text."""
    return collective.axis or NO_AXES


def wire_bytes_of(collective: Collective) -> FieldValue:
    """The bytes that a device sends in one run, rounded; a bound if they are unknown."""
    return AtLeast(0) if collective.wire_bytes is None else rounded(collective.wire_bytes)


def payload_bytes_of(collective: Collective) -> FieldValue:
    """The bytes of one run; a bound if they are unknown."""
    return AtLeast(0) if collective.payload_bytes is None else collective.payload_bytes


def rounded(number: Fraction) -> int:
    """The nearest whole number; bytes of a mean over devices may have a fraction.

    >>> rounded(Fraction(7, 2)), rounded(Fraction(3))
    (4, 3)
    """
    return int(number + Fraction(1, 2))


# --- origins, the keys of `--by`, inferred where there is no metadata ---


ORIGIN_FIELDS: Final[dict[str, By]] = {
    "origin_source": "source",
    "origin_scope": "scope",
    "origin_argument": "argument",
}
"""The fields, and the grouping of `--by` whose keys they have."""


class OriginFacts:
    """Origins of instructions and values, computed on first use."""

    def __init__(self, module: Module) -> None:
        """Prepares the facts; nothing is computed yet."""

        @cache
        def keys(by: By) -> Keys:
            return keys_of(module, by)

        self._keys = keys

    def readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of instructions by name."""

        def reader(by: By) -> ReadFact:
            def read(instruction: Instruction) -> FieldValue:
                return self._keys(by)(instruction)

            return read

        return {name: ("text", reader(by)) for name, by in ORIGIN_FIELDS.items()}

    def value_readers(self) -> dict[str, Reader[Value]]:
        """The same fields of values, which may be elements of tuples."""

        def reader(by: By) -> Reader[Value]:
            return Reader("text", lambda value: self._keys(by)(value.instruction, value.index))

        return {name: reader(by) for name, by in ORIGIN_FIELDS.items()}


# --- what instructions do ---
# However XLA writes them: products, kernels, transfers, and where arrays come from, each computed on first use.


_HOST_CALLS: Final = ("MoveToHost", "MoveToDevice", "annotate_device_placement", "HostExecute")


class ProgramFacts:
    """Meaning of instructions in a module."""

    def __init__(self, module: Module) -> None:
        """Prepares the facts; nothing is computed yet."""
        self._module = module

    def readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of instructions by name."""
        return {
            "product": ("flag", is_matmul),
            "convolution": ("flag", is_convolution),
            "collective": ("flag", lambda i: i.opcode.removesuffix("-start") in COLLECTIVES),
            "kernel": ("flag", lambda i: i in self._kernels),
            "library": ("flag", self._is_library),
            "donated": ("flag", lambda i: i in self._module.donated_parameters),
            "async": ("flag", lambda i: i in self._async_starts),
            "unoverlapped": ("flag", lambda i: i in self._overlap.unoverlapped),
            "unoverlapped_bytes": ("bytes", self._unoverlapped_bytes),
            "host_transfer": ("flag", is_host_transfer),
            "rematerialized": ("flag", is_rematerialized),
            "trips": ("count", self._trips),
        }

    def functions(self) -> dict[str, Function]:
        """Functions that take a name in parentheses."""
        return {"of_argument": self._of_argument}

    def _of_argument(self, where: Where, call: Call) -> Predicate[Instruction]:

        test = call_matcher(where, call)
        names = {parameter: _argument_names(parameter) for parameter in self._module.entry.parameters}
        wanted = {parameter for parameter, known in names.items() if any(map(test, known))}
        if not wanted and is_exact(call):
            name = call.argument.text
            known = [each for pair in names.values() for each in pair]
            hint = did_you_mean(nearest(name, known)) or f'use {call.function}(~"{name}") to match a part of a name'
            raise where.error(f"argument '{name}' not found in {self._module.name}", call.argument.span, hint)
        origins = origins_of(self._module)
        return lambda instruction: instruction in wanted or origins.of(instruction).argument in wanted

    def _is_library(self, instruction: Instruction) -> bool:
        if instruction.opcode not in (opcodes.CUSTOM_CALL, opcodes.FUSION):
            return False
        from hlo_cli.analysis.fusion.kernels import backend_of

        target = target_of(self._module)
        if target is not None:
            return backend_of(instruction, target).kind == "library"
        # Without a target, a call counts if any target has it in a library.
        return any(backend_of(instruction, each).kind == "library" for each in ("cpu", "gpu"))

    def _trips(self, instruction: Instruction) -> FieldValue:
        found = self._executions.get(instruction.computation, NO_EXECUTIONS)
        return found.count if found.is_known else AtLeast(found.count)

    # Unknown trip counts leave a lower bound, not the number.
    def _unoverlapped_bytes(self, instruction: Instruction) -> FieldValue:
        found = self._bytes_unoverlapped.get(instruction)
        if found is None or self._executions.get(instruction.computation, NO_EXECUTIONS).is_known:
            return found
        return AtLeast(found)

    @cached_property
    def _executions(self) -> Mapping[Computation, Executions]:
        return executions_of(self._module)

    @cached_property
    def _kernels(self) -> frozenset[Instruction]:
        from hlo_cli.analysis.fusion.kernels import kernels_of

        return frozenset(kernel.instruction for kernel in kernels_of(self._module) if not kernel.is_transfer)

    @cached_property
    def _async_starts(self) -> frozenset[Instruction]:
        from hlo_cli.analysis.schedule.async_overlap import async_pairs

        return frozenset(pair.start for pair in async_pairs(self._module).pairs)

    @cached_property
    def _overlap(self) -> OverlapAnalysis:
        from hlo_cli.analysis.schedule.async_overlap import analyze_overlap

        return analyze_overlap(self._module)

    @cached_property
    def _bytes_unoverlapped(self) -> Mapping[Instruction, int]:
        """The bytes of each transfer in all executions that overlap no kernel; 0 if it overlaps one."""
        overlap = self._overlap
        return {**{each.pair.start: 0 for each in overlap.intervals}, **overlap.unoverlapped}


def is_convolution(instruction: Instruction) -> bool:
    """Whether an instruction slides a window over an array: a convolution that is not a matmul in another form.

    A dot becomes a convolution on TPU. Its spatial dimensions are batch dimensions (each result meets one element),
    contracted (there is one result), or free (the kernel or the input has size 1).

    >>> from hlo_cli import parse_module
    >>> labels = "dim_labels=b0f_0io->b0f"
    >>> sliding = f"r = f32[1,9,4] convolution(f32[1,9,2] a, f32[3,2,4] k), window={{size=3 pad=1_1}}, {labels}"
    >>> matmul = f"r = f32[1,9,4] convolution(f32[1,9,2] a, f32[1,2,4] k), window={{size=1}}, {labels}"
    >>> [is_convolution(parse_module(text).entry.root) for text in (sliding, matmul)]
    [True, False]
    """
    if instruction.opcode == opcodes.CUSTOM_CALL:
        if not (instruction.string("custom_call_target") or "").startswith(LIBRARY_CONVOLUTIONS):
            return False
    elif instruction.opcode != opcodes.CONVOLUTION:
        return False
    # A matmul in the form of a convolution slides over nothing.
    product = matmul_of(instruction)
    if product is None or not isinstance(product.numbers, ConvolutionDimensionNumbers):
        return instruction.opcode == opcodes.CUSTOM_CALL  # its target says so
    numbers, lhs, rhs, result = product.numbers, product.lhs, product.rhs, product.result
    spatial = zip(
        (instruction.window or Window(())).dimensions,
        (lhs.sizes[d] for d in numbers.input_spatial_dimensions),
        (rhs.sizes[d] for d in numbers.kernel_spatial_dimensions),
        (result.sizes[d] for d in numbers.output_spatial_dimensions),
        strict=False,
    )
    return any(
        # Sizes of 1 slide nowhere; equal sizes of input, window, and result are a product along that dimension.
        1 not in sizes and not (sizes[0] == sizes[1] == sizes[2] == valid_positions(window, *sizes))
        for window, *sizes in spatial
    )


def is_host_transfer(instruction: Instruction) -> bool:
    """Whether an instruction moves data between the device and its host: a feed, a send, a callback, or a copy.

    >>> from hlo_cli import parse_module
    >>> copies = [f"r = f32[8]{{0:S(5)}} copy(f32[8]{layout} a)" for layout in ("{0}", "{0:S(5)}")]
    >>> [is_host_transfer(parse_module(text).entry.root) for text in copies]
    [True, False]
    """
    opcode = instruction.opcode
    if opcode in HOST_FEEDS:
        return True
    if opcode in (opcodes.SEND, opcodes.RECV):
        return instruction.flag("is_host_transfer")
    if opcode == opcodes.CUSTOM_CALL:
        from hlo_cli.analysis.fusion.kernels import backend_of

        target = instruction.string("custom_call_target") or ""
        if target in _HOST_CALLS or backend_of(instruction, "cpu").provider == "Python":
            return True
    if not any(_has_host_memory(each.shape) for each in (instruction, *instruction.operands)):
        return False
    from hlo_cli.analysis.fusion.kernels import is_launched

    spaces = {space for each in (instruction, *instruction.operands) for space in _spaces(each.shape)}
    # Data that stays in one memory does not move, even if that is the host's.
    return is_launched(instruction) and len(spaces) > 1


def _has_host_memory(shape: Shape) -> bool:
    """Whether an array of a shape is in host memory.

    >>> from hlo_cli import parse_module
    >>> _has_host_memory(parse_module("r = f32[8]{0:S(5)} copy(f32[8]{0} a)").entry.root.shape)
    True
    """
    return MemorySpace.HOST in _spaces(shape)


def _spaces(shape: Shape) -> set[int]:
    if isinstance(shape, ArrayShape):
        return {shape.layout.memory_space}
    return {leaf.layout.memory_space for _, leaf in shape.leaves if isinstance(leaf, ArrayShape)}


def _argument_names(parameter: Instruction) -> tuple[str, ...]:
    op_name = parameter.metadata.op_name
    return (op_name, parameter.name) if op_name else (parameter.name,)


# --- shardings: the bytes of a device, and how many devices hold the same data ---


_MARK: Final = "sharding="


class ShardingFacts:
    """Shardings of the parameters of a module, also those from before optimizations, and of its instructions."""

    def __init__(self, module: Module) -> None:
        """Prepares the facts; nothing is computed yet."""
        self._module = module
        self._entry = frozenset(module.entry.parameters)
        self._known: dict[Instruction, tuple[EntryArray, ...]] = {}

    def readers(self) -> dict[str, tuple[Kind, ReadFact]]:
        """Fields of instructions by name."""
        return {
            opcodes.PARAMETER: ("flag", lambda i: i in self._entry),
            "replication": ("count", self.replication),
            "shard_bytes": ("bytes", self.shard_bytes),
        }

    def replication(self, instruction: Instruction) -> FieldValue:
        """The number of devices with the same data, the largest of the arrays in a tuple; a bound if unknown."""
        found = [each.replication for each in self._arrays(instruction)]
        if not found:
            return None
        largest = max((each for each in found if each is not None), default=1)
        return AtLeast(largest) if None in found else largest

    def shard_bytes(self, instruction: Instruction) -> FieldValue:
        """The bytes that each device holds, a bound if unknown; None before partitioning without a sharding."""
        found = [each.shard_bytes for each in self._arrays(instruction)]
        if not found:
            # A parameter without sharding holds its whole array, once the program is partitioned.
            return instruction.shape.padded_bytes if self._is_partitioned else None
        known = sum(each for each in found if each is not None)
        return AtLeast(known) if None in found else known

    def _arrays(self, instruction: Instruction) -> tuple[EntryArray, ...]:
        if instruction in self._entry:
            return self._parameters[instruction]
        # Looking for the text is faster than parsing the attributes of all instructions.
        if _MARK not in instruction.raw[1]:  # most instructions; finding an attribute takes longer
            return ()
        if instruction not in self._known:
            from hlo_cli.analysis.sharding.entry_arrays import arrays_of_instruction

            self._known[instruction] = arrays_of_instruction(self._module, instruction)
        return self._known[instruction]

    @cached_property
    def _parameters(self) -> Mapping[Instruction, tuple[EntryArray, ...]]:
        from hlo_cli.analysis.sharding.entry_arrays import entry_arrays

        found: dict[Instruction, tuple[EntryArray, ...]] = dict.fromkeys(self._module.entry.parameters, ())
        for each in entry_arrays(self._module).parameters:
            found[each.instruction] = (*found[each.instruction], each)
        return found

    @cached_property
    def _is_partitioned(self) -> bool:
        from hlo_cli.analysis.sharding.entry_arrays import is_partitioned

        return is_partitioned(self._module)


# --- shapes: of all, and of arrays only ---


T = TypeVar("T")


def _shape_fields(instruction_of: Callable[[T], Instruction], shape_of: Callable[[T], Shape]) -> dict[str, Reader[T]]:
    """Fields of an object's shape by name.

    >>> from hlo_cli import parse_module
    >>> call = parse_module('c = (f32[8,8], s8[64]) custom-call(), custom_call_target="__cublas$gemm"').entry.root
    >>> fields = _shape_fields(lambda each: each, lambda each: each.shape)
    >>> fields["dtype"].read(call), fields["logical_bytes"].read(call)
    ('f32', 320)
    """

    result_of = result_shape(instruction_of, shape_of)
    arrays = {name: Reader(kind, _of_shape(read, result_of)) for name, (kind, read) in _ARRAY_FIELDS.items()}
    arrays["dtype"] = replace(arrays["dtype"], check=_check_type)
    shapes = {name: Reader(kind, _of_shape(read, shape_of)) for name, (kind, read) in _SHAPE_FIELDS.items()}
    shapes["shape"] = replace(shapes["shape"], check=_check_shape)
    return arrays | shapes


def _check_type(where: Where, comparison: Comparison) -> None:
    """Raises HloError for an element type under a framework's name, which no module contains."""
    for value in comparison.values if comparison.operator in EXACT else ():
        if isinstance(value, Text) and (name := xla_type(value.text)) is not None:
            raise where.error(f"unknown element type '{value.text}'", value.span, did_you_mean(name))


def _check_shape(where: Where, comparison: Comparison) -> None:
    for value in comparison.values if comparison.operator in EXACT else ():
        if isinstance(value, Text) and foreign_type(value.text) is not None:
            hint = did_you_mean(in_xla_types(value.text))
            raise where.error(f"unknown element type in '{value.text}'", value.span, hint)


def result_shape(instruction_of: Callable[[T], Instruction], shape_of: Callable[[T], Shape]) -> Callable[[T], Shape]:
    """Function that returns an object's shape; of a matmul its first element, as libraries also return scratch
    memory.
    """

    def result_of(thing: T) -> Shape:
        shape = shape_of(thing)
        # Libraries return scratch memory next to the product.
        if isinstance(shape, TupleShape) and shape.elements and is_matmul(instruction_of(thing)):
            return shape.elements[0]
        return shape

    return result_of


def _of_array(read: Callable[[ArrayShape], FieldValue]) -> Callable[[Shape], FieldValue]:
    return lambda shape: read(shape) if isinstance(shape, ArrayShape) else None


_ARRAY_FIELDS: Final[dict[str, tuple[Kind, Callable[[Shape], FieldValue]]]] = {
    "dtype": ("text", _of_array(lambda shape: shape.element_type.name)),
    "rank": ("count", _of_array(lambda shape: shape.rank)),
    "dims": ("text", _of_array(lambda shape: index_text(shape.sizes, "[]"))),
    "layout": ("text", _of_array(lambda shape: str(shape.layout))),
    "memory_space": ("count", _of_array(lambda shape: shape.memory_space)),
    "elements": ("count", _of_array(lambda shape: shape.elements)),
}
_SHAPE_FIELDS: Final[dict[str, tuple[Kind, Callable[[Shape], FieldValue]]]] = {
    "shape": ("shape", lambda shape: str(shape) or None),
    "logical_bytes": ("bytes", lambda shape: shape.logical_bytes),
    "padded_bytes": ("bytes", lambda shape: shape.padded_bytes),
    "padding_bytes": ("bytes", lambda shape: shape.padded_bytes - shape.logical_bytes),
    "padding": ("share", lambda shape: 1 - shape.logical_bytes / shape.padded_bytes if shape.padded_bytes else 0.0),
}


def _of_shape(read: Callable[[Shape], FieldValue], shape_of: Callable[[T], Shape]) -> Callable[[T], FieldValue]:
    """Reader of a shape field, cached by shape object, as equal shapes of a module mostly are one object."""
    known: dict[int, FieldValue] = {}

    def read_once(thing: T) -> FieldValue:
        shape = shape_of(thing)
        # Shapes of one text are one object each: ids are enough, and shapes outlive the filter.
        if id(shape) not in known:
            known[id(shape)] = read(shape)
        return known[id(shape)]

    return read_once


def _dimension_reader(place: str, shape_of: Callable[[T], Shape]) -> Reader[T] | None:
    """Reader of the size of dimension `place`, which can be negative; None if `place` is not an integer."""
    try:
        # Ten digits are enough for any place, and keep `int` from reading megabytes.
        at = int(place[:10])
    except ValueError:
        return None

    def size(shape: ArrayShape) -> int | None:
        return shape.sizes[at] if -shape.rank <= at < shape.rank else None

    return Reader("count", _of_shape(_of_array(size), shape_of))


# --- all fields: of instructions, of values, and of table rows ---


NAME_LISTS: Final = ("operands", "users", "called_computations")
"""Fields with several names; in a table they are one text."""


def instruction_fields(module: Module, attributes: Collection[str] = ()) -> Fields[Instruction]:
    """Fields of instructions; `attributes` are valid names for any module.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.query.where import predicate
    >>> from hlo_cli.syntax.conditions import parse_where
    >>> module = parse_module("HloModule m  ENTRY e { p = f32[8] parameter(0)  ROOT q = f32[8] add(p, p) }")
    >>> test = predicate(parse_where("padded_bytes == 32B and uses(%p)"), instruction_fields(module))
    >>> [instruction.name for instruction in module.instructions if test(instruction)]
    ['q']
    """
    return fields_of(module, attributes, lambda thing: thing, lambda thing: thing.shape)


def value_fields(module: Module, attributes: Collection[str] = ()) -> Fields[Value]:
    """Fields of values: their own shape and bytes, and the fields of the defining instruction.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = (f32[8], f32[]) parameter(0) }")
    >>> [value_fields(module).readers["rank"].read(value) for value in data_values(module)]
    [1, 0]
    """
    target = target_of(module)
    orders = orders_of(module, data_values(module))
    fields: Fields[Value] = fields_of(module, attributes, lambda value: value.instruction, lambda value: value.shape)

    def saving(shape: Shape) -> int:
        better = orders.alternative(shape) if isinstance(shape, ArrayShape) else None
        return shape.padded_bytes - better.padded_bytes if better else 0

    own: dict[str, Reader[Value]] = {
        "instruction": Reader("name", str),
        "saving_bytes": Reader("bytes", _of_shape(saving, lambda value: value.shape)),
        "space": Reader("count", lambda value: value.shape.memory_space),
        "space_name": Reader("text", lambda value: space_name(value.shape.memory_space, target)),
    }
    return replace(fields, readers={**fields.readers, **own, **OriginFacts(module).value_readers()})


def row_fields(kinds: Mapping[str, Kind], opcodes: Collection[str] = ()) -> Fields[Sequence[FieldValue]]:
    """Columns of a table in order, with the kinds of their cells; `opcodes` are the opcodes in it.

    >>> fields = row_fields({"name": "name", "operands": "text"})
    >>> fields.readers["operands"].read(("add", "p, q"))
    ('p', 'q')
    """

    def reader(column: int, name: str, kind: Kind) -> Reader[Sequence[FieldValue]]:
        if name in NAME_LISTS and kind == "text":
            return Reader("names", lambda row: _names(row[column]))
        return Reader(kind, lambda row: row[column], opcode_check(lambda: opcodes) if name == "opcode" else None)

    return Fields({name: reader(column, name, kind) for column, (name, kind) in enumerate(kinds.items())})


def fields_of(
    module: Module,
    attributes: Collection[str],
    instruction_of: Callable[[T], Instruction],
    shape_of: Callable[[T], Shape],
) -> Fields[T]:
    """Fields of objects that have an instruction and a shape.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[2] negate(f32[2] p)")
    >>> fields = fields_of(module, (), lambda computation: computation.root, lambda computation: computation.root.shape)
    >>> fields.readers["opcode"].read(module.entry)
    'negate'
    """
    facts, meanings, origins = InstructionFacts(module), ProgramFacts(module), OriginFacts(module)
    shardings, collectives = ShardingFacts(module), CollectiveFacts(module)

    def lifted(kind: Kind, read: ReadFact) -> Reader[T]:
        return Reader(kind, lambda thing: read(instruction_of(thing)))

    def attribute(name: str) -> Reader[T] | None:
        # Any attribute of the text may be named, even if no table knows it.
        known = name in attributes or f", {name}=" in module.source.text
        return lifted("attribute", _attribute_reader(name)) if known else None

    def function(holds: Function) -> Callable[[Where, Call], Predicate[T]]:
        def lift(where: Where, call: Call) -> Predicate[T]:
            test = holds(where, call)
            return lambda thing: test(instruction_of(thing))

        return lift

    found = facts.readers() | meanings.readers() | origins.readers() | shardings.readers() | collectives.readers()
    readers = {name: lifted(kind, read) for name, (kind, read) in found.items()}
    readers["opcode"] = replace(readers["opcode"], check=opcode_check(lambda: opcodes_of(module)))
    return Fields(
        {**readers, **_shape_fields(instruction_of, shape_of)},
        places={
            "dims": lambda place: _dimension_reader(place, result_shape(instruction_of, shape_of)),
            "attributes": lambda name: lifted("attribute", _attribute_reader(name)),
        },
        attribute=attribute,
        others=tuple(attributes),
        functions={name: function(holds) for name, holds in (facts.functions() | meanings.functions()).items()},
    )


def _names(cell: FieldValue) -> tuple[str, ...]:
    return tuple(cell.split(", ")) if isinstance(cell, str) else ()

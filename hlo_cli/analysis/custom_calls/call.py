"""Decodes custom calls: target, configuration, and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hlo_cli.analysis.custom_calls.calling_convention import CustomCallBuffer, call_buffers, has_nested_tuples
from hlo_cli.analysis.custom_calls.config import CustomCallConfig, read_config
from hlo_cli.analysis.custom_calls.targets import KnownTarget, known_target
from hlo_cli.analysis.dataflow.users import Users, users_of
from hlo_cli.analysis.hardware.buffer_sizes import buffer_bytes, generation_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.enumerations import CustomCallApiVersion
from hlo_cli.ir.attributes.value_types import OutputOperandAlias
from hlo_cli.ir.instruction import CustomCall, Instruction, custom_call
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape, subshape


@dataclass(frozen=True, slots=True)
class DecodedCall:
    """Custom call: attributes (`spec`), known target, configuration, and buffers.

    `result` is the shape that the function returns, also if the instruction is an async start of the call.
    """

    instruction: Instruction
    spec: CustomCall
    target: KnownTarget
    config: CustomCallConfig
    operands: tuple[Shape, ...]
    result: Shape
    buffers: tuple[CustomCallBuffer, ...]

    @property
    def is_typed(self) -> bool:
        """Whether the call uses XLA's typed FFI."""
        return self.spec.api_version is CustomCallApiVersion.TYPED_FFI

    @property
    def arguments(self) -> tuple[CustomCallBuffer, ...]:
        """Buffers of the operands."""
        return tuple(buffer for buffer in self.buffers if buffer.operand is not None)

    @property
    def results(self) -> tuple[CustomCallBuffer, ...]:
        """Buffers of the result."""
        return tuple(buffer for buffer in self.buffers if buffer.operand is None)

    @property
    def temps(self) -> tuple[CustomCallBuffer, ...]:
        """Buffers of result elements that are not used and alias no operand."""
        return tuple(buffer for buffer in self.buffers if buffer.use == "temp")

    @property
    def has_nested_tuples(self) -> bool:
        """Whether releases of XLA:CPU differ in how they pass the buffers."""
        return has_nested_tuples(self.operands, self.result)

    def value(self, buffer: CustomCallBuffer) -> str:
        """Name of the operand of a buffer, or `result`."""
        if buffer.operand is None:
            return "result"
        taken = self.instruction.operand_index(buffer.operand)
        name = self.instruction.operands[buffer.operand].name
        return name + index_suffix(taken)

    @property
    def layout_changes(self) -> tuple[tuple[int, Shape, Shape], ...]:
        """Operands whose dimension order differs from operand_layout_constraints: number, constraint, and actual
        shape.
        """
        asked = self.spec.operand_layout_constraints or ()
        pairs = zip(asked, self.operands, strict=False)
        return tuple(
            (n, want, there)
            for n, (want, there) in enumerate(pairs)
            if _dimension_orders(want) != _dimension_orders(there)
        )


def custom_calls_of(module: Module) -> tuple[DecodedCall, ...]:
    """Custom calls of a module in the order of the text.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = (f32[32], (f32[64], f32[128]), f32[256]) parameter(0)
    ... c = (f32[512], f32[1024]) custom-call(p), custom_call_target="do_custom_call"
    ... ROOT r = f32[512] get-tuple-element(c), index=0 }'''
    >>> call, = custom_calls_of(parse_module(text))
    >>> [(buffer.gpu, buffer.index, buffer.bytes) for buffer in call.buffers][2:]
    [(2, (1, 1), 512), (3, (2,), 1024), (4, (0,), 2048), (5, (1,), 4096)]
    >>> [buffer.index for buffer in call.temps]
    [(1,)]
    """
    bytes_of = _buffer_size(module)
    found: list[DecodedCall] = []
    for computation in module.computations:
        decoded = [
            (instruction, call, read_config(instruction.backend_config))
            for instruction in computation.instructions
            if (call := custom_call(instruction)) is not None
        ]
        if decoded:
            users = users_of(computation)
            found.extend(_decoded(*each, users, bytes_of) for each in decoded)
    return tuple(found)


def _buffer_size(module: Module) -> Callable[[Shape], int]:
    """Function that returns the buffer size of a shape in bytes, cached by shape object."""
    target, generation = target_of(module), generation_of(module)
    known: dict[int, int] = {}

    def bytes_of(shape: Shape) -> int:
        found = known.get(id(shape))
        if found is None:
            found = known[id(shape)] = buffer_bytes(shape, target, generation)
        return found

    return bytes_of


def _decoded(
    instruction: Instruction,
    spec: CustomCall,
    config: CustomCallConfig,
    users: Users,
    bytes_of: Callable[[Shape], int],
) -> DecodedCall:
    operands = tuple(instruction.operand_shape(n) for n in range(len(instruction.operands)))
    is_start = instruction.opcode != opcodes.CUSTOM_CALL
    result = _result(instruction.shape) if is_start else instruction.shape
    unread = () if is_start else unused_elements(instruction, users, [index for index, _ in result.leaves])
    aliasing = tuple(_each_leaf(spec.output_to_operand_aliasing, result))
    buffers = call_buffers(operands, result, aliasing, unread, bytes_of)
    return DecodedCall(instruction, spec, known_target(spec.target), config, operands, result, buffers)


def _result(shape: Shape) -> Shape:
    """Result of a call from the shape of its async start: element 1 of operands, result, and contexts."""
    return shape.elements[1] if isinstance(shape, TupleShape) and len(shape.elements) > 1 else shape


def _each_leaf(aliasing: Iterable[OutputOperandAlias], result: Shape) -> Iterator[OutputOperandAlias]:
    """Aliases of each leaf, where an alias is of a tuple."""
    for alias in aliasing:
        part = subshape(result, alias.output_index)
        for below, _ in part.leaves if part is not None else ():
            output, operand = alias.output_index + below, alias.operand_index + below
            yield OutputOperandAlias(output, alias.operand_number, operand)


def _dimension_orders(shape: Shape) -> tuple[tuple[int, ...] | None, ...]:
    """Dimension order of every leaf."""
    return tuple(leaf.layout.minor_to_major if isinstance(leaf, ArrayShape) else None for _, leaf in shape.leaves)


def unused_elements(made: Instruction, users: Users, leaves: Iterable[ShapeIndex]) -> frozenset[ShapeIndex]:
    """Leaves of a result that no instruction uses through get-tuple-element.

    A value that is passed on as a whole counts as used, and so does the root.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.dataflow.users import users_of
    >>> text = '''ENTRY e { c = (f32[2], f32[4]) custom-call(), custom_call_target="f"
    ... ROOT g = f32[2] get-tuple-element(c), index=0 }'''
    >>> entry = parse_module(text).entry
    >>> unused_elements(entry.instructions[0], users_of(entry), ((0,), (1,)))
    frozenset({(1,)})
    """
    read = set(_read_parts(made, users))
    return frozenset(leaf for leaf in leaves if not any(leaf[:depth] in read for depth in range(len(leaf) + 1)))


def _read_parts(made: Instruction, users: Users) -> Iterable[ShapeIndex]:
    """Yields the indices of parts of a result that are used as a whole; they can overlap."""
    waiting: list[tuple[Instruction, ShapeIndex]] = [(made, ())]
    while waiting:
        value, index = waiting.pop()
        if value.is_root:
            yield index
        for user in users.get(value, ()):
            for taken in _taken(user, value):
                part = user.integer("index") if user.opcode == opcodes.GET_TUPLE_ELEMENT else None
                if part is None:
                    yield (*index, *taken)
                else:
                    waiting.append((user, (*index, *taken, part)))


def _taken(user: Instruction, value: Instruction) -> set[ShapeIndex]:
    """Elements of a value that a user selects directly, such as `%t#0`; () if it uses the whole value."""
    places = user.computation.operand_indices.get(user.index)
    if places is None:
        return {()}
    return {place for operand, place in zip(user.operands, places, strict=True) if operand is value}

"""Custom calls taken apart: target, configuration, buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hlo_cli.analysis.custom_calls.calling_convention import CustomCallBuffer, call_buffers, has_nested_tuples
from hlo_cli.analysis.custom_calls.config import CustomCallConfig, payload_of
from hlo_cli.analysis.custom_calls.targets import KnownTarget, known_target
from hlo_cli.analysis.custom_calls.unused_results import unread_elements
from hlo_cli.analysis.dataflow.users import Users, users_of
from hlo_cli.analysis.hardware.buffer_sizes import buffer_bytes, generation_of
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.aliasing import OutputOperandAlias
from hlo_cli.ir.attributes.custom_call import CustomCall, custom_call
from hlo_cli.ir.index_text import index_suffix
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape, subshape
from hlo_cli.ir.words import CustomCallApiVersion


@dataclass(frozen=True, slots=True)
class DecodedCall:
    """One custom call: what it says, what its target is known as, its configuration and its buffers.

    `result` is the shape of what the function gives, also where the instruction is only the start of it.
    """

    instruction: Instruction
    said: CustomCall
    target: KnownTarget
    payload: CustomCallConfig
    operands: tuple[Shape, ...]
    result: Shape
    buffers: tuple[CustomCallBuffer, ...]

    @property
    def is_typed(self) -> bool:
        """Whether it is a call by XLA's FFI."""
        return self.said.api_version is CustomCallApiVersion.TYPED_FFI

    @property
    def arguments(self) -> tuple[CustomCallBuffer, ...]:
        """The buffers of the operands."""
        return tuple(buffer for buffer in self.buffers if buffer.operand is not None)

    @property
    def results(self) -> tuple[CustomCallBuffer, ...]:
        """The buffers of the result."""
        return tuple(buffer for buffer in self.buffers if buffer.operand is None)

    @property
    def temps(self) -> tuple[CustomCallBuffer, ...]:
        """The elements of the result that nobody reads, and that overwrite no operand."""
        return tuple(buffer for buffer in self.buffers if buffer.use == "temp")

    @property
    def has_nested_tuples(self) -> bool:
        """Whether releases of XLA:CPU pass the buffers in different ways."""
        return has_nested_tuples(self.operands, self.result)

    def value(self, buffer: CustomCallBuffer) -> str:
        """The name of the operand that a buffer is of, or `result`."""
        if buffer.operand is None:
            return "result"
        taken = self.instruction.operand_index(buffer.operand)
        name = self.instruction.operands[buffer.operand].name
        return name + index_suffix(taken)

    @property
    def layout_changes(self) -> tuple[tuple[int, Shape, Shape], ...]:
        """The operands whose order of dimensions is another than the call asks for: number, asked for, there."""
        asked = self.said.operand_layout_constraints or ()
        pairs = zip(asked, self.operands, strict=False)
        return tuple((n, want, there) for n, (want, there) in enumerate(pairs) if _orders(want) != _orders(there))


def custom_calls_of(module: Module) -> tuple[DecodedCall, ...]:
    """Every custom call of a module, in the order of the text.

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
    bytes_of = _sizes(module)
    found: list[DecodedCall] = []
    for computation in module.computations:
        said = [
            (instruction, call, payload_of(instruction.backend_config))
            for instruction in computation.instructions
            if (call := custom_call(instruction)) is not None
        ]
        if said:
            users = users_of(computation)
            found.extend(_decoded(*each, users, bytes_of) for each in said)
    return tuple(found)


def _sizes(module: Module) -> Callable[[Shape], int]:
    """The bytes of a shape's buffer; a module's shapes are few objects, so each is measured once."""
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
    said: CustomCall,
    payload: CustomCallConfig,
    users: Users,
    bytes_of: Callable[[Shape], int],
) -> DecodedCall:
    operands = tuple(instruction.operand_shape(n) for n in range(len(instruction.operands)))
    is_start = instruction.opcode != opcodes.CUSTOM_CALL
    result = _result(instruction.shape) if is_start else instruction.shape
    unread = () if is_start else unread_elements(instruction, users, [index for index, _ in result.leaves])
    aliasing = tuple(_each_leaf(said.output_to_operand_aliasing, result))
    buffers = call_buffers(operands, result, aliasing, unread, bytes_of)
    return DecodedCall(instruction, said, known_target(said.target), payload, operands, result, buffers)


def _result(shape: Shape) -> Shape:
    """What the call gives whose start has this shape: operands, result, contexts."""
    return shape.elements[1] if isinstance(shape, TupleShape) and len(shape.elements) > 1 else shape


def _each_leaf(aliasing: Iterable[OutputOperandAlias], result: Shape) -> Iterator[OutputOperandAlias]:
    """The same aliases leaf by leaf, where one is about a tuple."""
    for alias in aliasing:
        part = subshape(result, alias.output_index)
        for below, _ in part.leaves if part is not None else ():
            output, operand = alias.output_index + below, alias.operand_index + below
            yield OutputOperandAlias(output, alias.operand_number, operand)


def _orders(shape: Shape) -> tuple[tuple[int, ...] | None, ...]:
    """The order of dimensions of every leaf."""
    return tuple(leaf.layout.minor_to_major if isinstance(leaf, ArrayShape) else None for _, leaf in shape.leaves)

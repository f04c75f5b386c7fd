"""One row of the table of operations: all data on an opcode. The rows are in `ir/operation_table/`."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

ANY: Final = 1 << 30
"""Any number of operands."""

Trait: TypeAlias = Literal[
    "applies",  # applies the computation that it calls to scalars, element by element
    "argument",  # a literal or a number is between its parentheses, where others have operands
    "asynchronous",  # starts, updates, or ends a computation of its own, whose operation is not in the opcode
    "block",  # copies a block of an array, which a DMA engine can do between memories of a device
    "collective",  # devices work together; its asynchronous form ends in -start and -done
    "commutative",  # its operands can be swapped (`HloOpcodeIsBinaryCommutative`)
    "control flow",  # runs the computations it calls as they are (`GetInstructionCallContext` of call_graph.cc)
    "device id",  # its value is another one on each device
    "done",  # ends the operation of a start
    "elementwise",  # `HloInstruction::IsOpElementwise`: each element depends on the operands' elements at its place
    "first dimension",  # has one dimension: of a list XLA reads the first
    "forwards",  # the result is the first operand, in the same buffers
    "host feed",  # exchanges data with the program on the host, and is never asynchronous
    "in place",  # may write its result over an operand (`HloDataflowAnalysis::GetInPlaceInputOutputPairs`)
    "matmul",  # a product of matrices, or a convolution
    "moves data",  # computes no new value, but puts values elsewhere
    "needs shape",  # XLA does not infer the shape of its result, so the text has to give it
    "no kernel",  # launches no kernel; what control flow runs does
    "other type",  # the element type of its result may differ from that of its operands
    "own kernel",  # always has a kernel or a library call of its own
    "random state",  # draws from a random state that is none of its operands
    "side effect",  # does more than give a value, whatever its attributes (`HloInstruction::HasSideEffectNoRecurse`)
    "start",  # begins an async operation
    "transcendental",  # counted as transcendental by `HloCostAnalysis::HandleElementwiseOp`, not as flops
    "update",  # goes on with what a start began
]
"""Properties of opcodes, besides their number of operands and their attributes."""


class Operation(NamedTuple):
    """An opcode with its operands, its traits, its attributes besides the common ones, and its description.

    `arity` is the number of operands, None if it is not fixed (xla/hlo/ir/hlo_opcode.h); `least` is the minimum where
    dumps may have more than that. `done` is the opcode that ends a native asynchronous operation. `does` begins a
    sentence about an instruction, `about` describes how it works. Rows are named tuples, as every command makes all of
    them: a dataclass would take a millisecond more.

    >>> Operation("erf", 1, "Computes the error function", "elementwise", ("elementwise",)).operand_counts
    (1, 1)
    """

    opcode: str
    arity: int | None
    does: str
    about: str
    traits: tuple[Trait, ...] = ()
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    least: int | None = None
    done: str | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        """Its required and optional attributes, besides those of all instructions."""
        return self.required + self.optional

    @property
    def operand_counts(self) -> tuple[int, int]:
        """The smallest and the largest number of operands."""
        if self.arity is None or self.least is not None:
            return self.least or 0, ANY
        return self.arity, self.arity

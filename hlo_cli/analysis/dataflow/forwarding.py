"""Forwarding: which parts of a result are forwarded from operands or callees, and from which place.

Mirrors the update rules of xla/hlo/analysis/hlo_dataflow_analysis.cc. A place that is its own source defines a value;
a place in `phis` merges several sources.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.dataflow.async_chains import AsyncChain, has_same_arrays, is_async_end, is_async_start
from hlo_cli.analysis.dataflow.positions import Positions
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import FORWARDING
from hlo_cli.ir.shape import ShapeIndex, TupleShape

_INDEX: Final = re.compile(r"^, index=(\d{1,9})(?![\w.])")


class Sources:
    """The source of the value at each place.

    `source[place]` is the place that its value is forwarded from, or the place itself; `phis[place]` lists several
    sources instead.
    """

    __slots__ = ("_chains", "_places", "phis", "source")

    def __init__(self, places: Positions, chains: Mapping[Instruction, AsyncChain]) -> None:
        self._places = places
        self._chains = chains
        self.source = list(range(len(places)))
        self.phis: dict[int, tuple[int, ...]] = {}
        for instruction in places.instructions:
            if (rule := _RULES.get(instruction.opcode)) is not None:
                rule(self, instruction)
            elif is_async_start(instruction.opcode) or is_async_end(instruction.opcode):
                self.asynchronous(instruction)
        for computation, context in places.contexts.context_of.items():
            if context == "global" and computation in places.contexts.callers:
                self.parameters(computation, places.contexts.callers[computation])

    def forward(self, first: int, origin: int, count: int) -> None:
        """Forwards `count` places from `origin` to `first`; fewer if shapes in a malformed module differ."""
        last = self._places.first[self._places.owner[origin] + 1]
        count = min(count, last - origin)
        self.source[first : first + count] = range(origin, origin + count)

    def whole(self, instruction: Instruction) -> None:
        """Forwards the whole operand."""
        if instruction.operands:
            origin = self._places.operand_place(instruction, 0)
            self.forward(self._places.first_of(instruction), origin, len(self._places.parts(instruction)))

    def below_top(self, instruction: Instruction) -> None:
        """Forwards the elements of a copied tuple, whose table is new."""
        if isinstance(instruction.shape, TupleShape) and instruction.operands:
            origin = self._places.operand_place(instruction, 0)
            self.forward(self._places.first_of(instruction) + 1, origin + 1, len(self._places.parts(instruction)) - 1)

    def element(self, instruction: Instruction) -> None:
        """Forwards an element of the operand tuple."""
        if not instruction.operands:
            return
        match = _INDEX.match(instruction.raw[1])
        taken = int(match[1]) if match else instruction.integer("index") or 0
        origin = self._places.operand_place(instruction, 0)
        index = (*self._places.index(origin), taken)
        parts = self._places.parts(instruction.operands[0])
        if (at := parts.ordinals.get(index)) is not None:
            first = self._places.first_of(instruction)
            self.forward(
                first, self._places.first_of(instruction.operands[0]) + at, len(self._places.parts(instruction))
            )

    def elements(self, instruction: Instruction) -> None:
        """Forwards the operands as elements of a new tuple."""
        self._elements(instruction, (), [(instruction, n) for n in range(len(instruction.operands))])

    def called_root(self, instruction: Instruction) -> None:
        """Forwards the root of the called computation."""
        for called in instruction.called_computations[:1]:
            if called.root is not None and called in self._places.base:
                count = len(self._places.parts(instruction))
                self.forward(self._places.first_of(instruction), self._places.first_of(called.root), count)

    def loop(self, instruction: Instruction) -> None:
        """Merges the body root and the operand of a while loop."""
        body = instruction.called_computations[0].root if instruction.called_computations else None
        if instruction.operands and body is not None and body.computation in self._places.base:
            origins = (self._places.first_of(body), self._places.operand_place(instruction, 0))
            self._phi(self._places.first_of(instruction), len(self._places.parts(instruction)), origins)

    def branches(self, instruction: Instruction) -> None:
        """Merges the roots of the branches."""
        roots = [c.root for c in instruction.called_computations if c.root is not None and c in self._places.base]
        origins = tuple(map(self._places.first_of, roots))
        self._phi(self._places.first_of(instruction), len(self._places.parts(instruction)), origins)

    def operands_at(self, instruction: Instruction, index: ShapeIndex) -> None:
        """Forwards the operand, or the operands as elements, to `index` of the result."""
        operands = [(instruction, n) for n in range(len(instruction.operands))]
        if len(operands) == 1 or instruction.opcode == opcodes.SEND:
            self._elements(instruction, index[:-1], operands[:1], index[-1])
        else:
            self._elements(instruction, index, operands)

    def permuted(self, instruction: Instruction) -> None:
        """Forwards the operands of a collective-permute-start, which has no table for several of them."""
        self.operands_at(instruction, (0,))
        # hlo_dataflow_analysis.cc, InitializeInstructionValueSets: a permute of several operands defines {}, {1}, the
        # arrays of {1}, and contexts, but nothing at {0}. Every place has a value here, so {0} takes that of {}.
        parts, first = self._places.parts(instruction), self._places.first_of(instruction)
        if (table := parts.ordinals.get((0,))) is not None and isinstance(parts.shapes[table], TupleShape):
            self.source[first + table] = first

    def from_operand(self, instruction: Instruction, index: ShapeIndex, at: ShapeIndex) -> None:
        """Forwards the operand's part at `index` to the result's part at `at`; a tuple at the root is new."""
        if not instruction.operands:
            return
        below = self._places.parts(instruction).below(at)
        origin = self._places.parts(instruction.operands[0]).ordinals.get(index)
        if origin is None or not below:
            return
        first = self._places.first_of(instruction)
        self.forward(first + below.start, self._places.first_of(instruction.operands[0]) + origin, len(below))
        if not at and isinstance(instruction.shape, TupleShape):
            self.source[first] = first

    def asynchronous(self, instruction: Instruction) -> None:
        """Forwards bound operands and the output of an async instruction; its tuple tables are new."""
        chain = self._chains.get(instruction)
        if chain is None:
            return
        parts, first = self._places.parts(instruction), self._places.first_of(instruction)
        if is_async_start(instruction.opcode) or instruction.opcode.endswith("-update"):
            self._elements(instruction, (0,), chain.operands)
            self._output(instruction, chain, parts.below((1,)))
            if instruction is not chain.start:
                self._contexts(instruction)
        else:
            self._output(instruction, chain, range(len(parts)))
        for n, shape in enumerate(parts.shapes):
            if isinstance(shape, TupleShape):
                self.source[first + n] = first + n

    def _contexts(self, update: Instruction) -> None:
        """Forwards the contexts of an update that binds no operands, unless it declares aliases of its own."""
        if update.operands[0].shape != update.shape or "output_to_operand_aliasing" in update.raw[1]:
            return
        parts, operand = self._places.parts(update), self._places.first_of(update.operands[0])
        first = parts.elements[2] if len(parts.elements) > 3 else len(parts)
        self.forward(self._places.first_of(update) + first, operand + first, len(parts) - first)

    def parameters(self, computation: Computation, callers: Sequence[Instruction]) -> None:
        """Forwards or merges the operands of all callers to the parameters of a computation."""
        for number, parameter in enumerate(computation.parameters):
            origins: list[int] = []
            is_loop = False
            for caller in callers:
                if caller.computation not in self._places.base:
                    continue  # a caller in a fused computation executes nothing
                origins.extend(self._passed_places(caller, computation, number))
                if caller.opcode == opcodes.WHILE and caller.called_computations[0].root not in (None, parameter):
                    origins.append(self._places.first_of(caller.called_computations[0].root))
                    is_loop = True
            first, count = self._places.first_of(parameter), len(self._places.parts(parameter))
            if len(origins) == 1 and not is_loop:
                self.forward(first, origins[0], count)
            elif origins:
                self._phi(first, count, tuple(origins))

    def _passed_places(self, caller: Instruction, computation: Computation, number: int) -> Iterable[int]:
        """Returns the places that one caller passes to a parameter."""
        operands = [(caller, n) for n in range(len(caller.operands))]
        if caller.opcode == opcodes.CONDITIONAL:
            branches = enumerate(caller.called_computations, 1)
            operands = [operands[n] for n, called in branches if called is computation and n < len(operands)]
            return [self._places.operand_place(*operand) for operand in operands] if number == 0 else []
        if (chain := self._chains.get(caller)) is not None:
            operands = list(chain.operands)
        return [self._places.operand_place(*operand) for operand in operands[number : number + 1]]

    def _elements(
        self, instruction: Instruction, index: ShapeIndex, operands: Sequence[tuple[Instruction, int]], start: int = 0
    ) -> None:
        """Forwards operands to the elements of the tuple at `index`, from element `start` on."""
        first, parts = self._places.first_of(instruction), self._places.parts(instruction)
        for number, operand in enumerate(operands, start):
            below = parts.below((*index, number))
            if below:
                self.forward(first + below.start, self._places.operand_place(*operand), len(below))

    def _output(self, instruction: Instruction, chain: AsyncChain, below: range) -> None:
        """Forwards the output of the wrapped computation; in sugared syntax, that of the first member that binds it."""
        places, first = self._places, self._places.first_of(instruction)
        if not below:
            return
        root = chain.computation.root if chain.computation is not None else None
        if root is None or chain.computation not in places.base:
            shape = places.parts(instruction).shapes[below.start]
            for member in chain.members[: chain.members.index(instruction)]:
                output = places.parts(member).below((1,))
                if output and has_same_arrays(places.parts(member).shapes[output.start], shape):
                    self.forward(first + below.start, places.first_of(member) + output.start, len(below))
                    return
        elif has_same_arrays(places.parts(instruction).shapes[below.start], root.shape):
            origin = places.first_of(root)
            # hlo_dataflow_analysis.cc: a start whose computation is a dynamic-update-slice forwards its operand 0,
            # which is updated in place.
            if instruction is chain.start and root.opcode == opcodes.DYNAMIC_UPDATE_SLICE:
                origin = places.operand_place(instruction, 0)
            self.forward(first + below.start, origin, len(below))

    def _phi(self, first: int, count: int, origins: tuple[int, ...]) -> None:
        """Merges several sources into `count` places from `first` on."""
        counts = [self._places.first[self._places.owner[origin] + 1] - origin for origin in origins]
        for n in range(count):
            # hlo_dataflow_analysis.cc: the inputs of a phi are a list. Equal inputs make a phi too, which
            # hlo_phi_graph.cc may remove.
            self.phis[first + n] = tuple(
                origin + n for origin, available in zip(origins, counts, strict=True) if n < available
            )


_RULES: Final[dict[str, Callable[[Sources, Instruction], None]]] = {
    **dict.fromkeys((*FORWARDING, opcodes.ALL_REDUCE_DONE), Sources.whole),
    opcodes.GET_TUPLE_ELEMENT: Sources.element,
    opcodes.TUPLE: Sources.elements,
    opcodes.COPY: Sources.below_top,
    opcodes.WHILE: Sources.loop,
    opcodes.CONDITIONAL: Sources.branches,
    opcodes.CALL: Sources.called_root,
    # copy-start returns (destination, source, context): the operand is element 1, unlike in other starts.
    opcodes.COPY_START: lambda sources, i: sources.operands_at(i, (1,)),
    opcodes.ALL_GATHER_START: lambda sources, i: sources.operands_at(i, (0,)),
    opcodes.COLLECTIVE_PERMUTE_START: Sources.permuted,
    opcodes.SEND: lambda sources, i: sources.operands_at(i, (0,)),
    opcodes.COPY_DONE: lambda sources, i: sources.from_operand(i, (0,), ()),
    opcodes.ALL_GATHER_DONE: lambda sources, i: sources.from_operand(i, (1,), ()),
    opcodes.COLLECTIVE_PERMUTE_DONE: lambda sources, i: sources.from_operand(i, (1,), ()),
    opcodes.RECV_DONE: lambda sources, i: sources.from_operand(i, (0,), (0,)),
}

"""Normalizes a module to a form independent of names and order, for golden files.

Parameters come first, by number; then the dependencies of the root, operands before users; then the rest, by content.
Callees precede callers, in the order in which they are reached from the entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from hashlib import blake2b
from typing import Final

from hlo_cli.analysis.dataflow.dependencies import callees_first, control_predecessors
from hlo_cli.analysis.matching.graph import content_of, renamed_value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText
from hlo_cli.ir.layout import default_layout
from hlo_cli.ir.module import Module, of_module
from hlo_cli.ir.operations import CONTROL_PREDECESSORS, NAMING_ATTRIBUTES, attributes_with, header_attributes_with
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, TupleShape
from hlo_cli.source import expect
from hlo_cli.transform.rewriting import ComputationCopy

NAME: Final = "normalized"
_VOLATILE: Final = attributes_with("of one run")
_VOLATILE_HEADER: Final = header_attributes_with("of one run")
# XLA lists bodies before conditions in called_computations of a while.
_ROLES: Final = {
    opcodes.FUSION: ("fused",),
    opcodes.WHILE: ("body", "condition"),
    opcodes.CONDITIONAL: ("branch",),
    opcodes.CALL: ("called",),
}


@of_module
def normalize(module: Module, ignored: Collection[str] = ()) -> Module:
    """Module with stable names and order, without metadata, schedule, and ignored parts.

    `ignored` are names of attributes, and `layout`, `tiling`, or `memory_space` for these parts of shapes.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { b = s8[] parameter(1)  a = s8[] parameter(0)  ROOT x.7 = s8[] subtract(a, b) }"
    >>> print(normalize(parse_module(text)).entry.root)
    <subtract subtract.1>
    """
    expect(Collection, "a collection of names of attributes", ignored, 'such as ("layout", "metadata")')
    return _Normalizer(module, frozenset((ignored,) if isinstance(ignored, str) else ignored)).module()


@dataclass(slots=True)
class _Normalizer:
    """New computations and names so far, with digests of the content of instructions and computations."""

    old: Module
    ignored: frozenset[str]
    copies: dict[Computation, ComputationCopy] = field(default_factory=dict)
    _digests: dict[Instruction, bytes] = field(default_factory=dict)
    _contents: dict[Computation, bytes] = field(default_factory=dict)
    _roles: Counter[str] = field(default_factory=Counter)

    def module(self) -> Module:
        """Normalizes the whole module."""
        for computation in callees_first(self.old.computations):
            self._digest(computation)
        orders = {c: self._order(c) for c in self.old.computations}
        computations = tuple(self._rewrite(c, orders[c], role) for c, role in self._callees_first(orders))
        header = tuple(a for a in self.old.header if a.name not in _VOLATILE_HEADER and not self._is_ignored(a.name))
        entry = self.copies[self.old.entry].computation
        return replace(
            self.old,
            name=NAME,
            computations=computations,
            entry=entry,
            header=header,
            stack_tables="",
            is_scheduled=False,
        )

    def _is_ignored(self, name: str) -> bool:
        return name in self.ignored or (name == "entry_computation_layout" and "layout" in self.ignored)

    def _digest(self, computation: Computation) -> None:
        """Computes the digests of a computation's instructions, which are the same in every process."""
        for i in computation.instructions:
            argument, attributes, *_ = content_of(i)
            indices = computation.operand_indices.get(i.index, "")
            text = f"{i.opcode} {self._shape(i.shape)} {argument.strip()} {attributes} {indices}"
            operands = b"".join([self._digests.get(operand, b"") for operand in i.operands])
            called = b"".join([self._contents.get(c, b"") for c in i.called_computations])
            # 128 bits: some 2^64 instructions until two are equal by chance; blake2b gives the same in every process.
            self._digests[i] = blake2b(
                text.encode("utf-8", "surrogatepass") + operands + called, digest_size=16
            ).digest()
        root = computation.root
        ends = sorted(self._digests[i] for i in self._ends(computation))
        made = self._digests[root] if root is not None else b""
        self._contents[computation] = blake2b(made + b"".join(ends), digest_size=16).digest()

    @staticmethod
    def _ends(computation: Computation) -> list[Instruction]:
        """Instructions without users, except for parameters."""
        used = {operand for i in computation.instructions for operand in i.operands}
        return [i for i in computation.instructions if i not in used and i.opcode != opcodes.PARAMETER]

    def _order(self, computation: Computation) -> tuple[Instruction, ...]:
        """Parameters, dependencies of the root, and other instructions, each after its operands."""
        before = control_predecessors(computation)

        def needed(i: Instruction) -> Iterator[Instruction]:
            first = (computation.instructions[k] for k in before.get(i.index, ()))
            return iter((*i.operands, *sorted(first, key=self._digests.__getitem__)))

        ends = sorted(self._ends(computation), key=self._digests.__getitem__)
        root = () if computation.root is None else (computation.root,)
        order = list(computation.parameters)
        entered = set(order)
        # Iterative, as chains of operands are longer than Python's recursion limit.
        for start in (*root, *ends, *computation.instructions):
            waiting = [] if start in entered else [(start, needed(start))]
            entered.add(start)
            while waiting:
                instruction, rest = waiting[-1]
                if (inner := next((i for i in rest if i not in entered), None)) is None:
                    order.append(instruction)
                    waiting.pop()
                else:
                    entered.add(inner)
                    waiting.append((inner, needed(inner)))
        return tuple(order)

    def _callees_first(
        self, orders: Mapping[Computation, tuple[Instruction, ...]]
    ) -> Iterator[tuple[Computation, str]]:
        """Yields computations, callees first, with their roles; uncalled computations come first."""
        roles = {called: role for order in orders.values() for i in order for called, role in _called(i)}
        entered: set[Computation] = set()
        # Uncalled computations are kept: a golden file has to show them.
        uncalled = [c for c in orders if c not in roles and c is not self.old.entry]
        for start in (*sorted(uncalled, key=self._contents.__getitem__), self.old.entry):
            entered.add(start)
            waiting = [(start, (called for i in orders[start] for called, _ in _called(i)))]
            while waiting:
                computation, rest = waiting[-1]
                inner = next((c for c in rest if c not in entered), None)
                if inner is None:
                    waiting.pop()
                    yield computation, roles.get(computation, "uncalled")
                else:
                    entered.add(inner)
                    waiting.append((inner, (called for i in orders[inner] for called, _ in _called(i))))

    def _rewrite(self, old: Computation, order: tuple[Instruction, ...], role: str) -> Computation:
        self._roles[role] += 1
        name = "entry" if old.is_entry else f"{role}.{self._roles[role]}"
        new = Computation(
            name,
            is_entry=old.is_entry,
            execution_thread=old.execution_thread,
            backend_config=old.backend_config,
            span=old.span,
        )
        copy = self.copies[old] = ComputationCopy(old, new)
        numbers: Counter[str] = Counter()
        names: dict[str, str] = {}
        for i in order:
            opcode = i.written_opcode
            numbers[opcode] += 1
            names[i.name] = f"{opcode}.{i.raw[0].strip() if opcode == opcodes.PARAMETER else numbers[opcode]}"
        for i in order:
            # A parameter's number is its identity; blanks are not.
            text = InstructionText(
                self._attributes(i, names), i.raw[0].strip() if i.written_opcode == opcodes.PARAMETER else i.raw[0]
            )
            added = copy.add(names[i.name], self._shape(i.shape), i.opcode, copy.operands(i), source=i, text=text)
            added.called_computations = tuple(
                [self.copies[c].computation for c in i.called_computations if c in self.copies]
            )
            copy.copies[i] = added
        return copy.finish()

    def _attributes(self, instruction: Instruction, names: Mapping[str, str]) -> tuple[Attribute, ...]:
        computations = {
            c.name: self.copies[c].computation.name for c in instruction.called_computations if c in self.copies
        }
        return tuple(
            Attribute(a.name, self._value(a, names if a.name == CONTROL_PREDECESSORS else computations))
            for a in instruction.attributes
            if a.name not in _VOLATILE and a.name not in self.ignored
        )

    @staticmethod
    def _value(attribute: Attribute, names: Mapping[str, str]) -> str:
        if attribute.name not in NAMING_ATTRIBUTES:
            return attribute.value
        value = renamed_value(attribute.value, names)
        if attribute.name == CONTROL_PREDECESSORS:
            # A set: XLA gives it no order.
            return "{" + ", ".join(sorted(value.strip("{}").split(", "))) + "}"
        return value

    def _shape(self, shape: Shape) -> Shape:
        """Shape without ignored parts."""
        if not self.ignored & {"layout", "tiling", "memory_space"}:
            return shape
        if isinstance(shape, TupleShape):
            return TupleShape(tuple(map(self._shape, shape.elements)))
        if isinstance(shape, BufferShape):
            return BufferShape(self._array(shape.array))
        return self._array(shape) if isinstance(shape, ArrayShape) else shape

    def _array(self, array: ArrayShape) -> ArrayShape:
        layout = default_layout(array.rank) if "layout" in self.ignored else array.layout
        if "tiling" in self.ignored:
            layout = replace(layout, tiles=())
        if "memory_space" in self.ignored:
            layout = replace(layout, memory_space=0)
        return replace(array, layout=layout)


# The role tells computations of one operation apart, and the names do not matter.
def _called(instruction: Instruction) -> Iterator[tuple[Computation, str]]:
    """Yields the computations that an instruction calls, with their roles."""
    roles = _ROLES.get(instruction.opcode, ("applied",))
    for at, called in enumerate(instruction.called_computations):
        yield called, roles[min(at, len(roles) - 1)]

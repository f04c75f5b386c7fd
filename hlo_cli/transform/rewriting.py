"""What does every rewrite of a module need: a well-formed module, free names, and copies with changes?

A module is never changed. `check_rewritable` says whether it may be rewritten, `begin_copies` begins the copy of each
computation, and `with_computations` makes the module of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from hlo_cli.analysis.dataflow.dependencies import control_predecessors
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Items
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import Metadata
from hlo_cli.ir.attributes.value_types import AttributeValue, Literal
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText, Pairs, free_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import OPCODE_ARITY
from hlo_cli.ir.shape import Shape, ShapeIndex, TupleShape
from hlo_cli.source import Diagnostic, HloError, Span, counted

# --- what is well formed ---
# Checks that a module is well formed enough to be rewritten, as lenient parsing accepts more.
#
# Mirrors the part of `HloVerifier` of xla/service/hlo_verifier.cc that concerns structure.


# hlo_verifier.cc: each must have its computations.
_NEEDS_COMPUTATION = frozenset((opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.WHILE))
# Positions that rewrites index; the verifier has more rules, which they do not need.
_MIN_OPERANDS: dict[str, int] = {
    **dict.fromkeys((opcodes.CONCATENATE, opcodes.CONDITIONAL, opcodes.DYNAMIC_SLICE), 1),
    **dict.fromkeys((opcodes.DYNAMIC_UPDATE_SLICE, opcodes.REDUCE, opcodes.REDUCE_WINDOW), 2),
    opcodes.SCATTER: 3,
}
"""Minimum number of operands that rewrites require for opcodes of variable arity."""


def check_rewritable(module: Module) -> None:
    """Raises HloError for uses before definitions, duplicate names, and fusions that do not match their computations.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m  f { ROOT a = s8[] parameter(0) }
    ... ENTRY e { ROOT x = s8[] fusion(), kind=kLoop, calls=f }'''
    >>> check_rewritable(parse_module(text))
    Traceback (most recent call last):
    hlo_cli.source.HloError: text:2:11: error: x has 0 operands, but f has 1 parameter
    """
    problems: list[Diagnostic] = []
    earlier: set[Computation] = set()
    for computation in module.computations:
        found = _problems(computation, earlier, module.source.text)
        problems += (Diagnostic("error", words, module.source, span) for words, span in found)
        earlier.add(computation)
        # Enough to see that a text is not a module; chosen.
        if len(problems) > 8:
            break
    if problems:
        raise HloError.of(tuple(problems))


def _problems(
    computation: Computation, earlier: Collection[Computation], text: str
) -> Iterator[tuple[str, Span | None]]:
    if computation.root is None:
        yield f"{computation.name} has no root", computation.span
    if any(p.parameter_number != number for number, p in enumerate(computation.parameters)):
        yield f"the parameters of {computation.name} are not numbered consecutively from 0", computation.span
    earlier_names: set[str] = set()
    controls = control_predecessors(computation, text)
    for instruction in computation.instructions:
        for words in _instruction_problems(instruction, earlier_names, earlier):
            yield words, instruction.span
        if any(index >= instruction.index for index in controls.get(instruction.index, ())):
            yield f"{instruction.name} has a control predecessor that is defined after it", instruction.span
        earlier_names.add(instruction.name)


def _instruction_problems(
    instruction: Instruction, earlier_names: Collection[str], earlier: Collection[Computation]
) -> Iterator[str]:
    """Yields the problems of an instruction, given the names and computations before it."""
    name, operands, called = instruction.name, instruction.operands, instruction.called_computations
    if name in earlier_names:
        yield f"duplicate instruction name '{name}'"
    for operand in operands:
        if operand.computation is not instruction.computation or operand.index >= instruction.index:
            yield f"{name} uses {operand.name} before its definition"
    if any(each not in earlier for each in called):
        yield f"{name} calls a computation that is defined after it"
    if (
        minimum := OPCODE_ARITY.get(instruction.written_opcode) or _MIN_OPERANDS.get(instruction.written_opcode, 0)
    ) > len(operands):
        count = counted(len(operands), "operands")
        yield f"{name} has {count}, but {instruction.written_opcode} needs at least {minimum}"
    if instruction.written_opcode == opcodes.TUPLE and _elements(instruction) != len(operands):
        elements = counted(_elements(instruction), "elements")
        yield f"{name} has {counted(len(operands), 'operands')}, but its shape has {elements}"
    if instruction.written_opcode == opcodes.GET_TUPLE_ELEMENT and operands:
        index = instruction.integer("index") or 0
        if index >= _elements(operands[0]):
            elements = counted(_elements(operands[0]), "elements")
            yield f"{name} selects element {index} of a tuple with {elements}"
    root = called[0].root if instruction.written_opcode == opcodes.FUSION and called else None
    if root is not None and _elements(root) != _elements(instruction):
        yield f"{name} does not have the result shape of {called[0].name}"
    if instruction.written_opcode in _NEEDS_COMPUTATION and not called:
        yield f"{name} has no called computation"
    if instruction.written_opcode == opcodes.FUSION and called and len(called[0].parameters) != len(operands):
        counts = counted(len(operands), "operands"), counted(len(called[0].parameters), "parameters")
        yield f"{name} has {counts[0]}, but {called[0].name} has {counts[1]}"


def _elements(instruction: Instruction) -> int:
    """Number of elements of a tuple result; 0 for an array."""
    return len(instruction.shape.elements) if isinstance(instruction.shape, TupleShape) else 0


# --- unique names ---
# Unique names as XLA makes them: the wanted name, or with the next free number.
#
# Mirrors xla/service/name_uniquer.cc, and the names of clones of xla/hlo/ir/hlo_instruction.cc.


class Names:
    """Names in use, by the part before their number.

    >>> names = Names(("add", "add.2", "fusion"))
    >>> [names.new(wanted) for wanted in ("add", "add", "add.7", "add.7", "sub")]
    ['add.1', 'add.3', 'add.7', 'add.4', 'sub']
    """

    __slots__ = ("_next", "_taken")

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}
        for name in taken:
            self.new(name)

    def new(self, wanted: str) -> str:
        """Reserves and returns an unused name that resembles `wanted`."""
        stem, dot, digits = wanted.rpartition(".")
        # NameUniquer takes a final number as a counter, not as part of the name.
        if not (stem and dot and digits.isdecimal()):
            stem, digits = wanted, ""
        taken = self._taken.get(stem)
        if taken is None:
            taken = self._taken[stem] = set()
        number = int(digits or 0)
        if number in taken:
            # Counts upward from the last one given, so many equal names stay linear.
            number = self._next.get(stem, 0)
            while number in taken:
                number += 1
            self._next[stem] = number + 1  # only faster
        taken.add(number)
        # `.0` is printed only if the name asked for it.
        return f"{stem}.{number}" if number or digits else stem


def name_of_clone(name: str) -> str:
    """Name for a clone: with suffix `.clone`, or `.clone` and a number for further clones (`HloInstruction::Clone`).

    >>> [name_of_clone(name) for name in ("add.3", "add.3.clone", "add.3.clone2", "add.3.clone.1")]
    ['add.3.clone', 'add.3.clone2', 'add.3.clone3', 'add.3.clone.1.clone']
    """
    # Clone avoids names such as `add.clone.clone`: it counts in the suffix, without a dot.
    if name.endswith(".clone"):
        return f"{name}2"
    stem, mark, suffix = name.rpartition(".clone")
    if mark and suffix.isdecimal():
        return f"{stem}.clone{int(suffix) + 1}"
    return f"{name}.clone"


class ModuleNames:
    """Names of the instructions and of the computations of a module, which are separate."""

    __slots__ = ("computations", "instructions")

    def __init__(self, module: Module) -> None:
        self.instructions = Names(instruction.name for instruction in module.instructions)
        self.computations = Names(computation.name for computation in module.computations)


# --- copies with changes ---
# Copies a module with changes: new computations whose instructions still read the original text.
#
# Mirrors `HloModule::Clone` with a context that replaces instructions, of xla/hlo/ir/hlo_clone_context.h.


Operand = tuple[Instruction, ShapeIndex]
"""New instruction, and the tuple index of the element that is used."""


class CopyReader:
    """Reads the content of copied instructions from their originals, given in `sources` by index."""

    __slots__ = ("_original", "_sources")

    def __init__(self, original: Computation, sources: Sequence[Instruction]) -> None:
        self._original = original
        self._sources = sources

    def whole(self) -> str:
        """Empty text, as copies can differ from the original."""
        return ""

    def read(self, index: int) -> InstructionText:
        """Text of the original instruction."""
        return self._sources[index].text

    def raw(self, index: int) -> tuple[str, str]:
        """Argument and attributes of the original as text."""
        return self._sources[index].raw

    def pairs(self, index: int) -> Pairs:
        """Attributes of the original without their spans."""
        return self._sources[index].pairs

    def value(self, opcode: str, attribute: str, text: str) -> AttributeValue:
        """Parsed value of an attribute's text."""
        return self._original.reader.value(opcode, attribute, text)

    def span(self, index: int) -> Span | None:
        """Span of the original instruction."""
        return self._sources[index].span

    def metadata(self, instruction: Instruction) -> Metadata:
        """Metadata of the original, or of the instruction for which a new one was made."""
        return self._sources[instruction.index].metadata

    def literal(self, instruction: Instruction) -> Literal:
        """Literal of a constant."""
        literal = self._sources[instruction.index].literal
        if literal is None:
            raise HloError(f"the value of {instruction.name} is unknown")
        return literal


@dataclass(slots=True)
class ComputationCopy:
    """Computation that is being copied; `copies` maps old instructions to new ones."""

    original: Computation
    computation: Computation
    copies: dict[Instruction, Instruction] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)
    _instructions: list[Instruction] = field(default_factory=list)
    _sources: list[Instruction] = field(default_factory=list)
    _elements: dict[int, tuple[ShapeIndex, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names.update(instruction.name for instruction in self.original.instructions)
        self.computation.reader = CopyReader(self.original, self._sources)

    def free_name(self, wanted: str) -> str:
        """Unused instruction name that resembles `wanted`."""
        name = free_name(wanted, self._names, self._numbers)
        self._names.add(name)
        return name

    def operands(self, instruction: Instruction) -> list[Operand]:
        """New operands of an old instruction; HloError if one is not copied yet."""
        for operand in instruction.operands:
            if operand not in self.copies:
                raise HloError(f"{instruction.name} uses {operand.name} before its definition")
        return [(self.copies[o], instruction.operand_index(i)) for i, o in enumerate(instruction.operands)]

    def copy(
        self,
        old: Instruction,
        operands: Sequence[Operand],
        called: tuple[Computation, ...],
        *,
        opcode: str = "",
        attributes: Iterable[Attribute] | None = None,
    ) -> Instruction:
        """Appends a copy of an instruction, with its attributes unless others are given."""
        text = None if attributes is None else InstructionText(tuple(attributes), old.text.argument, old.span)
        new = self.add(old.name, old.shape, opcode or old.opcode, operands, source=old, text=text)
        new.called_computations = called
        self.copies[old] = new
        return new

    def add(
        self,
        name: str,
        shape: Shape,
        opcode: str,
        operands: Sequence[Operand],
        *,
        source: Instruction,
        text: InstructionText | None,
    ) -> Instruction:
        """Appends a new instruction; `source` provides its metadata and span."""
        index = len(self._instructions)
        new = Instruction(name, shape, opcode, tuple([o for o, _ in operands]), self.computation, index, text)
        # Most operands have no element, so the dictionary holds only those.
        if any(element for _, element in operands):
            self._elements[index] = tuple([element for _, element in operands])
        self._instructions.append(new)
        self._sources.append(source)
        return new

    def finish(self, root: Instruction | None = None) -> Computation:
        """Completes and returns the new computation; its root is the copy of the old root unless another is given."""
        computation, old = self.computation, self.original.root
        computation.instructions = Items(self._instructions)
        computation.parameters = tuple(self.copies[parameter] for parameter in self.original.parameters)
        computation.root = self.copies[old] if root is None and old is not None else root
        computation.operand_indices = self._elements
        return computation


def begin_copies(module: Module) -> dict[Computation, ComputationCopy]:
    """Empty copy of every computation, to be filled in any order."""
    return {
        old: ComputationCopy(
            old,
            Computation(
                old.name,
                is_entry=old.is_entry,
                execution_thread=old.execution_thread,
                backend_config=old.backend_config,
                span=old.span,
            ),
        )
        for old in module.computations
    }


def copied_calls(instruction: Instruction, copies: Mapping[Computation, ComputationCopy]) -> tuple[Computation, ...]:
    """Copies of the computations that an instruction calls."""
    return tuple([copies[called].computation for called in instruction.called_computations])


def with_computations(
    module: Module, computations: Iterable[Computation], copies: Mapping[Computation, ComputationCopy]
) -> Module:
    """Module with new computations; everything else is unchanged."""
    return replace(module, computations=tuple(computations), entry=copies[module.entry].computation)

"""How instructions of HLO are made from operations of MLIR: names, places, shapes, and what every opcode has in common.

Mirrors xla/hlo/translate/mhlo_to_hlo: attributes that any operation may have, and locations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.value_types import Literal
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText, free_name
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.notation import quoted
from hlo_cli.ir.operations import ELEMENTWISE
from hlo_cli.ir.shape import ArrayShape, OpaqueShape, Shape, TupleShape
from hlo_cli.source import Diagnostic, HloError, Source, Span
from hlo_cli.syntax.literal_dense import literal_of
from hlo_cli.syntax.literal_reading import literal_at
from hlo_cli.syntax.stablehlo.grammar import Operation
from hlo_cli.syntax.stablehlo.scanning import (
    AliasLocation,
    CallLocation,
    Dense,
    Entries,
    FileLocation,
    Location,
    NamedLocation,
    Text,
)
from hlo_cli.syntax.stablehlo.simplify import Splat, Step, simplified, splat_of, used
from hlo_cli.syntax.stablehlo.values import Mesh, hlo_sharding, shape_of, shardings_in
from hlo_cli.syntax.values.attribute_values import WrittenReader

Pairs = Sequence[tuple[str, str]]
"""Names and values of attributes."""


class Unfit(Exception):
    """An operation that has no form in HLO; the reason is for a note, and the operation stays a custom call."""


# --- names ---

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.\-]")


def hlo_name(name: str) -> str:
    """A name that HLO accepts (`NameUniquer::GetSanitizedName` of xla/service/name_uniquer.cc).

    >>> hlo_name("params['w']"), hlo_name("0")
    ('params__w__', '_0')
    """
    name = _NO_NAME.sub("_", name)
    return name if name and (name[0].isalpha() or name[0] == "_") else f"_{name}"


# --- locations ---

_LOCATION_DEPTH: Final = 200
"""Calls inside of each other in a location: Python programs have at most a thousand, and XLA keeps all."""


@dataclass(slots=True)
class Frames:
    """The stack frames of a module, collected while its operations are read."""

    locations: Mapping[str, Location | None]
    files: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    places: dict[tuple[int, int, int, int, int, int], int] = field(default_factory=dict)
    frames: dict[tuple[int, int], int] = field(default_factory=dict)
    known: dict[Location, str] = field(default_factory=dict)

    def metadata(self, location: Location | None) -> str:
        """The text of an instruction's metadata; empty if the location is unknown."""
        if location is None:
            return ""
        text = self.known.get(location)
        if text is None:
            text = self.known[location] = self._metadata(location)
        return text

    def name_of(self, location: Location | None) -> str:
        """The name of an argument or an operation; empty if there is none."""
        resolved = self._resolve(location)
        while isinstance(resolved, NamedLocation) and resolved.name.endswith(":"):
            resolved = self._resolve(resolved.inner)
        return resolved.name if isinstance(resolved, NamedLocation) else ""

    def tables(self) -> str:
        """The four tables after a module's header."""
        if not self.frames:
            return ""
        fields = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
        rows = {
            "FileNames": map(quoted, self.files),
            "FunctionNames": map(quoted, self.functions),
            "FileLocations": (
                "{" + " ".join(f"{name}={value}" for name, value in zip(fields, place, strict=True)) + "}"
                for place in self.places
            ),
            # a frame's parent counts from 1, and 1 means none
            "StackFrames": (f"{{file_location_id={place} parent_frame_id={up + 1}}}" for place, up in self.frames),
        }
        return "\n".join(
            f"{section}\n" + "".join(f"{number} {row}\n" for number, row in enumerate(listed, 1))
            for section, listed in rows.items()
        ).strip()

    def _resolve(self, location: Location | None) -> Location | None:
        for _ in range(_LOCATION_DEPTH):
            if not isinstance(location, AliasLocation):
                return location
            location = self.locations.get(location.name)
        return None

    def _metadata(self, location: Location) -> str:
        """Names with a colon at the end are types of operations (`CreateOpMetadataFromLocation`)."""
        resolved, parts = self._resolve(location), dict[str, str]()
        for _ in range(_LOCATION_DEPTH):
            if not isinstance(resolved, NamedLocation):
                break
            is_type = resolved.name.endswith(":")
            name = resolved.name.removesuffix(":")
            inner = self._resolve(resolved.inner)
            if not is_type and isinstance(inner, FileLocation) and "op_name" in parts:
                break  # a function and its place
            if name:
                parts["op_type" if is_type else "op_name"] = quoted(name)
            resolved = inner
        if isinstance(resolved, FileLocation):
            parts["source_file"], parts["source_line"] = quoted(resolved.file), str(resolved.line)
        elif resolved is not None and (frame := self._frame(resolved)):
            parts["stack_frame_id"] = str(frame)
        order = [
            name for name in ("op_type", "op_name", "source_file", "source_line", "stack_frame_id") if name in parts
        ]
        return "{" + " ".join(f"{name}={parts[name]}" for name in order) + "}" if order else ""

    def _frame(self, location: Location) -> int:
        """The number of the innermost frame of a chain of calls; 0 if no place in it is known."""
        chain = list[tuple[str, FileLocation]]()
        pending: list[Location | None] = [location]
        for _ in range(_MOST_PLACES):
            if not pending or len(chain) == _LOCATION_DEPTH:
                break
            resolved = self._resolve(pending.pop())
            if isinstance(resolved, CallLocation):
                pending += (resolved.caller, resolved.callee)
            elif isinstance(resolved, NamedLocation):
                inner = self._resolve(resolved.inner)
                if isinstance(inner, FileLocation):
                    chain.append((resolved.name, inner))
                elif inner is not None:
                    pending.append(inner)
            elif isinstance(resolved, FileLocation):
                chain.append(("", resolved))
        parent = 0
        for function, place in reversed(chain):
            file = self.files.setdefault(place.file, len(self.files) + 1)
            named = self.functions.setdefault(function, len(self.functions) + 1)
            key = (file, named, place.line, place.end_line, place.column, place.end_column)
            at = self.places.setdefault(key, len(self.places) + 1)
            parent = self.frames.setdefault((at, parent), len(self.frames) + 1)
        return parent


_MOST_PLACES: Final = 1000
"""Parts of a location that are looked at: damaged ones may refer to each other in a circle."""


# --- constants ---

_LAZY: Final = 200
"""Characters of a constant above which its numbers are read when somebody asks for them."""


class _Reader(WrittenReader):
    """Reads the text of a computation's instructions; that of large constants is made on demand."""

    __slots__ = ("_constants", "_made")

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._constants: dict[int, tuple[InstructionText, Span, Shape]] = {}
        self._made: dict[int, InstructionText] = {}

    def defer(self, index: int, text: InstructionText, body: Span, shape: Shape) -> None:
        """Takes a constant whose numbers are read later."""
        self._constants[index] = (text, body, shape)

    def move(self, moved: Mapping[int, int]) -> None:
        """Takes new places of instructions."""
        self._constants = {moved[index]: constant for index, constant in self._constants.items() if index in moved}
        self._made = {moved[index]: made for index, made in self._made.items() if index in moved}

    def read(self, index: int) -> InstructionText:
        """The text of a constant, with its numbers."""
        if index not in self._made:
            text, body, shape = self._constants[index]
            try:
                argument = literal_of(self._source.slice(body), shape)
            except HloError as error:
                raise HloError(str(error.diagnostic.message), body, source=self._source) from None
            self._made[index] = InstructionText(text.attributes, argument, text.span)
        return self._made[index]

    def raw(self, index: int) -> tuple[str, str]:
        """The argument, and the attributes."""
        text = self.read(index)
        return text.argument, "".join(f", {attribute}" for attribute in text.attributes)

    def pairs(self, index: int) -> Sequence[tuple[str, str]]:
        """The attributes."""
        return [(attribute.name, attribute.value) for attribute in self._constants[index][0].attributes]

    def span(self, index: int) -> Span | None:
        """The span of the operation."""
        return self._constants[index][0].span

    def literal(self, instruction: Instruction) -> Literal:
        """The values of a constant."""
        argument = instruction.text.argument
        return literal_at(Source("", argument), Span(0, len(argument)), instruction.shape)


# --- modules and computations ---

_MOST_NOTES: Final = 100
"""Notes of one module: a program with more unknown operations has the same ones again."""


@dataclass(slots=True)
class Program:
    """State while a module is made: functions by name, computations in order, meshes, names, and notes.

    `called` has the computation of each function, `unchanged` the values that each loop passes through. In a text that
    `is_loose`, operations are outside of functions, and what they use is a parameter.
    """

    source: Source
    frames: Frames
    functions: dict[str, Operation] = field(default_factory=dict)
    called: dict[str, Computation] = field(default_factory=dict)
    computations: list[Computation] = field(default_factory=list)
    meshes: dict[str, Mesh] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    copies: dict[str, int] = field(default_factory=dict)
    notes: list[Diagnostic] = field(default_factory=list)
    noted: set[tuple[str, str]] = field(default_factory=set)
    unchanged: dict[Operation, frozenset[int]] = field(default_factory=dict)
    is_loose: bool = False

    def computation(self, name: str, span: Span | None = None) -> Computation:
        """A new computation, which is added when it is complete."""
        unique = self.unique(hlo_name(name))
        return Computation(unique, span=span, reader=_Reader(self.source))

    def unique(self, name: str) -> str:
        """The name, or with a number that no other computation or instruction has."""
        free = free_name(name, self.names, self.copies)
        self.names.add(free)
        return free

    def note(self, code: str, message: str, span: Span) -> None:
        """Adds a note; one for all operations of a kind with the same message."""
        if (code, message) not in self.noted and len(self.notes) < _MOST_NOTES:
            self.noted.add((code, message))
            self.notes.append(Diagnostic("note", message, self.source, span, code=code))

    def error(self, message: str, span: Span, hint: str | None = None) -> HloError:
        """An error of the text."""
        return HloError(message, span, source=self.source, hint=hint)


@dataclass(slots=True)
class Body:
    """One computation while it is made: `values` are those of the region by name, `parent` is the region around.

    `constants` are those made so far, and `parts` has what each broadcast was made of.
    """

    program: Program
    computation: Computation
    parent: Body | None = None
    values: dict[str, tuple[Instruction, ...]] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    parameter_count: int = 0
    constants: dict[tuple[str, Shape], Instruction] = field(default_factory=dict)
    parts: dict[Instruction, tuple[Instruction, tuple[int, ...]]] = field(default_factory=dict)

    @property
    def source(self) -> Source:
        """The text."""
        return self.program.source

    # --- values ---

    def value(self, name: str, index: int, operation: Operation) -> Instruction:
        """The instruction of a value; a constant outside of the region is copied into it.

        HloError for a value that is not defined, `Unfit` for one outside of the region.
        """
        value = self.values.get(name)
        if value is not None and index < len(value):
            return value[index]
        if value is not None:
            raise self.program.error(f"value %{name} has {len(value)} results, not {index + 1}", operation.span)
        outer = self.outer(name, index)
        if outer is not None:
            copied = self.copy(outer)
            if copied is None:
                raise Unfit(f"its region uses %{name}, which is defined outside")
            self.values[name] = (copied,) if not index else (copied,) * (index + 1)
            return copied
        if self.program.is_loose and self.parent is None:
            return self._free(name, index, operation)
        raise self.program.error(f"undefined value '%{name}'", operation.span)

    def outer(self, name: str, index: int) -> Instruction | None:
        """The value of a region around this one; None if there is none."""
        around = self.parent
        while around is not None:
            if (value := around.values.get(name)) is not None:
                return value[index] if index < len(value) else None
            around = around.parent
        return None

    def copy(self, instruction: Instruction) -> Instruction | None:
        """A copy of a constant, or of one that is broadcast; None for everything else."""
        text = splat_of(instruction)
        if text is not None:
            return self.splat(Operation("", instruction.text.span or Span(0, 0)), instruction.shape, text)
        if instruction.opcode != opcodes.CONSTANT:
            return None
        return self._append(instruction.opcode, instruction.shape, (), instruction.text)

    def _free(self, name: str, index: int, operation: Operation) -> Instruction:
        """A parameter for a value that the text uses and does not define."""
        place = operation.operands.index((name, index)) if (name, index) in operation.operands else -1
        types = operation.operand_types
        shape = self.shape(types[place], operation) if 0 <= place < len(types) else OpaqueShape()
        made = self.parameter(name, shape, operation.span)
        self.values[name] = (*self.values.get(name, ()), *(made,) * (index + 1))[: index + 1]
        return made

    def operands(self, operation: Operation) -> list[Instruction]:
        """The instructions of an operation's operands."""
        return [self.value(name, index, operation) for name, index in operation.operands]

    # --- shapes ---

    def shape(self, type_: str, operation: Operation) -> Shape:
        """The shape of a type; one that HLO lacks is opaque, with a note."""
        try:
            return shape_of(type_)
        except HloError as error:
            self.program.note("unknown-type", error.diagnostic.message, operation.span)
            return OpaqueShape()

    def result_shapes(self, operation: Operation) -> list[Shape]:
        """The shapes of an operation's results."""
        return [self.shape(result_type, operation) for result_type in operation.result_types]

    # --- instructions ---

    def add(
        self,
        operation: Operation,
        opcode: str,
        shape: Shape,
        operands: Sequence[Instruction] = (),
        pairs: Pairs = (),
        called: Sequence[Computation] = (),
        *,
        argument: str = "",
        is_decorated: bool = False,
        is_exact: bool = False,
    ) -> Instruction:
        """Appends an instruction, or returns the one that XLA has in its place, unless the instruction `is_exact`.

        With `is_decorated`, it has the sharding and the attributes for frontends.
        """
        decorations = self.decorations(operation) if is_decorated else []
        step = Step(opcode, shape, list(operands), list(pairs), self._joined)
        if not is_exact and not decorations and operation.name:
            simpler = simplified(step)
            if isinstance(simpler, Splat):
                return self.splat(operation, shape, simpler.text)
            if simpler is not None:
                return simpler
        opcode, operands = step.opcode, step.operands
        shape = following(opcode, step.shape, operands)
        listed = [*step.pairs, *decorations]
        metadata = self.program.frames.metadata(operation.location)
        if metadata:
            at = next((i for i, pair in enumerate(listed) if pair[0] == "backend_config"), len(listed))
            listed.insert(at, ("metadata", metadata))
        text = InstructionText(tuple([Attribute(*pair) for pair in listed]), argument, operation.span)
        made = self._append(opcode, shape, operands, text)
        made.called_computations = tuple(called)
        return made

    def _joined(self, parts: Sequence[Instruction], dimension: int) -> Instruction:
        """Appends a concatenation of some parts of another."""
        shapes = [part.shape for part in parts if isinstance(part.shape, ArrayShape)]
        sizes = list(shapes[0].dimensions)
        sizes[dimension] = sum(shape.dimensions[dimension] for shape in shapes)
        shape = default_layout(
            ArrayShape(shapes[0].element_type, tuple(sizes), (False,) * len(sizes), shapes[0].layout)
        )
        text = InstructionText((Attribute("dimensions", f"{{{dimension}}}"),), span=parts[0].span)
        return self._append("concatenate", shape, parts, text)

    def splat(self, operation: Operation, shape: Shape, text: str) -> Instruction:
        """A constant with one value for all elements; XLA broadcasts it to more than one element."""
        shape = default_layout(shape)
        known = self.constants.get((text, shape))
        if known is not None:
            return known
        if isinstance(shape, ArrayShape) and shape.elements > 1:
            scalar = ArrayShape(shape.element_type, (), (), Layout(()))
            one = self.add(operation, opcodes.CONSTANT, scalar, argument=text, is_exact=True)
            pairs = [("dimensions", "{}")]
            made = self.add(operation, opcodes.BROADCAST, shape, [one], pairs, is_exact=True)
        else:
            rank = shape.rank if isinstance(shape, ArrayShape) else 0
            nested_text = "{ " * (rank - 1) + "{" + text + "}" + " }" * (rank - 1) if rank else text
            made = self.add(operation, opcodes.CONSTANT, shape, argument=nested_text, is_exact=True)
        self.constants[text, shape] = made
        return made

    def constant(self, operation: Operation, value: Dense, body: Span, shape: Shape) -> Instruction:
        """Appends a constant; the text of a large one is made when it is needed."""
        if value.is_elided:
            return self.add(operation, opcodes.CONSTANT, shape, argument="{...}")
        if body.length <= _LAZY:
            try:
                argument = literal_of(self.source.slice(body), shape)
            except HloError as error:
                raise self.program.error(error.diagnostic.message, body) from None
            if (argument, shape) not in self.constants:
                made = self.add(operation, opcodes.CONSTANT, shape, argument=argument)
                self.constants[splat_of(made) or argument, shape] = self.constants[argument, shape] = made
            return self.constants[argument, shape]
        made = self.add(operation, opcodes.CONSTANT, shape)
        reader = self.computation.reader
        assert isinstance(reader, _Reader)
        reader.defer(made.index, made.text, body, shape)
        made._text = None
        return made

    def parameter(self, name: str, shape: Shape, span: Span, pairs: Pairs = ()) -> Instruction:
        """Appends a parameter with the next number."""
        text = InstructionText(tuple([Attribute(*pair) for pair in pairs]), str(self.parameter_count), span)
        self.parameter_count += 1
        return self._append(opcodes.PARAMETER, shape, (), text, hlo_name(name))

    def elements(
        self, operation: Operation, made: Instruction, pairs: Pairs = (), count: int | None = None
    ) -> list[Instruction]:
        """The elements of a tuple, or the first of them, each as an instruction."""
        shapes = made.shape.elements if isinstance(made.shape, TupleShape) else ()
        return [
            self.add(operation, opcodes.GET_TUPLE_ELEMENT, shape, [made], [("index", str(i)), *pairs])
            for i, shape in enumerate(shapes[:count])
        ]

    def results(
        self,
        operation: Operation,
        opcode: str,
        operands: Sequence[Instruction],
        pairs: Pairs = (),
        called: Sequence[Computation] = (),
    ) -> list[Instruction]:
        """Appends an instruction that has the results of the operation: one, or a tuple of which each is taken."""
        shapes = self.result_shapes(operation)
        if len(shapes) == 1:
            return [self.add(operation, opcode, shapes[0], operands, pairs, called, is_decorated=True)]
        made = self.add(operation, opcode, TupleShape(tuple(shapes)), operands, pairs, called, is_decorated=True)
        return self.elements(operation, made)

    def _append(
        self, opcode: str, shape: Shape, operands: Iterable[Instruction], text: InstructionText, name: str = ""
    ) -> Instruction:
        unique = self.program.unique(name or opcode)
        made = Instruction(unique, shape, opcode, tuple(operands), self.computation, len(self.instructions), text)
        self.instructions.append(made)
        return made

    def decorations(self, operation: Operation) -> list[tuple[str, str]]:
        """The sharding and the attributes for frontends that any operation may have."""
        return decorations(operation.attributes, self.program.meshes, operation.result_count)

    def finish(self, root: Instruction) -> Computation:
        """Completes the computation, which becomes part of the program."""
        computation = self.computation
        kept = used(self.instructions, root)
        if len(kept) != len(self.instructions):
            _renumber(computation, kept)
        computation.instructions = tuple(kept)
        computation.parameters = tuple([i for i in kept if i.opcode == opcodes.PARAMETER])
        computation.root = root
        self.program.computations.append(computation)
        return computation


_SAME_LAYOUT: Final = ELEMENTWISE - {"select", "clamp"} | {"reverse", "dynamic-update-slice", "scatter"}
"""Opcodes whose result is laid out as their first operand (`ShapeInference` of xla/service)."""


def default_layout(shape: Shape) -> Shape:
    """A shape with its first dimension as the major one, as types of MLIR have it."""
    if not isinstance(shape, ArrayShape):
        return shape
    order = tuple(reversed(range(shape.rank)))
    return ArrayShape(shape.element_type, shape.dimensions, shape.dynamic_dimensions, Layout(order))


def following(opcode: str, shape: Shape, operands: Sequence[Instruction]) -> Shape:
    """The shape of a result, in the layout of the operand that XLA follows."""
    if opcode not in _SAME_LAYOUT or not operands or not isinstance(shape, ArrayShape):
        return shape
    operand = operands[0].shape
    if not isinstance(operand, ArrayShape) or operand.rank != shape.rank or operand.layout == shape.layout:
        return shape
    return ArrayShape(shape.element_type, shape.dimensions, shape.dynamic_dimensions, operand.layout)


def _renumber(computation: Computation, kept: Sequence[Instruction]) -> None:
    """Sets the places of instructions after others were omitted."""
    reader = computation.reader
    moved = {instruction.index: index for index, instruction in enumerate(kept)}
    for index, instruction in enumerate(kept):
        instruction.index = index
    if isinstance(reader, _Reader):
        reader.move(moved)


def decorations(
    attributes: Mapping[str, object], meshes: Mapping[str, Mesh], results: int = 1
) -> list[tuple[str, str]]:
    """The sharding and the attributes for frontends among the attributes of an operation or an argument.

    The sharding is a tuple unless there is one result.
    """
    pairs: list[tuple[str, str]] = []
    frontend: dict[str, str] = {}
    sharding = getattr(attributes.get("mhlo.sharding"), "value", None)
    given = attributes.get("mhlo.frontend_attributes")
    if isinstance(given, Entries):
        frontend.update({key: field.value for key, field in given.fields.items() if isinstance(field, Text)})
    own = getattr(attributes.get("sdy.sharding"), "text", None)
    if isinstance(own, str):
        frontend["xla.sdy.sharding"] = own
        listed = [hlo_sharding(sharding, meshes) for sharding in shardings_in(own) or [own]]
        texts = [sharding for sharding in listed if sharding is not None]
        if len(texts) == len(listed):
            sharding = texts[0] if results == 1 else f"{{{', '.join(texts)}}}"
    rule = getattr(attributes.get("sdy.sharding_rule"), "text", None)
    if isinstance(rule, str):
        frontend["xla.sdy.sharding_rule"] = rule
    if isinstance(sharding, str):
        pairs.append(("sharding", sharding))
    if frontend:
        listing = ",".join(f"{key}={quoted(value)}" for key, value in sorted(frontend.items()))
        pairs.append(("frontend_attributes", f"{{{listing}}}"))
    return pairs

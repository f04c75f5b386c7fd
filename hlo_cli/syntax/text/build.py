"""How lines become computations: names are resolved, and malformed instructions become opaque."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Items
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, InstructionText, free_name
from hlo_cli.ir.operation_table import ANY
from hlo_cli.ir.operations import (
    ARGUMENT_OPCODES,
    CALLERS,
    CALLING_ATTRIBUTES,
    OPCODE_ARITY,
    OPERAND_COUNTS,
    takes,
    wrapped_opcode,
)
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape, UnknownShape
from hlo_cli.source import Diagnostic, HloError, Source, Span, did_you_mean, nearest
from hlo_cli.syntax.opaque import CIRCLE, ELEMENT_INDEX, NOT_CALLED, OPERAND_COUNT, oversized, set_aside
from hlo_cli.syntax.scanning.error_help import MAX_ERRORS, ONE_RESULT, defined_below
from hlo_cli.syntax.scanning.scanner import Scanner
from hlo_cli.syntax.scanning.shape_reader import plain_shape, read_shape
from hlo_cli.syntax.text.instruction_lines import (
    LineReader,
    Notes,
    NotLineStructured,
    ParsedInstruction,
    ParsedOperand,
    Row,
    read_operands,
    read_rows,
)
from hlo_cli.syntax.values.attribute_values import WrittenReader

if TYPE_CHECKING:
    from hlo_cli.syntax.text.fast_lines import ReadLines

# --- opcodes on the fast path ---
# The handling of opcodes on the fast path.


# nothing but a comma may follow, else the exact reader decides
_INDEX: Final = re.compile(r", index=([0-9]{1,9})(?![^,])").match

# above all numbers of operands that are fixed, so that one number says which case it is
PLAIN, TUPLE, ELEMENT, FREE, CALLER, PARAMETER, CONSTANT = range(16, 23)
KIND_OF: Final = {
    **{opcode: PLAIN if arity is None else arity for opcode, arity in OPCODE_ARITY.items()},
    **{opcode: FREE for opcode, (least, most) in OPERAND_COUNTS.items() if least <= 1 and most == ANY},
    **dict.fromkeys(CALLERS, CALLER),
    opcodes.PARAMETER: PARAMETER,
    opcodes.CONSTANT: CONSTANT,
    opcodes.TUPLE: TUPLE,
    opcodes.GET_TUPLE_ELEMENT: ELEMENT,
}
"""The handling of each opcode on the fast path; opcodes that are not listed may be callers.

Below PLAIN it is the number of operands; up to ELEMENT a check is needed (`holds`); FREE is any number from one.
"""


def holds(instruction: Instruction, kind: int, tail: str) -> bool:
    """Whether an instruction with operands, of a kind that needs a check, is certainly well-formed."""
    if kind == ELEMENT and len(instruction.operands) == 1:
        shape, match = instruction.operands[0].shape, _INDEX(tail)
        return match is not None and type(shape) is TupleShape and int(match[1]) < len(shape.elements)
    if kind == TUPLE:
        shape = instruction.shape
        return isinstance(shape, TupleShape) and len(shape.elements) == len(instruction.operands)
    return takes(instruction.opcode, len(instruction.operands))


# --- the compiled reader ---
# `fast_lines.c` does the same as `read_rows` and `from_rows` for lines in their usual form, if it was compiled.


def _compiled() -> ReadLines | None:
    if os.environ.get("HLO_PURE"):
        return None
    try:
        from hlo_cli.syntax.text.fast_lines import read_lines
    except ImportError:  # built without a C compiler
        return None
    return read_lines


read_lines = _compiled()
"""The compiled reader of lines; None if there is none, or if HLO_PURE is set."""
_SLOTS: Final = tuple(
    Instruction.__dict__[name]
    for name in ("name", "shape", "opcode", "operands", "called_computations", "computation", "index", "_text")
)


# --- lines to instructions ---
# Rows and statements to computations: names are resolved to instructions, and operands refer to them.


_CALLING: Final = "|".join(CALLING_ATTRIBUTES)
_CALLS = re.compile(rf"(?:,|\*/)\s*+({_CALLING})\s*+=\s*+(?:%?([A-Za-z_][A-Za-z0-9_.\-]*+)|(\{{[^{{}}=]*+\}})|)")
# the form of nearly all callers, so that most lines need no search for other attributes
_FUSION_CALL = re.compile(r", kind=k[A-Z][a-z]++, calls=%?([A-Za-z_][A-Za-z0-9_.\-]*+)(?![^,])")
_INDEX_MARK = re.compile(r"/\*index=[0-9]++\*/")  # XLA numbers each fifth operand
_REFERENCE = re.compile(r"%?([A-Za-z_][A-Za-z0-9_.\-]*+)")
Named = dict[str, Instruction]


class Call(NamedTuple):
    """A call of a computation by name, linked when all computations are known."""

    instruction: Instruction
    attribute: str
    name: str


@dataclass(slots=True)
class Builder:
    """State while a module is read: shapes by text, unlinked calls, and errors.

    `failed` are names of unreadable instructions, `lost` those of unreadable computations: using one of them is not a
    second error. `nameless` is true if computations were printed without names, so that calls cannot be linked;
    `is_single` if the text is one instruction, and `is_open` if it has no header: called computations may be elsewhere,
    and `unresolved` instructions call such. `made` are the parameters made for operands that the current computation
    lacks, as `incomplete` ones do. `cut` is a truncated computation: only a marked root counts. `elements` are the
    operand indices of computations with any. `shapeless` are the instructions without a shape in the text, callees
    before their callers. `suspects` may be malformed (`opaque.py`), as may `callers`; all instructions may if a shape
    `is_oversized`. `is_elided` is true if operands were omitted.
    """

    source: Source
    shapes: dict[str, Shape] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    shapeless: list[Instruction] = field(default_factory=list)
    suspects: list[Instruction] = field(default_factory=list)
    callers: list[Instruction] = field(default_factory=list)
    is_oversized: bool = False
    is_elided: bool = False
    diagnostics: list[Diagnostic] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    notes: Notes = field(init=False)
    nameless: bool = False
    is_single: bool = False
    is_open: bool = False
    unresolved: set[Instruction] = field(default_factory=set)
    made: dict[Instruction, Span] = field(default_factory=dict)
    incomplete: set[Computation] = field(default_factory=set)
    cut: Computation | None = None
    copies: dict[str, int] = field(default_factory=dict)
    elements: dict[Computation, dict[int, tuple[ShapeIndex, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.notes = Notes(self.source)

    def from_body(self, computation: Computation, start: int, end: int) -> bool:
        """Fills a computation with the lines between two offsets; false if they are not provably one instruction each.

        NotLineStructured if that is noticed later: what was added must be taken back.
        """
        if read_lines is not None and self._from_lines(computation, start, end, read_lines):
            return True
        rows = read_rows(self.source, start, end)
        if rows is not None:
            self.from_rows(computation, rows, start, end)
        return rows is not None

    def _from_lines(self, computation: Computation, start: int, end: int, read: ReadLines) -> bool:
        """Fills a computation as `from_rows` does; false if the compiled reader does not prove that it can."""
        text, first, last = self.source.text, start, end
        if not text.isascii():  # nearly all computations of such a text are
            text, first, last = text[start : end + 1], 0, end - start
            if not text.isascii():
                return False
        lines = read(text, first, last, computation, Instruction, _SLOTS, KIND_OF, self.shapes, self._shape)
        if lines is None:
            return False
        instructions, root, parameters, doubtful, callers, arguments, tails = lines
        reader = computation.reader = self._lines(start, end, array("Q", arguments), array("Q", tails))
        for instruction, tail in callers:
            if tail[:1] not in ("", ","):  # of a fusion in its usual form, the name that it calls
                self.calls.append(Call(instruction, "calls", tail))
            elif tail:
                self._find_calls(instruction, tail, reader)
        self.callers += [instruction for instruction, _ in callers]
        self.suspects += [each for each, kind, tail in doubtful if kind < 0 or not holds(each, kind, tail)]
        self._finish(computation, instructions, parameters, root)
        return True

    def from_rows(self, computation: Computation, rows: Sequence[Row], start: int, end: int) -> None:
        """Fills a computation with the rows between two offsets of the source."""
        # numbers instead of texts or spans: a module may have a million lines
        arguments = array("Q", [len(row[4]) if row[3] in ARGUMENT_OPCODES else 0 for row in rows])
        reader = computation.reader = self._lines(start, end, arguments, array("Q", [len(row[5]) for row in rows]))
        named: Named = {}
        parameters: list[tuple[int, Instruction]] = []
        suspects: list[Instruction] = []
        callers: list[Instruction] = []
        root, shapes, kind_of, instruction_of = None, self.shapes, KIND_OF.get, named.__getitem__
        free, caller, parameter = FREE, CALLER, PARAMETER  # read for every instruction
        new = Instruction.__new__  # setting the slots here takes half the time of a call of __init__
        for index, (is_root, name, shape_text, opcode, operands, tail) in enumerate(rows):
            shape = shapes.get(shape_text) or self._shape(shape_text)
            instruction = new(Instruction)
            instruction.name = name
            instruction.shape = shape
            instruction.opcode = opcode
            instruction.operands = instruction.called_computations = ()
            instruction.computation = computation
            instruction.index = index
            instruction._text = None
            kind = kind_of(opcode, caller)
            if kind >= parameter:
                if kind == parameter:
                    number = int(operands) if operands.isdecimal() and len(operands) < 10 else 0
                    parameters.append((number, instruction))
            elif operands:
                try:
                    if "," not in operands:
                        instruction.operands = (named[operands[1:] if operands[0] == "%" else operands],)
                        if kind != 1 and kind < free and not holds(instruction, kind, tail):
                            suspects.append(instruction)
                    else:
                        if "/" in operands:
                            operands = _INDEX_MARK.sub("", operands)
                        names = operands[1:].split(", %") if operands[0] == "%" else operands.split(", ")
                        instruction.operands = taken = tuple(map(instruction_of, names))
                        if kind != len(taken) and kind < free and not holds(instruction, kind, tail):
                            suspects.append(instruction)
                # an operand that is not defined above by this text alone: shapes, comments, or an error
                except KeyError:
                    self._read_operands(instruction, reader, named)
                    suspects.append(instruction)
            elif 0 < kind < caller:
                suspects.append(instruction)
            if kind == caller:
                callers.append(instruction)
                if tail:
                    self._find_calls(instruction, tail, reader)
            if is_root:
                if root is not None:
                    raise NotLineStructured
                root = instruction
            named[name] = instruction
        if len(named) != len(rows) + len(self.made):
            raise NotLineStructured
        self.suspects += suspects
        self.callers += callers
        self._finish(computation, list(named.values()), parameters, root)

    def from_statements(self, computation: Computation, statements: Sequence[ParsedInstruction]) -> None:
        """Fills a computation with statements that were read one by one."""
        computation.reader = WrittenReader(self.source)
        named: Named = {}
        self.copies.clear()
        instructions: list[Instruction] = []
        root = None
        for statement in statements:
            instruction = self._instruction(computation, statement, named, instructions)
            if statement.is_root:
                if root is not None:
                    self.report("duplicate ROOT in this computation", statement.start, statement.start + 4, ONE_RESULT)
                root = instruction
        parameters = [(_number(i.text.argument), i) for i in instructions if i.opcode == opcodes.PARAMETER]
        self._finish(computation, instructions, parameters, root)
        if computation is self.cut:
            computation.root = root

    def _lines(self, start: int, end: int, arguments: array[int], tails: array[int]) -> LineReader:
        return LineReader(self.source, start, end, arguments, tails)

    def _finish(
        self,
        computation: Computation,
        instructions: list[Instruction],
        parameters: list[tuple[int, Instruction]],
        root: Instruction | None,
    ) -> None:
        """Sets the instructions of a computation, with its parameters in the order of their numbers."""
        computation.instructions = Items(instructions)
        computation.root = root if root is not None else (instructions[-1] if instructions else None)
        if len(parameters) > 1:
            parameters.sort(key=itemgetter(0))
        computation.parameters = tuple([instruction for _, instruction in parameters])

    @property
    def is_full(self) -> bool:
        """Whether further errors are not worth the time to describe them."""
        return len(self.diagnostics) >= MAX_ERRORS

    def report(self, message: str, start: int, end: int, hint: str | None = None) -> None:
        """Records an error at a span, unless there are too many already."""
        if not self.is_full:
            self.diagnostics.append(Diagnostic("error", message, self.source, Span(start, end), hint))

    def _shape(self, text: str) -> Shape:
        """The shape in a row; unreadable ones are left to the exact path, which sees the text after them."""
        shape = plain_shape(text)
        if shape is None:
            scanner = Scanner(Source(self.source.name, text))
            try:
                shape = read_shape(scanner)
            except HloError as error:
                raise NotLineStructured from error
            if not scanner.at_end():
                raise NotLineStructured
        self.shapes[text] = shape
        self.is_oversized = self.is_oversized or oversized(shape) is not None
        return shape

    def _find_calls(self, instruction: Instruction, tail: str, reader: LineReader) -> None:
        if tail.count("{") != tail.count("}"):
            raise NotLineStructured
        if instruction.opcode == opcodes.FUSION and (match := _FUSION_CALL.match(tail)) is not None:
            self.calls.append(Call(instruction, "calls", match[1]))
            return
        before_strings, quote, rest = tail.partition('"')
        if "'" in before_strings or (quote and _CALLS.search(rest)):
            self._link_attributes(instruction, reader.read(instruction.index).attributes)
            return
        for attribute, name, listed in _CALLS.findall(before_strings):
            if name:
                self.calls.append(Call(instruction, attribute, name))
            elif not listed:
                raise NotLineStructured
            else:
                self._call(instruction, attribute, _REFERENCE.findall(listed))

    def _link_attributes(self, instruction: Instruction, attributes: Sequence[Attribute]) -> None:
        for attribute in attributes:
            if attribute.name in CALLING_ATTRIBUTES:
                self._call(instruction, attribute.name, _REFERENCE.findall(attribute.value))

    def _call(self, instruction: Instruction, attribute: str, names: Sequence[str]) -> None:
        self.calls.extend(Call(instruction, attribute, name) for name in names)

    def _read_operands(self, instruction: Instruction, reader: LineReader, named: Named) -> None:
        """Operands that are not plain names of defined instructions: with shapes, elements, or unknown."""
        statement = ParsedInstruction(0, opcode=instruction.opcode)
        try:
            read_operands(reader.operands(instruction.index), statement, 0)
        except HloError as error:
            self.diagnostics.extend(() if self.is_full else error.diagnostics)
            return
        if any(operand.nested is not None or not operand.name for operand in statement.operands):
            raise NotLineStructured
        self._resolve(instruction, statement, named)

    def _instruction(
        self, computation: Computation, statement: ParsedInstruction, named: Named, instructions: list[Instruction]
    ) -> Instruction:
        """The instruction of a statement, appended after those nested in its operands."""
        for operand in statement.operands:
            if operand.nested is not None:
                operand.name = self._instruction(computation, operand.nested, named, instructions).name
        statement.name = statement.name or free_name(f"{statement.opcode}.anon", named, self.copies)
        text = InstructionText(
            tuple(statement.attributes),
            statement.argument,
            Span(statement.start, statement.end),
            statement.argument_span,
        )
        instruction = Instruction(
            statement.name, statement.shape, statement.opcode, (), computation, len(instructions), text
        )
        if statement.shape == UnknownShape():
            self.shapeless.append(instruction)
        self._resolve(instruction, statement, named)
        self._link_attributes(instruction, statement.attributes)
        self.callers.append(instruction)
        if statement.name in named:
            duplicate = f"duplicate instruction name {statement.name} in {computation.name}"
            message = f"{duplicate}; references resolve to the last one before them"
            self.notes.add("duplicate-name", message, Span(statement.start, statement.end))
        named[statement.name] = instruction
        instructions.append(instruction)
        self.suspects.append(instruction)
        return instruction

    def _resolve(self, instruction: Instruction, statement: ParsedInstruction, named: Named) -> None:
        operands = statement.operands
        if statement.elided:
            self.is_elided = True
            span = instruction.span or statement.opcode_span
            self.notes.add("elided", f"operands of {instruction.opcode} are omitted", span)
        tuples = [(named[operand.name], operand.elements) for operand in operands if operand.name in named]
        instruction.operands = tuple(operand for operand, _ in tuples)
        if any(elements for _, elements in tuples):
            self.elements.setdefault(instruction.computation, {})[instruction.index] = tuple(e for _, e in tuples)
            instruction.computation.operand_indices = self.elements[instruction.computation]
        for operand in operands:
            if operand.name not in named and operand.name not in self.failed:
                self._undefined(operand, instruction.computation, named)

    def _undefined(self, operand: ParsedOperand, computation: Computation, named: Named) -> None:
        if self.is_full:
            return
        close = nearest(operand.name, named)
        hint = defined_below(self.source, operand.name, operand.span.end)
        if hint is None and close is not None and (span := named[close].span) is not None:
            hint = f"did you mean '{close}' (line {self.source.position(span.start).line})?"
        what = f"undefined operand '{operand.name}'" if operand.name else "unnamed operand"
        self.report(f"{what} in {computation.name}".removesuffix(" in "), operand.span.start, operand.span.end, hint)


def _number(argument: str) -> int:
    argument = argument.strip()
    return int(argument) if argument.isdecimal() and len(argument) < 10 else 0


# --- calls to computations ---
# Resolves calls by name to computations, once all computations of a module are known.


_MOST_NAMED: Final = 3
"""The most missing computations that get a note each."""


def link_calls(builder: Builder, computations: Sequence[Computation]) -> None:
    """Sets the called computations of every instruction; an unknown name is an error, unless names were omitted.

    In a text that may be a part of a module, instructions that call a computation that is not in it, or of which only
    a part is in it, call nothing.
    """
    named = {computation.name: computation for computation in reversed(computations)}
    for computation in builder.incomplete:
        named.pop(computation.name, None)
    calls: dict[Instruction, list[Call]] = {}
    for call in builder.calls:
        calls.setdefault(call.instruction, []).append(call)
    missing: dict[str, Call] = {}
    for instruction, made in calls.items():
        if len(made) == 1 and (called := named.get(made[0].name)) is not None:  # the most common case
            instruction.called_computations = (called,)
            continue
        made.sort(key=_call_order)
        instruction.called_computations = tuple(named[call.name] for call in made if call.name in named)
        unknown = [call for call in made if call.name not in named and call.name not in builder.lost]
        if not builder.is_open or builder.nameless:
            for call in unknown:
                _undefined(builder, call, named)
        elif unknown:
            instruction.called_computations = ()
            builder.unresolved.add(instruction)
            for call in unknown:
                missing.setdefault(call.name, call)
    _note_missing(builder, missing)


def _call_order(call: Call) -> int:
    return CALLING_ATTRIBUTES.index(call.attribute)


def _undefined(builder: Builder, call: Call, named: dict[str, Computation]) -> None:
    if builder.is_full:
        return
    span = _place(call)
    if builder.nameless:
        message = f"cannot resolve calls of {call.instruction.written_opcode}: the text omits computation names"
        builder.notes.add("unresolved", message, span)
        return
    hint = did_you_mean(nearest(call.name, named))
    builder.report(f"computation '{call.name}' not found", span.start, span.end, hint)


def _note_missing(builder: Builder, missing: Mapping[str, Call]) -> None:
    """Notes the computations that are elsewhere: each of a few, or the number of many."""
    incomplete = {computation.name for computation in builder.incomplete}
    if len(missing) > _MOST_NAMED and not builder.is_single:
        message = f"{len(missing):,} called computations are not in this text"
        builder.notes.add("unresolved", message, _place(next(iter(missing.values()))))
        return
    for name, call in missing.items():
        where = "incomplete" if name in incomplete else "not"
        builder.notes.add("unresolved", f"computation {name} is {where} in this text", _place(call))


def _place(call: Call) -> Span:
    span = next((a.span for a in call.instruction.attributes if a.name == call.attribute), None)
    return span or call.instruction.span or Span(0, 0)


# --- shapes that the text omits ---
# Shapes that the text omits, from a given inference function, and shapes of async operations without nesting.
#
# Mirrors the calls of shape inference in `CreateInstruction` of xla/hlo/parser/hlo_parser.cc.


_LEAVES: Final = 4_000  # of the whole text: instructions without shapes are written by hand, and few
_LEAVES_EACH: Final = 4
"""The most elements of all shapes that a text omits, plus an allowance per operand: forty lines that double a tuple
are few, but their elements too many to count."""

Infer = Callable[[Instruction], Shape]
"""Returns the shape of an instruction written without one, or raises HloError."""


def infer_shapes(builder: Builder, infer: Infer) -> None:
    """Sets the shape of every instruction written without one; a failure is an error of the text.

    Users of a value of unknown shape stay without a shape too, and are not further errors.
    """
    taken, most = 0, _LEAVES + _LEAVES_EACH * sum(len(instruction.operands) for instruction in builder.shapeless)
    for instruction in builder.shapeless:
        if UnknownShape() in _shapes_taken(instruction):
            continue
        try:
            shape = infer(instruction)
            taken += _leaf_count(shape, most - taken + 1)
            if taken > most:
                span = instruction.span or Span(0, 0)
                problem = "the omitted shapes are too large to infer"
                hint = f"give the shapes explicitly; inferred shapes may have at most {most:,} tuple elements in total"
                builder.report(problem, span.start, span.end, hint)
                return
            instruction.shape = shape
        except HloError as error:
            if not builder.is_full:
                builder.diagnostics.extend(
                    replace(diagnostic, source=builder.source) for diagnostic in error.diagnostics
                )


def nest_async_operands(builder: Builder, computations: Sequence[Computation]) -> None:
    """Nests the operands in the results of async operations, as XLA has them, with a note for each.

    XLA's design page on async operations writes `(f32[64], f32[32], s32[]) async-start(x)`: the operands, the output,
    and contexts in one tuple. XLA itself reads `((f32[64]), f32[32], s32[])` only.
    """
    text = builder.source.text
    if "-start(" not in text:
        return
    nested: dict[Instruction, int] = {}
    for computation in computations:
        span = computation.span
        if span is not None and text.find("-start", span.start, span.end) < 0:
            continue
        for instruction in computation.instructions:
            if (count := _flat_operands(instruction, nested)) and isinstance(instruction.shape, TupleShape):
                nested[instruction] = count
                elements = instruction.shape.elements
                instruction.shape = TupleShape((TupleShape(elements[:count]), *elements[count:]))
                message = f"operands of {instruction.opcode} are not in a tuple of their own"
                words = f"{message}; result read as {instruction.shape}"
                builder.notes.add("async-operands", words, instruction.span or Span(0, 0))


def _flat_operands(instruction: Instruction, nested: Mapping[Instruction, int]) -> int:
    """The number of operands at the beginning of a result without nesting; 0 of all other instructions."""
    shape, opcode = instruction.shape, instruction.opcode
    if not isinstance(shape, TupleShape) or not shape.elements or isinstance(shape.elements[0], TupleShape):
        return 0
    wrapped = wrapped_opcode(opcode)
    kind = opcode.removeprefix(wrapped) if wrapped is not None else opcode.removeprefix("async")
    count = len(instruction.operands)
    if kind == "-update" and count:
        before = instruction.operands[0]
        return nested.get(before, 0) if before.opcode.endswith(("-start", "-update")) else 0
    if kind != "-start" or not 0 < count < len(shape.elements):
        return 0
    taken = [instruction.operand_shape(position) for position in range(count)]
    return count if all(map(_are_same_arrays, taken, shape.elements)) else 0


def _are_same_arrays(first: Shape, second: Shape) -> bool:
    """Whether two shapes are arrays of one type and size, in any layout."""
    if not isinstance(first, ArrayShape) or not isinstance(second, ArrayShape):
        return False
    return first.element_type is second.element_type and first.dimensions == second.dimensions


def _leaf_count(shape: Shape, most: int) -> int:
    """The number of leaves of a shape, or `most` if there are more.

    >>> from hlo_cli.ir.shape import TokenShape, TupleShape
    >>> pair = TupleShape((TokenShape(), TokenShape()))
    >>> _leaf_count(TupleShape((pair, pair)), 9), _leaf_count(TupleShape((pair, pair)), 3)
    (4, 3)
    """
    return sum(1 for _ in islice(shape.leaves, most))


def _shapes_taken(instruction: Instruction) -> Iterator[Shape]:
    """The shapes that a result may depend on: of operands, and of parameters and results of called computations."""
    for position in range(len(instruction.operands)):
        yield instruction.operand_shape(position)
    for called in instruction.called_computations:
        yield from (parameter.shape for parameter in called.parameters)
        if called.root is not None:
            yield called.root.shape


# --- opaque instructions ---
# The last step of reading a text: malformed instructions become opaque (`opaque.py`), and are noted.


_NOTED_LATER: Final = frozenset((OPERAND_COUNT, ELEMENT_INDEX, NOT_CALLED, "missing-attribute"))
"""The notes on opaque instructions, with the spans of the wrong words, computed on demand."""


def close_gate(builder: Builder, computations: Sequence[Computation]) -> None:
    """Makes malformed instructions opaque, with a note each; a line with an error gets no further notes.

    Calls are not checked where a text omits operands or names, nor where the called computations are not in it, so
    that fusions stay fusions. Nothing is checked in a text without any operands.
    """
    suspects, is_whole = builder.suspects, not (builder.nameless or builder.is_single)
    if builder.is_oversized:
        suspects = [instruction for computation in computations for instruction in computation.instructions]
    if builder.is_elided or (suspects and is_printed_without_operands(computations)):
        suspects, is_whole = [], False
    malformed = set_aside(
        suspects, builder.callers, computations, are_calls_whole=is_whole, unresolved=builder.unresolved
    )
    wrong = {error.position.line for error in builder.diagnostics if error.position is not None} if malformed else set()
    for opaque in malformed:
        span, code = opaque.instruction.span or Span(0, 0), opaque.problem.code
        if code == CIRCLE:
            builder.report(f"{opaque.instruction.name}: {opaque.problem.message}", span.start, span.end)
        elif code not in _NOTED_LATER and builder.source.position(span.start).line not in wrong:
            builder.notes.add(code, opaque.message, span)


def is_printed_without_operands(computations: Sequence[Computation]) -> bool:
    """Whether most of several instructions that require operands have none."""
    missing = taking = 0
    for computation in computations:
        for instruction in computation.instructions:
            if instruction.operands:
                taking += 1
            elif OPCODE_ARITY.get(instruction.opcode):
                missing += 1
    return missing > 1 and missing > taking

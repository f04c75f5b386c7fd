"""What XLA's own parser rejects: the text is read token by token, and the error is at the same token.

Mirrors xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn

from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import RecoveryTable
from hlo_cli.ir.attributes.value_types import ComputationLayout
from hlo_cli.ir.layout import PRIMITIVE_TYPES, default_layout
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.operations import (
    ARGUMENT_OPCODES,
    ASYNC_CONTINUATIONS,
    BINARY,
    DEVICE_IDS,
    OTHER_TYPE,
    UNARY,
    is_known,
    wrapped_opcode,
)
from hlo_cli.ir.shape import ArrayShape, Shape, TokenShape, TupleShape, compatible, subshape
from hlo_cli.source import Diagnostic, HloError, Source, Span, counted, did_you_mean, nearest
from hlo_cli.syntax.attribute_table import HEADER_ATTRIBUTES, AttributeRow, Kind, Rules, attributes_of
from hlo_cli.syntax.literal_reading import read_literal
from hlo_cli.syntax.operation_checks import NEEDS_SHAPE, KnownInstruction, OperationChecker, ParsedBody, check_operation
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.error_help import (
    FORM,
    MAX_ERRORS,
    ONE_RESULT,
    begins_computation,
    computed_below,
    defined_below,
    head_name,
    like,
    next_computation,
    next_statement,
    opcode_like,
    type_like,
    unclosed,
    unreadable_names,
    within,
)
from hlo_cli.syntax.scanning.shape_reader import MAX_NESTING
from hlo_cli.syntax.scanning.tokens import (
    Reader,
    Tokens,
    at_shape,
    fields,
    read_int32,
    read_list,
    read_name,
    take_shape,
)
from hlo_cli.syntax.values.attribute_values import GRAMMARS

# --- hints for common mistakes ---
# Errors of strict reading for the most common mistakes, with suggestions.


def _no_opcode(tokens: Tokens, *, after_shape: bool) -> NoReturn:
    """Fails if the current token is not an opcode; in place of a shape it may be a misspelled element type."""
    word, after = tokens.text, tokens.peek()
    if tokens.kind == tk.IDENT and after == "(":
        hint = did_you_mean(opcode_like(word))
        tokens.fail(f"unknown opcode '{word}'", tokens.start, tokens.end, hint=hint)
    if tokens.kind == tk.IDENT and after == "[" and not after_shape:
        hint = did_you_mean(type_like(word))
        tokens.fail(f"unknown element type '{word}'", tokens.start, tokens.end, hint=hint)
    tokens.fail("expected an opcode", hint=FORM)


def _no_instruction(tokens: Tokens, name: str, span: Span, above: Iterable[str]) -> NoReturn:
    """Fails for an undefined instruction name; it may be defined below, or be misspelled."""
    hint = defined_below(tokens.source, name, span.end) or like(name, above)
    tokens.fail(f"undefined instruction '{name}'", span.start, span.end, hint=hint)


def _no_computation(tokens: Tokens, name: str, span: Span, above: Iterable[str]) -> NoReturn:
    """Fails for an undefined computation name; it may be defined below, or be misspelled."""
    hint = computed_below(tokens.source, name, span.end) or like(name, above)
    tokens.fail(f"undefined computation '{name}'", span.start, span.end, hint=hint)


def _check_comma(tokens: Tokens, known: Mapping[str, object]) -> None:
    """Fails if the current token is one of the known attributes: the comma before it is missing."""
    if tokens.kind == tk.ATTRIBUTE and tokens.text in known and "\n" not in tokens.gap:
        tokens.fail(f"expected a comma before attribute {tokens.text}", tokens.start, tokens.end)


def _check_stray(tokens: Tokens, closing: str) -> None:
    """Fails if the current token is an unmatched closing bracket."""
    if tokens.kind and tokens.kind in closing:
        tokens.fail(f"unmatched '{tokens.kind}'", tokens.start, tokens.end)


# --- attributes ---
# Strict reader of attributes: known names, each once, all required ones, and every value by its grammar.
#
# Mirrors `ParseAttributes` of xla/hlo/parser/hlo_parser.cc.


Values = tuple[dict[str, object], dict[str, Span]]
"""The values of the attributes, and their spans."""


def _read_rules(tokens: Tokens, rules: Rules, grammars: Mapping[Kind, Reader], of: str) -> Values:
    """The attributes that come next, each after a comma."""
    values: dict[str, object] = {}
    spans: dict[str, Span] = {}
    while tokens.accept(","):
        start, name, end = tokens.start, tokens.text, tokens.end
        if tokens.kind != tk.ATTRIBUTE:
            tokens.fail("expected an attribute, such as name=value,")
        rule = rules.get(name)
        if rule is None or rule.is_old:  # attributes of older versions: today's XLA refuses them
            _unknown(tokens, Span(start, end), name, rules, of)
        elif name in values:
            tokens.fail(f"duplicate attribute {name}", start, end)
        else:
            tokens.advance()
            values[name] = grammars[rule.kind](tokens)
            spans[name] = Span(start, tokens.previous_end)
    return values, spans


def _check_required(tokens: Tokens, rules: Rules, values: Mapping[str, object], of: str, span: Span) -> None:
    """Fails at `span` if an attribute is missing."""
    for name, rule in rules.items():
        if rule.required and name not in values:
            tokens.fail(f"missing attribute {name} on {of}", span.start, span.end)


def _unknown(tokens: Tokens, span: Span, name: str, rules: Mapping[str, AttributeRow], of: str) -> None:
    close = nearest(name, (rule.name for rule in rules.values() if not rule.is_old))
    what = f"{of} has no attribute '{name}'" + (" (removed from XLA)" if name in rules else "")
    tokens.fail(what, span.start, span.end, hint=did_you_mean(close))


# --- result shapes ---
# Result shapes for strict reading: those that XLA fixes, and the simple cases of those it infers.
#
# Mirrors the constructors in xla/hlo/ir/hlo_instruction.cc and the simple functions of xla/service/shape_inference.cc.


_LIKE_FIRST: Final = UNARY - OTHER_TYPE - {"reduce-precision"} | frozenset(
    "add-dependency cholesky clamp domain reverse while".split()
)
_BINARY: Final = BINARY - OTHER_TYPE | {opcodes.COMPARE}
_U32: Final = ArrayShape(PRIMITIVE_TYPES["u32"], (), (), default_layout(0))


def _fixed_shape(operation: OperationChecker) -> Shape | None:
    """The shape that XLA gives the instruction regardless of the text, else the one in the text, else None."""
    shape, first = operation.shape, operation.operand_shape(0)
    match operation.opcode:
        case "after-all" | opcodes.OUTFEED | "send-done":
            return TokenShape()
        case "add-dependency":
            return first
        case opcodes.SEND:
            return TupleShape((first, _U32, TokenShape())) if first is not None else None
        case opcodes.RECV if isinstance(shape, TupleShape):
            return TupleShape((shape.elements[0], _U32, TokenShape()))
        case opcodes.INFEED if isinstance(shape, TupleShape):
            return TupleShape((shape.elements[0], TokenShape()))
        case "recv-done" if isinstance(first, TupleShape):
            return TupleShape((first.elements[0], TokenShape()))
    return shape if shape is not None else _inferred(operation)


def _inferred(operation: OperationChecker) -> Shape | None:
    first, second = operation.operand_shape(0), operation.operand_shape(1)
    opcode = operation.opcode
    if opcode == opcodes.TUPLE:
        shapes = [operand.shape for operand in operation.operands]
        known = tuple(shape for shape in shapes if shape is not None)
        return TupleShape(known) if len(known) == len(shapes) else None
    if opcode in DEVICE_IDS:
        return _U32
    if opcode == opcodes.GET_TUPLE_ELEMENT:
        return _element(operation, first)
    if opcode in _BINARY:
        return _of_both(operation, first, second)
    if opcode == "is-finite":
        return _as_pred(first)
    return first if opcode in _LIKE_FIRST else None


def _element(operation: OperationChecker, shape: Shape | None) -> Shape | None:
    index = operation.integer("index")
    if shape is None or index is None:
        return None
    if not isinstance(shape, TupleShape) or not 0 <= index < len(shape.elements):
        operation.fail(f"{shape} has no element {index}", "index")
        return None
    return shape.elements[index]


def _of_both(operation: OperationChecker, first: Shape | None, second: Shape | None) -> Shape | None:
    if not isinstance(first, ArrayShape) or not isinstance(second, ArrayShape):
        return None
    kinds = {first.element_type.kind, second.element_type.kind}
    if first.element_type is not second.element_type and kinds != {"float"}:
        operation.fail(f"operands have different types: {first.element_type} and {second.element_type}")
    if first.dimensions != second.dimensions:
        if not first.is_dynamic and not second.is_dynamic and 1 not in (*first.dimensions, *second.dimensions):
            operation.fail(f"operands have different shapes: {first} and {second}")
        return None
    if operation.opcode == opcodes.COMPARE:
        return _as_pred(first)
    return first if first.element_type is second.element_type else None


def _as_pred(shape: Shape | None) -> Shape | None:
    if not isinstance(shape, ArrayShape):
        return None
    pred = PRIMITIVE_TYPES["pred"]
    return ArrayShape(pred, shape.dimensions, shape.dynamic_dimensions, default_layout(shape.rank))


# --- instructions ---
# Strict reader of instructions: names, shapes, operands, and attributes exactly as in XLA's parser.
#
# Mirrors `ParseInstruction`, `ParseInstructionRhs` and `ParseOperands` of xla/hlo/parser/hlo_parser.cc.


_TYPE_NAMES = frozenset((*PRIMITIVE_TYPES, "token", "opaque"))


class InstructionReader:
    """Reads bodies and their instructions; `bodies` are the computations so far, `scope` is the current one."""

    def __init__(self, tokens: Tokens, report: Callable[[list[Diagnostic]], None]) -> None:
        self.tokens = tokens
        self.report = report
        self.bodies: dict[str, ParsedBody] = {}
        self.scope = ParsedBody()
        self.makes_parameters = False
        self.depth = 0
        self._last = 0
        self._started: set[str] = set()
        self._grammars = {
            **GRAMMARS,
            Kind.COMPUTATION: self._read_computation,
            Kind.COMPUTATIONS: lambda tokens: read_list(tokens, self._read_computation),
            Kind.INSTRUCTIONS: self._read_instructions,
        }

    def read_body(self, name: str, *, recovers: bool = False) -> ParsedBody:
        """Instructions between braces. With `recovers`, errors are reported and skipped; else the first is raised."""
        outer, self.scope = self.scope, ParsedBody(name)
        body, makes = self.scope, self.makes_parameters
        self.makes_parameters = False
        self._nest()
        self.tokens.expect("{", "before the instructions")
        while True:
            if recovers:
                self._read_or_resume()
            else:
                self.read_statement()
            if self.tokens.accept("}"):
                break
        self._check_parameters(body, recovers=recovers)
        self.scope, self.makes_parameters = outer, makes
        self.depth -= 1
        return body

    def read_statement(self) -> None:
        """One instruction, preceded by `name =`."""
        tokens, start = self.tokens, self.tokens.start
        is_root = tokens.accept("ROOT")
        _check_stray(tokens, ")]")
        at, end = tokens.start, tokens.end
        name = read_name(tokens, "the name of an instruction")
        tokens.expect("=", f"after '{name}'", hint=FORM)
        if is_root and self.scope.root is not None:
            tokens.fail("duplicate ROOT in this computation", start, start + 4, hint=ONE_RESULT)
        known = self.read_operation()
        # XLA's lexer makes a bare type a type, and names with two underscores are its own
        if name in _TYPE_NAMES or (name.startswith("__") and not name.startswith("__xla_")):
            tokens.fail(f"'{name}' is a reserved word", at, end)
        if name in self.scope.named:
            tokens.fail(
                f"duplicate instruction name {name}", at, end, hint="rename it; names must be unique in a computation"
            )
        self.scope.named[name] = self.scope.last = known
        if is_root:
            self.scope.root = known

    def read_operation(self, *, nested: bool = False) -> KnownInstruction:
        """The text after `name =`; or a nested operand, which has no attributes."""
        self._nest()
        tokens = self.tokens
        shape = take_shape(tokens) if at_shape(tokens) else None
        span, opcode = Span(tokens.start, tokens.end), tokens.text
        if tokens.kind != tk.IDENT or not is_known(opcode):
            _no_opcode(tokens, after_shape=shape is not None)
        wrapped = wrapped_opcode(opcode)
        # `all-reduce-start` has an opcode, `custom-call-start` is sugar for async-start
        generic = opcode if wrapped is None else f"async{opcode[opcode.rindex('-') :]}"
        if shape is None and generic in NEEDS_SHAPE:
            tokens.fail(f"missing result shape before {opcode}", span.start, span.end)
        tokens.advance()
        operation = OperationChecker(tokens, generic, span, shape)
        self._read_arguments(operation)
        rules = attributes_of(opcode)
        if not nested:  # a nested operand is only its operands in XLA's grammar
            operation.attributes, operation.spans = _read_rules(tokens, rules, self._grammars, opcode)
            _check_comma(tokens, rules)
        _check_required(tokens, rules, operation.attributes, opcode, span)
        self._check(operation, wrapped or "")
        self.depth -= 1
        return self._known(operation, wrapped or "")

    def _read_or_resume(self) -> None:
        tokens, start, depth = self.tokens, self.tokens.start, self.depth
        scope = self.scope
        if tokens.kind == tk.END or begins_computation(tokens.source.text, start, tokens.end):
            raise unclosed(tokens.source, self._last, tokens.previous_end, scope.name)
        self._last = start
        try:
            self.read_statement()
        except HloError as error:
            self.scope, self.depth = scope, depth
            text = tokens.source.text
            resume = next_statement(text, start, len(text))
            self.report(within(error, text, start, len(text) if resume is None else resume))
            scope.failed = True
            for name in unreadable_names(text, start, len(text) if resume is None else resume):
                scope.named.setdefault(name, KnownInstruction())
            if resume is None:
                raise EOFError from None  # nothing that looks like an instruction is left
            tokens.move(resume)

    def _read_arguments(self, operation: OperationChecker) -> None:
        """The text between the parentheses: operands, a parameter number, or a literal."""
        tokens = self.tokens
        if operation.opcode not in ARGUMENT_OPCODES:
            self._read_operands(operation)
            return
        tokens.expect("(", f"after {operation.opcode}")
        assert operation.shape is not None  # parameters and constants are in NEEDS_SHAPE
        if operation.opcode == opcodes.CONSTANT:
            read_literal(tokens, operation.shape)
        else:
            start, end = tokens.start, tokens.end
            number = tokens.integer("as the parameter number")
            if number < 0 or number in self.scope.parameters:
                duplicate = f"duplicate parameter number {number}"
                tokens.fail(duplicate if number >= 0 else "parameter number cannot be negative", start, end)
            self.scope.parameters[number] = Span(start, end)
        tokens.expect(")", f"after the {'literal' if operation.opcode == opcodes.CONSTANT else 'number'}")

    def _read_operands(self, operation: OperationChecker) -> None:
        """Comma-separated operands. As in XLA, a missing one before a comma or the end is skipped."""
        tokens = self.tokens
        tokens.expect("(", "before the operands")
        while tokens.kind != ")":
            if tokens.kind != ",":
                operation.operands.append(self._read_operand())
            if not tokens.accept(","):
                break
        tokens.expect(")", "or a comma after an operand")

    def _read_operand(self) -> KnownInstruction:
        tokens, start = self.tokens, self.tokens.start
        shape = take_shape(tokens) if at_shape(tokens) else None
        at, end, name = tokens.start, tokens.end, tokens.text
        is_name = tokens.kind in (tk.NAME, tk.IDENT)
        if is_name:
            tokens.advance()
        if tokens.kind == "(" and is_name:
            tokens.move(start)
            return self.read_operation(nested=True)
        known = self.scope.named.get(name) if is_name else None
        if known is None and self.makes_parameters:
            known = self._make_parameter(name if is_name else "", shape, Span(at, end))
        if not is_name and known is None:
            tokens.fail("expected an operand")
        if known is None:
            _no_instruction(tokens, name, Span(at, end), self.scope.named)
        elif shape is not None and known.shape is not None and not compatible(known.shape, shape):
            tokens.fail(f"{name} has shape {known.shape}, not {shape}", start, end)
        assert known is not None
        return self._element(known)

    def _element(self, known: KnownInstruction) -> KnownInstruction:
        """The element that `#0#1` after a name selects; printed by newer versions of XLA."""
        tokens, start = self.tokens, self.tokens.start
        index = []
        while tokens.accept("#"):
            index.append(tokens.integer("as the tuple index"))
        if not index:
            return known
        shape = None if known.shape is None else subshape(known.shape, tuple(index))
        if known.shape is not None and shape is None:
            tokens.fail(f"{known.shape} has no such element", start, tokens.previous_end)
        return KnownInstruction(opcodes.GET_TUPLE_ELEMENT, shape)

    def _make_parameter(self, name: str, shape: Shape | None, span: Span) -> KnownInstruction:
        if shape is None:
            self.tokens.fail("operands of a standalone instruction need shapes", span.start, span.end)
        known = KnownInstruction(opcodes.PARAMETER, shape)
        self.scope.named[name or f"_{len(self.scope.named)}"] = known
        return known

    def _check(self, operation: OperationChecker, wrapped: str) -> None:
        check_operation(operation)
        replicated = operation.attributes.get("parameter_replication")
        if isinstance(replicated, tuple) and operation.shape is not None:
            leaves = len(list(operation.shape.leaves))
            if leaves != len(replicated):
                operation.fail(f"the shape has {leaves} leaves, found {len(replicated)}", "parameter_replication")
        if operation.opcode == opcodes.ASYNC_START:
            if wrapped:
                self._check_wrapped(operation, wrapped)
            elif (called := operation.body("calls")) is not None and called.name:
                if called.name in self._started:
                    operation.fail(f"{called.name} is already called by another async operation", "calls")
                self._started.add(called.name)
        elif wrapped and operation.operands[0].wrapped not in ("", wrapped):
            operation.fail(f"the operand wraps {operation.operands[0].wrapped}, not {wrapped}")

    def _check_wrapped(self, operation: OperationChecker, wrapped: str) -> None:
        assert isinstance(operation.shape, TupleShape)
        if wrapped in ARGUMENT_OPCODES:
            operation.fail(f"{wrapped} has no async form")
        shape = operation.shape.elements[1]
        inner = OperationChecker(
            self.tokens, wrapped, operation.span, shape, operation.operands, operation.attributes, operation.spans
        )
        check_operation(inner, is_wrapped=True)

    def _known(self, operation: OperationChecker, wrapped: str) -> KnownInstruction:
        known = KnownInstruction(
            operation.opcode, _fixed_shape(operation), wrapped, channel_id=operation.integer("channel_id")
        )
        if operation.opcode == opcodes.ASYNC_START:
            thread, called = operation.attributes.get("async_execution_thread"), operation.body("calls")
            known.thread = thread if isinstance(thread, str) else "main"
            if not wrapped and called is not None:
                known.wrapped, known.calls = called.result.opcode, called.name
        elif operation.opcode in ASYNC_CONTINUATIONS:
            producer = operation.operands[0]
            known.wrapped, known.thread, known.calls = producer.wrapped, producer.thread, producer.calls
        return known

    def _check_parameters(self, body: ParsedBody, *, recovers: bool) -> None:
        """Checks that parameters are numbered without gaps; a number beyond the count indicates a missing one."""
        count = len(body.parameters) if not body.failed else max(body.parameters, default=0) + 1
        for number, span in body.parameters.items():
            if number >= count:
                has = f"the computation has {counted(count, 'parameters')}"
                message = f"parameter number {number} is out of range: {has}"
                error = HloError(message, span, source=self.tokens.source)
                if not recovers:
                    raise error
                self.report(list(error.diagnostics))
                return

    def _read_computation(self, tokens: Tokens) -> ParsedBody:
        """A computation by name, or its body."""
        if tokens.kind == "{":
            return self.read_body("_")
        start, end = tokens.start, tokens.end
        name = read_name(tokens, "a computation")
        if name not in self.bodies:
            _no_computation(tokens, name, Span(start, end), self.bodies)
        return self.bodies[name]

    def _read_instructions(self, tokens: Tokens) -> object:
        """`{%a, %b}`, with at least one name."""
        tokens.expect("{", "before the names")
        while True:
            start, end = tokens.start, tokens.end
            name = read_name(tokens, "an instruction")
            if name not in self.scope.named:
                _no_instruction(tokens, name, Span(start, end), self.scope.named)
            if not tokens.accept(","):
                break
        tokens.expect("}", "or a comma after a name")
        return None

    def _nest(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.tokens.fail(f"bodies or operands are nested too deeply (limit {MAX_NESTING})", self.tokens.start)


# --- modules ---
# Strict reading: input that XLA's own parser rejects is an error, at the same token.
#
# Mirrors `ParseHloModule` and its callees in xla/hlo/parser/hlo_parser.cc, as the union of the known versions: output
# of versions newer than jaxlib 0.10.2 is accepted too.


_COMPUTATION_ATTRIBUTES: Final = {
    "execution_thread": AttributeRow("execution_thread", Kind.STRING),
    "backend_config": AttributeRow("backend_config", Kind.STRING_OR_JSON),
}
_LOCATION: Final = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
_FRAME: Final = ("file_location_id", "parent_frame_id")


def check_strictly(source: Source) -> tuple[Diagnostic, ...]:
    """The errors of XLA's parser for a text, in the order of the text.

    >>> [str(d) for d in check_strictly(Source("x.txt", "HloModule m  e { ROOT x = f32[2] parameter(0), k=1 }"))]
    ["x.txt:1:48: error: parameter has no attribute 'k'"]
    """
    return _Checker(source).check()


class _TooManyErrorsError(Exception):
    pass


class _Checker:
    """Reads one text and collects the errors so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = Tokens(source)
        self.errors: list[Diagnostic] = []
        self.reader = InstructionReader(self.tokens, self._report)
        self.entry: ParsedBody | None = None
        self.last = ParsedBody()

    def check(self) -> tuple[Diagnostic, ...]:
        tokens = self.tokens
        try:
            if tokens.kind in ("HloModule", "ENTRY") or tokens.peek() == "{":
                self._read_module()
            else:
                self._read_single()
        except HloError as error:
            self.errors.extend(error.diagnostics)
        except (_TooManyErrorsError, EOFError):  # both end the reading; what was found so far is the answer
            pass
        return tuple(sorted(self.errors, key=lambda d: d.span.start if d.span else 0))

    def _report(self, diagnostics: list[Diagnostic]) -> None:
        self.errors.extend(diagnostics)
        if len(self.errors) >= MAX_ERRORS:
            raise _TooManyErrorsError

    def _read_single(self) -> None:
        """One instruction, with or without `name =`; its named operands become parameters."""
        self.reader.makes_parameters = True
        if self.tokens.text.lower() == "hlomodule":
            self.tokens.fail("expected HloModule", hint=did_you_mean("HloModule"))
        if at_shape(self.tokens):
            self.reader.read_operation()
        else:
            self.reader.read_statement()
        if self.tokens.kind != tk.END:
            self.tokens.fail("expected end of instruction")

    def _read_module(self) -> None:
        header: Values = {}, {}
        start = self.tokens.start
        try:
            if self.tokens.accept("HloModule"):
                read_name(self.tokens, "the name of the module")
                grammars = {**GRAMMARS, Kind.RECOVERY_TABLE: _read_recovery_table}
                header = _read_rules(self.tokens, HEADER_ATTRIBUTES, grammars, "HloModule")
                _check_comma(self.tokens, HEADER_ATTRIBUTES)
            self._read_stack_tables()
        except HloError as error:
            self._resume(error, start)
        while True:
            start = self.tokens.start
            try:
                self._read_computation()
            except HloError as error:
                self._resume(error, start)
            if self.tokens.kind == tk.END:
                break
        self._check_aliases(*header)

    def _resume(self, error: HloError, start: int) -> None:
        text = self.source.text
        self.reader.bodies.setdefault(head_name(text, start), ParsedBody())
        self._report(within(error, text, start, next_computation(text, start + 1)))
        self.reader.scope, self.reader.depth = ParsedBody(), 0
        resume = next_computation(text, max(start + 1, self.tokens.start - 1))
        if resume >= len(text):
            raise EOFError
        self.tokens.move(resume)

    def _read_stack_tables(self) -> None:
        """Four tables in this order, or none; the number before a row is ignored."""
        tokens = self.tokens
        if not tokens.accept("FileNames"):
            return
        for section in ("FunctionNames", "FileLocations"):
            while tokens.accept(tk.INT) and tokens.accept(tk.STRING):
                pass
            tokens.expect(section, "after the names")
        for section, names in (("StackFrames", _LOCATION), ("", _FRAME)):
            row = fields(dict.fromkeys(names, read_int32), required=names)
            while tokens.accept(tk.INT):
                row(tokens)
            if section:
                tokens.expect(section, "after the locations")

    def _read_computation(self) -> None:
        tokens, start = self.tokens, self.tokens.start
        is_entry = tokens.accept("ENTRY")
        _check_stray(tokens, ")]}")
        at, end = tokens.start, tokens.end
        name = read_name(tokens, "the name of a computation")
        result, shape_span = self._read_signature()
        before = len(self.errors)
        try:
            body = self.reader.read_body(name, recovers=True)
        except HloError:
            self.reader.bodies.setdefault(name, ParsedBody())
            raise
        failed = len(self.errors) > before
        actual = body.result.shape
        if result is not None and actual is not None and not failed and not compatible(actual, result):
            self._fail(f"root shape {actual} does not match the signature ({result})", shape_span)
        _read_rules(tokens, _COMPUTATION_ATTRIBUTES, GRAMMARS, "a computation")
        if is_entry and self.entry is not None:
            self._fail("duplicate ENTRY", Span(start, start + 5))
        if name in self.reader.bodies:
            self._fail(f"duplicate computation name {name}", Span(at, end))
        self.last = self.reader.bodies[name] = ParsedBody() if failed else body
        self.entry = body if is_entry else self.entry

    def _fail(self, message: str, span: Span) -> None:
        self._report([Diagnostic("error", message, self.source, span)])

    def _read_signature(self) -> tuple[Shape | None, Span]:
        """Parameters, which are read and ignored, and the shape of the result."""
        tokens = self.tokens
        if not tokens.accept("("):
            return None, Span(0, 0)
        while tokens.kind != ")":
            read_name(tokens, "a parameter, such as name: shape,")
            take_shape(tokens)
            if tokens.kind != ")":
                tokens.expect(",", "between parameters")
                if tokens.kind == ")":
                    tokens.fail("expected a parameter")
        tokens.advance()
        tokens.expect("->", "before the result")
        start = tokens.start
        shape = take_shape(tokens)
        return shape, Span(start, tokens.previous_end)

    def _check_aliases(self, values: dict[str, object], spans: dict[str, Span]) -> None:
        """Checks that outputs in aliases exist, and that parameters are not negative (`HloInputOutputAliasConfig`)."""
        layout = values.get("entry_computation_layout")
        result = layout.result if isinstance(layout, ComputationLayout) else (self.entry or self.last).result.shape
        aliases = values.get("input_output_alias")
        if not isinstance(aliases, tuple):
            return
        for alias in aliases:
            if alias.parameter_number < 0:
                self._fail("parameter number cannot be negative", spans["input_output_alias"])
            if result is not None and subshape(result, alias.output_index) is None:
                self._fail(f"the result has no element {index_text(alias.output_index)}", spans["input_output_alias"])


def _read_recovery_table(tokens: Tokens) -> object:
    """The table with nested modules, which are read strictly too."""
    start = tokens.start
    table = GRAMMARS[Kind.RECOVERY_TABLE](tokens)
    assert isinstance(table, RecoveryTable)
    for entry in table.entries:
        if entry.module and (errors := check_strictly(Source("recovery module", entry.module))):
            tokens.fail(f"error in an embedded module: {errors[0]}", start, tokens.previous_end)
    return table

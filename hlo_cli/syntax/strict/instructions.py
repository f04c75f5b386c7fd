"""Strict reader of instructions: names, shapes, operands, and attributes exactly as in XLA's parser.

Mirrors `ParseInstruction`, `ParseInstructionRhs` and `ParseOperands` of xla/hlo/parser/hlo_parser.cc.
"""

from __future__ import annotations

from collections.abc import Callable

from hlo_cli.ir import opcodes
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.operations import ARGUMENT_OPCODES, ASYNC_CONTINUATIONS, is_known, wrapped_opcode
from hlo_cli.ir.shape import Shape, TupleShape, compatible, subshape
from hlo_cli.source import Diagnostic, HloError, Span, counted
from hlo_cli.syntax.attributes.row import Kind
from hlo_cli.syntax.attributes.table import attributes_of
from hlo_cli.syntax.literals.grammar import read_literal
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.error_recovery import (
    begins_computation,
    next_statement,
    unclosed,
    unreadable_names,
    within,
)
from hlo_cli.syntax.scanning.shapes import MAX_NESTING
from hlo_cli.syntax.scanning.suggestions import FORM, ONE_RESULT
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.scanning.values import at_shape, read_list, read_name, take_shape
from hlo_cli.syntax.strict.attributes import check_required, read_rules
from hlo_cli.syntax.strict.hints import check_comma, check_stray, no_computation, no_instruction, no_opcode
from hlo_cli.syntax.strict.op_checks import NEEDS_SHAPE, check_operation
from hlo_cli.syntax.strict.op_context import KnownInstruction, OperationChecker, ParsedBody
from hlo_cli.syntax.strict.shapes import fixed_shape
from hlo_cli.syntax.values.grammars import GRAMMARS

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
        check_stray(tokens, ")]")
        at, end = tokens.start, tokens.end
        name = read_name(tokens, "the name of an instruction")
        tokens.expect("=", f"after '{name}'", hint=FORM)
        if is_root and self.scope.root is not None:
            tokens.fail("duplicate ROOT in this computation", start, start + 4, hint=ONE_RESULT)
        known = self.read_operation()
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
            no_opcode(tokens, after_shape=shape is not None)
        wrapped = wrapped_opcode(opcode)
        generic = opcode if wrapped is None else f"async{opcode[opcode.rindex('-') :]}"
        if shape is None and generic in NEEDS_SHAPE:
            tokens.fail(f"missing result shape before {opcode}", span.start, span.end)
        tokens.advance()
        operation = OperationChecker(tokens, generic, span, shape)
        self._read_arguments(operation)
        rules = attributes_of(opcode)
        if not nested:
            operation.attributes, operation.spans = read_rules(tokens, rules, self._grammars, opcode)
            check_comma(tokens, rules)
        check_required(tokens, rules, operation.attributes, opcode, span)
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
                raise EOFError from None
            tokens.move(resume)

    def _read_arguments(self, operation: OperationChecker) -> None:
        """The text between the parentheses: operands, a parameter number, or a literal."""
        tokens = self.tokens
        if operation.opcode not in ARGUMENT_OPCODES:
            self._read_operands(operation)
            return
        tokens.expect("(", f"after {operation.opcode}")
        assert operation.shape is not None
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
            no_instruction(tokens, name, Span(at, end), self.scope.named)
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
            operation.opcode, fixed_shape(operation), wrapped, channel_id=operation.integer("channel_id")
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
            no_computation(tokens, name, Span(start, end), self.bodies)
        return self.bodies[name]

    def _read_instructions(self, tokens: Tokens) -> object:
        """`{%a, %b}`, with at least one name."""
        tokens.expect("{", "before the names")
        while True:
            start, end = tokens.start, tokens.end
            name = read_name(tokens, "an instruction")
            if name not in self.scope.named:
                no_instruction(tokens, name, Span(start, end), self.scope.named)
            if not tokens.accept(","):
                break
        tokens.expect("}", "or a comma after a name")
        return None

    def _nest(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.tokens.fail(f"bodies or operands are nested too deeply (limit {MAX_NESTING})", self.tokens.start)

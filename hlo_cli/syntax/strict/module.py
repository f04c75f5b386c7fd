"""Strict reading: input that XLA's own parser rejects is an error, at the same token.

Mirrors `ParseHloModule` and its callees in xla/hlo/parser/hlo_parser.cc, as the union of the known versions: output
of versions newer than jaxlib 0.10.2 is accepted too.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.attributes.value_types import ComputationLayout
from hlo_cli.ir.notation import index_text
from hlo_cli.ir.shape import Shape, compatible, subshape
from hlo_cli.source import Diagnostic, HloError, Source, Span, did_you_mean
from hlo_cli.syntax.attributes.row import AttributeRow, Kind
from hlo_cli.syntax.attributes.table import HEADER_ATTRIBUTES
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.error_recovery import MAX_ERRORS, head_name, next_computation, within
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.scanning.values import at_shape, fields, read_int32, read_name, take_shape
from hlo_cli.syntax.strict.attributes import Values, read_rules
from hlo_cli.syntax.strict.hints import check_comma, check_stray
from hlo_cli.syntax.strict.instructions import InstructionReader
from hlo_cli.syntax.strict.op_context import ParsedBody
from hlo_cli.syntax.values.grammars import GRAMMARS, read_recovery_table

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
        except (_TooManyErrorsError, EOFError):
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
                header = read_rules(self.tokens, HEADER_ATTRIBUTES, grammars, "HloModule")
                check_comma(self.tokens, HEADER_ATTRIBUTES)
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
        check_stray(tokens, ")]}")
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
        read_rules(tokens, _COMPUTATION_ATTRIBUTES, GRAMMARS, "a computation")
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
    table = read_recovery_table(tokens)
    for entry in table.entries:
        if entry.module and (errors := check_strictly(Source("recovery module", entry.module))):
            tokens.fail(f"error in an embedded module: {errors[0]}", start, tokens.previous_end)
    return table

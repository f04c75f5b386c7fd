"""What is a rule, and what does it know of the module that it looks at?

A rule is a function decorated with `rule`, whose docstring is its page. It gets a `LintContext` with the module, the
settings, and the facts that several rules need, each computed once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.cost.cost_analysis import NO_KERNELS
from hlo_cli.analysis.dataflow.dependencies import EqualComputations, callees_first
from hlo_cli.analysis.dataflow.executions import (
    NO_EXECUTIONS,
    ComputationContexts,
    Executions,
    contexts_of,
    executions_of,
    sequential_executions,
)
from hlo_cli.analysis.fusion.fusion_bodies import all_fused, fusion_problems
from hlo_cli.analysis.fusion.kernels import is_launched
from hlo_cli.analysis.hardware.chip_table import ChipSpec
from hlo_cli.analysis.hardware.target import Target, target_of
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, memory_analysis
from hlo_cli.analysis.origin.scopes_and_moves import UNKNOWN, Origin
from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_overlap import (
    AsyncPairs,
    OverlapAnalysis,
    Transfer,
    analyze_overlap,
    async_pairs,
    transfers_of,
)
from hlo_cli.analysis.schedule.async_verifier import async_problems
from hlo_cli.analysis.shapes.inference import shape_difference, shape_difference_key
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import SourceLocation
from hlo_cli.ir.instruction import Computation, Instruction, Users, users_among
from hlo_cli.ir.module import Module
from hlo_cli.ir.opcodes import FUSION
from hlo_cli.ir.operations import ASYNC_CONTINUATIONS, ASYNCHRONOUS
from hlo_cli.ir.shape import BufferShape, Shape
from hlo_cli.lint.finding_facts import (
    MAX_STEPS,
    Common,
    NamedValue,
    Waste,
    cause_of,
    executions_of_waste,
    frame_of,
    is_known,
    is_of_library,
    name_of,
    seconds_of,
)
from hlo_cli.lint.settings import LintSettings, When
from hlo_cli.report.findings import Cause, Finding
from hlo_cli.source import Diagnostic, HloError, Severity, Span

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.origins import Origins
    from hlo_cli.analysis.query.assertions import AssertionResult


# --- places in the text ---


def shape_span(module: Module, instruction: Instruction) -> Span | None:
    """The span of an instruction's shape; of the whole instruction if the text omits the shape.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { ROOT p = f32[2,3]{1,0} parameter(0) }")
    >>> module.source.slice(shape_span(module, module.entry.root))
    'f32[2,3]{1,0}'
    """
    span = instruction.span
    if span is None:
        return None
    text = module.source.text
    start = text.find("=", span.start, span.end) + 1
    while start < span.end and text[start].isspace():
        start += 1
    # The opcode follows the shape; a shape may have blanks, so the end is searched, not the next blank.
    end = text.find(f" {instruction.opcode}(", start, span.end)
    return Span(start, end) if start and end != -1 else span


def attribute_span(instruction: Instruction, *names: str) -> Span | None:
    """The span of the value of the first of these attributes; None, for the whole instruction, if it has none of them.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[2] slice(f32[9] a), slice={[1:3]}")
    >>> module.source.slice(attribute_span(module.entry.root, "slice"))
    '{[1:3]}'
    """
    attributes = instruction.attributes
    return next((a.span for name in names for a in attributes if a.name == name), None)


def header_span(module: Module, name: str) -> Span | None:
    """The span of the value of an attribute of the header; the beginning of the text if it is unknown.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m, num_partitions=4  ENTRY e { ROOT p = f32[2] parameter(0) }")
    >>> module.source.slice(header_span(module, "num_partitions"))
    '4'
    """
    return next((attribute.span for attribute in module.header if attribute.name == name), None)


# --- execution threads ---
# When XLA loads a module, it sets the thread of a computation wrapped by an async-start, and of all its callees, to
# that of the start, overriding the computation's own (`HloAsyncInstruction` of xla/hlo/ir/hlo_instructions.cc).


def _threads_of(module: Module, starts: Iterable[Instruction]) -> Mapping[Computation, str]:
    """The thread of every computation; `starts` are the module's async-starts.

    >>> from hlo_cli import parse_module
    >>> text = 'HloModule m  ENTRY e { ROOT p = f32[] parameter(0) }, execution_thread="host"'
    >>> list(_threads_of(parse_module(text), ()).values())
    ['host']
    """
    threads = {computation: computation.execution_thread for computation in module.computations}
    for start in starts:
        # Absent means main, as the loader sets (HloAsyncInstruction).
        thread = start.string("async_execution_thread") or "main"
        waiting, seen = list(start.called_computations), set(start.called_computations)
        while waiting:
            computation = waiting.pop()
            threads[computation] = thread
            for caller in computation.instructions:
                new = [called for called in caller.called_computations if called not in seen]
                seen.update(new)
                waiting.extend(new)
    return threads


# --- identity of a place ---
# It survives renaming and reordering, so that findings of different dumps of a program match, and of proto and text.


def structure_of(module: Module, at: Instruction) -> Iterator[str]:
    """Opcode, shape, and op_name of an instruction, and those of operands and callees.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m.7  ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }")
    >>> list(structure_of(module, module.entry.root))
    ['m', 'negate f32[2]{0}', '', 'parameter f32[2]{0}']
    """
    # Numbers at the end of a module's name are by the process that compiled it, not by the program.
    yield module.name.rstrip(".0123456789")
    yield from _of_instruction(at)
    yield (start_around(module, at) or at).metadata.op_name
    yield from (line for operand in at.operands for line in _of_instruction(operand))
    for called in _called(at):
        yield from _of_computation(called)


def start_around(module: Module, instruction: Instruction) -> Instruction | None:
    """The async-start that wraps an instruction; None if it is not wrapped.

    A wrapped instruction does not keep its metadata: XLA's parser overwrites it with that of the start, the updates,
    and the done (`ParseInstructionRhs` of xla/hlo/parser/hlo_parser.cc), and so does a conversion from text to proto.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  w { a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }"
    >>> text += " ENTRY e { p = f32[2] parameter(0)  s = ((f32[2]), f32[2], u32[]) async-start(p), calls=w"
    >>> module = parse_module(text + " ROOT d = f32[2] async-done(s) }")
    >>> start_around(module, module.computation("w").root), start_around(module, module.entry.root)
    (<async-start s>, None)
    """
    callers = contexts_of(module).callers.get(instruction.computation, ())
    return next((caller for caller in callers if _wrapped(caller) is instruction), None)


def _of_instruction(instruction: Instruction) -> Iterator[str]:
    yield f"{_opcode(instruction)} {instruction.shape}"


def _opcode(instruction: Instruction) -> str:
    """The opcode; for the generic form of an asynchronous operation, the only one in protos, that of the short form."""
    wrapped = _wrapped(instruction)
    return instruction.opcode if wrapped is None else wrapped.opcode + instruction.opcode.removeprefix("async")


def _called(instruction: Instruction) -> tuple[Computation, ...]:
    """The computations that an instruction calls, without a wrapper that only the generic form has."""
    # Text and proto, short form and generic form must have one identity.
    if (wrapped := _wrapped(instruction)) is None:
        return instruction.called_computations
    return wrapped.called_computations if instruction.opcode == opcodes.ASYNC_START else ()


def _wrapped(instruction: Instruction) -> Instruction | None:
    """The only operation in the computation of an async-start, for its start, updates, and done; None for others."""
    if instruction.opcode not in ASYNCHRONOUS:
        return None
    start = instruction
    for _ in range(MAX_STEPS):
        if start.opcode not in ASYNC_CONTINUATIONS or not start.operands:
            break
        start = start.operands[0]
    called = start.called_computations[0] if start.opcode == opcodes.ASYNC_START and start.called_computations else None
    # Parameters and one operation: what XLA prints in short form.
    if called is None or called.root is None or len(called.instructions) != len(called.parameters) + 1:
        return None
    return called.root if called.root.opcode != opcodes.PARAMETER else None


def _of_computation(computation: Computation) -> Iterator[str]:
    yield str(len(computation.instructions))
    if computation.root is not None:
        yield from _of_instruction(computation.root)


# --- shapes that do not follow ---
# Instructions whose shape differs from the one inferred from their operands, or whose operands do not fit.


@dataclass(frozen=True, slots=True)
class ShapeProblem:
    """A problem with an instruction: with its written shape, or else with its operands.

    With `is_precision`, the shapes differ only in the width of a float type.
    """

    instruction: Instruction
    message: str
    is_of_shape: bool
    is_precision: bool = False


@dataclass(frozen=True, slots=True)
class Strictness:
    """The strictness of comparing shapes, and the computations that are bodies of fusions."""

    layout_sensitive: bool
    allow_mixed_precision: bool
    fused: Container[Computation]


def shape_problems(module: Module, strictness: Strictness) -> Iterator[ShapeProblem]:
    """The problems, in the order of the text.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = bf16[4] add(f32[4] a, f32[4] b)")
    >>> next(shape_problems(module, Strictness(False, False, ()))).message
    'r: expected the shape f32[4], found bf16[4]'
    """
    # Equal instructions repeat a thousand times; a shape that was valid once is valid again.
    valid: set[Hashable] = set()
    equal = computed_once(EqualComputations)
    firsts = {computation: equal.first(computation) for computation in callees_first(module.computations)}
    for computation in module.computations:
        form = firsts[computation], computation in strictness.fused
        if form in valid:
            continue
        is_valid = True
        for problem in _shape_problems_in(computation, module, strictness, valid):
            is_valid = False
            yield problem
        if is_valid:
            valid.add(form)


def _shape_problems_in(
    computation: Computation, module: Module, strictness: Strictness, valid: set[Hashable]
) -> Iterator[ShapeProblem]:
    for instruction in computation.instructions:
        key = shape_difference_key(instruction), computation in strictness.fused
        if key in valid:
            continue
        try:
            message = _difference(module, instruction, strictness, any_precision=strictness.allow_mixed_precision)
        except HloError as error:
            yield ShapeProblem(instruction, error.diagnostic.message, is_of_shape=False)
            continue
        if message is not None:
            allowed = strictness.allow_mixed_precision
            # A difference that goes away with mixed precision is one of precision only: TPU's bf16 propagation leaves
            # some (26 of 189,333 instructions).
            is_precision = not allowed and _difference(module, instruction, strictness, any_precision=True) is None
            yield ShapeProblem(instruction, f"{instruction.name}: {message}", True, is_precision)
        elif key[0] is not None:
            valid.add(key)


def _difference(module: Module, instruction: Instruction, strictness: Strictness, *, any_precision: bool) -> str | None:
    return shape_difference(
        instruction,
        module,
        layout_sensitive=strictness.layout_sensitive,
        allow_mixed_precision=any_precision,
        is_fused=instruction.computation in strictness.fused,
    )


# --- analyses on first use ---


@dataclass(eq=False)
class Analyses:
    """Analyses of a module's memory, kernels, and transfers.

    >>> from hlo_cli import parse_module
    >>> analyses = Analyses(parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"))
    >>> analyses.kernels, analyses.memory.spaces[0].peak_bytes
    ((<negate n>,), 16)
    """

    module: Module
    _operations: dict[Instruction, tuple[Instruction, ...]] = field(default_factory=dict)

    @cached_property
    def memory(self) -> MemoryAnalysis:
        """The memory usage of the module."""

        return memory_analysis(self.module)

    @cached_property
    def overlap(self) -> OverlapAnalysis:
        """The async operations and the compute that overlaps them."""
        return analyze_overlap(self.module)

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """The transfers between memory spaces."""
        return transfers_of(self.overlap.sequence)

    @cached_property
    def executions(self) -> Mapping[Computation, Executions]:
        """How often each computation runs that is executed instruction by instruction."""
        return sequential_executions(self.module)

    @cached_property
    def kernels(self) -> tuple[Instruction, ...]:
        """The instructions that are launched as kernels, including fusions, in the order of the text."""
        return tuple(each for computation in self.executions for each in computation.instructions if is_launched(each))

    def operations(self, kernel: Instruction) -> tuple[Instruction, ...]:
        """The operations of a kernel: those fused into it, or the kernel itself.

        >>> from hlo_cli import parse_module
        >>> text = '''HloModule m  f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
        ... ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }'''
        >>> module = parse_module(text)
        >>> Analyses(module).operations(module.entry.root)
        (<negate n>,)
        """
        if kernel.opcode != FUSION or not kernel.called_computations:
            return (kernel,)
        if kernel not in self._operations:
            inner = all_fused(kernel.called_computations[0])
            # Constants, tuples, and parameters are no work of a kernel.
            self._operations[kernel] = tuple([each for each in inner if each.opcode not in NO_KERNELS])
        return self._operations[kernel]

    def does_any(self, kernel: Instruction, *opcodes: str) -> bool:
        """Whether one of a kernel's operations has one of these opcodes."""
        return any(each.opcode in opcodes for each in self.operations(kernel))

    def does_only(self, kernel: Instruction, *opcodes: str) -> bool:
        """Whether a kernel has at least one operation, and all have one of these opcodes."""
        operations = self.operations(kernel)
        return bool(operations) and all(each.opcode in opcodes for each in operations)


# --- the context ---


# ` b(` and `(b(` begin the shape of a buffer, in a tuple or not.
_BUFFER_SHAPES: Final = (" b(", "(b(")
# Diagnostics of the reader after which absent facts cannot be checked.
_CODES_OF_OMISSIONS: Final = frozenset(("elided", "missing-attribute", "unresolved"))


LineReader: TypeAlias = Callable[[SourceLocation], str]
"""Gives the text of a line of the user's program, empty if the file is not at hand."""
FlagReader: TypeAlias = Callable[[], Mapping[str, str] | None]
"""Gives the flags of the compilation with their values, as its files next to the dump have them; None without them."""


@dataclass(eq=False)
class LintContext:
    """A module to lint, with its settings.

    `rejections` are errors of XLA's own parser; `verdicts` are results of assertions. With `chip`, findings have times,
    and with `line_of`, which reads the user's program, the lines that they are about. `flags_of` reads the flags of the
    compilation, so that no flag is advised that is set.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }")
    >>> context = LintContext(module, LintSettings())
    >>> list(context.of("negate")), context.is_layout_sensitive
    ([<negate n>], False)
    """

    module: Module
    settings: LintSettings
    rejections: tuple[Diagnostic, ...] = ()
    verdicts: tuple[AssertionResult, ...] = ()
    chip: ChipSpec | None = None
    line_of: LineReader | None = None
    flags_of: FlagReader | None = None

    def finding(
        self,
        message: str,
        at: Instruction | None = None,
        span: Span | None = None,
        *,
        hint: str | None = None,
        about: str = "",
        expectation: str | None = None,
        waste: Waste | None = None,
        subject: Instruction | None = None,
        other: Instruction | None = None,
        common: Common | None = None,
    ) -> Finding:
        """A finding of a rule at an instruction or the module; the rule adds its code and its severity.

        `span` is the place in the text, by default the whole instruction. `about` is the part of the finding's
        identity that does not change with names, such as an index or a channel. `waste` is what one execution costs,
        for rules about efficiency; `subject` the value that the message is about, by default that of the instruction,
        and `other` a second one that it names. `common` is the message without sizes, if one change would fix
        findings on arrays of different shapes.
        """
        source = self.module.source
        executions = executions_of_waste(at, waste, self.module)
        found = Finding(
            "error",
            message,
            source,
            span,
            hint,
            expectation=expectation,
            structure=about,
            cost_bytes=waste.bytes * executions.count if waste is not None else None,
            executions=executions.known,
            seconds=seconds_of(waste, executions.count, self.chip, self.module) if waste and self.chip else None,
            is_held=waste is not None and waste.link is None,
            is_on_chip=waste is not None and waste.moved_bytes == 0,
        )
        if at is None:
            return found
        about_value = subject or (at if waste is not None else None)
        origin = self.origin(about_value) if about_value is not None else UNKNOWN
        own = self._origins.own(at)
        frame = frame_of(own) or frame_of(origin)
        return replace(
            found,
            span=span or at.span,
            instruction=at.name,
            computation=at.computation.name,
            op_name=at.metadata.op_name or None,
            location=str(frame) if frame is not None else None,
            structure="\n".join((about, *structure_of(self.module, at))),
            is_inferred=not own.stack and bool(origin.stack),
            cause=self._cause(message, at, about_value, other, waste, common) if about_value is not None else None,
            scope=origin.scope,
            argument=origin.argument_name,
            line=self.line_of(frame) if frame is not None and self.line_of is not None else "",
            is_of_library=about_value is not None and is_of_library(origin),
        )

    def _cause(
        self,
        message: str,
        at: Instruction,
        subject: Instruction,
        other: Instruction | None,
        waste: Waste | None,
        common: Common | None,
    ) -> Cause:
        second = self._named(other) if other is not None else None
        # With known names no neighborhood is needed, and users of all instructions are expensive.
        users = {} if is_known(self.origin(subject)) else self.users
        return cause_of(message, at, (self._named(subject), second), waste, common, users)

    def _named(self, instruction: Instruction) -> NamedValue:
        return NamedValue(instruction, self.user_name(instruction), self.origin(instruction))

    def origin(self, instruction: Instruction) -> Origin:
        """Where an instruction comes from: its own metadata, else those of the values around it."""
        return self._origins.of(instruction)

    @property
    def _origins(self) -> Origins:
        from hlo_cli.analysis.origin.origins import origins_of  # large imports that only findings need

        return origins_of(self.module)

    def user_name(self, instruction: Instruction) -> str:
        """The value of an instruction as the user knows it: an argument, or an operation of the program.

        >>> from hlo_cli import parse_module
        >>> text = 'ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p), metadata={op_name="f/neg"} }'
        >>> module = parse_module(text)
        >>> LintContext(module, LintSettings()).user_name(module.entry.root)
        'f/neg'
        """
        return name_of(instruction, self.origin(instruction))

    def operation_on(self, operation: str, instruction: Instruction) -> str:
        """An operation and its value; if the program calls that the same, only its place.

        >>> from hlo_cli import parse_module
        >>> text = '''ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p),
        ...   metadata={op_name="jit(f)/negate" source_file="m.py" source_line=4} }'''
        >>> context = LintContext(module := parse_module(text), LintSettings())
        >>> [context.operation_on(each.opcode, each) for each in module.entry.instructions]
        ['parameter of p', 'the negate at m.py:4']
        """
        name = self.user_name(instruction)
        place = name.removeprefix(f"the {operation.replace('-', '_')} at ")
        return f"the {operation} at {place}" if place != name else f"{operation} of {name}"

    def findings_of(self, problems: Iterable[Problem], severity: Severity) -> Iterator[Finding]:
        """The problems of the given severity, as findings."""
        for problem in problems:
            if problem.severity == severity:
                yield self.finding(problem.message, problem.instruction, hint=problem.hint)

    def of(self, *opcodes: str) -> Iterator[Instruction]:
        """The instructions with one of these opcodes."""
        for opcode in opcodes:
            yield from self.by_opcode.get(opcode, ())

    def shaped(self, matches: Callable[[Shape], bool]) -> Iterator[Instruction]:
        """The instructions whose shape satisfies `matches`, in the order of the text; each shape is tested once."""
        matching = {key for key, shape in self.shapes.items() if matches(shape)}
        if not matching:  # only faster
            return iter(())
        return (each for each in self.module.instructions if id(each.shape) in matching)

    @cached_property
    def shapes(self) -> Mapping[int, Shape]:
        """The shapes of all instructions by `id`: equal texts of shapes share one object."""
        return {id(instruction.shape): instruction.shape for instruction in self.module.instructions}

    @property
    def omissions(self) -> tuple[Diagnostic, ...]:
        """Notes on parts omitted from the text that are needed to decide whether the module is well formed."""
        return tuple(note for note in self.module.notes if note.code in _CODES_OF_OMISSIONS)

    @cached_property
    def by_opcode(self) -> Mapping[str, tuple[Instruction, ...]]:
        """The instructions of all computations by opcode, in the order of the text."""
        found: dict[str, list[Instruction]] = {}
        for instruction in self.module.instructions:
            found.setdefault(instruction.opcode, []).append(instruction)
        return {opcode: tuple(instructions) for opcode, instructions in found.items()}

    @cached_property
    def users(self) -> Users:
        """The users of each instruction."""
        return users_among(list(self.module.instructions))

    @cached_property
    def contexts(self) -> ComputationContexts:
        """The context in which each computation runs."""
        return contexts_of(self.module)

    @cached_property
    def fused(self) -> frozenset[Computation]:
        """The bodies of fusions."""
        return frozenset(called for fusion in self.of(FUSION) for called in fusion.called_computations)

    @cached_property
    def threads(self) -> Mapping[Computation, str]:
        """The execution thread of each computation."""
        return _threads_of(self.module, self.of("async-start"))

    def with_attribute_text(self, text: str, *opcodes: str) -> Iterator[Instruction]:
        """The instructions, of the given opcodes if any, whose attributes contain a text."""
        # A search of the whole text is faster than reading the attributes of all instructions.
        if self.module.source.text and text not in self.module.source.text:  # only faster
            return
        for instruction in self.of(*opcodes) if opcodes else self.module.instructions:
            if text in instruction.raw[1]:
                yield instruction

    def executions(self, computation: Computation) -> Executions:
        """How often a computation runs; 0 times if it is not reached from the entry."""
        return executions_of(self.module).get(computation, NO_EXECUTIONS)

    @cached_property
    def analyses(self) -> Analyses:
        """The analyses of the module's memory, kernels, and transfers."""
        return Analyses(self.module)

    @cached_property
    def with_buffers(self) -> tuple[Instruction, ...]:
        """The instructions with buffers as result or operands; most modules have none."""
        text = self.module.source.text
        if text and not any(mark in text for mark in _BUFFER_SHAPES):  # only faster
            return ()
        instructions = self.module.instructions
        return tuple(i for i in instructions if _has_buffer(i.shape) or any(_has_buffer(o.shape) for o in i.operands))

    @cached_property
    def async_pairs(self) -> AsyncPairs:
        """The asynchronous operations."""
        return async_pairs(self.module)

    @cached_property
    def target(self) -> Target | None:
        """The target that the module was compiled for."""
        return target_of(self.module)

    @property
    def is_layout_sensitive(self) -> bool:
        """Whether layouts are compared between operands and results: they are final once a module is scheduled."""
        return _when(self.settings.layout_sensitive, auto=self.module.is_scheduled and self._has_layouts)

    @cached_property
    def _has_layouts(self) -> bool:
        """Whether shapes are written with their layouts, if there is a text."""
        first = self.module.computations[0].span
        return first is None or self.module.source.text.find("]{", first.start) >= 0

    @cached_property
    def allows_mixed_precision(self) -> bool:
        """Whether float types may be mixed, as in modules compiled for TPU."""
        return _when(self.settings.allow_mixed_precision, auto=self.target == "tpu")

    @cached_property
    def async_problems(self) -> tuple[Problem, ...]:
        """Violations of the rules of asynchronous operations."""
        return tuple(async_problems(self.module, self.async_pairs))

    @cached_property
    def fusion_problems(self) -> tuple[Problem, ...]:
        """Violations of the rules of fusions."""
        return tuple(fusion_problems(self.module))

    @cached_property
    def shape_problems(self) -> tuple[ShapeProblem, ...]:
        """Shapes and operands that do not fit their opcodes."""
        strictness = Strictness(self.is_layout_sensitive, self.allows_mixed_precision, self.fused)
        return tuple(shape_problems(self.module, strictness))

    @property
    def replica_count(self) -> int:
        """The number of replicas: copies of the program that run on different data."""
        return self.settings.replica_count or self.module.replica_count

    @property
    def num_partitions(self) -> int:
        """The number of partitions: devices over which each replica is sharded."""
        return self.settings.num_partitions or self.module.num_partitions


def _has_buffer(shape: Shape) -> bool:
    return any(isinstance(leaf, BufferShape) for _, leaf in shape.leaves)


def _when(setting: When, *, auto: bool) -> bool:
    return auto if setting == "auto" else setting == "always"


# --- rules and their pages ---


Check: TypeAlias = Callable[[LintContext], Iterator[Finding]]

Needs = Literal["text", "instructions", "module"]

# The words with which parts of a docstring begin, in the order of the page.
_PAGE_PARTS: Final = ("Why", "Example", "Fix", "Reference")


@dataclass(frozen=True, slots=True)
class Page:
    """The page of a rule: summary, reason, HLO that breaks the rule, fix, and a reference to XLA."""

    summary: str
    why: str
    example: str
    fix: str
    reference: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its code, its short name, and its severity.

    With `is_default`, it runs unless it is ignored. `needs` is the input that it requires: `text` any text,
    `instructions` a text in which at most some instructions are unreadable, `module` a complete module. A rule that
    `reads_again` parses the text again like XLA's parser, which takes longer than all other rules together.
    """

    code: str
    name: str
    severity: Severity
    check: Check
    is_default: bool
    needs: Needs
    reads_again: bool = False

    @property
    def page(self) -> Page:
        """The page, read from the docstring of the rule's function."""
        return read_page(self.check.__doc__ or "")

    def severity_under(self, settings: LintSettings) -> Severity:
        """The severity of the rule under the user's settings."""
        return settings.severity.get(self.code, self.severity)

    def findings(self, context: LintContext) -> Iterator[Finding]:
        """The findings of the rule in a module, with its code and severity."""
        severity = self.severity_under(context.settings)
        return (replace(each, code=self.code, severity=severity) for each in self.check(context))


def rule(
    code: str,
    name: str,
    *,
    severity: Severity = "error",
    is_default: bool = True,
    needs: Needs = "module",
    reads_again: bool = False,
) -> Callable[[Check], Rule]:
    """Makes a function a rule.

    >>> @rule("HLO999", "parameter as root", severity="note")
    ... def parameter_root(context: LintContext) -> Iterator[Finding]:
    ...     '''The entry computation returns a parameter.'''
    ...     root = context.module.entry.root
    ...     if root is not None and root.opcode == "parameter":
    ...         yield context.finding(f"{root.name} is a parameter", root)
    >>> parameter_root.code, parameter_root.page.summary
    ('HLO999', 'The entry computation returns a parameter.')
    """
    return lambda check: Rule(code, name, severity, check, is_default, needs, reads_again)


def read_page(docstring: str) -> Page:
    '''Parses a page from its paragraphs: the summary, and those that begin with Why, Example, Fix, or Reference.

    >>> page = read_page("""A call returns fewer values than expected.
    ...
    ...     Why: It cannot run.
    ...
    ...     Example:
    ...         y = f32[] call(x), to_apply=add
    ...     """)
    >>> page.why, page.example
    ('It cannot run.', 'y = f32[] call(x), to_apply=add')
    '''
    parts = dict.fromkeys(("Summary", *_PAGE_PARTS), "")
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        name, colon, text = paragraph.partition(":")
        is_part = colon and name in _PAGE_PARTS
        parts[name if is_part else "Summary"] += text if is_part else ("\n\n" if parts["Summary"] else "") + paragraph
    prose = {name: " ".join(text.split()) for name, text in parts.items()}
    example = inspect.cleandoc(parts["Example"].removeprefix("\n"))
    return Page(prose["Summary"], prose["Why"], example, prose["Fix"], prose["Reference"])

"""The context of rules: a module, the settings, and facts needed by several rules, computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.dataflow.dependencies import Users, users_among
from hlo_cli.analysis.dataflow.executions import (
    NO_EXECUTIONS,
    ComputationContexts,
    Executions,
    contexts_of,
    executions_of,
)
from hlo_cli.analysis.fusion.fusion_bodies import fusion_problems
from hlo_cli.analysis.hardware.chip_table import ChipSpec
from hlo_cli.analysis.hardware.target import Target, target_of
from hlo_cli.analysis.origin.scopes_and_moves import UNKNOWN, Origin
from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule.async_overlap import AsyncPairs, async_pairs
from hlo_cli.analysis.schedule.async_verifier import async_problems
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.opcodes import FUSION
from hlo_cli.ir.shape import BufferShape, Shape
from hlo_cli.lint.analyses import Analyses
from hlo_cli.lint.costs import Waste, executions_of_waste, seconds_of
from hlo_cli.lint.groups import Common, Named, cause_of, is_known
from hlo_cli.lint.names import name_of
from hlo_cli.lint.settings import LintSettings, When
from hlo_cli.lint.shape_problems import ShapeProblem, Strictness, shape_problems
from hlo_cli.lint.structure import structure_of
from hlo_cli.lint.threads import threads_of
from hlo_cli.report.finding import Finding
from hlo_cli.source import Diagnostic, Severity, Span

if TYPE_CHECKING:
    from hlo_cli.analysis.query.assertions import AssertionResult

_BUFFERS: Final = (" b(", "(b(")
_OMISSIONS: Final = frozenset(("elided", "missing-attribute", "unresolved"))


@dataclass(eq=False)
class LintContext:
    """A module to lint, with its settings.

    `rejections` are errors of XLA's own parser; `verdicts` are results of assertions. With `chip`, findings have times.

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
        )
        if at is None:
            return found
        location = self.module.location(at)
        about_value = subject or (at if waste is not None else None)
        origin = self.origin(about_value) if about_value is not None else UNKNOWN
        cause = None
        if about_value is not None:
            second = self._named(other) if other is not None else None
            users = {} if is_known(origin) else self.users
            cause = cause_of(message, at, (self._named(about_value), second), waste, common, users)
        return replace(
            found,
            span=span or at.span,
            instruction=at.name,
            computation=at.computation.name,
            op_name=at.metadata.op_name or None,
            location=str(location) if location is not None else origin.source or None,
            structure="\n".join((about, *structure_of(self.module, at))),
            is_inferred=location is None and bool(origin.source),
            cause=cause,
            scope=origin.scope,
            argument=origin.argument_name,
        )

    def _named(self, instruction: Instruction) -> Named:
        return Named(instruction, self.user_name(instruction), self.origin(instruction))

    def origin(self, instruction: Instruction) -> Origin:
        """Where an instruction comes from: its own metadata, else those of the values around it."""
        from hlo_cli.analysis.origin.origins import origins_of  # large imports that only findings need

        return origins_of(self.module).of(instruction)

    def user_name(self, instruction: Instruction) -> str:
        """The value of an instruction as the user knows it: an argument, or an operation of the program.

        >>> from hlo_cli import parse_module
        >>> text = 'ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p), metadata={op_name="f/neg"} }'
        >>> module = parse_module(text)
        >>> LintContext(module, LintSettings()).user_name(module.entry.root)
        'f/neg'
        """
        return name_of(instruction, self.origin(instruction))

    def findings_of(self, problems: Iterable[Problem], severity: Severity) -> Iterator[Finding]:
        """The problems of the given severity, as findings."""
        for problem in problems:
            if problem.severity == severity:
                yield self.finding(problem.message, problem.at, hint=problem.hint)

    def of(self, *opcodes: str) -> Iterator[Instruction]:
        """The instructions with one of these opcodes."""
        for opcode in opcodes:
            yield from self.by_opcode.get(opcode, ())

    def shaped(self, matches: Callable[[Shape], bool]) -> Iterator[Instruction]:
        """The instructions whose shape satisfies `matches`, in the order of the text; each shape is tested once."""
        matching = {key for key, shape in self.shapes.items() if matches(shape)}
        return (each for each in self.module.instructions if id(each.shape) in matching) if matching else iter(())

    @cached_property
    def shapes(self) -> Mapping[int, Shape]:
        """The shapes of all instructions by `id`: equal texts of shapes share one object."""
        return {id(instruction.shape): instruction.shape for instruction in self.module.instructions}

    @property
    def omissions(self) -> tuple[Diagnostic, ...]:
        """Notes on parts omitted from the text that are needed to decide whether the module is well formed."""
        return tuple(note for note in self.module.notes if note.code in _OMISSIONS)

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
        return threads_of(self.module, self.of("async-start"))

    def with_attribute_text(self, text: str, *opcodes: str) -> Iterator[Instruction]:
        """The instructions, of the given opcodes if any, whose attributes contain a text."""
        if self.module.source.text and text not in self.module.source.text:
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
        if text and not any(mark in text for mark in _BUFFERS):
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

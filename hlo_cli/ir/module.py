"""Modules: the contents of one dump. Mirrors xla/hlo/ir/hlo_module.h."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, wraps
from itertools import chain
from operator import index as index_of
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, TypeVar, cast, overload

from hlo_cli.dataclass import brief, brief_count, brief_name, dataclass
from hlo_cli.displayed import Items, Tabular, library, no_attribute, no_attribute_of_all
from hlo_cli.ir.attributes.metadata import (
    NO_STACK_TABLES,
    DebuggedArray,
    FrontendAttributes,
    RecoveryTable,
    SourceLocation,
    StackFrames,
    StackTables,
)
from hlo_cli.ir.attributes.value_types import Alias, AttributeValue, BufferDonor, ComputationLayout
from hlo_cli.ir.instruction import Attribute, Computation, Instruction, print_computation
from hlo_cli.ir.notation import UnparsedText
from hlo_cli.ir.shape import ShapeIndex, subshape
from hlo_cli.source import Diagnostic, HloError, Source, did_you_mean, expect, missing, nearest, wrong_type

if TYPE_CHECKING:
    from networkx import DiGraph

    from hlo_cli.ir.attributes.sharding import AnySharding
    from hlo_cli.ir.buffer_assignment import BufferAssignment

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

_FOR_READERS: Final = ("check", "is_cut_apart", "stack_tables")
"""Fields that readers of a module fill in for its properties."""
_NUMBERS: Final = "module.entry[0] and list(module)[0] are instructions by number"
_LONGEST_INPUT: Final = 60
"""Characters of a wrong argument in the hint on how to read it: most paths fit."""
PART_MARK: Final = "// part of a module"
"""The comment after the header of a printed part, which is read as a part again; XLA skips it."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of checking a module's text: errors, and notes on parts that were kept as text."""

    errors: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()


class ModuleInstructions(Sequence[Instruction]):
    """The instructions of several computations, in the order of the text; a slice is a tuple, nothing else is copied.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"
    >>> instructions = parse_module(text).instructions
    >>> instructions, instructions[0], instructions[-1:]
    (<2 instructions>, <parameter p>, (<negate n>,))

    A name selects what `Module.instruction` returns for it; KeyError, with the nearest name, if there is none.

    >>> instructions["n"], "n" in instructions, "m" in instructions
    (<negate n>, True, False)
    """

    __slots__ = ("_computations",)

    def __init__(self, computations: Sequence[Computation]) -> None:
        self._computations = computations

    def __iter__(self) -> Iterator[Instruction]:
        return chain.from_iterable(computation.instructions for computation in self._computations)

    def __len__(self) -> int:
        return sum(len(computation.instructions) for computation in self._computations)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise no_attribute_of_all(self, name, next(iter(self), None), "[0]")

    @overload
    def __getitem__(self, index: SupportsIndex | str) -> Instruction: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Instruction, ...]: ...

    def __getitem__(self, index: SupportsIndex | str | slice) -> Instruction | tuple[Instruction, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        if isinstance(index, str):
            named = self._named(index)
            if not named:
                raise missing("instruction", index, (each.name for each in self))
            return next((each for each in named if each.computation.is_entry), named[0])
        place = index_of(index)
        place += len(self) if place < 0 else 0
        if place >= 0:
            for computation in self._computations:
                if place < len(computation.instructions):
                    return computation.instructions[place]
                place -= len(computation.instructions)
        raise IndexError("no instruction of this number")

    def __contains__(self, item: object) -> bool:
        return bool(self._named(item)) if isinstance(item, str) else super().__contains__(item)

    def _named(self, name: str) -> list[Instruction]:
        """Those of this name, with or without %; several computations may have it."""
        return [each for each in self if each.name == name.removeprefix("%")]

    def __repr__(self) -> str:
        return f"<{brief_count(len(self), 'instructions')}>"


_ANSWERS: Final = {
    **dict.fromkeys(("flops", "bytes_accessed", "cost", "costs"), "hlo_cli.module_cost(module)"),
    **dict.fromkeys(("memory", "peak", "peak_bytes"), "hlo_cli.memory_analysis(module)"),
    **dict.fromkeys(("time", "seconds"), 'hlo_cli.estimate_time(module, "v5e")'),
    **dict.fromkeys(("lint", "findings"), "hlo_cli.lint(module)"),
    **dict.fromkeys(("report", "summary"), "hlo_cli.report(module)"),
    "schedule": "hlo_cli.analyze_overlap(module)",
    "collectives": "hlo_cli.collectives_of(module)",
    "parameters": "module.entry.parameters",
    "root": "module.entry.root",
}
"""What is asked of a module first, and the functions that answer it: analyses are functions of a module."""


@dataclass(eq=False, repr=False)
class Module(Tabular):
    """A parsed module: header, computations, and the findings of the reader.

    `header` has every header attribute as text in order, and `header_value` returns the value of one; those that
    analyses need have fields or properties of their own.
    `stack_tables` is the text of the tables after it. Slow and rarely needed parts are read on demand.
    `spmd_output_sharding` is what the partitioner chose for the result, which only protos state, and `value_order` the
    computations in the order in which XLA numbers their values, empty if unknown; `computations` are in that of XLA's
    text.
    `is_part` is true if the text lacks lines of a computation, or computations that others call: operands that are not
    in it are parameters at the front of their computation, and instructions that call a missing computation call none.
    `is_truncated` is true if the text ends inside a computation, or before the entry of a whole program, and
    `has_entry` if a computation is marked as the entry; else `entry` is the last one.

    Its items are its instructions, in the order of the text; names select instructions and computations.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")
    >>> module, module.entry, len(module), [each.opcode for each in module]
    (<Module m: 1 computation, 1 instruction>, <Computation e: 1 instruction>, 1, ['parameter'])
    >>> module["p"], module["e"], module["e/p"], "q" in module
    (<parameter p>, <Computation e: 1 instruction>, <parameter p>, False)
    """

    name: str
    computations: tuple[Computation, ...]
    entry: Computation
    source: Source
    header: tuple[Attribute, ...] = ()
    is_scheduled: bool = False
    stack_tables: str = ""
    read_stack_tables: Callable[[str], StackFrames] | None = None
    read_errors: tuple[Diagnostic, ...] = ()
    check: Callable[[Module], Findings] | None = None
    is_cut_apart: Callable[[Module], bool] | None = None
    read_header_value: Callable[[str, str], AttributeValue] | None = None
    read_buffer_assignment: Callable[[Module], BufferAssignment] | None = None
    read_program: Callable[[], Module | None] | None = None
    read_proto: Callable[[], Module | None] | None = None
    read_generated: Callable[[], Module | None] | None = None
    spmd_output_sharding: AnySharding | None = None
    value_order: tuple[Computation, ...] = ()
    is_part: bool = False
    is_truncated: bool = False
    has_entry: bool = True

    def __post_init__(self) -> None:
        for name in ("computations", "header", "value_order"):
            setattr(self, name, Items(getattr(self, name)))
        tables = StackTables(self.stack_tables, self.read_stack_tables)
        for computation in self.computations:
            computation.parameters = Items(computation.parameters)
            # Modules that share computations, such as one with another header, share these tables too.
            if computation.stack_tables is NO_STACK_TABLES:
                computation.stack_tables = tables

    @property
    def stack_frames(self) -> StackFrames:
        """The tables after the header, which hold the source locations of instructions."""
        return self.entry.stack_tables.frames

    @cached_property
    def buffer_assignment(self) -> BufferAssignment | None:
        """The compiler's own buffer assignment; None if the input does not have it, as is always so for text."""
        return self.read_buffer_assignment(self) if self.read_buffer_assignment is not None else None

    @cached_property
    def program(self) -> Module | None:
        """The same program before optimizations, from the dump next to this one; None if there is no such dump."""
        return self.read_program() if self.read_program is not None else None

    @cached_property
    def generated(self) -> Module | None:
        """The same module after its code was generated, from the dump next to this one; None if there is no such dump.

        A TPU's compiler knows only then how much memory each kernel uses.
        """
        return self.read_generated() if self.read_generated is not None else None

    @cached_property
    def proto(self) -> Module | None:
        """The same module from the proto next to its text, which omits nothing; None if there is no such proto."""
        return self.read_proto() if self.read_proto is not None else None

    def header_value(self, name: str) -> AttributeValue | None:
        """The value of a header attribute, or None if it is absent.

        >>> from hlo_cli import parse_module
        >>> text = "HloModule m, num_partitions=4, more=1  ENTRY e { ROOT p = f32[2] parameter(0) }"
        >>> module = parse_module(text)
        >>> module.header_value("num_partitions"), module.header_value("more"), module.header_value("replica_count")
        (4, '1', None)
        """
        text = next((attribute.value for attribute in self.header if attribute.name == name), None)
        if text is None or self.read_header_value is None:
            return text if text is None else UnparsedText(text)
        return self.read_header_value(name, text)

    def header_items(self, name: str, kind: type[_T]) -> tuple[_T, ...]:
        """The items of this type in a header attribute's list; empty if it is absent."""
        value = self.header_value(name)
        return tuple([item for item in value if isinstance(item, kind)]) if isinstance(value, tuple) else ()

    @property
    def replica_count(self) -> int:
        """The number of copies of the program that run on different data."""
        return self._header_value_of("replica_count", int) or 1

    @property
    def num_partitions(self) -> int:
        """The number of devices over which each copy of the program is partitioned."""
        return self._header_value_of("num_partitions", int) or 1

    @property
    def alias_passthrough_params(self) -> bool:
        """Whether parameters that are passed through share their buffers with the results."""
        return self.header_value("alias_passthrough_params") is True

    @cached_property
    def input_output_alias(self) -> tuple[Alias, ...]:
        """The elements of the result that overwrite elements of parameters; entries of the header that exist."""
        aliases, root = self.header_items("input_output_alias", Alias), self.entry.root
        return Items(
            alias
            for alias in aliases
            if self._is_argument(alias.parameter_number, alias.parameter_index)
            and (root is None or subshape(root.shape, alias.output_index) is not None)
        )

    @cached_property
    def buffer_donor(self) -> tuple[BufferDonor, ...]:
        """Elements of parameters whose buffers any result may use; entries of the header that exist."""
        donors = self.header_items("buffer_donor", BufferDonor)
        return Items([donor for donor in donors if self._is_argument(donor.parameter_number, donor.parameter_index)])

    @cached_property
    def donated_parameters(self) -> frozenset[Instruction]:
        """The parameters of the entry of which any element is donated: results may overwrite it.

        >>> from hlo_cli import parse_module
        >>> text = "ENTRY e { p = f32[] parameter(0)  q = f32[] parameter(1) }"
        >>> parse_module("HloModule m, buffer_donor={ (1, {}), (7, {}) }  " + text).donated_parameters
        frozenset({<parameter q>})
        """
        numbers = [alias.parameter_number for alias in self.input_output_alias]
        numbers += [donor.parameter_number for donor in self.buffer_donor]
        return frozenset([self.entry.parameters[number] for number in numbers])

    def _is_argument(self, number: int, index: ShapeIndex) -> bool:
        parameters = self.entry.parameters
        return 0 <= number < len(parameters) and subshape(parameters[number].shape, index) is not None

    @property
    def entry_computation_layout(self) -> ComputationLayout | None:
        """Shapes and layouts of the entry's parameters and result, if the header has them.

        >>> from hlo_cli import parse_module
        >>> header = "HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}"
        >>> str(parse_module(header + " ENTRY e { ROOT p = f32[2] parameter(0) }").entry_computation_layout.result)
        'f32[2]{0}'
        """
        return self._header_value_of("entry_computation_layout", ComputationLayout)

    @property
    def frontend_attributes(self) -> FrontendAttributes:
        """Texts that XLA passes on for frontends; empty if the header has none."""

        return self._header_value_of("frontend_attributes", FrontendAttributes) or FrontendAttributes()

    @property
    def allow_spmd_sharding_propagation_to_parameters(self) -> tuple[bool, ...]:
        """Whether the partitioner may choose the sharding of each parameter, or of all if one is given."""
        return self._flags("allow_spmd_sharding_propagation_to_parameters")

    @property
    def allow_spmd_sharding_propagation_to_output(self) -> tuple[bool, ...]:
        """Whether the partitioner may choose the sharding of each element of the result, or of all if one is given."""
        return self._flags("allow_spmd_sharding_propagation_to_output")

    @property
    def origin_recovery_table(self) -> RecoveryTable | None:
        """The recovery of lost arrays of the original program."""

        return self._header_value_of("origin_recovery_table", RecoveryTable)

    @property
    def debug_attributes(self) -> tuple[DebuggedArray, ...]:
        """The log settings of arrays while the program runs."""

        return self.header_items("debug_attributes", DebuggedArray)

    @cached_property
    def _findings(self) -> Findings:
        return self.check(self) if self.check is not None else Findings()

    @cached_property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The reading errors, in the order of the text; attributes are checked on first use.

        If all attributes split without a gap there are no errors, and the slower search for notes is skipped.
        """
        is_right = self.is_cut_apart is not None and self.is_cut_apart(self)
        diagnostics = dict.fromkeys((*self.read_errors, *(() if is_right else self._findings.errors)))
        return tuple(sorted(diagnostics, key=lambda d: d.span.start if d.span else 0))

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """Notes on parts kept as text because they are outside XLA's known grammar, computed on first use."""
        return self._findings.notes

    @property
    def instructions(self) -> ModuleInstructions:
        """The instructions of all computations, in the order of the text."""
        return ModuleInstructions(self.computations)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise no_attribute(self, name, _ANSWERS)

    @property
    def instruction_count(self) -> int:
        """Number of instructions in all computations."""
        return sum(len(computation.instructions) for computation in self.computations)

    def computation(self, name: str | Computation) -> Computation:
        """The computation of this name, with or without a leading %; HloError if there is none."""
        if isinstance(name, Computation):
            return name
        expect(str, "a computation or its name", name)
        return self._named(name, {c.name: c for c in self.computations}, "computation")

    def instruction(self, name: str | Instruction) -> Instruction:
        """The instruction of this name, the entry's first if several computations have it; HloError without one.

        The name may have a leading %, or its computation in front of it, as in `body/add.3`. An argument has a name in
        the user's program too: the op_name of its parameter, such as `params['embedding']`. Instead of a name, it takes
        an instruction, which it returns.
        """
        if isinstance(name, Instruction):
            return name
        expect(str, "an instruction or its name", name)
        if (instruction := self._instruction(name)) is not None:
            return instruction
        return self._named(name, self._by_name, "instruction")

    @cached_property
    def _by_name(self) -> Mapping[str, Instruction]:
        """The instructions by their names; the entry's, else the first, of those with the same name."""
        computations = (*reversed(self.computations), self.entry)
        return {i.name: i for computation in computations for i in reversed(computation.instructions)}

    def _instruction(self, name: str) -> Instruction | None:
        plain_name = name.removeprefix("%")
        if (instruction := self._by_name.get(plain_name)) is not None:
            return instruction
        computation, _, rest = plain_name.partition("/")
        within = next((c.instruction(rest) for c in self.computations if c.name == computation), None)
        return within or next(
            (parameter for parameter in self.entry.parameters if parameter.metadata.op_name == name), None
        )

    def __getitem__(self, name: str) -> Instruction | Computation:
        """The instruction of this name, else the computation; KeyError, with the nearest name, if there is neither."""
        expect(str, "the name of an instruction or a computation", name, _NUMBERS)
        named = self._instruction(name) or next(
            (c for c in self.computations if c.name == name.removeprefix("%")), None
        )
        if named is None:
            names = (*self._by_name, *(c.name for c in self.computations))
            listing = f"module.instructions has all {self.instruction_count:,}, and module.where(...) finds some"
            raise missing("instruction or computation", name, names, otherwise=listing)
        return named

    def __contains__(self, item: object) -> bool:
        """Whether an instruction or a computation is in the module, or one of this name."""
        if isinstance(item, str):
            plain_name = item.removeprefix("%")
            return self._instruction(item) is not None or any(c.name == plain_name for c in self.computations)
        computation = item.computation if isinstance(item, Instruction) else item
        return computation in self.computations

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __len__(self) -> int:
        return self.instruction_count

    def __bool__(self) -> bool:
        return True  # an empty one is not missing

    def __dir__(self) -> list[str]:
        """What completion offers: without what reads parts on demand, and their texts."""
        return [name for name in super().__dir__() if not name.startswith("read_") and name not in _FOR_READERS]

    def where(self, expression: str) -> tuple[Instruction, ...]:
        """The instructions that match an expression of the filter language; `hlo help where` lists its fields.

        Instructions of which the text does not tell whether they match are left out. HloError, with the place, if the
        expression is malformed.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("r = f32[8,8] add(f32[8,8] a, f32[8,8] b)")
        >>> module.where("opcode == add and flops > 10")
        (<add r>,)
        """
        return Items(cast("Sequence[Instruction]", library().where(self, expression)))

    def to_networkx(self, computation: str | Computation | None = None) -> DiGraph[str]:
        """The dataflow of a computation, or of all, as a graph of NetworkX: nodes are names, edges go to users.

        Nodes have the attributes `opcode`, `shape`, `computation`, `op_name`, and `source`. The attribute `kind` of an
        edge is operand, or call from the result of a called computation to its caller. If several computations have a
        name, it follows that of its computation, as in `body/add`. ImportError if NetworkX is not installed.
        """
        return cast("DiGraph[str]", library().to_networkx(self, computation))

    def location(self, instruction: Instruction | str) -> SourceLocation | None:
        """The innermost source location of an instruction, in a library if it called one; None if the text has none.

        `Instruction.source` is the line of the user's program.
        """
        metadata = self.instruction(instruction).metadata
        if (innermost := self.stack_frames.innermost(metadata.stack_frame_id)) is not None:
            return innermost
        return SourceLocation(metadata.source_file, metadata.source_line) if metadata.source_file else None

    def chunks(self) -> Iterator[str]:
        """The module's text in chunks, for writing without holding it all in memory."""

        mark = f"{PART_MARK}\n\n" if self.is_part else ""
        yield ", ".join((f"HloModule {self.name}", *map(str, self.header))) + "\n\n" + mark
        if self.stack_tables:
            yield self.stack_tables + "\n\n\n"
        for computation in self.computations:
            yield print_computation(computation) + "\n\n"

    def to_string(self) -> str:
        """The module as canonical HLO text, which XLA reads as the same module."""
        return "".join(self.chunks())

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        count = brief_count(self.instruction_count, "instructions")
        # Errors are not counted here: those of the checks are found when they are asked for.
        flaw = ", truncated" if self.is_truncated else ", with errors" if self.read_errors else ""
        return f"<Module {brief_name(self.name)}: {brief_count(len(self.computations), 'computations')}, {count}{flaw}>"

    def _named(self, name: str, named: Mapping[str, _T], what: str) -> _T:
        name = name.removeprefix("%")
        if name in named:
            return named[name]
        listing = "run `hlo parse DUMP --instructions` to list all instructions" if what == "instruction" else None
        hint = did_you_mean(nearest(name, named)) or listing
        raise HloError(f"{what} '{name}' not found in {self.name}", hint=hint)

    def _header_value_of(self, name: str, kind: type[_T]) -> _T | None:
        value = self.header_value(name)
        return value if isinstance(value, kind) else None

    def _flags(self, name: str) -> tuple[bool, ...]:
        value = self.header_value(name)
        return (value,) if isinstance(value, bool) else self.header_items(name, bool) or (False,)


# --- functions of a module ---


def of_module(function: _F) -> _F:
    """A function whose first argument is a module; TypeError, which says what to pass, if it is something else.

    >>> from hlo_cli import kernels_of
    >>> kernels_of("dump/")
    Traceback (most recent call last):
        ...
    TypeError: kernels_of: expected a module, found the str 'dump/': use hlo_cli.load('dump/')
    """

    @wraps(function)
    def checked(module: object, *args: object, **named: object) -> object:
        check_module(module, function.__name__)
        return function(module, *args, **named)

    return cast(_F, checked)


def check_module(module: object, function: str) -> None:
    """Raises TypeError, which says what to pass, if an argument of a function is not a module."""
    if not isinstance(module, Module):
        is_input = isinstance(module, str | bytes | PathLike)
        hint = f"use hlo_cli.load({brief(module, _LONGEST_INPUT)})" if is_input else "see hlo_cli.load"
        raise wrong_type("a module", module, hint, function=function)

"""The origins of a module's instructions: their own metadata, each stack of calls followed once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias
from weakref import ref

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.origin.origin import UNKNOWN, Origin
from hlo_cli.analysis.origin.scopes import scope_of, with_scope
from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata, SourceLocation
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ShapeIndex

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.inference import Inference
    from hlo_cli.analysis.origin.moves import Moves, Step, Value
    from hlo_cli.analysis.origin.walks import Arguments

_Own: TypeAlias = tuple[Metadata, Origin, tuple[str, str] | None]
"""Metadata, the origin that they tell, and its source with the scopes, if there is a source."""


class Origins:
    """The origins of a module's instructions, looked up on demand."""

    def __init__(self, module: Module) -> None:
        """Prepares the look-up; the module is held weakly, as results are cached with it."""
        self._module = ref(module)
        self._frames = module.stack_frames
        self._stacks: dict[int, tuple[SourceLocation, ...]] = {}
        self._own: dict[Instruction, _Own] = {}
        self._same: dict[int, _Own] = {}
        self._found: dict[Value, Origin] = {}
        self._placed: dict[Value, Origin] = {}

    def own(self, instruction: Instruction) -> Origin:
        """The origin in the instruction's own metadata.

        >>> from hlo_cli import parse_module
        >>> text = 'r = f32[2] iota(), iota_dimension=0, metadata={op_name="a/iota" source_file="a.py" source_line=3}'
        >>> module = parse_module(text)
        >>> origins_of(module).own(module.entry.root).source
        'a.py:3'
        """
        return self._read(instruction)[1]

    def of(self, instruction: Instruction) -> Origin:
        """The origin of an instruction: its own, completed by that of the nearest instruction that tells more.

        >>> from hlo_cli import parse_module
        >>> text = '''HloModule m  ENTRY e {
        ...   w = f32[2] parameter(0), metadata={op_name="params['w']"}
        ...   c = f32[2] copy(w)
        ...   ROOT n = f32[2] negate(c), metadata={op_name="jit(f)/loss/neg" source_file="a.py" source_line=3} }'''
        >>> module = parse_module(text)
        >>> origin = origins_of(module).of(module.instruction("c"))
        >>> origin.source, origin.argument_name, origin.relation, origin.teller
        ('a.py:3', "params['w']", 'used by', <negate n>)
        """
        return self.of_value(instruction, ())

    def of_value(self, instruction: Instruction, index: ShapeIndex) -> Origin:
        """The origin of an element of a tuple, or of the whole result for index ()."""
        value = instruction, index
        if (found := self._found.get(value)) is None:
            found = self._found[value] = self._origin(value)
        return found

    def without_argument(self, instruction: Instruction, index: ShapeIndex = ()) -> Origin:
        """The origin of an element of a tuple, or of the whole result, without its argument, which is faster.

        >>> from hlo_cli import parse_module
        >>> module = parse_module('r = f32[2] negate(p), metadata={source_file="a.py" source_line=3}')
        >>> origins_of(module).without_argument(module.entry.root).source
        'a.py:3'
        """
        value = instruction, index
        if (found := self._found.get(value) or self._placed.get(value)) is None:
            found = self._placed[value] = self._place_of(value)
        return found

    def argument(self, instruction: Instruction, index: ShapeIndex = ()) -> Instruction | None:
        """The entry parameter whose value an element of a tuple is, or the whole result; None if it is computed.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT c = f32[2] copy(p) }")
        >>> origins_of(module).argument(module.entry.root)
        <parameter p>
        """
        return self._arguments.argument((instruction, index))

    def is_of_several_callers(self, instruction: Instruction, index: ShapeIndex = ()) -> bool:
        """Whether an element of a tuple, or the whole result, is what several callers pass, so no argument is known."""
        return self._arguments.is_of_several_callers((instruction, index))

    @property
    def moves(self) -> Moves:
        """The steps back from the values of the module."""
        return self._arguments.moves

    def moves_of(self, instruction: Instruction, index: ShapeIndex = ()) -> tuple[Step, ...]:
        """The steps back from a value to the one that it is, moved but not computed; empty if it is computed.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT c = f32[2] copy(p) }")
        >>> [(step.relation, step.value[0].name) for step in origins_of(module).moves_of(module.entry.root)]
        [('copy of', 'p')]
        """
        return tuple(self._arguments.moves.chain((instruction, index)))

    def _origin(self, value: Value) -> Origin:
        placed = self.without_argument(*value)
        argument = self._arguments.argument(value)
        return placed if argument is None else replace(placed, argument=argument)

    def _place_of(self, value: Value) -> Origin:
        own = self.own(value[0])
        told = self._inference.told(value) if not own.stack else None
        if told is None:
            return own
        theirs = self.own(told.teller)
        op_name = with_scope(theirs.op_name, told.scope) if told.scope else theirs.op_name
        op_name = own.op_name if scope_of(own.op_name) else op_name
        return Origin(op_name, theirs.stack, None, told.teller, told.relation)

    def of_all(self, instructions: Iterable[Instruction]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The distinct op_names and places in the metadata of several instructions, in their order."""
        found = [self.own(each) for each in instructions if "metadata=" in each.raw[1]]
        op_names = dict.fromkeys(each.op_name for each in found if each.op_name)
        return tuple(op_names), tuple(dict.fromkeys(each.source for each in found if each.source))

    @cached_property
    def _inference(self) -> Inference:
        module = self._module()
        assert module is not None, "origins are asked for while their module exists"
        from hlo_cli.analysis.origin.inference import Inference

        with no_garbage_collection():
            return Inference(module, self._arguments, self._place)

    @cached_property
    def _arguments(self) -> Arguments:
        module = self._module()
        assert module is not None, "origins are asked for while their module exists"
        from hlo_cli.analysis.origin.moves import Moves
        from hlo_cli.analysis.origin.walks import Arguments

        return Arguments(Moves(module))

    def _place(self, instruction: Instruction) -> tuple[str, str] | None:
        """The source and the scope of an instruction with a source location of its own."""
        return self._read(instruction)[2]

    def _read(self, instruction: Instruction) -> _Own:
        if (found := self._own.get(instruction)) is None:
            found = self._own[instruction] = self._shared(instruction.metadata)
        return found

    def _shared(self, metadata: Metadata) -> _Own:
        """The origin and the place of all instructions with the same metadata; kept by identity, which is fast."""
        found = self._same.get(id(metadata))
        if found is None:
            origin = UNKNOWN if metadata is NO_METADATA else Origin(metadata.op_name, self._stack(metadata))
            place = (origin.source, origin.op_name.rpartition("/")[0]) if origin.stack else None
            found = self._same[id(metadata)] = metadata, origin, place
        return found

    def _stack(self, metadata: Metadata) -> tuple[SourceLocation, ...]:
        if (frame := metadata.stack_frame_id) and frame not in self._stacks:
            self._frames.stack_sharing(frame, self._stacks)
        if stack := self._stacks.get(frame):
            return stack
        return (SourceLocation(metadata.source_file, metadata.source_line),) if metadata.source_file else ()


def origins_of(module: Module) -> Origins:
    """Returns the origins of a module's instructions; computed once per module."""
    return cached_per_module(_origins, module)


def _origins(module: Module) -> Origins:
    return Origins(module)

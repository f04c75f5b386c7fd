"""The origins of a module's instructions: their own metadata, each stack of calls followed once."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.origin.origin import UNKNOWN, Origin
from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata, SourceLocation, StackFrames
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


class Origins:
    """The origins of a module's instructions, looked up on demand."""

    def __init__(self, frames: StackFrames) -> None:
        """Prepares the look-up."""
        self._frames = frames
        self._stacks: dict[int, tuple[SourceLocation, ...]] = {}

    def own(self, instruction: Instruction) -> Origin:
        """The origin in the instruction's own metadata.

        >>> from hlo_cli import parse_module
        >>> text = 'r = f32[2] iota(), iota_dimension=0, metadata={op_name="a/iota" source_file="a.py" source_line=3}'
        >>> module = parse_module(text)
        >>> origins_of(module).own(module.entry.root).source
        'a.py:3'
        """
        metadata = instruction.metadata
        if metadata is NO_METADATA:
            return UNKNOWN
        return Origin(metadata.op_name, self._stack(metadata))

    def of(self, instruction: Instruction) -> Origin:
        """The origin of an instruction."""
        return self.own(instruction)

    def of_all(self, instructions: Iterable[Instruction]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The distinct op_names and places in the metadata of several instructions, in their order."""
        found = [self.own(each) for each in instructions if "metadata=" in each.raw[1]]
        op_names = dict.fromkeys(each.op_name for each in found if each.op_name)
        return tuple(op_names), tuple(dict.fromkeys(each.source for each in found if each.source))

    def _stack(self, metadata: Metadata) -> tuple[SourceLocation, ...]:
        if (frame := metadata.stack_frame_id) and frame not in self._stacks:
            self._stacks[frame] = self._frames.stack(frame)
        if stack := self._stacks.get(frame):
            return stack
        return (SourceLocation(metadata.source_file, metadata.source_line),) if metadata.source_file else ()


def origins_of(module: Module) -> Origins:
    """Returns the origins of a module's instructions; computed once per module."""
    return cached_per_module(_origins, module)


def _origins(module: Module) -> Origins:
    return Origins(module.stack_frames)

"""Source locations of many instructions: op_names and places in the user's program, each looked up once."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


class Origins:
    """The source locations of a module's instructions; equal stack frames are followed once."""

    def __init__(self, module: Module) -> None:
        """Prepares the look-up; stack frames are followed on demand."""
        self._module = module
        self._frames: dict[int, str | None] = {}

    def of(self, instruction: Instruction) -> tuple[str | None, str | None]:
        """The op_name and the innermost place, None where the text has none.

        >>> from hlo_cli import parse_module
        >>> text = 'r = f32[2] iota(), iota_dimension=0, metadata={op_name="a/iota" source_file="a.py" source_line=3}'
        >>> module = parse_module(text)
        >>> Origins(module).of(module.entry.root)
        ('a/iota', 'a.py:3')
        """
        metadata = instruction.metadata
        frame = metadata.stack_frame_id
        if not frame:
            return metadata.op_name or None, self._place(instruction)
        if frame not in self._frames:
            self._frames[frame] = self._place(instruction)
        return metadata.op_name or None, self._frames[frame]

    def of_all(self, instructions: Iterable[Instruction]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The distinct op_names and places of several instructions, in their order."""
        found = [self.of(each) for each in instructions if "metadata=" in each.raw[1]]
        op_names = dict.fromkeys(op_name for op_name, _ in found if op_name)
        return tuple(op_names), tuple(dict.fromkeys(place for _, place in found if place))

    def _place(self, instruction: Instruction) -> str | None:
        location = self._module.location(instruction)
        return str(location) if location is not None else None

from collections.abc import Callable
from typing import Protocol

from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.shape import Shape

class ReadLines(Protocol):
    def __call__(
        self,
        text: str,
        start: int,
        end: int,
        computation: Computation,
        instruction: type[Instruction],
        slots: tuple[object, ...],
        kinds: dict[str, int],
        shapes: dict[str, Shape],
        read_shape: Callable[[str], Shape],
        /,
    ) -> (
        tuple[
            list[Instruction],
            Instruction | None,
            list[tuple[int, Instruction]],
            list[tuple[Instruction, int, str]],
            list[tuple[Instruction, str]],
            bytes,
            bytes,
        ]
        | None
    ): ...

read_lines: ReadLines

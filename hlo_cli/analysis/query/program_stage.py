"""How far the compiler is with a module: whether its text is the program that runs, or what comes before that.

Mirrors what `HloModule::has_schedule` of xla/hlo/ir/hlo_module.cc and the file names of xla/service/dump.cc tell.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape

ProgramStage = Literal["before optimization", "during optimization", "optimized"]

_BEFORE: Final = "before_optimizations"
_AFTER: Final = ("after_optimizations", "after_codegen")
_PASS: Final = re.compile(r"[0-9]{4,}\.")
"""How the stages of passes begin; other names, as `before_mlp`, are people's."""
_MADE_BY_COMPILERS: Final = frozenset((opcodes.FUSION, opcodes.BITCAST))
_ASYNCHRONOUS: Final = ("all-gather-start", "all-reduce-start", "collective-permute-start", "copy-start", "slice-start")


def program_stage(module: Module, dump_stage: str | None = None) -> ProgramStage:
    """How far the compiler is with a module; `dump_stage` is the stage that its file's name tells, where it does.

    A module with a schedule is a program. Of others the file's name decides; without one, whether anything is in the
    text that only compilers make: fusions, bitcasts, tiles, memory spaces, asynchronous operations that nobody writes.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[8] parameter(0)  ROOT n = f32[8] negate(p) }"
    >>> program_stage(parse_module(text)), program_stage(parse_module(text), "after_optimizations")
    ('before optimization', 'optimized')
    >>> program_stage(parse_module(text), "0003.dce.after_dce")
    'during optimization'
    >>> program_stage(parse_module(text), "before_mlp")
    'before optimization'
    >>> program_stage(parse_module(text.replace("8]", "8]{0:T(128)}")))
    'optimized'
    """
    if module.is_scheduled or (dump_stage or "").startswith(_AFTER):
        return "optimized"
    if dump_stage == _BEFORE:
        return "before optimization"
    if dump_stage is not None and _PASS.match(dump_stage):
        return "during optimization"
    return "optimized" if any(map(_is_compiled, module.instructions)) else "before optimization"


def _is_compiled(instruction: Instruction) -> bool:
    """Whether only a compiler makes an instruction like this."""
    if instruction.opcode in _MADE_BY_COMPILERS or instruction.opcode in _ASYNCHRONOUS:
        return True
    shape = instruction.shape
    return isinstance(shape, ArrayShape) and bool(shape.layout.tiles or shape.memory_space)

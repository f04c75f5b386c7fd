"""Compilation stage of a module: the executed program, or an earlier stage.

Mirrors `HloModule::has_schedule` of xla/hlo/ir/hlo_module.cc and the file names of xla/service/dump.cc.
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
"""Prefix of the stage of a pass in a dump's file name; other names, such as `before_mlp`, are chosen by users."""
_COMPILER_OPCODES: Final = frozenset((opcodes.FUSION, opcodes.BITCAST))
_COMPILER_STARTS: Final = (
    "all-gather-start",
    "all-reduce-start",
    "collective-permute-start",
    "copy-start",
    "slice-start",
)


def program_stage(module: Module, dump_stage: str | None = None) -> ProgramStage:
    """Compilation stage of a module; `dump_stage` is the stage in its file name, if any.

    A scheduled module is optimized. For others the file name decides; without one, whether the module contains what
    only compilers create: fusions, bitcasts, tiles, memory spaces, and async operations.

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
    """Whether only a compiler creates such an instruction."""
    if instruction.opcode in _COMPILER_OPCODES or instruction.opcode in _COMPILER_STARTS:
        return True
    shape = instruction.shape
    return isinstance(shape, ArrayShape) and bool(shape.layout.tiles or shape.memory_space)

"""What a module is at a glance: its stage of compilation, and a dozen numbers; what light commands say of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.buffer_sizes import data_values
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.opcodes import CUSTOM_CALL, FUSION
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape, Shape

# --- stage of compilation ---
# Mirrors `HloModule::has_schedule` of xla/hlo/ir/hlo_module.cc and the file names of xla/service/dump.cc.


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
    # Text on its own: only compilers make fusions, bitcasts, tiles, or memory spaces.
    return "optimized" if any(map(_is_compiled, module.instructions)) else "before optimization"


def _is_compiled(instruction: Instruction) -> bool:
    """Whether only a compiler creates such an instruction."""
    if instruction.opcode in _COMPILER_OPCODES or instruction.opcode in _COMPILER_STARTS:
        return True
    shape = instruction.shape
    return isinstance(shape, ArrayShape) and bool(shape.layout.tiles or shape.memory_space)


# --- a dozen numbers, the same for every module ---


SummaryValue = int | str | bool | None


def module_summary(module: Module) -> Mapping[str, SummaryValue]:
    """Target, size, and memory use of a module; sizes in bytes, None if unknown.

    >>> from hlo_cli import parse_module
    >>> numbers = module_summary(parse_module("HloModule m  ENTRY e { ROOT p = f32[9]{0} parameter(0) }"))
    >>> numbers["instructions"], numbers["argument_bytes"], numbers["padded_bytes"]
    (1, 36, 36)
    """
    opcodes = Counter(instruction.opcode for instruction in module.instructions)
    shapes = [value.shape for value in data_values(module)]
    root = module.entry.root
    return {
        "target": target_of(module),
        "is_scheduled": module.is_scheduled,
        "instructions": module.instruction_count,
        "computations": len(module.computations),
        "fusions": opcodes[FUSION],
        "collectives": number_of_collectives(module, opcodes),
        "custom_calls": opcodes[CUSTOM_CALL],
        "argument_bytes": _bytes(parameter.shape for parameter in module.entry.parameters),
        "result_bytes": None if root is None else _bytes([root.shape]),
        "values": len(shapes),
        "logical_bytes": sum(shape.logical_bytes for shape in shapes),
        "padded_bytes": sum(shape.padded_bytes for shape in shapes),
        "largest_bytes": max((shape.padded_bytes for shape in shapes), default=0),
        "errors": len(module.errors),
    }


def number_of_collectives(module: Module, opcodes: Mapping[str, int]) -> int:
    """The number of collectives in any form, each once; `opcodes` is how often the module has each opcode.

    >>> from hlo_cli import parse_module
    >>> text = '''ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[16]) all-gather-start(p), dimensions={0}
    ...   ROOT d = f32[16] all-gather-done(s) }'''
    >>> number_of_collectives(parse_module(text), {"all-gather-start": 1})
    1
    """
    if not any(opcodes.get(name) or opcodes.get(f"{name}-start") for name in COLLECTIVES):
        return 0  # most modules of one device
    from hlo_cli.analysis.query.logical_operations import logical_operations

    return sum(each.opcode in COLLECTIVES for each in logical_operations(module))


def _bytes(shapes: Iterable[Shape]) -> int:
    return sum(leaf.padded_bytes for shape in shapes for _, leaf in shape.leaves)

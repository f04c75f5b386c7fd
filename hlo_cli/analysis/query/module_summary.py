"""Summary of a module in a dozen values, the same for every module, for tables of many modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.layout.padding import data_values
from hlo_cli.ir.module import Module
from hlo_cli.ir.opcodes import CUSTOM_CALL, FUSION
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import Shape

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

"""`hlo parse --explain` of an instruction with a sharding: which device holds what."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.sharding import NamedSharding, Sharding
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module


def sharding_meaning(instruction: Instruction, module: Module | None) -> str:
    """The shard of an instruction and who holds what, in one sentence; empty without a sharding that can be read.

    Without a `module`, it is unknown whether the shape is that of the whole array or of a shard.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m, num_partitions=2  ENTRY e { p = f32[8] parameter(0)  ROOT r = f32[8] "
    ...     "negate(p), sharding={devices=[2]<=[2]} }")
    >>> sharding_meaning(module.entry.root, module)
    'each of 2 devices holds f32[4]: device 0 [0:4], device 1 [4:8]'
    >>> sharding_meaning(module.entry.root, None)
    'dimension 0 in 2 parts; each of 2 devices holds its own part'
    """
    sharding = instruction.sharding
    if sharding is None:
        return ""
    from hlo_cli.analysis.sharding.placement import describe_sharding
    from hlo_cli.ir.attributes.sharding import TupleSharding

    if module is None or isinstance(sharding, TupleSharding):
        return describe_sharding(sharding)
    return _of_value(instruction, module, sharding)


def _of_value(instruction: Instruction, module: Module, sharding: Sharding | NamedSharding) -> str:
    from hlo_cli.analysis.sharding.entry_arrays import array_of_value
    from hlo_cli.analysis.sharding.placement import describe_sharding, describe_shards
    from hlo_cli.source import HloError

    found = array_of_value(module, instruction)
    if found is None or found.whole is None:
        return describe_sharding(sharding)
    try:
        words = describe_shards(found.whole, sharding)
    except HloError as error:
        return f"invalid: {error.diagnostic.message}"
    if found.whole.sizes != found.shape.sizes:  # the shape in the text is that of a shard
        return f"of {found.whole.to_string(layout=False)}, {words}"
    return words

"""Gives loops the trip counts that a profile measured, where the module does not determine them.

Mirrors `WhileLoopTripCountAnnotator` of xla/service/while_loop_trip_count_annotator.cc, which writes what it finds into
the same configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from hlo_cli.analysis.dataflow.executions import trip_count
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.clone import begin_copies, copied_calls, with_computations

_CONFIG: Final = "backend_config"


def unknown_loops(module: Module) -> tuple[Instruction, ...]:
    """The while loops whose trip count the module does not determine."""
    loops = (each for each in module.instructions if each.opcode == opcodes.WHILE)
    return tuple(each for each in loops if trip_count(each) is None)


def with_trip_counts(module: Module, trips: Mapping[str, int]) -> Module:
    """The module with trip counts for loops of unknown trip count, by name; itself if none of them has one.

    HloError if an instruction is used before it is defined.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('''HloModule m
    ... c { p = (s32[]) parameter(0)  ROOT r = pred[] custom-call(p), custom_call_target="f" }
    ... b { ROOT p = (s32[]) parameter(0) }
    ... ENTRY e { t = (s32[]) parameter(0)  ROOT w = (s32[]) while(t), condition=c, body=b }''')
    >>> trip_count(with_trip_counts(module, {"w": 7}).entry.root)
    7
    """
    chosen = {each: trips[each.name] for each in unknown_loops(module) if each.name in trips}
    if not chosen:
        return module
    copies = begin_copies(module)
    made = []
    for computation in module.computations:
        copy = copies[computation]
        for each in computation.instructions:
            attributes = _attributes(each, chosen[each]) if each in chosen else None
            copy.copy(each, copy.operands(each), copied_calls(each, copies), attributes=attributes)
        made.append(copy.finish(None if computation.root is None else copy.copies[computation.root]))
    return with_computations(module, made, copies)


def _attributes(loop: Instruction, trips: int) -> tuple[Attribute, ...]:
    """The attributes of a loop, with the trip count in its configuration."""
    config = loop.attribute(_CONFIG)
    try:
        known = json.loads(config) if config else {}
    except ValueError:
        known = {}
    known = (known if isinstance(known, dict) else {}) | {"known_trip_count": {"n": str(trips)}}
    kept = tuple(each for each in loop.attributes if each.name != _CONFIG)
    return (*kept, Attribute(_CONFIG, json.dumps(known, separators=(",", ":"))))

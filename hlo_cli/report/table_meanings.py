"""The tables of every command and what their rows are, for `--table help` and for shell completion.

Every table that a report can have is listed here; a table of that name means the same in all modes of a command.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_MODULES: Final = {"modules": "modules, one row each"}
_CHANGED_LINES: Final = {"changed_lines": "lines of the text that were changed, added, removed, or moved"}

TABLE_MEANINGS: Final = MappingProxyType(
    {
        "parse": {
            "values": "arrays of the module, the largest first",
            "module": "totals of the module: arguments, results, instructions, and opcodes",
            "signature": "arguments and results of the module",
            "opcodes": "opcodes and how often each occurs",
            "instructions": "instructions in the order of the text",
            "calls": "computations, each below its caller",
            "lines": "lines of the text, one for each instruction",
            "instruction": "parts of the instruction and their meaning",
            "operands": "operands of the instruction",
            "origin": "facts on the origin of the instruction",
            "stack": "calls in the user's program that made the instruction, the innermost first",
            "moves": "values that the instruction copies, prefetches, or passes on, the nearest first",
            "second_instruction": "parts of a further instruction in a message",
            "third_instruction": "parts of a further instruction in a message",
            "errors": "error messages in a text",
            "shape_differences": "elements in which the shapes of an error differ",
            "operations": "slow operations of the compiler in a text",
            "warnings": "resharding warnings in a text",
            "cost": "bytes on each device before, during, and after resharding",
            "dimensions": "dimensions with the number of their parts",
            "sharding": "parts of the sharding and their meaning",
            "shardings": "shardings of the elements of a tuple",
            "devices": "devices with the part that each holds",
            "groups": "replica groups",
            "pairs": "pairs of a source and a target device",
            **_MODULES,
        },
        "graph": {
            "nodes": "instructions that the graph shows, operands before users",
            "edges": "edges between them, those with most bytes first",
            "kinds": "kinds of nodes with their number and the size of their results",
            "changes": "nodes that were changed, added, removed, or moved between two modules",
        },
        "layout": {
            "shapes": "shapes with their sizes and padding",
            "instructions": "instructions with the size and padding of their results",
            "computations": "computations with the size and padding of their values",
            "opcodes": "opcodes with the size and padding of their results",
            "op_names": "op_names with the size and padding of their values",
            "sources": "source lines with the size and padding of their values",
            "scopes": "named scopes with the size and padding of their values",
            "arguments": "arguments with the size and padding of what holds them",
            "passes": "compiler passes with the size and padding of the values that they made",
            "orders": "dimension orders with the size of the shape in each",
            "shape": "parts of the shape and their meaning",
            "steps": "tiles, one at a time, with the sizes before and after",
            "leaves": "arrays of the tuple",
            "layout": "parts of the layout and their meaning",
            **_MODULES,
        },
        "tile-index": {
            "addresses": "elements with their linear indices and addresses",
            "positions": "positions in memory with the element or padding at each",
            "elements": "elements with their positions in both layouts",
            "layouts": "the two layouts",
            "steps": "steps that turn one layout into the other",
        },
        "memspace": {
            "live_values": "values live at the peak or at the given step",
            "spaces": "memory spaces with their peaks and limits",
            "memory_viewer": "memory spaces with the numbers of XProf's memory viewer, if the dump has a proto",
            "suggestions": "changes that lower the peak, each on top of the earlier ones",
            "by_scope": "live values, summed by scope",
            "by_op_name": "live values, summed by op_name",
            "by_source": "live values, summed by source line",
            "by_argument": "live values, summed by argument",
            "by_pass": "live values, summed by the pass that made them",
            "by_kind": "live values, summed by kind of buffer",
            "by_shape": "live values, summed by shape",
            "by_opcode": "live values, summed by opcode",
            "buffers": "buffers and the steps at which they are live",
            "live_range": "definition, uses, and end of the value",
            "uses": "instructions that use the value",
            "aliases": "values in the same buffer",
            "memory_reuses": "values in the same memory at other times",
            "transfers": "transfers between memory spaces",
            "directions": "pairs of memory spaces with the transfers between them",
            "repeated_copies": "values that are copied more than once",
            "totals": "totals of every memory space, computed and from the compiler",
            "differences": "values whose size or offset differs from the compiler's",
            "live_ranges": "values whose live range differs from the compiler's",
            "allocations": "allocations in the message: the one that failed, then the largest first",
            "messages": "messages in the text with their figures",
            "culprit": "facts about the allocation to blame most",
            "message": "names in the message: module, executable, device, and error code",
            "allocator": "statistics of the allocator",
            "process": "process that was killed",
            "chunks": "sizes of chunks in use",
            "usage": "memory usage in the message",
            "program": "memory usage of the program",
            "assignment": "statistics of the buffer assignment",
            **_MODULES,
        },
        "schedule": {
            "pairs": "pairs of start and done, with the compute that overlaps them",
            "operations": "operations with the number of their pairs",
            "by_source": "source lines with their transfers",
            "by_scope": "named scopes with their transfers",
            "by_argument": "arguments with the transfers that move them",
            "by_pass": "compiler passes with the transfers that they made",
            "steps": "steps of the schedule",
            "buffers": "buffers and the steps at which they are live",
            "critical_path": "instructions on the critical path",
            "moved_blocks": "blocks of instructions that move",
            "peaks": "peaks of every memory space before and after",
            "overlaps": "async pairs and exposed operations before and after",
            **_CHANGED_LINES,
            **_MODULES,
        },
        "fuse": {
            "fusions": "fusions with the memory traffic that they avoid",
            "kernel_kinds": "kinds of kernels with their number and cost",
            "kernels": "kernels of the module",
            "fusion": "totals of the fusion",
            "body": "instructions of the fused computation",
            "costs": "instructions with their cost",
            "dots": "matmuls and convolutions",
            "by_source": "source lines with the cost of their kernels",
            "by_scope": "named scopes with the cost of their kernels",
            "by_argument": "arguments with the cost of the kernels that move them",
            "by_pass": "compiler passes with the cost of the kernels that they made",
            "pairs": "producer-consumer pairs that are not fused, and why",
            "reasons": "reasons that XLA gives for them, with the number of pairs",
            "custom_calls": "custom calls",
            "targets": "custom-call targets with the number of their calls",
            "call": "facts about the custom call",
            "buffers": "buffers that are passed to the custom call",
            "config_fields": "fields of the backend config",
            "totals": "totals before and after",
            "rules": "rules that prevent fusion, with the number of pairs",
            "decisions": "pairs that were not fused, and why",
            **_CHANGED_LINES,
            **_MODULES,
        },
        "diff": {
            "statements": "statements about what happened, then the changes that none explains",
            "collectives": "collectives by kind before and after",
            "conditions": "conditions of --fail-on and whether they hold",
            "causes": "changes and costs by source line, scope, or argument",
            "changes": "instructions that were changed, added, removed, or moved",
            "memory": "memory metrics before and after",
            "costs": "cost metrics before and after",
            "change_kinds": "kinds of changes with their number",
            "files": "files of a diff with the number of changed lines",
            "header_fields": "fields of the module header that differ",
            "computations": "computations with the number of their changes",
            "passes": "passes that change the module",
            **_CHANGED_LINES,
            **_MODULES,
        },
        "shard": {
            "parameters": "parameters by shape and sharding, those that save most first",
            "results": "results by shape and sharding, or one row each",
            "collectives": "collectives by mesh axis and kind, those that send most first",
            "instructions": "parameters or collectives, one row each",
            "axes": "axes of the mesh, with the arrays divided or the bytes sent along each",
            "sources": "source lines with the bytes of their parameters or collectives",
            "scopes": "named scopes with the bytes of their parameters or collectives",
            "arguments": "arguments with their bytes, or those of their collectives",
            "passes": "compiler passes with the bytes of their parameters or collectives",
            "devices": "devices with the slice of the array that each holds",
            "dimensions": "dimensions of the array with their tiles and mesh axes",
            "placement": "bytes on a device and on all, copies, mesh, and forms of the sharding",
            "place": "slice, coordinates, and devices with the same data, for one device",
            "leaves": "arrays of the tuple with their shards",
            "shardings": "both shardings of a reshard, with the bytes on a device",
            "steps": "steps of the partitioner from one sharding to the other",
            "detour": "steps through a sharding that avoids full rematerialization",
            "cost": "bytes on a device before, during, and after full rematerialization",
            "warnings": "resharding warnings in a text",
            **_MODULES,
        },
        "report": {
            "verdicts": "verdicts: memory, exposed transfers, padding, findings, and time",
            "spaces": "memory spaces with their peaks and limits",
            "buffers": "buffers and the steps at which they are live",
            "steps": "steps of the schedule",
            "operations": "operations with the number of their pairs",
            "pairs": "pairs of start and done, with the compute that overlaps them",
            "kernels": "kernels of the module",
            "fusions": "fusions with the memory traffic that they avoid",
            "collectives": "collectives by mesh axis and kind, those that send most first",
            "parameters": "parameters by shape and sharding, those that save most first",
            "results": "results by shape and sharding",
            "lines": "source lines with their time, bytes, exposed transfers, and padding",
            "shapes": "shapes with their sizes and padding",
            "groups": "groups of findings with one cause",
            "findings": "findings: errors first, then by cost",
            **_MODULES,
        },
        "run": {
            "results": "arrays of the result with their extremes, and what is not finite",
            "values": "values of the instructions of --at, one row for each time they run",
            "iterations": "values of the instructions of --watch, one row for each time they run",
            "highlights": "first and last rows of long loops, and those with an event",
            "outfed": "values of outfeeds, in the order in which they run",
            "distances": "results of both modules, those that are furthest apart first",
            "first_difference": "facts on the first instruction that differs",
            "first_difference_values": "operands and results of the first instruction that differs, in both modules",
            "sightings": "instructions with the elements of --probe, the first that makes them first",
            "passes": "compiler passes after which the results differ",
        },
        "lint": {
            "findings": "findings: errors first, then by cost",
            "groups": "groups of findings with one cause",
            "sources": "source lines with the cost of their findings",
            "scopes": "named scopes with the cost of their findings",
            "arguments": "arguments with the cost of their findings",
            "assertions": "assertions and their results",
            "rules": "rules",
            "settings": "settings with their values",
            **_MODULES,
        },
    }
)
"""For each command, the names of its tables with a few words about their rows."""


def table_names(command: str) -> tuple[str, ...]:
    """The names of the tables that a command can write.

    >>> table_names("lint")[-3:]
    ('rules', 'settings', 'modules')
    """
    return tuple(TABLE_MEANINGS.get(command, ()))


def table_meaning(report_command: str, name: str) -> str:
    """What the rows of a table are; the command of a report may have a suffix, such as lint-rules.

    >>> table_meaning("lint-rules", "rules")
    'rules'
    """
    for command in (report_command, report_command.partition("-")[0]):
        if name in TABLE_MEANINGS.get(command, {}):
            return TABLE_MEANINGS[command][name]
    return ""

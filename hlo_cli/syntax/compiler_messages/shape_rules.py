"""The messages of XLA's shape inference by family; the sentence of the message has the numbers.

Mirrors xla/service/shape_inference.cc and the callers' checks of xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.compiler_messages import ErrorRule
from hlo_cli.syntax.compiler_messages.verifier_rules import SHAPE

_FAMILIES: Final = (
    (
        r"Cannot concatenate arrays|Concatenate expects all operands",
        "concatenate",
        "Concatenated arrays have one type and equal sizes in all other dimensions.",
    ),
    (
        (
            r"A dimension number is (?:out of range|not unique) in Dot|[Cc]ontracting dimension sizes"
            r"|[Bb]atch dimension sizes|Must specify the same number of (?:contracting|batch) dimensions"
        ),
        "dot",
        "The contracting and the batch dimensions of a dot are paired, each pair of equal size.",
    ),
    (
        (
            r"Expected (?:LHS feature dimension|input batch dimension|output feature dimension)"
            r"|A dimension number is out of range in convolution|Convolution arguments must have"
        ),
        "convolution",
        "The input features of a convolution are the kernel's input features times feature_group_count.",
    ),
    (
        r"Reduction function (?:must|'s)|Reduction function's|Reducer ",
        "reducer",
        "A reducer takes two values for each input, of the type of its initial value, and returns one of that type.",
    ),
    (
        r"Transpose dimensions \[|dims and permutation must have equal sizes",
        opcodes.TRANSPOSE,
        "The dimensions of a transpose name every dimension of the operand once.",
    ),
    (
        (
            r"[Ll]imit index|Negative start index to slice|Slice (?:limit|start)|Dynamic (?:update )?slice "
            r"(?:start|size|update)"
            r"|Negative slice size"
        ),
        "slice",
        "A slice is within its operand: 0 ≤ start ≤ limit ≤ size in every dimension.",
    ),
    (
        r"Broadcast dimension|Broadcast requires|Size of broadcast dimension",
        "broadcast",
        "A broadcast lists the result dimension of each operand dimension; their sizes are equal.",
    ),
    (
        (
            r"Gather op |Slice size at index|Offset dimension \d++ in gather|Output window dimensions in gather"
            r"|Invalid \w++ set in gather op|in gather op"
        ),
        "gather",
        "The slice sizes of a gather fit its operand, and its dimension lists are sorted, unique, and in range.",
    ),
    (
        (
            r"Scatter op |Scatter index leaf|Bounds of the (?:scatter|window) dimensions of updates|Invalid scatter_"
            r"|Invalid \w++ set in scatter op"
        ),
        "scatter",
        "The updates of a scatter have the sizes of its indices and windows, which fit its operand.",
    ),
    (
        r"Operands to select|Select's pred operand",
        "select",
        "A select takes a pred and two values of one shape; the pred is a scalar or has their sizes.",
    ),
    (
        r"While (?:body|condition|loop|init|instruction)[^\n]{0,60} (?:must|expected)",
        "loop",
        "The body and condition of a while have one parameter, and the condition returns pred[].",
    ),
    (
        r"Operand \S{1,200} shape does not match parameter|Shape mismatch between parameter number",
        "call",
        "Each operand of a call, fusion, or branch has the shape of the parameter that it becomes.",
    ),
    (
        r"Async (?:done|update|start) requires|Defining op of Async|has no matching async|Orphan async",
        "async operation",
        "Every async start has one done, and only updates and the done take its result.",
    ),
    (
        r"Expected element type in shape to be|Expected array argument for|Arguments? to \w++ must be",
        "element type",
        "Each opcode takes only some element types.",
    ),
    (
        r"AllToAll split dimension size|ReduceScatter operand scatter dimension size",
        "collective",
        "The size of the divided dimension is a multiple of the number of devices in a group.",
    ),
    (
        r"Bitcast cannot have different",
        "bitcast",
        "A bitcast keeps the bytes and the memory space of its operand.",
    ),
    (
        r"Expected aliased input|Trying to set up alias|must be the same as the shape and memory space",
        "input_output_alias",
        "An aliased argument and result have the same size, shape, and memory space.",
    ),
    (
        r"Cannot infer shape for",
        "operands",
        "The shapes of the operands and the attributes fit each other.",
    ),
)

SHAPE_RULES: Final = (
    (
        (
            rf"Cannot infer shape for (?P<opcode>[\w\-]++) operation: (?P<left>{SHAPE}) <\w++> (?P<right>{SHAPE})\.? "
            r"(?P<why>[^\n]{0,300})"
        ),
        ErrorRule(
            "operands", "The shapes of the operands and the attributes fit each other.", "{left} and {right}: {why}"
        ),
    ),
    *((rf"(?P<why>(?:{start})[^\n]{{0,400}})", ErrorRule(key, rule, "{why}")) for start, key, rule in _FAMILIES),
)
"""Patterns of messages and their rules, after those of the verifier."""

"""What a text is, by its content: the first of the signatures that it has."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.inputs.pasted.text import PastedKind
from hlo_cli.lazy_regex import lazy_regex

_LONGEST_VALUE: Final = 20_000
SIGNATURES: Final[dict[PastedKind, tuple[str, ...]]] = {
    "out-of-memory": (
        "RESOURCE_EXHAUSTED",
        "Resource exhausted",
        "ResourceExhausted",
        "Out of memory",
        "out of memory",
        "OutOfMemory",
        "OOMKilled",
        "oom-kill",
        "oom_kill",
        "OOM Kill",
        "OOM when allocating",
        "would exceed memory",
        "Scoped allocation",
        "Attempting to allocate ",
        "Attempting to reserve ",
        "Largest program allocations",
        "Can't reduce memory use",
        "memory size limit exceeded",
        "std::bad_alloc",
        "ailed to allocate ",
        "Oom: ",
        "Ran out of ",
        "XLA label: ",
        "XLA Label: ",
        "Peak buffers:",
        "hbm capacity",
        "vmem capacity",
        " usage >= ",
        "out of resource: shared memory",
        "due to memory pressure",
        "allocation offset upper bound",
        "CompileTimeSparseCoreAllocation",
    ),
    "slow-operation": (
        "Constant folding an instruction is taking",
        "low compile?",
        "slow_operation_alarm",
        "The operation took ",
        "Trying algorithm ",
    ),
    "resharding": ("[spmd]", "[SPMD]", "nvoluntary full rematerialization"),
    "compiler-error": (
        "RET_CHECK",
        "hlo_verifier",
        "Check failed: ",
        "XlaRuntimeError",
        "JaxRuntimeError",
        "during context [",
        "Mosaic failed",
        "INTERNAL: ",
        "INVALID_ARGUMENT: ",
        "UNIMPLEMENTED: ",
        "FAILED_PRECONDITION: ",
        "NOT_FOUND: ",
        "Internal: ",
        "Invalid argument: ",
        "InvalidArgument",
        "Unimplemented: ",
        "Expected instruction to have shape",
        "Seen floating point types",
        "Binary op ",
        "LLVM ERROR: ",
        "MLIRError: ",
        "have the same shape",
        "IndivisibleError: ",
        "was parsing ",
        "Unbounded dynamism",
        "mixed precision is ",
        "doesn't have opcode ",
    ),
}
"""Texts in messages of each kind; the first kind that has one counts."""

_VALUES: Final[tuple[tuple[PastedKind, re.Pattern[str]], ...]] = (
    ("shape", lazy_regex(r"(?:b\()?\(?[A-Za-z]\w*\[[\d,<=? ]*\]\)?(?:[{,)].*)?+", re.DOTALL)),
    (
        "replica-groups",
        lazy_regex(
            r"(?:(?:replica_groups|source_target_pairs)=.*|\{\{[\d, ]*\}(?:,\s*\{[\d, ]*\})*\}"
            r"|\[[\d,]+\]<=\[[\d,]+\].*)",
            re.DOTALL,
        ),
    ),
    (
        "sharding",
        lazy_regex(
            r"(?:sharding=.*|\{+(?:replicated|maximal|manual|unknown|devices=|unreduced|shard_as|shard_like|mesh).*\}"
            r"|\w*Sharding\(.*\)|P(?:artitionSpec)?\(.*\)|#?sdy\.sharding.*)",
            re.DOTALL,
        ),
    ),
    ("layout", lazy_regex(r"\{[\d, ]*(?::.*)?\}", re.DOTALL)),
)


def kind_of(text: str) -> PastedKind | None:
    """The kind of a text that is not a module, or None if nothing shows it.

    >>> kind_of("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes."), kind_of("{1,0:T(8,128)}"), kind_of("step 1")
    ('out-of-memory', 'layout', None)
    """
    if len(text) <= _LONGEST_VALUE and (value := text.strip().rstrip(",;.")).count("\n") < 2:
        for kind, pattern in _VALUES:
            if pattern.fullmatch(value):
                return kind
    return next((kind for kind, marks in SIGNATURES.items() if any(mark in text for mark in marks)), None)

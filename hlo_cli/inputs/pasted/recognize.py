"""What a text is, by its content: the first of the signatures that it has."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.inputs.pasted.text import PastedKind
from hlo_cli.lazy_regex import lazy_regex

_LONGEST_VALUE: Final = 20_000
_SIGNATURES: Final[tuple[tuple[PastedKind, re.Pattern[str]], ...]] = (
    (
        "out-of-memory",
        lazy_regex(
            r"RESOURCE_EXHAUSTED|Resource ?[Ee]xhausted|[Oo]ut of memory|[Oo]ut[Oo]f[Mm]emory|[Oo][Oo][Mm][ _-]?[Kk]ill"
            r"|OOM when allocating|would exceed memory|Scoped allocation|Attempting to (?:allocate|reserve) "
            r"|Largest program allocations|Can't reduce memory use|memory size limit exceeded|std::bad_alloc"
            r"|[Ff]ailed to allocate |CompileTime\w+Oom\b|Ran out of |XLA [Ll]abel: |Peak buffers:"
            r"|Exceeded \w+ capacity|Total \w+ usage >= |out of resource: shared memory|due to memory pressure"
            r"|allocation offset upper bound|CompileTime\w*Allocation"
        ),
    ),
    (
        "slow-operation",
        lazy_regex(
            r"Constant folding an instruction is taking|[Ss]low compile\?|slow_operation_alarm|^The operation took "
            r"|Trying algorithm [^\n]{0,80}for ",
            re.MULTILINE,
        ),
    ),
    ("resharding", lazy_regex(r"\[spmd\]|[Ii]nvoluntary full rematerialization|[Rr]esharding [^\n]{0,200}sharding")),
    (
        "compiler-error",
        lazy_regex(
            r"RET_CHECK|hlo_verifier|Check failed: |XlaRuntimeError|JaxRuntimeError|during context \[|Mosaic failed"
            r"|\b(?:INTERNAL|INVALID_ARGUMENT|UNIMPLEMENTED|FAILED_PRECONDITION|NOT_FOUND|UNKNOWN): "
            r"|\b(?:Internal|InvalidArgument|Invalid argument|Unimplemented|FailedPrecondition): "
            r"|Expected instruction to have shape|Seen floating point types|Binary op .{0,20}with "
            r"|LLVM ERROR: |MLIRError: |must (?:all )?have the same shape|IndivisibleError: |was parsing \d"
            r"|Unbounded dynamism|mixed precision is "
            r"|doesn't have opcode "
        ),
    ),
)
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
    return next((kind for kind, pattern in _SIGNATURES if pattern.search(text)), None)

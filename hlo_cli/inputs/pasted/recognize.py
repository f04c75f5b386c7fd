"""What a text is, by its content: the first of the signatures that it has."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.inputs.pasted.text import PastedKind
from hlo_cli.lazy_regex import lazy_regex

_LONGEST_VALUE: Final = 20_000
_ORIGIN: Final = lazy_regex(r"\b(?:op_name|op_type|source_file)=\"(?:[^\"\\\n]++|\\.)*+\"")
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
    (
        "shape",
        lazy_regex(
            r"(?:(?:b\()?\(?[A-Za-z]\w*\[[\d,<=? ]*\]\)?(?:[{,)].*)?+|(?:ShapedArray|ShapeDtypeStruct)\(.*\))",
            re.DOTALL,
        ),
    ),
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


_DEVICES: Final = r"\{devices=\[[\d,]+\](?:<=\[[\d,]+\](?:T\([\d,]+\))?|[\d,]+)(?: [\w={},]{1,200})?\}"
_IN_PROSE: Final[tuple[tuple[PastedKind, re.Pattern[str]], ...]] = (
    (
        "sharding",
        lazy_regex(
            rf"{_DEVICES}|NamedSharding\(mesh=[^\n]{{1,2000}}\)(?=$|[\s,;.])"
            r"|\{mesh\[[^\[\]\n]{1,500}\][^{}\n]{0,40}(?:\[[^\[\]\n]{0,200}\])?\}",
            re.MULTILINE,
        ),
    ),
    (
        "replica-groups",
        lazy_regex(
            r"(?:replica_groups|source_target_pairs)="
            r"(?:mesh\[[^\[\]\n]{1,300}\] ?\{[^{}\n]{0,200}\}"
            r"|\{\{[\d,{} ]{1,2000}\}\}|\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)"
        ),
    ),
    (
        "shape",
        lazy_regex(
            r"(?<![\w.])(?:pred|bf16|[fsuc]\d{1,3}|f8e\d\w{1,12})\[[\d,]*\]"
            r"(?:\{[\d,]+(?::[^{}\n]{0,200})?\}|(?=[ \t]*$))"
            r"|ShapeDtypeStruct\([^()\n]*\([\d, ]*\)[^()\n]*\)|ShapedArray\([^()\n]{1,200}\)",
            re.MULTILINE,
        ),
    ),
)
"""Values as they are written inside of sentences."""


def value_in(text: str) -> tuple[PastedKind, str] | None:
    """The first sharding, list of replica groups, or shape with a layout in a short text, with its kind; None if none.

    >>> value_in("What is bf16[8,128]{1,0:T(8,128)(2,1)}?"), value_in("An f32[8] is small.")
    (('shape', 'bf16[8,128]{1,0:T(8,128)(2,1)}'), None)
    """
    if len(text) > _LONGEST_VALUE:
        return None
    found = ((kind, pattern.search(text)) for kind, pattern in _IN_PROSE)
    return next(((kind, match[0].strip()) for kind, match in found if match is not None), None)


def kind_of(text: str) -> PastedKind | None:
    """The kind of a text that is not a module, or None if nothing shows it.

    >>> kind_of("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes."), kind_of("{1,0:T(8,128)}"), kind_of("step 1")
    ('out-of-memory', 'layout', None)
    """
    return next(iter(kinds_of(text)), None)


def kinds_of(text: str) -> tuple[PastedKind, ...]:
    """The kinds that a text may have, the most likely first; words in the op_name of an instruction do not count.

    >>> kinds_of("It runs out of memory after INTERNAL: RET_CHECK failure")
    ('out-of-memory', 'compiler-error')
    >>> kinds_of('a = f32[] add(b, c), metadata={op_name="out of memory"}')
    ()
    """
    if len(text) <= _LONGEST_VALUE and (value := text.strip().rstrip(",;.")).count("\n") < 2:
        for kind, pattern in _VALUES:
            if pattern.fullmatch(value):
                return (kind,)
    if any(mark in text for marks in SIGNATURES.values() for mark in marks):
        text = _ORIGIN.sub("", text)
    return tuple(kind for kind, marks in SIGNATURES.items() if any(mark in text for mark in marks))

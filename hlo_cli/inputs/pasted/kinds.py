"""What is a kind of text that is not a module: its noun, its marks, and what answers it?"""

from __future__ import annotations

import re
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex

# --- kinds and their marks ---
# What a text is: the one table of its kinds, the most specific first, each with the marks that it has.
#
# A row holds a noun for messages, the function that answers, the words of which a text must have one, and an expression
# that decides. A kind further down is asked only if no kind above it fits: errors, warnings, files of a dump, tables,
# and prints; shapes come last and only if there is nothing else (`read.py`).


PastedKind = Literal[
    "out-of-memory",
    "missing-symbol",
    "kernel-launch",
    "library-launch",
    "argument-size",
    "donated-argument",
    "indivisible",
    "sharding-rank",
    "mesh-axis",
    "other-devices",
    "other-sharding",
    "compile-time-constant",
    "nan",
    "unknown-flag",
    "stuck-collective",
    "nccl-log",
    "slow-operation",
    "resharding",
    "memory-report",
    "buffer-assignment",
    "live-range",
    "buffer-values",
    "allocator-stats",
    "memory-stats",
    "cost-analysis",
    "autotune-results",
    "thunks",
    "thunk-names",
    "pass-times",
    "pass-log",
    "target",
    "fusion-process",
    "transfer-stats",
    "compile-options",
    "torch-graphs",
    "torch-metrics",
    "torch-times",
    "memory-top",
    "execution-profile",
    "kernel-times",
    "operation-times",
    "op-profile",
    "pallas-kernel",
    "stablehlo",
    "residuals",
    "framework-error",
    "compiler-error",
    "mismatch",
    "device-usage",
    "kernel-metrics",
    "copy-times",
    "schedule-statistics",
    "jaxpr",
    "torch-graph",
    "mesh",
    "devices",
    "model-summary",
    "sharding-drawing",
    "shape-tree",
    "donation",
    "spills",
    "host-compute",
    "captured-constants",
    "compile-log",
    "cut-header",
    "diff",
    "shape",
    "shapes",
    "layout",
    "sharding",
    "replica-groups",
    "memory-profile",
    "object-file",
    "ptx",
    "llvm-ir",
    "emitter-mlir",
    "drawing",
    "program-facts",
    "exported",
    "exception",
    "traceback",
    "step-times",
    "environment",
    "arrays",
    "shards",
    "format",
    "stacks",
    "device-metrics",
    "kv-cache",
    "mentions",
]


@dataclass(frozen=True, slots=True)
class Envelope:
    """One kind of text: one of the `marks` is in it, and `pattern` is found, if there is one.

    `answer` is the function of `hlo_cli/commands` that answers. A document is about itself, so that instructions
    in it are part of it; an answer that explains HLO is about those next to a message; a message that is beside HLO
    is a remark in a log, and a program there is what the reader asks about. A value is all of its text. What has times
    is answered by `hlo profile` too, although it is not a trace. `to_hlo` is how the program of the text becomes HLO.
    """

    kind: PastedKind
    noun: str
    answer: str
    marks: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    is_document: bool = False
    explains_hlo: bool = False
    is_beside_hlo: bool = False
    is_value: bool = False
    has_times: bool = False
    to_hlo: str = ""

    def is_in(self, text: str) -> bool:
        """Whether a text, freed of log prefixes, is of this kind."""
        return any(mark in text for mark in self.marks) and (self.pattern is None or bool(self.pattern.search(text)))


FROM_JAX: Final = "to create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR"
FROM_TORCH: Final = (
    "to create HLO text, set XLA_FLAGS=--xla_dump_to=DIR or use torch_xla._XLAC._get_xla_tensors_hlo([tensor])"
)


def words(pattern: str) -> re.Pattern[str]:
    """An expression for a message, in which a space stands for any white space, as lines may be wrapped."""
    spaced = _BRACKETS_OR_SPACE.sub(lambda match: match[1] or r"\s+", pattern)
    return lazy_regex(spaced, re.MULTILINE)


_BRACKETS_OR_SPACE: Final = re.compile(r"(\[(?:\\.|[^\]\\])*\])| (?![?*+{])")

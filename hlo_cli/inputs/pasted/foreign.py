"""Texts in other languages and formats: what each is called, and how to get HLO instead."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

_LOOKED_AT: Final = 1 << 16
_JAX: Final = "to create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR"
_LOWERED: Final = (
    "for optimized HLO, use lowered.compile().as_text(); for HLO of this stage, lowered.as_text(dialect='hlo')"
)
_DUMP: Final = "pass the HLO dump, such as *after_optimizations.txt"
_TORCH: Final = (
    "to create HLO text, set XLA_FLAGS=--xla_dump_to=DIR or use torch_xla._XLAC._get_xla_tensors_hlo([tensor])"
)
_TENSORFLOW: Final = (
    "to create HLO text, use f.experimental_get_compiler_ir(x)(stage='optimized_hlo') or XLA_FLAGS=--xla_dump_to=DIR"
)
_TRACE: Final = "pass the *.xplane.pb file of the same profile, which contains the programs"

LANGUAGES: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = (
    ("Triton IR (MLIR)", lazy_regex(r"^ *(?:tt\.func|ttg?\.|module attributes \{\"ttg?\.)", re.MULTILINE), _DUMP),
    (
        "StableHLO (MLIR)",
        lazy_regex(
            r"^(?:module(?: @\S+)? (?:attributes\b|\{)| *(?:func\.func|\"builtin\.module\"))"
            r"|\b(?:stablehlo|mhlo|chlo)\.[a-z]|\btensor<[\dx?]*[a-z]\w*>",
            re.MULTILINE,
        ),
        _LOWERED,
    ),
    ("MLIR", lazy_regex(r"^ *(?:%\w+(?::\d+)? = \"?[a-z_]+\.[a-z_]+\"?[ (<]|\^bb\d+\()", re.MULTILINE), _LOWERED),
    ("a jaxpr", lazy_regex(r"\{ *lambda *[;a-z]|^ *let$|^ *let [a-z]+:", re.MULTILINE), _JAX),
    ("LLVM IR", lazy_regex(r"\A\s*; ModuleID|^target (?:datalayout|triple) = |^define [^\n]*@", re.MULTILINE), _DUMP),
    ("PTX", lazy_regex(r"^\.version \d.*\n\.target sm_|^\.visible \.entry ", re.MULTILINE), _DUMP),
    ("a buffer assignment", lazy_regex(r"^BufferAssignment:|^allocation \d+: size \d+", re.MULTILINE), _DUMP),
    (
        "a memory usage report",
        lazy_regex(r"^Allocations sorted by size:|^cumulative_size; total_size", re.MULTILINE),
        _DUMP,
    ),
    ("a table of live ranges", lazy_regex(r"^HloLiveRange |^ *Live ranges at ", re.MULTILINE), _DUMP),
    ("a Graphviz graph", lazy_regex(r"\A\s*(?:strict )?digraph ", re.IGNORECASE), _DUMP),
    ("a web page", lazy_regex(r"\A\s*<(?:!doctype )?html", re.IGNORECASE), _DUMP),
    ("a PyTorch/XLA IR graph", lazy_regex(r"^ *%\w+ = [^\n=]*\b(?:xla|aten|prim)::\w+\(", re.MULTILINE), _TORCH),
    ("a TensorFlow GraphDef", lazy_regex(r"^node \{\s{0,20}name:", re.MULTILINE), _TENSORFLOW),
    ("a profiler trace in JSON", lazy_regex(r"\"traceEvents\""), _TRACE),
    ("memory statistics", lazy_regex(r"CompiledMemoryStats\("), "pass compiled.as_text(), and run `hlo memspace`"),
    (
        "a list of XLA flags",
        lazy_regex(r"^[ \t]*--?xla_\w+=|^[ \t]*xla_\w+: ", re.MULTILINE),
        "run `hlo help dump` for the flags that write dumps",
    ),
    ("an NCCL log", lazy_regex(r"NCCL (?:INFO|WARN)"), _DUMP),
)
"""Name, signature, and hint; the first that is found in the beginning of a text counts."""

_WEAK: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = (
    (
        "Python source code",
        lazy_regex(r"^(?:import \w|from [\w.]+ import |def \w+\(|@\w[\w.]*(?:\(|$))", re.MULTILINE),
        _JAX,
    ),
    ("C++ source code", lazy_regex(r"^(?:#include |namespace |TEST_F\()", re.MULTILINE), _DUMP),
    ("JSON", lazy_regex(r"\A\s*[\[{]\s*(?:[\[{\"]|\d)"), _DUMP),
)
_TRACEBACK: Final = "Traceback (most recent call last)"
_RAISED: Final = lazy_regex(
    r"^[ |]{0,8}+((?:\w+\.)*+[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit)\b[^\n]{0,200}+)", re.MULTILINE
)


def language_error(text: str, name: str) -> HloError | None:
    """The error for a text in another language or format, with the way to HLO; None if the text has none of them.

    >>> print(language_error("{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }", "<stdin>"))
    error: <stdin> is a jaxpr, not HLO
    """
    head = text[:_LOOKED_AT]
    if _TRACEBACK in head:
        return None
    return next((_error(name, what, hint) for what, pattern, hint in LANGUAGES if pattern.search(head)), None)


def no_hlo_error(text: str, name: str) -> HloError:
    """The error for a text without HLO, which says what it seems to be.

    >>> print(no_hlo_error("Traceback (most recent call last):\\n  File 'a'\\nValueError: no x\\n", "<stdin>"))
    error: no HLO found in <stdin>, a Python traceback: ValueError: no x
    """
    head = text[:_LOOKED_AT]
    if _TRACEBACK in head:
        raised = list(_RAISED.finditer(text))
        message = f": {raised[-1][1].strip()}" if raised else ""
        return HloError(f"no HLO found in {name}, a Python traceback{message}", hint=_JAX)
    for what, pattern, hint in _WEAK:
        if pattern.search(head):
            return _error(name, what, hint)
    return HloError(f"no HLO found in {name}", hint="run `hlo help dump` to learn how to create a dump")


def _error(name: str, what: str, hint: str) -> HloError:
    return HloError(f"{name} is {what}, not HLO", hint=hint)

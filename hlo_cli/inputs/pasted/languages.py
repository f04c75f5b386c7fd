"""What is a text without HLO in other languages and formats called, and how is HLO created instead?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from warnings import catch_warnings, simplefilter

from hlo_cli.inputs.pasted.kinds import FROM_JAX, FROM_TORCH
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError

# --- the tables ---

_LOOKED_AT: Final = 1 << 16  # all patterns of all languages run over it; a language shows in its first lines
_LOWERED: Final = (
    "for optimized HLO, use lowered.compile().as_text(); for HLO of this stage, lowered.as_text(dialect='hlo')"
)
_DUMP: Final = "pass the HLO dump, such as *after_optimizations.txt"
_TENSORFLOW: Final = (
    "to create HLO text, use f.experimental_get_compiler_ir(x)(stage='optimized_hlo') or XLA_FLAGS=--xla_dump_to=DIR"
)
_TRACE: Final = "pass the *.xplane.pb file of the same profile, which contains the programs; or run `hlo profile`"

_STUCK: Final = "to compare the collectives of two processes, set XLA_FLAGS=--xla_dump_to=DIR in each; run `hlo diff`"
_NETWORK: Final = "set NCCL_DEBUG=INFO and look for the first warning of any process"
_CRASH: Final = "to find the program, set XLA_FLAGS=--xla_dump_to=DIR and run `hlo lint` on the last module in DIR"
_AUTOTUNING: Final = "set XLA_FLAGS=--xla_gpu_autotune_level=0 to compare; --xla_dump_to=DIR writes the modules"
_WHOLE: Final = "paste whole instructions, each from its name on"

LANGUAGES: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = (
    ("Triton IR (MLIR)", lazy_regex(r"^ *(?:tt\.func|ttg?\.|module attributes \{\"ttg?\.)", re.MULTILINE), _DUMP),
    (
        "a Mosaic kernel (MLIR)",
        lazy_regex(r"#tpu\.|\btpu\.[a-z_]+[ (]|dimension_semantics|#mosaic", re.MULTILINE),
        _DUMP,
    ),
    (
        "StableHLO (MLIR)",
        lazy_regex(
            r"^(?:module @(?:jit|pmap|pjit|xla)_|module(?: @\S+)? (?:attributes\b|\{)"
            r"(?=[\s\S]{0,4000}?(?:\b(?:stablehlo|mhlo|chlo|sdy)\.[a-z]|\btensor<))"
            r"| *(?:func\.func|\"builtin\.module\")(?=[\s\S]{0,4000}?(?:\b(?:stablehlo|mhlo|chlo)\.[a-z]|\btensor<)))"
            r"|= \"?(?:stablehlo|mhlo|chlo)\.[a-z]|\bmhlo\.[a-z_]+ = "
            r"|^ *\"?(?:stablehlo|mhlo|chlo)\.[a-z_]+\"?(?:\(| [%(])",
            re.MULTILINE,
        ),
        _LOWERED,
    ),
    (
        "MLIR",
        lazy_regex(
            r"^(?:module(?: @\S+)? (?:attributes\b|\{)| *(?:func\.func|\"builtin\.module\"))"
            r"|\btensor<[\dx?]*[a-z]\w*>(?=[\s\S]{0,400}?[:=(])",
            re.MULTILINE,
        ),
        _LOWERED,
    ),
    ("MLIR", lazy_regex(r"^ *(?:%\w+(?::\d+)? = \"?[a-z_]+\.[a-z_]+\"?[ (<]|\^bb\d+\()", re.MULTILINE), _LOWERED),
    ("a jaxpr", lazy_regex(r"\{ *lambda *[;a-z]|^ *let$|^ *let [a-z]+:", re.MULTILINE), FROM_JAX),
    ("LLVM IR", lazy_regex(r"\A\s*; ModuleID|^target (?:datalayout|triple) = |^define [^\n]*@", re.MULTILINE), _DUMP),
    ("PTX", lazy_regex(r"^\.version \d.*\n\.target sm_|^\.visible \.entry ", re.MULTILINE), _DUMP),
    ("a buffer assignment", lazy_regex(r"^BufferAssignment:|^[ \t\"']*+allocation \d+: size \d+", re.MULTILINE), _DUMP),
    (
        "a memory usage report",
        lazy_regex(r"Allocations sorted by size:|^cumulative_size; total_size", re.MULTILINE),
        _DUMP,
    ),
    ("a table of live ranges", lazy_regex(r"^HloLiveRange |^ *Live ranges at ", re.MULTILINE), _DUMP),
    ("a Graphviz graph", lazy_regex(r"\A\s*(?:strict )?digraph ", re.IGNORECASE), _DUMP),
    ("a web page", lazy_regex(r"\A\s*<(?:!doctype )?html", re.IGNORECASE), _DUMP),
    ("a PyTorch/XLA IR graph", lazy_regex(r"^ *%\w+ = [^\n=]*\b(?:xla|aten|prim)::\w+\(", re.MULTILINE), FROM_TORCH),
    ("a TensorFlow GraphDef", lazy_regex(r"^node \{\s{0,20}name:", re.MULTILINE), _TENSORFLOW),
    ("a profiler trace in JSON", lazy_regex(r"\"traceEvents\"|\"ph\": ?\"[XMBEC]\""), _TRACE),
    ("memory statistics", lazy_regex(r"CompiledMemoryStats\("), "pass compiled.as_text(), and run `hlo memspace`"),
    (
        "a list of XLA flags",
        lazy_regex(r"^[ \t]*--?xla_\w+=|^[ \t]*xla_\w+: |XLA_FLAGS=['\"]?--?\w|LIBTPU_INIT_ARGS=", re.MULTILINE),
        "run `hlo help dump` for the flags that write dumps",
    ),
)
"""Name, signature, and hint; the first that is found in the beginning of a text counts."""

_WEAK: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = (
    (
        "a warning about a stuck collective",
        lazy_regex(r"has been waiting for [^\n]{0,500}may be stuck|Termination timeout for [^\n]{0,300}collective"),
        _STUCK,
    ),
    ("an NCCL log", lazy_regex(r"NCCL (?:INFO|WARN)"), _NETWORK),
    (
        "an error about an unknown XLA flag",
        lazy_regex(r"Unknown (?:command line )?flags? in (?:env |environment )?(?:var )?XLA_FLAGS"),
        "remove the flag from XLA_FLAGS, or use a release of XLA that has it",
    ),
    (
        "an autotuning log",
        lazy_regex(
            r"/autotuning/|autotun\w{1,20}\.cc|gemm_algorithm_picker|conv_algorithm_picker|buffer_comparator|dot_search_space"
        ),
        _AUTOTUNING,
    ),
    (
        "a TensorRT log",
        lazy_regex(r"\[TRT\]|\bTRT\b[^\n]{0,80}\[[IWEV]\]|TensorRT-LLM|LayerType: \w"),
        "TensorRT does not use HLO",
    ),
    ("a TensorFlow clustering log", lazy_regex(r"mark_for_compilation_pass\.cc"), _TENSORFLOW),
    (
        "a PyTorch/XLA log",
        lazy_regex(r"^\[ScheduleSyncTensorsGraph\]|^TensorsGraphInfo:|torch_xla/csrc/", re.MULTILINE),
        FROM_TORCH,
    ),
    (
        "a crash report",
        lazy_regex(
            r"^\*\*\* SIG[A-Z]+|^Fatal Python error: |^PC: @ +0x|\bcore dumped\b|^#\d+ +0x[0-9a-f]{6}", re.MULTILINE
        ),
        _CRASH,
    ),
    (
        "output of pytest",
        lazy_regex(r"^=+ (?:test session starts|FAILURES|short test summary info) =+$|^E {3,}\w+Error\b", re.MULTILINE),
        FROM_JAX,
    ),
    (
        "a list of operands",
        lazy_regex(
            r"[a-z][a-z0-9]{1,12}\[[0-9,]*+\](?:\{[^{}\n]{0,80}\})? %[\w.\-]+, "
            r"(?:/\*index=\d+\*/)?[a-z][a-z0-9]{1,12}\["
        ),
        _WHOLE,
    ),
    (
        "a shortened module",
        lazy_regex(r"^[ \t]*+(?:ENTRY )?%[\w.\-]+ [({].*\n(?:[ \t]*+\.\.\.|.* = .*\.\.\.)", re.MULTILINE),
        _WHOLE,
    ),
    (
        "a list of instructions without shapes",
        lazy_regex(
            r"^[ \t]*+(?:%?[A-Za-z_][\w.\-]*+ = )?"
            r"(?:all-(?:gather|reduce|to-all)|reduce(?:-scatter|-window)?|dot|convolution|"
            r"dynamic-(?:update-)?slice|get-(?:tuple-element|dimension-size)|custom-call|fusion|broadcast|bitcast|transpose"
            r"|scatter|gather|while|conditional)(?:-start|-done)?\([^()\n]{0,500}\)(?:$|, *\w+=)",
            re.MULTILINE,
        ),
        "add the result of each, such as a = f32[8] all-gather(b)",
    ),
    (
        "a serialized module that is not complete",
        lazy_regex(r"\bb['\"]\\n[^\n]{0,400}\\x12"),
        "write the bytes to a file, such as open('module.pb', 'wb').write(data), and pass the file",
    ),
    (
        "Python source code",
        lazy_regex(r"^(?:import \w|from [\w.]+ import |def \w+\(|@\w[\w.]*(?:\(|$))", re.MULTILINE),
        FROM_JAX,
    ),
    ("C++ source code", lazy_regex(r"^(?:#include |namespace |TEST_F\()", re.MULTILINE), _DUMP),
    # Numbers without commas are a print of NumPy.
    (
        "JSON",
        lazy_regex(
            r"\A\s*+(?!\[ *\d++\.\d++\] \w)"
            r"(?!\[[\[\s]*+-?[\d.]++(?:e[+\-]?\d++)?\s++-?[\d.])(?:\[\s*(?:[\[{\"]|-?\d)|\{\s*[\"\d])"
        ),
        _DUMP,
    ),
)
_FENCE: Final = lazy_regex(r"[ \t]*+(?:```|~~~|---)")
_CODE: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (
        "C++",
        lazy_regex(
            r"\bstd::|^\s*+#include |\b(?:EXPECT|ASSERT|TEST)_\w++\(|::\w++\(|^[^#\"]*\w[ )\]]*;\s*$|\)\s*;\s*$"
        ),
    ),
    (
        "Python",
        lazy_regex(
            r"^\s*+(?:import \w|from [\w.]+ import |def \w+\(|class \w|with [^:\n]+:\s*$|for \w[^:\n]* in "
            r"[^\n]*:\s*$|@\w|>>> )"
            r"|\b(?:jax|jnp|np|tf|torch|lax|xm)\.[a-z_]\w*"
        ),
    ),
)
"""Lines of programs around HLO."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_LONGEST_SOURCE: Final = 1 << 18  # Python's own parser decides, in 0.1 s at this size (measured)
_STATEMENT: Final = lazy_regex(r"^(?:import|from|def|class) \w", re.MULTILINE)
_CPP: Final = lazy_regex(
    r"\A\s*+(?:(?://[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)\s*+)*+(?:#include |#ifndef |#pragma once|namespace \w)"
)
_RAISED: Final = lazy_regex(
    r"^[ |]{0,8}+((?:\w+\.)*+[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit)\b[^\n]{0,200}+)", re.MULTILINE
)


def language_error(text: str, name: str) -> HloError | None:
    """The error for a text in another language or format, with the way to HLO; None if the text has none of them.

    >>> print(language_error("{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }", "<stdin>"))
    error: <stdin> is a jaxpr, not HLO
      help: to create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR
    """
    head = text[:_LOOKED_AT]
    if _TRACEBACK in head:
        return None
    return next((_error(name, what, hint) for what, pattern, hint in LANGUAGES if pattern.search(head)), None)


def language_lines(lines: Sequence[str]) -> tuple[str, int, int] | None:
    """The language of lines without HLO, and the offsets of the first and the last of them in it; None if unknown.

    >>> language_lines(["## Lowered", "module @m {", "  %0 = stablehlo.sine %a : tensor<4xf32>", "}"])
    ('StableHLO (MLIR)', 1, 3)
    >>> language_lines(["std::unique_ptr<HloModule> m = Parse(kHlo).value();"])
    ('C++', 0, 0)
    """
    text = "\n".join(lines)[:_LOOKED_AT]
    for name, pattern, _ in LANGUAGES:
        if (match := pattern.search(text)) is not None:
            first = text.count("\n", 0, match.start() + len(match[0]) - len(match[0].lstrip()))
            last = max(
                (index for index, line in enumerate(lines) if line.strip() and not _FENCE.match(line)), default=first
            )
            return name, first, max(first, last)
    for name, pattern in _CODE:
        places = [index for index, line in enumerate(lines) if pattern.search(line)]
        if places:
            return name, places[0], places[-1]
    return None


def is_source_code(text: str) -> bool:
    """Whether all of a text is Python, or a text begins as a file of C++: messages in it are strings, not errors.

    >>> is_source_code("import jax\\nprint('out of memory')"), is_source_code("I call\\nimport jax\\nand it fails")
    (True, False)
    """
    if _CPP.match(text):
        return _TRACEBACK not in text
    if len(text) > _LONGEST_SOURCE or not _STATEMENT.search(text):
        return False
    from ast import parse  # rarely needed

    # all that `ast.parse` raises for text that is no Python; odd escapes warn
    with suppress(SyntaxError, ValueError, MemoryError, RecursionError), catch_warnings():
        simplefilter("ignore")
        return bool(parse(text).body)
    return False


def source_code_error(text: str, name: str) -> HloError:
    """The error for a file of source code without HLO.

    >>> print(source_code_error("import jax", "a.py"))
    error: a.py is Python source code, not HLO
      help: to create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR
    """
    return _error(name, "C++ source code", _DUMP) if _CPP.match(text) else _error(name, "Python source code", FROM_JAX)


def no_hlo_error(text: str, name: str, given: str = "") -> HloError:
    """The error for a text without HLO, which says what it seems to be; `given` is the text with its log prefixes.

    >>> print(no_hlo_error("Traceback (most recent call last):\\n  File 'a'\\nValueError: no x\\n", "<stdin>"))
    error: no HLO found in <stdin>, a Python traceback: ValueError: no x
      help: to create HLO text, use jax.jit(f).lower(x).compile().as_text() or XLA_FLAGS=--xla_dump_to=DIR
    """
    if _TRACEBACK in text[:_LOOKED_AT]:
        raised = [match for match in _RAISED.finditer(text) if _TRACEBACK not in match[1]]
        message = f": {raised[-1][1].strip()}" if raised else ""
        return HloError(f"no HLO found in {name}, a Python traceback{message}", hint=FROM_JAX)
    error = known_text_error(text, name) or known_text_error(given, name)
    return error or HloError(f"no HLO found in {name}", hint="run `hlo help dump` to learn how to create a dump")


def known_text_error(text: str, name: str) -> HloError | None:
    """The error for a text without HLO of a known kind, such as a log of NCCL; None for others.

    >>> print(known_text_error("node1:1:2 [0] NCCL INFO Bootstrap : Using eth0", "<stdin>"))
    error: <stdin> is an NCCL log, not HLO
      help: set NCCL_DEBUG=INFO and look for the first warning of any process
    """
    head = text[:_LOOKED_AT]
    return next((_error(name, what, hint) for what, pattern, hint in _WEAK if pattern.search(head)), None)


def _error(name: str, what: str, hint: str) -> HloError:
    return HloError(f"{name} is {what}, not HLO", hint=hint)

"""Which texts are StableHLO: what JAX, torchax, PyTorch/XLA, and Reactant print of a program before XLA has it."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.inputs.logs import EmbeddedModule
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import counted

_LOOKED_AT: Final = 1 << 16
"""Characters in which a module of StableHLO has the first of its operations."""
_BLANK_LINE: Final = r"[ \t]*+(?://[^\n]*+|[#!][A-Za-z_][\w$]*+ = [^\n]*+)?+\n"
_MLIR: Final = lazy_regex(
    rf"(?:{_BLANK_LINE})*+[ \t]*+(?:module(?=[ ][@{{a])|func\.func[ ]|\"(?:builtin\.module|func\.func)\"\("
    r"|(?:%[\w$.\-]++(?::[0-9]++)?+(?:,[ ])?+)*+(?:[ ]=[ ])?+(?:stablehlo|mhlo|chlo|sdy)\.[a-z_]++\b)"
)
_STABLEHLO: Final = lazy_regex(r"\b(?:stablehlo|mhlo|chlo|sdy)\.[a-z]|\bfunc\.func[ ][^\n]*?\btensor<")
_OTHER_MLIR: Final = lazy_regex(
    r"^[ \t]*+(?:tt\.func|ttg?\.|llvm\.func|gpu\.|module attributes \{\"ttg?\.)", re.MULTILINE
)
_REFUSED: Final = lazy_regex(  # XLA:GPU reduces across devices by these alone; the answer about the text says so
    r"\"stablehlo\.(?:reduce_scatter|all_reduce)\"\([^)\n]*\)[^\n]*\(\{\s*+\^\w++\([^)\n]*\):\s*+%\w++ = "
    r"\"?stablehlo\.(?!(?:add|multiply|minimum|maximum|and|or|convert)\b)"
)


def is_stablehlo(text: str) -> bool:
    """Whether a text is MLIR with operations of StableHLO, as `lowered.as_text()` prints it.

    >>> is_stablehlo("module @m {\\n  func.func @main(%a: tensor<4xf32>) {"), is_stablehlo("HloModule m")
    (True, False)
    """
    if text.startswith("HloModule"):
        return False
    head = text[:_LOOKED_AT]
    return bool(_MLIR.match(head) and _STABLEHLO.search(head) and not _OTHER_MLIR.search(head))


def is_refused(text: str) -> bool:
    """Whether a program reduces across devices by an operation that XLA:GPU does not take."""
    return _REFUSED.search(text[:_LOOKED_AT]) is not None


_NAME: Final = lazy_regex(r"^module @(?:\"([^\"\n]++)\"|([\w$.\-]++))", re.MULTILINE)


def stablehlo_name(text: str) -> str | None:
    """The name of a module of StableHLO; None if it has none.

    >>> stablehlo_name("module @jit_f attributes {} {"), stablehlo_name("func.func @main() {")
    ('jit_f', None)
    """
    match = _NAME.search(text, 0, _LOOKED_AT)
    return None if match is None else match[1] or match[2]


_FIRST: Final = lazy_regex(
    r"^(?:[#!][A-Za-z_][\w$]*+ = [^\n]*+\n)*+[ \t]*+"
    r"(?:module(?=[ ][@{a])|func\.func[ ]|\"(?:builtin\.module|func\.func)\"\()",
    re.MULTILINE,
)


def stablehlo_in(text: str) -> EmbeddedModule | None:
    r"""The first module of StableHLO in a text with other lines before it; None if there is none.

    >>> found = stablehlo_in("It is\nmodule @m {\n  func.func @main(%a: tensor<4xf32>) {")
    >>> found.first_line, found.remark
    (2, 'skipped 1 line without HLO')
    """
    match = _FIRST.search(text, 0, _LOOKED_AT)
    if match is None or not is_stablehlo(text[match.start() :]):
        return None
    skipped = sum(1 for line in text[: match.start()].split("\n") if line.strip())
    remark = f"skipped {counted(skipped, 'lines')} without HLO" if skipped else None
    return EmbeddedModule(text[match.start() :], text.count("\n", 0, match.start()) + 1, remark=remark)

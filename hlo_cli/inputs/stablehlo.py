"""Which texts and files are StableHLO: what JAX and others print or serialize of a program before XLA has it."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.logs import EmbeddedModule
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, counted

_LOOKED_AT: Final = 1 << 16
"""Characters in which a module of StableHLO has the first of its operations."""
_BLANK_LINE: Final = r"[ \t]*+(?://[^\n]*+|[#!][A-Za-z_][\w$]*+ = [^\n]*+)?+\n"
_MLIR: Final = lazy_regex(
    rf"(?:{_BLANK_LINE})*+[ \t]*+(?:module(?=[ ][@{{a])|func\.func[ ]|\"(?:builtin\.module|func\.func)\"\("
    r"|(?:%[\w$.\-]++(?::[0-9]++)?+(?:,[ ])?+)*+(?:[ ]=[ ])?+(?:stablehlo|mhlo|chlo|sdy)\.[a-z_]++\b)"
)
_STABLEHLO: Final = lazy_regex(r"\b(?:stablehlo|mhlo|chlo|sdy)\.[a-z]|\bfunc\.func[ ][^\n]*?\btensor<")
_OTHER_MLIR: Final = lazy_regex(
    r"^[ \t]*+(?:tt\.func|ttg?\.|llvm\.func|gpu\.|xtile\.|module attributes \{\"ttg?\.|// -----// IR Dump )"
    r"|\bdlti\.dl_spec\b|\bxla\.(?:cpu_memory_region_name|slice_index)\b|#xla\.indexing_map|\bxla_(?:cpu|gpu)\.[a-z]",
    re.MULTILINE,
)
_OPERATIONS: Final = lazy_regex(r"\b(?:stablehlo|mhlo|chlo|sdy)\.[a-z]")
_CODE: Final = lazy_regex(r"^[ \t]*+(?:tt\.func|llvm\.func|gpu\.(?:func|module))\b", re.MULTILINE)
"""The code of kernels, which Reactant keeps next to the operations that call them."""
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
    if not _MLIR.match(head) or not _STABLEHLO.search(head):
        return False
    return not _OTHER_MLIR.search(_CODE.sub("", head) if _OPERATIONS.search(head) else head)


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


# --- artifacts ---
# What `jax.export` serializes, and the bytecode in it: a FlatBuffer with the types of arguments and results, and MLIR.
#
# Mirrors jax/_src/export/serialization.fbs; the fields of its tables by their place in the vtable.


BYTECODE: Final = b"ML\xefR"
"""How MLIR bytecode begins; a varint with its version and the name of the producer, which ends with a zero, follow."""
_VERSION, _NAME_AT, _ARGUMENTS, _RESULTS, _OLD_DEVICES, _PLATFORMS = 4, 6, 10, 14, 16, 22
_DISABLED_CHECKS, _MODULE, _CALLING_CONVENTION, _KEPT, _GRADIENT, _DEVICES, _JAX = 28, 30, 32, 34, 38, 40, 56
_CHECK_TARGET = 6  # of `DisabledSafetyCheck` in jax/_src/export/serialization.fbs
_SIZES, _TYPE = 6, 8
_UNIQUE, _ARGUMENT_INDICES, _RESULT_INDICES = 42, 48, 50
"""Newer versions list each type once, and refer to them by number."""
_DTYPES: Final = (
    "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64 c64 c128 bf16 i4 u4 f8e3m4 f8e4m3 f8e4m3fn f8e4m3fnuz f8e4m3b11fnuz"
    " f8e5m2 f8e5m2fnuz f8e8m0fnu f4e2m1fn"
).split()
_MOST_ITEMS: Final = 1 << 16
"""Arguments, results, or dimensions of a function: more are damage."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A serialized program of StableHLO: what can be said of it without reading its bytecode."""

    data: bytes
    bytecode: bytes
    producer: str
    name: str = ""
    platforms: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    has_gradient: bool = False
    version: int = 0
    calling_convention: int = 0
    devices: int = 0
    kept: int = 0
    disabled_checks: tuple[str, ...] = ()
    jax: str = ""

    @property
    def words(self) -> str:
        """The artifact in one line."""
        if not self.name:
            return f"MLIR bytecode of {self.producer}"
        parts = [f"jax.export of {self.name} for {' and '.join(self.platforms)}"]
        parts.append(f"arguments ({_listed(self.arguments)})")
        parts.append(f"results ({_listed(self.results)})")
        return "; ".join([*parts, self.producer, *(["with its gradient"] if self.has_gradient else [])])


_MOST_LISTED: Final = 8  # arguments in a message: a line or two


def _listed(types: Sequence[str]) -> str:
    more = f", and {len(types) - _MOST_LISTED} more" if len(types) > _MOST_LISTED else ""
    return ", ".join(types[:_MOST_LISTED]) + more


def looks_like_artifact(head: bytes) -> bool:
    """Whether data begins as MLIR bytecode, or as a function that `jax.export` serialized.

    >>> looks_like_artifact(b"ML\\xefR\\r"), looks_like_artifact(b"\\x7fELF")
    (True, False)
    """
    if head.startswith(BYTECODE):
        return True
    try:
        table = _Table.root(head)
        return table.has(_NAME_AT) and table.has(_MODULE) and table.has(_PLATFORMS)
    except (struct.error, ValueError):
        return False


def artifact_in(data: bytes) -> Artifact | None:
    """The artifact in the bytes of a file; None if they are none."""
    if data.startswith(BYTECODE):
        return Artifact(data, data, _producer(data))
    try:
        table = _Table.root(data)
        bytecode = table.data(_MODULE)
        if not bytecode.startswith(BYTECODE):
            return None
        return Artifact(
            data,
            bytecode,
            _producer(bytecode),
            table.data(_NAME_AT).decode("utf-8", "replace"),
            tuple([text.decode("utf-8", "replace") for text in table.texts(_PLATFORMS)]),
            _types(table, _ARGUMENTS, _ARGUMENT_INDICES),
            _types(table, _RESULTS, _RESULT_INDICES),
            table.has(_GRADIENT),
            version=table.short(_VERSION),
            calling_convention=table.short(_CALLING_CONVENTION),
            devices=(table.number(_DEVICES) or table.short(_OLD_DEVICES)),
            kept=table.length(_KEPT),
            disabled_checks=tuple([_check(check) for check in table.tables(_DISABLED_CHECKS)]),
            jax=table.data(_JAX).decode("utf-8", "replace"),
        )
    except (struct.error, ValueError):
        return None


def _check(table: _Table) -> str:
    """A check that the exporter disabled: the calls of a target by name, or those of the platform."""
    target = table.data(_CHECK_TARGET).decode("utf-8", "replace")
    return f"custom call {target}" if target else "platform"


def _producer(bytecode: bytes) -> str:
    """The name after the version, such as `StableHLO_v1.15.0`."""
    end = bytecode.find(b"\0", len(BYTECODE) + 1, 200)
    return bytecode[len(BYTECODE) + 1 : max(end, 0)].decode("utf-8", "replace") or "an unknown producer"


def _types(table: _Table, listed: int, indices: int) -> tuple[str, ...]:
    """The types of arguments or results, such as `f32[48,96]`."""
    tables = table.tables(listed)
    if not tables and table.has(_UNIQUE):
        unique = table.tables(_UNIQUE)
        tables = [unique[number] for number in table.numbers(indices) if number < len(unique)]
    return tuple([_type(type_table) for type_table in tables])


def _type(table: _Table) -> str:
    dtype = table.byte(_TYPE)
    name = _DTYPES[dtype] if dtype < len(_DTYPES) else f"type {dtype}"
    return f"{name}[{','.join(text.decode('utf-8', 'replace') for text in table.texts(_SIZES))}]"


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a FlatBuffer; struct.error or ValueError for a place outside of the data."""

    content: bytes
    at: int
    vtable: int
    size: int

    @classmethod
    def root(cls, content: bytes) -> _Table:
        """The outermost table."""
        return cls.read(content, struct.unpack_from("<I", content)[0])

    @classmethod
    def read(cls, content: bytes, at: int) -> _Table:
        """The table at an offset."""
        vtable = at - struct.unpack_from("<i", content, at)[0]
        if not 0 <= vtable < len(content):
            raise ValueError
        size = struct.unpack_from("<H", content, vtable)[0]
        if size < 4 or size % 2 or size > 200:
            raise ValueError
        return cls(content, at, vtable, size)

    def place(self, slot: int) -> int:
        """The offset of a field; 0 if the table lacks it."""
        offset = struct.unpack_from("<H", self.content, self.vtable + slot)[0] if slot < self.size else 0
        return self.at + offset if offset else 0

    def has(self, slot: int) -> bool:
        """Whether the table has a field."""
        return self.place(slot) > 0

    def byte(self, slot: int) -> int:
        """A number of one byte; 0 by default."""
        place = self.place(slot)
        return self.content[place] if 0 < place < len(self.content) else 0

    def short(self, slot: int) -> int:
        """A number of two bytes; 0 by default."""
        place = self.place(slot)
        return int(struct.unpack_from("<H", self.content, place)[0]) if place else 0

    def number(self, slot: int) -> int:
        """A number of four bytes; 0 by default."""
        place = self.place(slot)
        return int(struct.unpack_from("<I", self.content, place)[0]) if place else 0

    def length(self, slot: int) -> int:
        """The number of items of a list."""
        return self._vector(slot, _MOST_ITEMS)[1]

    def _vector(self, slot: int, most: int) -> tuple[int, int]:
        """The offset of a list's first item, and its length."""
        place = self.place(slot)
        if not place:
            return 0, 0
        start = place + struct.unpack_from("<I", self.content, place)[0]
        count = struct.unpack_from("<I", self.content, start)[0]
        if count > most:
            raise ValueError
        return start + 4, count

    def data(self, slot: int) -> bytes:
        """A string or bytes."""
        start, count = self._vector(slot, len(self.content))
        return self.content[start : start + count]

    def _references(self, slot: int) -> list[int]:
        start, count = self._vector(slot, _MOST_ITEMS)
        places = range(start, start + 4 * count, 4)
        return [place + struct.unpack_from("<I", self.content, place)[0] for place in places]

    def texts(self, slot: int) -> list[bytes]:
        """A list of strings."""
        texts = []
        for place in self._references(slot):
            length = struct.unpack_from("<I", self.content, place)[0]
            texts.append(self.content[place + 4 : place + 4 + length])
        return texts

    def tables(self, slot: int) -> list[_Table]:
        """A list of tables."""
        return [_Table.read(self.content, place) for place in self._references(slot)]

    def numbers(self, slot: int) -> list[int]:
        """A list of numbers of four bytes."""
        start, count = self._vector(slot, _MOST_ITEMS)
        return list(struct.unpack_from(f"<{count}I", self.content, start)) if count else []


AS_PROGRAM: Final = (
    "to read its program, install jaxlib, or write exported.mlir_module() or lowered.as_text() to a file"
)


def text_of(artifact: Artifact) -> tuple[str, str]:
    """The program of an artifact as text, and a note on it; HloError if it cannot be read.

    jaxlib reads what is newer than the forms that are known here, if it is installed.
    """
    from hlo_cli.mlir.vhlo import stablehlo_text  # dumps are no artifacts

    try:
        return stablehlo_text(artifact.bytecode), artifact.words
    except HloError:
        if (converted := _text_by_jaxlib(artifact)) is None:
            raise
    return converted


def _text_by_jaxlib(artifact: Artifact) -> tuple[str, str] | None:
    """The program as text, converted by jaxlib, and a note on it; None if jaxlib is missing or cannot."""
    try:
        from jaxlib import version
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import chlo, sdy, stablehlo
    except ImportError:
        return None
    context = ir.Context()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    try:
        module = stablehlo.deserialize_portable_artifact(context, artifact.bytecode)
        text = str(module.operation.get_asm(enable_debug_info=True))
    except (ValueError, ir.MLIRError):
        return None
    return text, f"{artifact.words}; converted by jaxlib {version.__version__}"

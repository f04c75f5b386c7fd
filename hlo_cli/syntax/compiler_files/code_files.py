"""Which functions are in the code that XLA writes beside a dump: PTX, LLVM IR, the MLIR of emitters, object files?

Mirrors what `--xla_dump_to` writes of the backends (xla/backends/cpu, xla/backends/gpu), one function for each kernel.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from math import prod
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex

_MOST: Final = 10_000
"""Functions that are read of one file: a kernel has one, a large program some hundreds."""


@dataclass(frozen=True, slots=True)
class CodeFunction:
    """One function: its instructions, the bytes of its arguments, and what a GPU kernel reserves; None where unknown.

    `size_bytes` is that of machine code, `threads` those of a block, `local_bytes` the stack of a thread.
    """

    name: str
    is_kernel: bool = True
    instructions: int | None = None
    argument_bytes: int | None = None
    size_bytes: int | None = None
    threads: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CodeFile:
    """The functions of a file of code, what it was generated for, and the passes that it was printed after."""

    functions: tuple[CodeFunction, ...]
    target: str = ""
    passes: int = 0


# --- PTX ---


_PTX_HEAD: Final = lazy_regex(r"\.(?:(?:visible|weak) )?\.?(entry|func)\b[^\n]*?([\w$]+)\($")
_PTX_THREADS: Final = lazy_regex(r"\.(?:reqntid|maxntid) (\d{1,6})(?:, (\d{1,6}))?(?:, (\d{1,6}))?")
_PTX_ARRAY: Final = lazy_regex(r"\s*\.(shared|local) \.align \d+ \.[bfsu](\d+)\s+([\w$]+)\[(\d{1,12})\];")
_PTX_TARGET: Final = lazy_regex(r"^\.target (\w+)", re.MULTILINE)


def read_ptx(text: str) -> CodeFile:
    """The kernels and functions of PTX, as LLVM's back end prints it.

    >>> text = ".target sm_90a\\n.visible .entry k(\\n)\\n.reqntid 128, 1, 1\\n{\\n\\tret;\\n}\\n"
    >>> read_ptx(text).functions[0].threads, read_ptx(text).target
    (128, 'sm_90a')
    """
    target = _PTX_TARGET.search(text)
    return CodeFile(tuple(islice(_ptx_functions(text.split("\n")), _MOST)), target[1] if target else "")


def _ptx_functions(lines: list[str]) -> Iterator[CodeFunction]:
    current: CodeFunction | None = None
    is_dynamic = any(line.startswith(".extern .shared") for line in lines)  # its size is that of the launch
    outside: dict[str, int] = {}  # arrays of the file, which belong to the kernels that use them
    inside: dict[str, int] = {}
    for line in lines:
        if (array := _PTX_ARRAY.match(line)) is not None:
            kind, bits, name, count = array.groups()
            held = inside if current is not None else outside
            held[f"{kind} {name}"] = int(count) * int(bits) // 8
        elif current is None:
            if (head := _PTX_HEAD.match(line)) is not None:
                current, inside = CodeFunction(head[2], head[1] == "entry", instructions=0), {}
        elif line == "}":
            yield replace(
                current,
                shared_bytes=_sum(inside, "shared ") if current.is_kernel and not is_dynamic else None,
                local_bytes=_sum(inside, "local ") or None,
            )
            current = None
        elif (threads := _PTX_THREADS.match(line)) is not None:
            current = replace(current, threads=prod(int(number or 1) for number in threads.groups()))
        elif line.endswith(";") and not line.lstrip().startswith("."):
            current = replace(current, instructions=(current.instructions or 0) + 1)
            inside |= {key: size for key, size in outside.items() if key.split()[1] in line}
        elif line == ";" or (line.startswith(")") and line.endswith(";")):
            current = None  # a declaration


def _sum(sizes: dict[str, int], kind: str) -> int:
    return sum(size for key, size in sizes.items() if key.startswith(kind))


# --- what ptxas says ---


@dataclass(frozen=True, slots=True)
class AssembledKernel:
    """What ptxas says of a kernel: bytes of spills a thread, registers a thread, and static shared memory a block."""

    name: str
    stores: int = 0
    loads: int = 0
    registers: int | None = None
    shared_bytes: int | None = None


_SPILL: Final = lazy_regex(
    r"in function\s+'(?P<kernel>[^']+)',?\s+(?P<stores>\d{1,18})\s+bytes\s+spill\s+stores,?\s+(?P<loads>\d{1,18})\s+"
    r"bytes\s+spill\s+loads"
)
_PTXAS: Final = lazy_regex(r"(?:Compiling entry function|Function properties for)\s+'?(?P<kernel>[\w.$]+)'?")
_PTXAS_SPILL: Final = lazy_regex(
    r"(?P<stores>\d{1,18})\s+bytes\s+spill\s+stores,\s+(?P<loads>\d{1,18})\s+bytes\s+spill\s+loads"
)
_PTXAS_USED: Final = lazy_regex(
    r"Used\s+(?P<registers>\d{1,6})\s+registers(?:[^\n]{0,200}?\b(?P<shared>\d{1,12})(?:\+0)?\s+bytes\s+smem)?"
)


def read_ptxas(text: str) -> tuple[AssembledKernel, ...]:
    """The kernels in what `ptxas -v` prints, and in XLA's warnings about spills; of a kernel the most of each number.

    >>> read_ptxas("Compiling entry function 'k' for 'sm_90'\\nptxas info : Used 40 registers, 512 bytes smem")
    (AssembledKernel(name='k', stores=0, loads=0, registers=40, shared_bytes=512),)
    """
    found: dict[str, AssembledKernel] = {}
    for match in _SPILL.finditer(text):
        _add_assembled(found, AssembledKernel(match["kernel"], int(match["stores"]), int(match["loads"])))
    heads = list(_PTXAS.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):
        spill, used = _PTXAS_SPILL.search(text, head.end(), end), _PTXAS_USED.search(text, head.end(), end)
        kernel = AssembledKernel(head["kernel"])
        if spill is not None:
            kernel = replace(kernel, stores=int(spill["stores"]), loads=int(spill["loads"]))
        if used is not None:
            kernel = replace(kernel, registers=int(used["registers"]), shared_bytes=int(used["shared"] or 0))
        if spill is not None or used is not None:
            _add_assembled(found, kernel)
    return tuple(found.values())


def _add_assembled(found: dict[str, AssembledKernel], kernel: AssembledKernel) -> None:
    old = found.get(kernel.name, kernel)
    found[kernel.name] = AssembledKernel(
        kernel.name,
        max(old.stores, kernel.stores),
        max(old.loads, kernel.loads),
        kernel.registers if kernel.registers is not None else old.registers,
        kernel.shared_bytes if kernel.shared_bytes is not None else old.shared_bytes,
    )


# --- LLVM IR ---


_DEFINE: Final = lazy_regex(r"define ([^@\n]*)@(?:\"([^\"\n]+)\"|([\w$.\-]+))\(")
_DEREFERENCEABLE: Final = lazy_regex(r"dereferenceable\((\d{1,18})\)")
_TRIPLE: Final = lazy_regex(r"^target triple = \"([^\"\n]+)\"", re.MULTILINE)
_HELPER: Final = ("internal", "private", "linkonce", "available_externally")


def read_llvm(text: str) -> CodeFile:
    """The functions that LLVM IR defines; helpers are those that nothing outside of the file can call.

    >>> text = "define ptx_kernel void @k(ptr dereferenceable(64) %0) {\\n  ret void\\n}\\n"
    >>> read_llvm(text).functions[0].argument_bytes
    64
    """
    triple = _TRIPLE.search(text)
    return CodeFile(tuple(islice(_llvm_functions(text.split("\n")), _MOST)), triple[1] if triple else "")


def _llvm_functions(lines: list[str]) -> Iterator[CodeFunction]:
    current: CodeFunction | None = None
    count = 0
    for line in lines:
        if (head := _DEFINE.match(line)) is not None:
            sizes = [int(size) for size in _DEREFERENCEABLE.findall(line)]
            is_kernel = not any(word in head[1] for word in _HELPER)
            current, count = CodeFunction(head[2] or head[3], is_kernel, argument_bytes=sum(sizes) or None), 0
        elif current is not None and line == "}":
            yield replace(current, instructions=count)
            current = None
        else:
            count += line.startswith("  ") and not line.lstrip().startswith((";", "#dbg_"))


# --- MLIR of emitters ---


_MLIR_HEAD: Final = lazy_regex(
    r"\s*\"?(?:xtile\.entry_func|func\.func|llvm\.func|tt\.func|gpu\.func)"
    r"(?: (?:(private|internal|public) )?(?:\w+ )?@(?:\"([^\"\n]+)\"|([\w$.\-]+))\("
    r"|\"\(\) <\{[^\n]*?sym_name = \"([^\"\n]+)\")"
)
_MLIR_OPERATION: Final = lazy_regex(r"\s+(?:%[\w$.\-]+(?::\d+)?(?:, %[\w$.\-]+(?::\d+)?)* = )?\"?[a-z_]\w*\.[a-z_]")
_MLIR_SIZE: Final = lazy_regex(r"llvm\.dereferenceable = (\d{1,18})")
_MLIR_CALL: Final = lazy_regex(r"call @([\w$.\-]+)")
_DUMPED: Final = "IR Dump "


def read_emitter(text: str) -> CodeFile:
    """The functions of MLIR that an emitter of XLA prints; of a log of its passes, those after the last one.

    >>> text = "  func.func @k(%arg0: index) {\\n    %0 = arith.constant 0 : index\\n    return\\n  }\\n"
    >>> [(function.name, function.instructions) for function in read_emitter(text).functions]
    [('k', 1)]
    """
    last = text.rfind(f"// -----// {_DUMPED}")
    shown = text[max(last, 0) :]
    called = set(_MLIR_CALL.findall(shown))
    functions = [
        replace(function, is_kernel=function.is_kernel and function.name not in called)
        for function in islice(_mlir_functions(shown.split("\n")), _MOST)
    ]
    return CodeFile(tuple(functions), passes=text.count(f"// -----// {_DUMPED}"))


def _mlir_functions(lines: list[str]) -> Iterator[CodeFunction]:
    current: CodeFunction | None = None
    count = 0
    for line in lines:
        if (head := _MLIR_HEAD.match(line)) is not None:
            if current is not None:
                yield replace(current, instructions=count)
            sizes = [int(size) for size in _MLIR_SIZE.findall(line)]
            name, is_kernel = head[2] or head[3] or head[4], head[1] in (None, "public")
            is_defined = line.endswith(("{", "({"))
            current = CodeFunction(name, is_kernel, argument_bytes=sum(sizes) or None) if is_defined else None
            count = 0
        else:
            count += _MLIR_OPERATION.match(line) is not None
    if current is not None:
        yield replace(current, instructions=count)


# --- object files ---


_OBJECT: Final = b"\x7fELF\x02\x01"
"""How an ELF file with 64 bits, little-endian, begins."""
_MACHINES: Final = {62: "x86-64", 183: "AArch64", 190: "CUDA", 224: "AMD GPU", 243: "RISC-V"}
"""Of the field `e_machine` of an ELF file."""
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_SYMBOLS: Final = 2
"""The type of a section with symbols (SHT_SYMTAB)."""
_FUNCTION: Final = 2
"""The type of a symbol that is a function (STT_FUNC)."""
_MOST_SECTIONS: Final = 1 << 16
"""Sections of an ELF file without extensions."""


def read_object(data: bytes) -> CodeFile | None:
    """The functions of an ELF file with 64 bits, little-endian; None for any other data, or if it is damaged.

    >>> read_object(b"\\x7fELF") is None
    True
    """
    try:
        if not data.startswith(_OBJECT):
            return None
        machine = struct.unpack_from("<H", data, 18)[0]
        (start,), (size, count) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
        if size != _SECTION.size:
            return None
        sections = [_SECTION.unpack_from(data, start + size * at) for at in range(min(count, _MOST_SECTIONS))]
        functions = tuple(islice(_object_functions(data, sections), _MOST))
    except (struct.error, IndexError, OverflowError):
        return None
    return CodeFile(functions, _MACHINES.get(machine, f"machine {machine}"))


def _object_functions(data: bytes, sections: list[tuple[int, ...]]) -> Iterator[CodeFunction]:
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind != _SYMBOLS:
            continue
        names = sections[link][4]
        for at in range(offset, min(offset + length, len(data) - _SYMBOL.size + 1), _SYMBOL.size):
            name, info, _, _, _, size = _SYMBOL.unpack_from(data, at)
            if info & 0xF == _FUNCTION and size:
                end = data.find(b"\0", names + name)
                is_kernel = info >> 4 != 0  # a local symbol is called in this file alone
                yield CodeFunction(data[names + name : end].decode("utf-8", "replace"), is_kernel, size_bytes=size)


# --- drawings ---


_DOT_LABEL: Final = lazy_regex(  # the tags are gone from a text that was copied
    r"^label = <(?:<b>)?(.*?)(?:<br/>)?Computation (.*?)(?:<br/>)?(?:ENTRY computation)?(?:</b>)?>;", re.MULTILINE
)
_DOT_NODE: Final = lazy_regex(r"^(?:node)?\d+ \[label=", re.MULTILINE)
_DOT_EDGE: Final = lazy_regex(r"^\d+ -> \d+ ", re.MULTILINE)
_HTML_TITLE: Final = lazy_regex(r"<title>(?:Fusion Explorer: )?([^<\n]{1,500})</title>")


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing of a computation: the dump and the computation that it shows, its nodes and edges; 0 if unknown."""

    dump: str
    computation: str = ""
    nodes: int = 0
    edges: int = 0


def read_drawing(text: str) -> Drawing | None:
    """What a drawing of XLA shows (hlo_graph_dumper.cc); None for another one."""
    if (label := _DOT_LABEL.search(text)) is not None:
        return Drawing(label[1], label[2], len(_DOT_NODE.findall(text)), len(_DOT_EDGE.findall(text)))
    title = _HTML_TITLE.search(text)
    return None if title is None else Drawing(title[1])

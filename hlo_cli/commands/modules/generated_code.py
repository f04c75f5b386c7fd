"""What do files of generated code next to a dump say of its kernels: threads, shared memory, registers, and spills?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import parse_dump_name
from hlo_cli.inputs.files import is_file
from hlo_cli.inputs.input import read_plain
from hlo_cli.source import HloError
from hlo_cli.syntax.compiler_files.code_files import AssembledKernel, CodeFunction, read_ptx, read_ptxas

_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")


def symbol_of(name: str) -> str:
    """The name of an instruction or a function as backends write it: other characters become `_`.

    >>> symbol_of("gemm_fusion_dot.2")
    'gemm_fusion_dot_2'
    """
    return _OTHER.sub("_", name)


# --- output of ptxas ---

_LOGS: Final = (".ptxas", ".ptxas.txt", ".ptxas.log", ".ptx.log", ".ptx.txt", ".log")
"""How a file with the output of `ptxas -v` is named after its PTX; others are named ptxas."""
_LOG_BYTES: Final = 1 << 22  # ptxas prints three lines a kernel: that of 10,000 kernels is smaller


def assembled_beside(path: str) -> Mapping[str, AssembledKernel]:
    """What `ptxas -v` says of kernels, by their name, from its output next to a PTX file; empty without one.

    >>> assembled_beside("/no/such/module.ptx")
    {}
    """
    stem = path.removesuffix(".ptx")
    folder = os.path.dirname(path)
    named = [os.path.join(folder, f"ptxas{ending}") for ending in (".txt", ".log", ".out")]
    found = dict[str, AssembledKernel]()
    for each in (*(f"{stem}{ending}" for ending in _LOGS), *named):
        with suppress(OSError, HloError):
            if each != path and is_file(each):
                found |= {kernel.name: kernel for kernel in read_ptxas(read_plain(each, maximum_bytes=_LOG_BYTES).text)}
    return found


# --- the code of a module ---

_CODE_BYTES: Final = 1 << 26  # PTX of a large module is some megabytes


@dataclass(frozen=True, slots=True)
class GeneratedCode:
    """What PTX and ptxas say of one kernel; None where neither says it."""

    threads: int | None = None
    shared_bytes: int | None = None
    registers: int | None = None
    spill_bytes: int | None = None


def generated_code(path: str | None) -> Mapping[str, GeneratedCode]:
    """What is known of each kernel of a dump, by its symbol, from `MODULE.ptx` and the output of ptxas next to it.

    >>> generated_code("/no/such/module_0001.jit_f.sm_9.0_gpu_after_optimizations.txt")
    {}
    """
    found: dict[str, GeneratedCode] = {}
    for ptx in _ptx_beside(path) if path is not None else ():
        functions = dict[str, CodeFunction]()
        with suppress(OSError, HloError):
            code = read_ptx(read_plain(ptx, maximum_bytes=_CODE_BYTES).text)
            functions = {each.name: each for each in code.functions if each.is_kernel}
        assembled = assembled_beside(ptx)
        for name in (*functions, *[each for each in assembled if each not in functions]):
            found.setdefault(symbol_of(name), _joined(functions.get(name), assembled.get(name)))
    return found


def _joined(function: CodeFunction | None, assembled: AssembledKernel | None) -> GeneratedCode:
    shared = None if assembled is None else assembled.shared_bytes
    if shared is None and function is not None:
        shared = function.shared_bytes
    return GeneratedCode(
        None if function is None else function.threads,
        shared,
        None if assembled is None else assembled.registers,
        None if assembled is None else assembled.stores + assembled.loads,
    )


def _ptx_beside(path: str) -> Iterator[str]:
    """The PTX of the same module as a dump: one file, or several with a number (`DumpToFileInDirOrStdout`)."""
    folder, base = os.path.split(path)
    dump = parse_dump_name(base)
    with suppress(OSError):
        start = "" if dump is None or not dump.group else f"{dump.group}."
        for name in sorted(os.listdir(folder or ".")) if dump is not None else ():
            if name.endswith(".ptx") and name.startswith(start):
                yield os.path.join(folder, name)

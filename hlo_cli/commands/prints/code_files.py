"""What does the code that XLA generated say? Its functions, what a kernel reserves, and the instruction it computes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from shlex import quote
from types import MappingProxyType

from hlo_cli.commands.modules.generated_code import assembled_beside, symbol_of
from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.inputs.dumps import read_directory
from hlo_cli.inputs.files import is_file
from hlo_cli.inputs.forms import ELF
from hlo_cli.inputs.input import read_inputs
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir.instruction import Instruction
from hlo_cli.read_input import read_input
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from_tuples
from hlo_cli.source import HloError
from hlo_cli.syntax.compiler_files.code_files import (
    AssembledKernel,
    CodeFile,
    CodeFunction,
    read_drawing,
    read_emitter,
    read_llvm,
    read_object,
    read_ptx,
)


def ptx_report(pasted: PastedText) -> Report:
    """The report on PTX, which may hold constants alone, with what `ptxas -v` says of its kernels next to it."""
    return _code_report(pasted, read_ptx(_original(pasted)), "PTX", assembled_beside(pasted.name))


def llvm_report(pasted: PastedText) -> Report:
    """The report on LLVM IR, which may hold constants alone."""
    return _code_report(pasted, read_llvm(_original(pasted)), "LLVM IR")


def emitter_report(pasted: PastedText) -> Report:
    """The report on MLIR of XLA's emitters; HloError if it has no functions."""
    return _code_report(pasted, _with_functions(pasted, read_emitter(_original(pasted))), "MLIR of an emitter")


def object_report(pasted: PastedText) -> Report:
    """The report on an object file; HloError if it has no functions."""
    return _code_report(pasted, _with_functions(pasted, read_object(pasted.data)), "Machine code")


def _with_functions(pasted: PastedText, code: CodeFile | None) -> CodeFile:
    """The code; HloError if it has no functions."""
    if code is None or not code.functions:
        if pasted.data.startswith(ELF):  # programs and libraries are ELF files too, mostly without symbols
            hint = "pass an HLO dump; of ELF files, only object files that XLA wrote next to one are read"
            raise HloError(f"{pasted.name} is an ELF file without functions", hint=hint)
        raise HloError(f"{pasted.name} has no functions", hint="pass the HLO dump next to it")
    return code


def _code_report(
    pasted: PastedText, code: CodeFile, language: str, assembled: Mapping[str, AssembledKernel] = MappingProxyType({})
) -> Report:
    kernels = [function for function in code.functions if function.is_kernel]
    computed, module = _instructions_beside(pasted.name)
    rows = [(function, computed.get(symbol_of(function.name))) for function in code.functions]
    joined = sum(instruction is not None for _, instruction in rows)
    return text_report(
        pasted,
        _answer(code, kernels, language) + _spilled(kernels, assembled),
        means=_meaning(code, module if joined else "", is_assembled=bool(assembled)),
        tables=(_table(rows, assembled),) if rows else (),
        numbers={
            "functions": len(code.functions),
            "kernels": len(kernels),
            "instructions": _total([function.instructions for function in code.functions]),
            "size_bytes": _total([function.size_bytes for function in code.functions]),
            "joined": joined,
        },
        next=(f"hlo fuse {quote(module)}",) if module else (),
    )


def _original(pasted: PastedText) -> str:
    """The text of the file, with the comments and tags that look like prefixes of a log."""
    return pasted.given or pasted.text


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _answer(code: CodeFile, kernels: Sequence[CodeFunction], language: str) -> str:
    target = f" for {code.target}" if code.target else ""
    count = format_count(len(kernels), "kernels") if kernels else "no kernels"
    helpers = len(code.functions) - len(kernels)
    with_helpers = f" and {format_count(helpers, 'helper functions')}" if helpers else ""
    first = f"{language}{target}: {count}{with_helpers}"
    if len(kernels) != 1:
        return first
    return f"{first}: {', '.join([kernels[0].name, *_reserved(kernels[0])])}"


def _reserved(function: CodeFunction) -> list[str]:
    """What one kernel needs, in words."""
    words = []
    if function.threads is not None:
        words.append(f"{function.threads:,} threads a block")
    if function.shared_bytes is not None:
        words.append(f"{format_bytes(function.shared_bytes)} of static shared memory")
    if function.local_bytes is not None:
        words.append(f"{format_bytes(function.local_bytes)} of local memory a thread")
    if function.size_bytes is not None:
        words.append(format_bytes(function.size_bytes))
    if function.instructions is not None:
        words.append(format_count(function.instructions, "instructions"))
    return words


def _spilled(kernels: Sequence[CodeFunction], assembled: Mapping[str, AssembledKernel]) -> str:
    """Which kernels spill registers by the output of ptxas, or that none does; empty without it."""
    known = [assembled[kernel.name] for kernel in kernels if kernel.name in assembled]
    if not known:
        return ""
    most = max(known, key=lambda kernel: kernel.stores + kernel.loads)
    spill = most.stores + most.loads
    registers = max((kernel.registers or 0 for kernel in known), default=0)
    if not spill:
        return f"; at most {format_count(registers, 'registers')} a thread, no spills" if registers else "; no spills"
    return f"; {most.name} spills {spill:,} bytes a thread ({format_count(most.registers or 0, 'registers')})"


def _meaning(code: CodeFile, module: str, *, is_assembled: bool) -> tuple[str, ...]:
    sentences = []
    if code.passes:
        sentences.append(f"A log of {format_count(code.passes, 'passes')}; the functions are those after the last one.")
    if not is_assembled and any(function.threads is not None for function in code.functions):
        sentences.append("Registers and spills are decided by ptxas, and are not in PTX.")
    if module:
        sentences.append(f"Instructions are those of {os.path.basename(module)} with the name of the function.")
    return tuple(sentences)


def _table(rows: Sequence[tuple[CodeFunction, Instruction | None]], assembled: Mapping[str, AssembledKernel]) -> Table:
    def kernel_of(function: CodeFunction) -> AssembledKernel:
        return assembled.get(function.name, AssembledKernel(function.name))

    columns: tuple[Column[CodeFunction, Instruction | None], ...] = (
        Column("function", "function", "name", role="name", of=lambda function, _: function.name),
        Column("is_kernel", "is kernel", person=False, of=lambda function, _: function.is_kernel),
        Column(
            "instruction", "instruction", "name", of=lambda _, instruction: instruction.name if instruction else None
        ),
        Column("shape", "shape", "shape", of=lambda _, instruction: str(instruction.shape) if instruction else None),
        Column("op_name", "op_name", of=lambda _, instruction: instruction.metadata.op_name if instruction else None),
        Column("code_instructions", "code", "count", of=lambda function, _: function.instructions),
        Column("argument_bytes", "arguments", "bytes", of=lambda function, _: function.argument_bytes),
        Column("code_bytes", "size", "bytes", of=lambda function, _: function.size_bytes),
        Column("threads", "threads", "count", of=lambda function, _: function.threads),
        Column("shared_bytes", "shared", "bytes", of=lambda function, _: function.shared_bytes),
        Column("local_bytes", "local", "bytes", of=lambda function, _: function.local_bytes),
        Column("registers", "registers", "count", of=lambda function, _: kernel_of(function).registers),
        Column(
            "spill_bytes",
            "spills",
            "bytes",
            of=lambda function, _: kernel_of(function).stores + kernel_of(function).loads if assembled else None,
        ),
    )
    cells = rows_from_tuples(columns, rows)
    used = [at for at in range(len(columns)) if any(row[at] not in (None, "") for row in cells)]
    return Table(
        "code_functions",
        tuple(columns[at] for at in used),
        tuple(tuple(row[at] for at in used) for row in cells),
        noun="functions",
    )


# --- the module beside ---


def _instructions_beside(path: str) -> tuple[Mapping[str, Instruction], str]:
    """The instructions of the module that a file of code was generated from, by their symbol, and the path of it.

    Without it, or if the file has no such name, nothing.
    """
    module = _module_beside(path)
    if not module:
        return {}, ""
    with suppress(HloError, OSError):
        read = read_input(read_inputs([module])[0])
        named: dict[str, Instruction] = {}
        for computation in read.computations:
            named |= {symbol_of(instruction.name): instruction for instruction in computation.instructions}
        return named, module
    return {}, ""


def _module_beside(path: str) -> str:
    if not is_file(path):
        return ""
    folder, base = os.path.split(path)
    with suppress(HloError):
        dumps = read_directory(folder or ".").dumps
        own = [(dump.order, name) for name, dump in dumps if dump.group and base.startswith(f"{dump.group}.")]
        return os.path.join(folder, max(own)[1]) if own else ""
    return ""


# --- drawings ---


def drawing_report(pasted: PastedText) -> Report:
    """The report on a drawing that XLA writes with `--xla_dump_hlo_as_dot` or `_as_html`."""
    drawing = read_drawing(_original(pasted))
    if drawing is None:
        raise HloError(f"{pasted.name} is a drawing, not HLO", hint="pass the HLO dump next to it")
    size = f": {format_count(drawing.nodes, 'nodes')}, {format_count(drawing.edges, 'edges')}" if drawing.nodes else ""
    what = f"computation {drawing.computation} of {drawing.dump}" if drawing.computation else drawing.dump
    text = re.sub(r"(?:\.top_level)?\.(?:dot|html)$", ".txt", pasted.name)
    return text_report(
        pasted,
        f"Drawing of {what}{size}",
        numbers={"nodes": drawing.nodes or None, "edges": drawing.edges or None},
        next=(f"hlo graph {quote(text)}",) if text != pasted.name and is_file(text) else (),
    )

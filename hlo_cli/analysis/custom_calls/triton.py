"""What does a call say of its Triton kernel: grid, warps, stages, and the blocks that a program loads and stores?"""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.custom_calls.config import MlirScalar, MlirText, read_dictionary
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.mlir.bytecode import read_bytecode
from hlo_cli.mlir.mlir_operations import Operation
from hlo_cli.mlir.mlir_values import ArrayType, Type
from hlo_cli.source import HloError

TARGET: Final = "__gpu$xla.gpu.triton"
"""The target of calls whose configuration has the Triton program (`TritonCall::Parse` of XLA)."""


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """A Triton kernel in a call: what is launched, and the types of the blocks that one program of the grid has.

    `grid`, `warps`, and `stages` are None where the call does not say them. `loads` and `stores` are types of blocks in
    the order of the program, each once, such as `f16[64,128]`; `dots` are those of the operands and the result of each
    matmul. With an `error`, the program cannot be read, and the blocks are empty.
    """

    name: str
    grid: tuple[int, ...] | None = None
    warps: int | None = None
    stages: int | None = None
    loads: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    dots: tuple[tuple[str, ...], ...] = ()
    error: str = ""


def triton_kernel_of(call: Instruction) -> TritonKernel | None:
    """The kernel of a custom call; None for a call of something else, or without a configuration that can be read.

    >>> from hlo_cli import parse_module
    >>> config = '{grid_x = 8 : i32, grid_y = 4 : i32, grid_z = 1 : i32, name = "mm", num_warps = 4 : i32}'
    >>> text = f'r = f32[8] custom-call(x), custom_call_target="{TARGET}", backend_config={config}'
    >>> kernel = triton_kernel_of(parse_module(text).instruction("r"))
    >>> kernel.name, kernel.grid, kernel.warps, kernel.stages, kernel.error
    ('mm', (8, 4, 1), 4, None, 'the call has no program')
    """
    config = call.backend_config if call.string("custom_call_target") == TARGET else None
    read = None if config is None else read_dictionary(config.text)
    if read is None:
        return None
    given = dict(read.entries)
    name, program = given.get("name"), given.get("ir")
    sizes = [_number(given.get(f"grid_{axis}")) for axis in "xyz"]
    grid = tuple([size for size in sizes if size is not None])
    loads, stores, dots, error = _blocks(program.value if isinstance(program, MlirText) else "")
    return TritonKernel(
        name.value if isinstance(name, MlirText) else "",
        grid if len(grid) == len(sizes) else None,
        _number(given.get("num_warps")),
        _number(given.get("num_stages")),
        loads,
        stores,
        dots,
        error,
    )


def _number(value: object) -> int | None:
    is_number = isinstance(value, MlirScalar) and isinstance(value.value, int) and not isinstance(value.value, bool)
    return int(value.value) if is_number and isinstance(value, MlirScalar) else None


# --- blocks ---

_Blocks = tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, ...], ...], str]


def _blocks(program: str) -> _Blocks:
    """The types of loads, stores, and matmuls, and why there are none.

    Properties of operations are laid out by each dialect in its own way, so that the values of constants, and with them
    the number of iterations, are not read; the types of values are.
    """
    if not program:
        return (), (), (), "the call has no program"
    try:
        root = read_bytecode(program.encode("utf-8", "surrogateescape")).root
        found = [each for each in root.walk() if each.name in ("tt.load", "tt.store", "tt.dot")]
        used = {operand for each in root.walk() for operand in each.operands}  # stores of JAX also load, and drop that
        loads = [_type(each.results[0].type) for each in found if each.name == "tt.load" and used & {*each.results}]
        stores = [_type(each.operands[1].type) for each in found if each.name == "tt.store" and len(each.operands) > 1]
        dots = [_dot(each) for each in found if each.name == "tt.dot" and each.results]
    except HloError as error:
        return (), (), (), error.diagnostic.message
    return tuple(dict.fromkeys(loads)), tuple(dict.fromkeys(stores)), tuple(dots), ""


def _dot(operation: Operation) -> tuple[str, ...]:
    return (*[_type(each.type) for each in operation.operands[:2]], _type(operation.results[0].type))


def _type(kind: Type) -> str:
    """A type as HLO writes it: `f16[64,128]`."""
    if not isinstance(kind, ArrayType):
        return f"{kind}[]"
    return f"{kind.element}[{','.join(map(str, kind.shape or ()))}]"

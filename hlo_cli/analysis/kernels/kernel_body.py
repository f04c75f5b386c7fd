"""What is in the body of a Pallas kernel: its function, its grid, its windows, and its arguments?

The body is Mosaic's MLIR, whose operations are named `stable_mosaic.arith.addi` and so on.
Mirrors jax/_src/tpu_custom_call.py and the attributes that xla/mosaic/dialect/tpu/tpu_ops.td documents.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.metadata import BackendConfig
from hlo_cli.ir.instruction import Instruction
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.mlir.bytecode import Program, read_bytecode, read_locations
from hlo_cli.mlir.bytecode_table import BytecodeError
from hlo_cli.mlir.mlir_operations import Operation, Value
from hlo_cli.mlir.mlir_values import (
    DYNAMIC,
    ArrayType,
    Attribute,
    DenseArray,
    DictionaryAttribute,
    IntegerAttribute,
    ListAttribute,
    NamedLocation,
    StringAttribute,
    SymbolAttribute,
    TextAttribute,
)
from hlo_cli.source import HloError, counted

_CALL: Final = "custom_call_config"
_STABLE: Final = "stable_mosaic."  # the dialect that kernels are written in for other versions of the compiler


def kind_of(operation: Operation) -> str:
    """The operation's dialect and name in Mosaic: `arith.addi` of `stable_mosaic.arith.addi`."""
    return operation.name.removeprefix(_STABLE)


@dataclass(frozen=True, slots=True)
class WindowAttributes:
    """What a kernel says of an operand or a result: its block, and the function that maps a step of the grid to one.

    `block` is empty, and `transform` None, for an operand that the kernel moves by itself. `pipeline_mode` is
    `synchronous` or `double_buffered`, empty by default. The indices of an `is_element` window count elements, after
    `padding` that is before the array.
    """

    block: tuple[int, ...] = ()
    transform: Operation | None = None
    pipeline_mode: str = ""
    is_element: bool = False
    padding: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class KernelBody:
    """The program of a kernel, and what its attributes say.

    `grid` is None for a kernel without one; a size that is set at run time is None in it. `arguments` are those after
    the grid's indices: prefetched scalars, inputs, outputs, scratch. `notes` say what could not be read.
    """

    program: Program
    function: Operation
    functions: Mapping[str, Operation]
    grid: tuple[int | None, ...] | None
    semantics: tuple[str, ...]
    windows: tuple[WindowAttributes, ...]
    prefetched: int
    scratch: int
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.symbol

    @property
    def indices(self) -> Sequence[Value]:
        """The arguments that are the grid's indices."""
        return self.function.regions[0].arguments[: len(self.grid or ())]

    @property
    def arguments(self) -> Sequence[Value]:
        """The arguments after the grid's indices."""
        return self.function.regions[0].arguments[len(self.grid or ()) :]

    @property
    def allocated(self) -> Sequence[Value]:
        """The memory that the kernel allocates while it runs (`pl.run_scoped`), its semaphores too."""
        return [
            value
            for operation in self.function.walk()
            if kind_of(operation) in ("memref.alloca", "tpu.sem_alloc")
            for value in operation.results
        ]

    @property
    def bounds(self) -> int:
        """The number of sizes of the grid that are operands of the call, its first ones."""
        return sum(size is None for size in self.grid or ())

    @property
    def version(self) -> int | None:
        """The version of the meaning of Mosaic's operations; None if it is not in the body."""
        return _integer(self.program.root.attributes.get(f"{_STABLE}version"))


def body_of(call: Instruction) -> KernelBody:
    """The body of a custom call; HloError if it has none, or one that cannot be read.

    >>> from hlo_cli import parse_module
    >>> call = parse_module('r = f32[2] custom-call(), custom_call_target="tpu_custom_call"').entry.root
    >>> body_of(call)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: r has no kernel body in its backend_config
    """
    config = call.backend_config
    body = config.get(_CALL, "body") if config is not None else None
    if not isinstance(body, str) or not body or config is None:
        raise HloError(f"{call.name} has no kernel body in its backend_config", call.span, source=None)
    return _read(body, str(config.get(_CALL, "debug_locations") or ""))


def config_of(call: Instruction) -> BackendConfig:
    """The configuration of a custom call, empty without one."""
    return call.backend_config or BackendConfig("{}")


# Calls share bodies, and a command asks for each several times; programs of more kernels are read again.
@lru_cache(maxsize=64)
def _read(body: str, locations: str) -> KernelBody:
    """The body in base64, and its locations in bytecode of their own, which jax 0.12 writes."""
    program = read_bytecode(_decoded(body, "body"))
    for operation in program.root.walk():
        _check(operation)
    notes = []
    if locations:
        try:
            read_locations(program, _decoded(locations, "debug_locations"))
        except BytecodeError as error:
            notes.append(f"source locations are unknown: {error.diagnostic.message}")
    defined = (each for each in program.root.walk() if kind_of(each) == "func.func" and each.symbol)
    functions = {each.symbol: each for each in defined if each.regions and each.regions[0].operations}
    function = _kernel_among(list(functions.values()))
    if function is None:
        raise HloError(f"no kernel function among {len(functions)} functions of the body")
    return _described(program, function, functions, tuple(notes))


_LEAST: Final[Mapping[str, tuple[int, int, int]]] = {
    "scf.condition": (1, 0, 0),
    "scf.for": (3, 0, 1),
    "scf.if": (1, 0, 1),
    "scf.index_switch": (1, 0, 1),
    "scf.while": (0, 0, 2),
    "tpu.enqueue_dma": (2, 0, 0),
    "tpu.matmul": (2, 1, 0),
    "tpu.vector_store": (2, 0, 0),
    "vector.contract": (2, 1, 0),
    "vector.load": (1, 1, 0),
    "vector.multi_reduction": (1, 1, 0),
}
"""The least operands, results, and regions of operations that analyses take apart."""


def _check(operation: Operation) -> None:
    """Raises HloError for an operation that lacks what it must have, in a damaged body."""
    least = _LEAST.get(kind_of(operation), (0, 0, 0))
    found = (len(operation.operands), len(operation.results), len(operation.regions))
    for noun, fewest, count in zip(("operands", "results", "regions"), least, found, strict=True):
        if count < fewest:
            raise HloError(f"{kind_of(operation)} at byte {operation.at:,} of the body has {counted(count, noun)}")


def _decoded(text: str, field: str) -> bytes:
    try:
        return a2b_base64(text)
    except (Base64Error, ValueError) as error:
        raise HloError(f"'{field}' is not base64: {error}") from None


def _kernel_among(functions: Sequence[Operation]) -> Operation | None:
    """The function with a grid; without a grid, the one that is not the map of a window."""
    marked = [each for each in functions if {"iteration_bounds", "window_params"} & each.attributes.keys()]
    plain = [each for each in functions if not each.symbol.startswith("transform_")]
    return next(iter(marked or [each for each in plain if "scratch_operands" in each.attributes] or plain), None)


def _described(
    program: Program, function: Operation, functions: Mapping[str, Operation], notes: tuple[str, ...]
) -> KernelBody:
    attributes = function.attributes
    bounds = attributes.get("iteration_bounds")
    grid = None
    if isinstance(bounds, DenseArray):
        grid = tuple([None if size == DYNAMIC else size for size in bounds.values])
    semantics = attributes.get("dimension_semantics")
    listed = semantics.items if isinstance(semantics, ListAttribute) else ()
    windows = attributes.get("window_params")
    items = windows.items if isinstance(windows, ListAttribute) else ()
    count = len(function.regions[0].arguments)
    if len(grid or ()) > count:
        raise HloError(f"a grid of {len(grid or ())} dimensions for a function of {count} arguments")
    return KernelBody(
        program,
        function,
        functions,
        grid,
        tuple([_word(each) for each in listed]),
        tuple([_window(each, functions) for each in items]),
        _integer(attributes.get("scalar_prefetch")) or 0,
        _integer(attributes.get("scratch_operands")) or 0,
        notes,
    )


def _window(item: Attribute, functions: Mapping[str, Operation]) -> WindowAttributes:
    if not isinstance(item, DictionaryAttribute):
        return WindowAttributes()
    bounds, transform = item.get("window_bounds"), item.get("transform_indices")
    function = functions.get(transform.names[0]) if isinstance(transform, SymbolAttribute) else None
    block = bounds.values if isinstance(bounds, DenseArray) else ()
    mode, kind = item.get("pipeline_mode"), item.get("window_kind")
    is_element = isinstance(kind, TextAttribute) and "element_window" in kind.text
    match = _PADDING.search(kind.text) if isinstance(kind, TextAttribute) else None
    padding = tuple([int(each) for each in match[1].split(",")]) if match else ()
    return WindowAttributes(block, function, "" if mode is None else _word(mode), is_element, padding)


_PADDING: Final = lazy_regex(r"element_window<\[(\d+(?:, ?\d+)*+)\]")
"""The padding before the array in each dimension; that behind it follows."""


def _word(attribute: Attribute) -> str:
    """The word of an enumeration: `parallel` of `#tpu.dimension_semantics<parallel>`."""
    if isinstance(attribute, StringAttribute):
        return attribute.value
    return str(attribute).rpartition("<")[2].rstrip(">")


def _integer(attribute: Attribute | None) -> int | None:
    return attribute.value if isinstance(attribute, IntegerAttribute) else None


# --- arguments ---


def space_of(value: Value) -> str:
    """The memory space of a memref in lower case, such as `vmem`; empty for other values, and for one without a space.

    A memref without a space is in the memory of the core, which is VMEM.
    """
    kind = value.type
    if not isinstance(kind, ArrayType) or kind.kind != "memref":
        return ""
    return "vmem" if kind.space is None else _word(kind.space)


def name_of(value: Value) -> str:
    """The name of an argument in the source, which jax 0.12 and later keep; empty without one."""
    return value.location.name if isinstance(value.location, NamedLocation) else ""

"""What does a kernel compute and copy in all steps of its grid: flops, transcendentals, and bytes by DMA?

The body is followed once for all steps: each number that a condition or a loop depends on is an array over the grid.
What cannot be known, such as a condition on loaded data, is assumed to happen once, and said.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any, Final

import numpy as np

from hlo_cli.analysis.kernels.kernel_body import KernelBody, kind_of, space_of
from hlo_cli.analysis.kernels.kernel_memory import bits_of, known_shape
from hlo_cli.analysis.kernels.scalar_code import Numbers, dependencies, run
from hlo_cli.dataclass import dataclass
from hlo_cli.displayed import Items
from hlo_cli.mlir.mlir_operations import Operation, Region, Value
from hlo_cli.mlir.mlir_values import AffineMap, ArrayType, Attribute, DenseArray, ListAttribute, TextAttribute

# --- what operations cost ---

_TRANSCENDENTAL: Final = frozenset(
    "acos asin atan atan2 cbrt cos erf exp exp2 expm1 log log10 log1p log2 powf rsqrt sin sqrt tan tanh".split()
)
"""Operations of `math` that XLA's cost analysis counts as transcendental."""
_MOVES: Final = frozenset(
    "constant index_cast index_castui bitcast extui extsi trunci extf truncf sitofp uitofp fptosi fptoui".split()
)
"""Operations of `arith` that only make a number another type's, or none: without work beside the rest."""
_FIRST_BRACKET: Final = re.compile(r"<\[([0-9, ]*+)\]")
_DIMENSION: Final = re.compile(r"d([0-9]{1,3})")


@dataclass(frozen=True, slots=True)
class DmaTransfer:
    """Copies that a kernel starts by itself: between which memories, bytes of each, and how many in all steps.

    `source_argument` and `target_argument` are numbers of `KernelBody.arguments`; None for other memory.
    """

    source: str
    target: str
    bytes: int
    count: int
    source_argument: int | None = None
    target_argument: int | None = None


@dataclass(frozen=True, slots=True)
class KernelWork:
    """What all steps of a kernel compute.

    `flops` are those of matmuls, by the element type of their operands; `elementwise` has one for each element of every
    other arithmetic operation. `matmuls` is the number of matmuls that run. `assumptions` say what the body does not
    tell.
    """

    flops: Mapping[str, int] = field(default_factory=dict)
    elementwise: int = 0
    transcendentals: int = 0
    matmuls: int = 0
    transfers: tuple[DmaTransfer, ...] = ()
    assumptions: tuple[str, ...] = ()


def matmul_flops(operation: Operation) -> int:
    """Two for each product of a matmul; its contracted dimensions are in its attributes."""
    left, result = operation.operands[0].type, operation.results[0].type
    if not isinstance(left, ArrayType) or not isinstance(result, ArrayType):
        return 0
    sizes = known_shape(left)
    contracted = [number for number in _contracted(operation, len(sizes)) if number < len(sizes)]
    return 2 * prod(known_shape(result)) * prod(sizes[number] for number in contracted)


def _contracted(operation: Operation, rank: int) -> Sequence[int]:
    """The dimensions of the left operand that a matmul sums over."""
    numbers = operation.attributes.get("dimension_numbers")
    if isinstance(numbers, TextAttribute) and (match := _FIRST_BRACKET.search(numbers.text)) is not None:
        return [int(word) for word in match[1].split(",") if word.strip()]
    maps, kinds = operation.attributes.get("indexing_maps"), operation.attributes.get("iterator_types")
    if isinstance(maps, ListAttribute) and isinstance(kinds, ListAttribute) and maps.items:
        summed = {number for number, kind in enumerate(kinds.items) if "reduction" in str(kind)}
        return [n for n, letter in enumerate(_map_results(maps.items[0])) if letter in summed]
    return [rank - 1]  # `tpu.matmul` of kernels before it had dimension numbers


def _map_results(attribute: Attribute) -> list[int]:
    """The dimensions that an affine map returns."""
    results = attribute.results if isinstance(attribute, AffineMap) else str(attribute).partition("->")[2].split(",")
    found = [_DIMENSION.search(result) for result in results]
    return [int(match[1]) if match else -1 for match in found]


def _elements(value: Value) -> int:
    """The elements of a vector; 0 for a scalar, whose operations are not the vector unit's."""
    kind = value.type
    return prod(known_shape(kind)) if isinstance(kind, ArrayType) and kind.kind == "vector" else 0


def _reduced(operation: Operation) -> int:
    """The operations of a reduction: one for each element that is added to another."""
    return max(_elements(operation.operands[0]) - sum(map(_elements, operation.results)), 0)


# --- the walk ---

MAX_POINTS: Final = 1 << 20  # a million steps: numpy takes some milliseconds for each operation on them
"""The most steps of a grid, in the dimensions that conditions depend on, that are told apart."""
MAX_OPERATIONS: Final = 100_000  # about a second
"""The most operations that are followed; loops whose iterations differ are followed iteration by iteration."""


def work_of(body: KernelBody) -> KernelWork:
    """What the kernel computes in all steps of its grid."""
    walk = _Walk(body)
    walk.region(body.function.regions[0], walk.start)
    return walk.result()


class _Walk:
    """Follows the operations of a body; `active` says how often each step of the grid runs them."""

    def __init__(self, body: KernelBody) -> None:
        self.body = body
        self.needed = dependencies(_decisions(body.program.root))
        self.values: dict[Value, Numbers] = {}
        self.counts: Counter[str] = Counter()
        self.flops: Counter[str] = Counter()
        self.transfers: Counter[tuple[str, str, int, int | None, int | None]] = Counter()
        self.assumptions: dict[str, None] = {}
        self.left = MAX_OPERATIONS
        self.called: set[Operation] = {body.function}
        self.factor = 1
        self.start = self._grid()

    def _grid(self) -> Any:
        """Gives the grid's indices their numbers, of the dimensions that decide something; the others multiply."""
        grid = [1 if size is None else size for size in self.body.grid or ()]
        if None in (self.body.grid or ()):
            self.assume("a dimension of the grid is set at run time: counted as one step")
        used = [number for number, value in enumerate(self.body.indices) if value in self.needed and grid[number] > 1]
        shape = [grid[number] if number in used else 1 for number in range(len(grid))]
        if prod(shape) > MAX_POINTS:
            self.assume(f"the grid has more than {MAX_POINTS:,} steps: conditions on its indices are assumed to hold")
            shape, used = [1] * len(grid), []
        for number, value in enumerate(self.body.indices):
            if number in used:
                along = [-1 if each == number else 1 for each in range(len(grid))]
                self.values[value] = np.arange(grid[number]).reshape(along)
            else:
                self.values[value] = np.asarray(0) if grid[number] == 1 else None
        self.factor = prod(grid) // prod(shape) if prod(grid) else 0
        return np.ones(shape, np.int64)

    def assume(self, what: str) -> None:
        """Notes something that the body does not tell."""
        self.assumptions[what] = None

    def result(self) -> KernelWork:
        """What was counted."""
        transfers = [
            DmaTransfer(source, target, size, count, first, second)
            for (source, target, size, first, second), count in self.transfers.items()
        ]
        counts = self.counts
        return KernelWork(
            dict(self.flops),
            counts["elementwise"],
            counts["transcendentals"],
            counts["matmuls"],
            Items(transfers),
            Items(self.assumptions),
        )

    # --- operations ---

    def region(self, region: Region, active: Any) -> Sequence[Value]:
        """Follows the operations of a region; returns the operands of its last one."""
        times = int(active.sum()) * self.factor
        last: Sequence[Value] = ()
        for operation in region.operations:
            self.left -= 1
            if self.left < 0:
                self.assume(f"more than {MAX_OPERATIONS:,} operations: those after are not counted")
                return ()
            last = operation.operands
            kind = kind_of(operation)
            handler = self._STRUCTURED.get(kind)
            if handler is not None:
                handler(self, operation, active)
                continue
            if times:
                self._count(operation, kind, times)
            for inner in operation.regions:
                if kind != "func.func":
                    self.region(inner, active)
            if any(value in self.needed for value in operation.results):
                run(operation, self.values)
        return last

    def _count(self, operation: Operation, kind: str, times: int) -> None:
        """Adds the work of one operation, which runs so often."""
        dialect, _, name = kind.partition(".")
        if kind in ("tpu.matmul", "vector.contract"):
            left = operation.operands[0].type
            name = str(left.element) if isinstance(left, ArrayType) else str(left)
            self.flops[name] += times * matmul_flops(operation)
            self.counts["matmuls"] += times
        elif name.startswith("enqueue_") and "dma" in name:
            self._transfer(operation, times)
        elif not operation.results:
            return
        elif kind == "vector.multi_reduction" or kind.startswith("tpu.all_reduce"):
            self.counts["elementwise"] += times * _reduced(operation)
        elif dialect == "math":
            which = "transcendentals" if name in _TRANSCENDENTAL else "elementwise"
            self.counts[which] += times * _elements(operation.results[0])
        elif (dialect == "arith" and name not in _MOVES) or kind == "tpu.reciprocal":
            self.counts["elementwise"] += times * _elements(operation.results[0])

    def _transfer(self, operation: Operation, times: int) -> None:
        """A copy between memories: its memrefs, of which the semaphores have no bytes."""
        arrays = [(value, kind) for value in operation.operands if isinstance(kind := value.type, ArrayType)]
        arrays = [(value, kind) for value, kind in arrays if bits_of(kind.element)]
        if len(arrays) < 2:
            return
        (source, kind), (target, _) = arrays[:2]
        size = prod(known_shape(kind)) * bits_of(kind.element) // 8
        ends = (self._argument(source), self._argument(target))
        self.transfers[space_of(source), space_of(target), size, *ends] += times

    def _argument(self, value: Value) -> int | None:
        """The number of the argument that a memref is a part of."""
        while (operation := value.operation) is not None and operation.operands:
            value = operation.operands[0]
        arguments = self.body.arguments
        return next((number for number, each in enumerate(arguments) if each is value), None)

    # --- control flow ---

    def _if(self, operation: Operation, active: Any) -> None:
        condition = self.values.get(operation.operands[0])
        regions = operation.regions
        if condition is None:
            self.assume("a condition depends on data: its first branch is assumed to run")
            parts: Sequence[Any] = (active, active * 0)
        else:
            parts = (active * (condition != 0), active * (condition == 0))
        yielded = [self.region(region, part) for region, part in zip(regions, parts, strict=False)]
        for number, value in enumerate(operation.results):
            if value in self.needed and len(yielded) == 2 and condition is not None:
                true, false = (self.values.get(each[number]) if number < len(each) else None for each in yielded)
                self.values[value] = None if true is None or false is None else np.where(condition, true, false)

    def _for(self, operation: Operation, active: Any) -> None:
        region = operation.regions[0]
        low, high, step = (self.values.get(value) for value in operation.operands[:3])
        self.values |= dict.fromkeys((*operation.results, *region.arguments))
        if low is None or high is None or step is None:
            self.assume("a loop has an unknown number of iterations: one is assumed")
            self.region(region, active)
            return
        trips: Any = np.maximum(-((low - high) // np.maximum(step, 1)), 0)
        most, differ = int(np.max(trips, initial=0)), any(value in self.needed for value in region.arguments)
        if differ and most * len(region.operations) > self.left:
            self.assume("a loop is too long to be followed: conditions in it are assumed to hold")
            differ = False
        if not differ:
            self.region(region, active * trips)
            return
        index, *carried = region.arguments
        state = [self.values.get(value) for value in operation.operands[3:]]
        for trip in range(most):
            self.values |= dict(zip(carried, state, strict=False))
            self.values[index] = np.asarray(low + trip * step)
            runs = trips > trip
            ends = self.region(region, active * runs)
            state = [_kept(runs, self.values.get(end), old) for end, old in zip(ends, state, strict=False)]
        self.values |= dict(zip(operation.results, state, strict=False))

    def _while(self, operation: Operation, active: Any) -> None:
        before, after = operation.regions
        state = [self.values.get(value) for value in operation.operands]
        for _ in range(max(self.left, 0)):
            self.values |= dict(zip(before.arguments, state, strict=False))
            ends = self.region(before, active)
            known = self.values.get(ends[0]) if ends else None
            state = [self.values.get(value) for value in ends[1:]]
            self.values |= dict(zip(after.arguments, state, strict=False))
            if known is None:
                self.assume("a loop has an unknown number of iterations: one is assumed")
                self.region(after, active)
                state = []
                break
            active = active * (known != 0)
            if not active.any():
                break
            state = [self.values.get(value) for value in self.region(after, active)]
        self.values |= dict.fromkeys(operation.results) | dict(zip(operation.results, state, strict=False))

    def _switch(self, operation: Operation, active: Any) -> None:
        """The first region is that of all other numbers."""
        cases = operation.attributes.get("cases")
        numbers = cases.values if isinstance(cases, DenseArray) else ()
        chosen = self.values.get(operation.operands[0])
        self.values |= dict.fromkeys(operation.results)
        if chosen is None:
            self.assume("a condition depends on data: its first branch is assumed to run")
            for number, region in enumerate(operation.regions):
                self.region(region, active if number == 1 else active * 0)
            return
        other = active * np.isin(chosen, numbers, invert=True)
        parts = [other, *[active * (chosen == number) for number in numbers]]
        for region, part in zip(operation.regions, parts, strict=False):
            self.region(region, part)

    def _call(self, operation: Operation, active: Any) -> None:
        function = self.body.functions.get(operation.referred("callee"))
        if function is None or not function.regions or function in self.called:
            self.assume("a function that is called is unknown")
            return
        self.called.add(function)
        region = function.regions[0]
        given = [self.values.get(value) for value in operation.operands]
        self.values |= dict(zip(region.arguments, given, strict=False))
        returned = [self.values.get(value) for value in self.region(region, active)]
        self.called.discard(function)
        self.values |= dict(zip(operation.results, returned, strict=False))

    _STRUCTURED: Final = {
        "scf.if": _if,
        "scf.for": _for,
        "scf.while": _while,
        "scf.index_switch": _switch,
        "func.call": _call,
    }


def _kept(runs: Any, new: Numbers, old: Numbers) -> Numbers:
    """What a loop carries on: its new value where it still runs."""
    return None if new is None or old is None else np.where(runs, new, old)


def _decisions(program: Operation) -> list[Value]:
    """The values that conditions and loops depend on."""
    found: list[Value] = []
    for operation in program.walk():
        match kind_of(operation):
            case "scf.if" | "scf.index_switch" | "scf.condition":
                found += operation.operands[:1]
            case "scf.for":
                found += operation.operands[:3]
    return found

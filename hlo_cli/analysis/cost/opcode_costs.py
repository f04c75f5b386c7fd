"""What does an operation cost, by its opcode: flops, transcendentals, and bytes, as XLA's handlers count them?

Mirrors the `Handle…` functions of xla/service/hlo_cost_analysis.cc. Dots and convolutions are in `matmuls.py`.
"""

from __future__ import annotations

from dataclasses import replace
from math import copysign, inf, nan, prod
from typing import Final

from hlo_cli.analysis.cost.counting import (
    BYTES,
    DEFAULT_TILE,
    FLOPS,
    OPTIMAL_SECONDS,
    OUTPUT_BYTES,
    TRANSCENDENTALS,
    UNKNOWN,
    CostCounter,
    Handler,
    Number,
    Properties,
    ShapeSize,
    array_of,
    int64,
    operand_key,
    output_key,
    utilization_key,
)
from hlo_cli.analysis.cost.matmuls import matmul_of
from hlo_cli.analysis.dataflow.dependencies import users_of
from hlo_cli.analysis.dataflow.executions import loop_runs
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import BackendConfig
from hlo_cli.ir.attributes.value_types import WindowDimension
from hlo_cli.ir.instruction import Computation, Instruction, Users
from hlo_cli.ir.memory_space import TpuMemorySpace
from hlo_cli.ir.operations import BLOCK_MOVES, ELEMENTWISE, NO_KERNEL_TARGETS, TRANSCENDENTAL
from hlo_cli.ir.shape import ArrayShape, Shape, ShapeIndex, TupleShape

# --- elementwise operations ---
# One flop or one transcendental per element, whatever the type.
#
# Mirrors `HloCostAnalysis::HandleElementwiseOp` of xla/service/hlo_cost_analysis.cc.


# A copy is elementwise to XLA, but has a handler of its own that counts nothing.
FLOP_OPCODES: Final = ELEMENTWISE - TRANSCENDENTAL - {opcodes.COPY}


def _one_flop_an_element(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts one flop per element of the result.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost_of(parse_module("r = s32[5,3] xor(s32[5,3] a, s32[5,3] b)").entry.root).flops
    15
    """
    properties[FLOPS] = counter.measure(instruction.shape).elements


def _one_transcendental_an_element(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts one transcendental per element of the result, in all leaves of a tuple.

    Random number generators count as such, with the elements of their state.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost = cost_of(parse_module("r = f32[5,3] tanh(f32[5,3] a)").entry.root)
    >>> cost.flops, cost.transcendentals
    (0, 15)
    """
    leaves = instruction.shape.leaves
    properties[TRANSCENDENTALS] = sum(counter.measure(leaf).elements for _, leaf in leaves)


ELEMENTWISE_HANDLERS: Final[dict[str, Handler]] = {
    **dict.fromkeys(FLOP_OPCODES, _one_flop_an_element),
    # HandleRng and HandleRngBitGenerator count elements as transcendentals, as there is no key for random numbers.
    **dict.fromkeys((*TRANSCENDENTAL, "rng", "rng-bit-generator"), _one_transcendental_an_element),
}
"""What counts the cost of each opcode of this family."""


# --- free operations and special moves ---
# Mirrors `HandleParameter`, `HandleTuple`, `HandleTranspose`, `HandleInfeed`, `HandleOutfeed`, and `HandleAllReduce` of
# xla/service/hlo_cost_analysis.cc.


def free(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts no bytes and no flops."""
    properties[BYTES] = properties[OUTPUT_BYTES] = 0
    for number in range(len(instruction.operands)):
        properties[operand_key(number)] = 0


def _tuple(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the pointer table, eight bytes per element."""
    free(instruction, properties, counter)
    properties[BYTES] = properties[OUTPUT_BYTES] = counter.measure(instruction.shape).bytes


def transpose(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts nothing if the transpose is a bitcast.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> moved = "r = f32[2,5]{1,0} transpose(f32[5,2]{1,0} a), dimensions={1,0}"
    >>> cost_of(parse_module(moved).entry.root).bytes_accessed
    80
    >>> cost_of(parse_module(moved.replace("{1,0} t", "{0,1} t")).entry.root).bytes_accessed
    0
    """
    # TransposeIsBitcast (xla/shape_util.cc) compares all dimensions, also those of size 1.
    if _is_bitcast(instruction):
        free(instruction, properties, counter)


def infeed(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of every array of the result; the token operand is free."""
    for index, leaf in instruction.shape.leaves:
        properties[output_key(index)] = counter.measure(leaf).bytes
    properties[OUTPUT_BYTES] = properties[BYTES] = sum(counter.measure(instruction.shape).leaf_bytes)


def outfeed(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of every array of the operands."""
    operands = counter.operands(instruction)
    for number, operand in enumerate(operands):
        for index, leaf in operand.shape.leaves:
            properties[operand_key(number, index)] = counter.measure(leaf).bytes
        properties[operand_key(number)] = sum(operand.leaf_bytes)
    # HandleOutfeed adds operand by operand in float; the token has no bytes.
    properties[BYTES] = counter.sum([sum(operand.leaf_bytes) for operand in operands])


def all_reduce(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts one flop per element, as for two replicas.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost_of(parse_module("r = f32[5] all-reduce(f32[5] a), replica_groups={{0,1,2,3}}").entry.root).flops
    5
    """
    # HandleAllReduce assumes two replicas, which is one addition for each element.
    arrays = [counter.measure(leaf) for _, leaf in instruction.shape.leaves if array_of(leaf)]
    written = sum(array.bytes for array in arrays)
    properties |= {FLOPS: sum(array.elements for array in arrays), OUTPUT_BYTES: written}
    properties[BYTES] = written + sum(operand.bytes for operand in counter.operands(instruction))


def _is_bitcast(transpose: Instruction) -> bool:
    """Whether every dimension, including those of size 1, keeps its position in memory."""
    shape, taken = array_of(transpose.shape), array_of(transpose.operand_shape(0)) if transpose.operands else None
    if shape is None or taken is None:
        return False
    permutation, order = transpose.integers("dimensions"), shape.layout.minor_to_major
    if sorted(permutation) != sorted(order) or shape.element_type is not taken.element_type:
        return False
    return tuple(permutation[d] for d in order) == taken.layout.minor_to_major


MOVE_HANDLERS: Final[dict[str, Handler]] = {
    "all-reduce": all_reduce,
    "all-reduce-start": all_reduce,
    "infeed": infeed,
    "outfeed": outfeed,
    "transpose": transpose,
    "tuple": _tuple,
}
"""What counts the cost of each opcode of this family."""


# --- operations that apply a computation ---
# Its flops and transcendentals count per application.
#
# Its bytes never count. Mirrors `HandleReduce`, `HandleReduceWindow`, `HandleSelectAndScatter`, `HandleMap`, and
# `HandleSort` of xla/service/hlo_cost_analysis.cc.


def _apply_body(
    instruction: Instruction, properties: Properties, counter: CostCounter, times: int, *, callee: int = 0
) -> None:
    """Adds the flops and transcendentals of a called computation, multiplied by `times`."""
    if callee >= len(instruction.called_computations):
        return
    body = counter.totals.get(instruction.called_computations[callee], {})
    # hlo_cost_analysis.cc scales only rates of computing: the operands of a body are in registers.
    for name in (FLOPS, TRANSCENDENTALS):
        if name in body:
            properties[name] = counter.sum((properties.get(name, 0), counter.times(body[name], times)))


def reduce(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the body once for every operand element minus the number of result elements.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
    ... ENTRY e { a = f32[4,9] parameter(0)  b = f32[] constant(0)
    ...   ROOT r = f32[4] reduce(a, b), dimensions={1}, to_apply=add }'''
    >>> cost_of(parse_module(text).entry.root).flops
    32
    """
    _apply_body(
        instruction,
        properties,
        counter,
        # Negative for an empty operand, as in XLA.
        counter.operand(instruction, 0).elements - _result(instruction, counter).elements,
    )


def _map(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the body once for every element of the result."""
    _apply_body(instruction, properties, counter, _result(instruction, counter).elements)


def scan(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the body once for every element of operand 1."""
    _apply_body(instruction, properties, counter, counter.operand(instruction, 1).elements)


def reduce_window(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the body for every window element but one, at every position.

    A cumulative window, which covers the whole dimension at every position, counts as one reduction and a broadcast.
    """
    window = instruction.window
    dimensions = window.dimensions if window is not None else ()
    result = _result(instruction, counter)
    times = (prod(d.size for d in dimensions) - 1) * result.elements
    if (whole := _cumulative_dimension(instruction, dimensions, result)) is not None:
        # HandleReduceWindow expects the rewritten form, which reduces once and broadcasts.
        times = result.elements // whole + whole - 1
    _apply_body(instruction, properties, counter, times)


def select_and_scatter(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts, for every source element, the selection for all window elements but one, and the scatter once."""
    source = counter.operand(instruction, 1).elements
    window = instruction.window
    places = prod(d.size for d in window.dimensions) if window is not None else 1
    # The first element of a window is selected without a comparison.
    _apply_body(instruction, properties, counter, source * (places - 1))
    _apply_body(instruction, properties, counter, source, callee=1)


def sort(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts n log n comparisons of one flop, whatever the body does.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''less { x = s8[] parameter(0)  y = s8[] parameter(1)  ROOT z = compare(x, y), direction=LT }
    ... ENTRY e { a = s8[2,9] parameter(0)  ROOT r = s8[2,9] sort(a), dimensions={1}, to_apply=less }'''
    >>> cost_of(parse_module(text).entry.root).flops
    90
    """
    elements = counter.operand(instruction, 0).elements
    # Unsigned, like the count that HandleSort passes to Log2Ceiling; the body is ignored.
    properties[FLOPS] = elements * (max(elements % (1 << 64), 1) - 1).bit_length()


def _result(instruction: Instruction, counter: CostCounter) -> ShapeSize:
    """Size of the result; of a tuple, its first element."""
    shape = instruction.shape
    return counter.measure(shape.elements[0] if isinstance(shape, TupleShape) and shape.elements else shape)


def _cumulative_dimension(
    instruction: Instruction, dimensions: tuple[WindowDimension, ...], result: ShapeSize
) -> int | None:
    """Size of the only reduced dimension if the window covers all of it at every position, else None."""
    reduced = [d for d in dimensions if d.size != 1]
    padded = [d for d in dimensions if d.padding_low or d.padding_high]
    if len(reduced) != 1 or len(padded) != 1 or isinstance(instruction.shape, TupleShape):
        return None
    d = reduced[0]
    size = result.size(dimensions.index(d))
    is_whole = 0 < d.padding_low == d.padding_high == size - 1 and d.size == 2 * d.padding_low + 1
    return size if is_whole else None


APPLY_HANDLERS: Final[dict[str, Handler]] = {
    "map": _map,
    "reduce": reduce,
    "reduce-window": reduce_window,
    "scan": scan,
    "select-and-scatter": select_and_scatter,
    "sort": sort,
}
"""What counts the cost of each opcode of this family."""


# --- slices, gathers, and scatters ---
# Untouched elements cost nothing.
#
# Mirrors `HandleSlice`, `HandleDynamicSlice`, `HandleDynamicUpdateSlice`, `HandleGather`, and `HandleScatter` of
# xla/service/hlo_cost_analysis.cc.


def _slice(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of the result twice: read and written.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> cost = cost_of(parse_module("r = f32[2] slice(f32[8] a), slice={[1:3]}").entry.root)
    >>> cost.bytes_accessed, cost.operand_bytes(0), cost.operand_utilization(0)
    (16, 8, 0.25)
    """
    result = counter.measure(instruction.shape)
    properties |= {BYTES: 2 * result.bytes, OUTPUT_BYTES: result.bytes, operand_key(0): result.bytes}
    properties[utilization_key(0)] = _utilization(result.elements, counter.operand(instruction, 0).elements)


def dynamic_slice(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of the result twice, and those of the first start index."""
    _slice(instruction, properties, counter)
    # HandleDynamicSlice adds one start index, as if all were in one operand.
    start = counter.operand(instruction, 1).bytes
    properties |= {BYTES: 2 * counter.measure(instruction.shape).bytes + start, operand_key(1): start}


def dynamic_update_slice(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of the update twice, and those of the first start index; the updated array costs nothing.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = "r = f32[100] dynamic-update-slice(f32[100] a, f32[2] u, s32[] i)"
    >>> cost = cost_of(parse_module(text).entry.root)
    >>> cost.bytes_accessed, cost.operand_bytes(0), cost.output_bytes, cost.operand_utilization(0)
    (20, 0, 8, 0.98)
    """
    update, start = counter.operand(instruction, 1), counter.operand(instruction, 2).bytes
    elements = counter.measure(instruction.shape).elements
    properties |= {
        BYTES: 2 * update.bytes + start,
        OUTPUT_BYTES: update.bytes,
        operand_key(0): 0,
        operand_key(1): update.bytes,
        operand_key(2): start,
        utilization_key(0): _utilization(int64(elements - update.elements), elements),
    }


def gather(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of the result twice, and those of the indices."""
    _slice(instruction, properties, counter)
    indices = counter.operand(instruction, 1).bytes
    properties |= {BYTES: 2 * counter.measure(instruction.shape).bytes + indices, operand_key(1): indices}


def scatter(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the bytes of the updates three times (read, and the elements they change read and written), and the
    indices.
    """
    inputs = len(instruction.operands) // 2
    updates = [counter.operand(instruction, inputs + 1 + i) for i in range(inputs)]
    indices, total = counter.operand(instruction, inputs).bytes, sum(update.bytes for update in updates)
    properties |= {operand_key(i): update.bytes for i, update in enumerate(updates)}
    properties |= {operand_key(inputs + 1 + i): update.bytes for i, update in enumerate(updates)}
    properties |= {operand_key(inputs): indices, BYTES: 3 * total + indices, OUTPUT_BYTES: total}
    _apply_body(instruction, properties, counter, updates[0].elements if updates else 0)


def _utilization(elements: int, of: int) -> Number:
    """Quotient of element counts with the results of C++ for division by 0."""
    if of:
        return elements / of
    # A slice of an empty array: C++ divides floats, so the quotient is infinite or no number.
    return copysign(inf, elements) if elements else nan


SLICE_HANDLERS: Final[dict[str, Handler]] = {
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "gather": gather,
    "scatter": scatter,
    "slice": _slice,
}
"""What counts the cost of each opcode of this family."""


# --- gathers and scatters on TPU ---
# Each slice is moved in whole tiles, including padding slots.
#
# Not part of XLA's public source; derived by comparison with libtpu 0.0.51.


def _gather_in_tiles(inner: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Corrects the bytes read by a fusion with a gather: a slice for every index of its result.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> from hlo_cli.analysis.cost.counting import CostOptions
    >>> text = '''f { a = f32[99]{0:T(128)} parameter(0)  i = s32[8,1]{0,1:T(1,128)} parameter(1)
    ...   ROOT g = f32[8]{0:T(128)} gather(a, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
    ...     index_vector_dim=1, slice_sizes={1} }
    ... ENTRY e { a = f32[99]{0:T(128)} parameter(0)  i = s32[8,1]{0,1:T(1,128)} parameter(1)
    ...   ROOT r = f32[8]{0:T(128)} fusion(a, i), kind=kCustom, calls=f }'''
    >>> root = parse_module(text).entry.root
    >>> cost_of(root).operand_bytes(0), cost_of(root, rules=CostOptions(padded=True)).operand_bytes(0) == 128 * 4096
    (32, True)
    """
    # Compared with libtpu's cost analysis: each index reads a slice in whole tiles, even of one element.
    sizes, source = inner.integers("slice_sizes"), inner.operand_shape(0) if inner.operands else None
    read = _slice_count(inner.shape, inner.integers("offset_dims")) * _slice_bytes(source, sizes)
    properties[BYTES] = counter.sum((properties[BYTES], read - properties[operand_key(0)]))
    properties |= {operand_key(0): read, utilization_key(0): 1}


def _scatter_in_tiles(inner: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Corrects the bytes of a fusion with a scatter: a slice is read and written for every index of the updates.

    The utilizations of the applied computation count once per element.
    """
    # Compared with libtpu for scatters of one input; others keep XLA's count.
    if len(inner.operands) != 3 or not isinstance(inner.shape, ArrayShape):
        return
    inserted, windows = inner.integers("inserted_window_dims"), inner.integers("update_window_dims")
    sizes = tuple(1 if d in inserted else size for d, size in enumerate(inner.shape.sizes))
    slice_bytes = _slice_count(inner.operand_shape(2), windows) * _slice_bytes(inner.operand_shape(0), sizes)
    properties[BYTES] = counter.sum((properties[BYTES], 2 * (slice_bytes - properties[OUTPUT_BYTES])))
    properties |= {operand_key(0): slice_bytes, OUTPUT_BYTES: slice_bytes}
    body = counter.totals.get(inner.called_computations[0], {}) if inner.called_computations else {}
    elements = counter.operand(inner, 2).elements
    properties |= {
        name: counter.times(value, elements) for name, value in body.items() if name.startswith("utilization")
    }


def _slice_count(shape: Shape, offsets: tuple[int, ...]) -> int:
    """Number of slices, including padding slots, of an array whose dimensions `offsets` are those of a slice."""
    if not isinstance(shape, ArrayShape):
        return 0
    batch = [size for d, size in enumerate(shape.sizes) if d not in offsets]
    tile = shape.layout.tiles[0].dimensions if shape.layout.tiles else ()
    # Padding positions of the index array are processed like indices, so the batch is rounded up to its tile.
    rows = tile[: len(tile) - len(offsets)]
    parts = (1,) * (len(batch) - len(rows)) + rows[len(rows) - len(batch) :] if batch else ()
    return prod(-(-size // part) * part for size, part in zip(batch, parts, strict=False))


def _slice_bytes(source: Shape | None, sizes: tuple[int, ...]) -> int:
    """Padded bytes of one slice."""
    if not isinstance(source, ArrayShape) or len(sizes) != source.rank:
        return 0
    return replace(source, dimensions=sizes, layout=replace(source.layout, tiles=(DEFAULT_TILE,))).padded_bytes


# --- fusions ---
# The flops of the body, and the bytes of operands and results; values inside are never in memory.
#
# Mirrors `HandleFusion`, `FusionProcessOutputBytesAccessed`, `FusionCountConstantsMemoryAccess`, and
# `FusionParameterReadBytes` of xla/service/hlo_cost_analysis.cc.


_SLICING_OPCODES: Final = BLOCK_MOVES - {opcodes.COPY}
_SLICING_HANDLERS: Final = {opcodes.GATHER: (gather, _gather_in_tiles), opcodes.SCATTER: (scatter, _scatter_in_tiles)}


def fusion(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the flops of the body, and the bytes of result arrays, non-scalar constants, and reads of parameters.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''f { p = f32[100] parameter(0)  s = f32[10] slice(p), slice={[0:10]}  ROOT n = f32[10] negate(s) }
    ... ENTRY e { a = f32[100] parameter(0)  ROOT r = f32[10] fusion(a), kind=kLoop, calls=f }'''
    >>> cost = cost_of(parse_module(text).entry.root)
    >>> cost.flops, cost.bytes_accessed, cost.operand_bytes(0)
    (10, 80, 40)
    """
    if not instruction.called_computations or instruction.called_computations[0].root is None:
        return
    body = counter.first(instruction.called_computations[0])
    if is_custom(instruction) and _count_as_slices(body, properties, counter):
        return
    properties.clear()
    properties |= counter.totals.get(body, {})
    properties[OPTIMAL_SECONDS] = 0
    terms = _bytes_written(instruction.shape, body, properties, counter)
    constants = (counter.value(i) for i in body.instructions if i.opcode == opcodes.CONSTANT)
    # Scalars are part of the code; larger constants are read from memory, though no operand shows them.
    terms += [constant.bytes for constant in constants if constant.elements > 1]
    terms += _bytes_read_of_parameters(body, properties, counter)
    properties[BYTES] = counter.sum(terms)


def is_custom(fusion: Instruction) -> bool:
    """Whether the kind of a fusion is kCustom."""
    # Most fusions are not custom: their attributes need not be split.
    return "kCustom" in fusion.raw[1] and fusion.attribute("kind") == "kCustom"


def _count_as_slices(body: Computation, properties: Properties, counter: CostCounter) -> bool:
    """Counts a custom fusion as its first gather or scatter; whether it has one."""
    for inner in body.instructions:
        if inner.opcode in _SLICING_HANDLERS:
            handler, in_tiles = _SLICING_HANDLERS[inner.opcode]
            handler(inner, properties, counter)
            if counter.rules.padded:
                in_tiles(inner, properties, counter)
            return True
    return False


def _bytes_written(shape: Shape, body: Computation, properties: Properties, counter: CostCounter) -> list[Number]:
    """Bytes written for each result array; of a dynamic-update-slice, only those of the update."""
    written: list[Number] = []
    for index, leaf in shape.leaves:
        if isinstance(leaf, ArrayShape):
            producer = _producer(body, index)
            in_place = producer is not None and producer.opcode == opcodes.DYNAMIC_UPDATE_SLICE
            size = (
                counter.operand(producer, 1).bytes if in_place and producer is not None else counter.measure(leaf).bytes
            )
            properties[output_key(index)] = size
            written.append(size)
    if isinstance(shape, TupleShape):
        properties[output_key(())] = 0
        _sum_of_elements(shape, (), properties, counter)
    return written


def _producer(body: Computation, index: ShapeIndex) -> Instruction | None:
    """Instruction that computes a result: the root, or an operand of a root tuple."""
    root = body.root
    if root is not None and len(index) == 1 and root.opcode == opcodes.TUPLE and index[0] < len(root.operands):
        return root.operands[index[0]]
    return root


def _sum_of_elements(shape: TupleShape, index: ShapeIndex, properties: Properties, counter: CostCounter) -> Number:
    """Sum of the bytes of a tuple's elements, stored under the tuple's index.

    A value that the body already has under this index is kept.
    """
    name = output_key(index)
    # HandleFusion starts from the totals of the body, so an entry of the same name there wins: XLA's oddity.
    if not properties.get(name):
        parts = [
            _sum_of_elements(element, (*index, i), properties, counter)
            if isinstance(element, TupleShape)
            else properties.get(output_key((*index, i)), 0)
            for i, element in enumerate(shape.elements)
        ]
        properties[name] = counter.sum(parts)
    return properties[name]


def _bytes_read_of_parameters(body: Computation, properties: Properties, counter: CostCounter) -> list[Number]:
    """Bytes read from each parameter, and from each leaf of a tuple parameter."""
    users = users_of(body)
    read: list[Number] = []
    for number, parameter in enumerate(body.parameters):
        size = counter.reads[parameter] = _bytes_read(parameter, users, counter)
        if isinstance(parameter.shape, TupleShape):
            size = 0
            for index, _ in parameter.shape.leaves:
                taken = _bytes_read(_element(parameter, index, users), users, counter)
                properties[operand_key(number, index)] = taken
                size += taken
        properties[operand_key(number)] = size
        # Also for parameters that nobody reads, as XLA has it.
        properties[utilization_key(number)] = 1
        read.append(size)
    return read


def _element(parameter: Instruction, index: ShapeIndex, users: Users) -> Instruction:
    """get-tuple-element for a tuple element; if there is none, its closest existing parent."""
    value = parameter
    for step in index:
        taking = (u for u in users[value] if u.opcode == opcodes.GET_TUPLE_ELEMENT and u.integer("index") == step)
        # XLA follows the first get-tuple-element alone, and stays where there is none.
        value = next(taking, value)
    return value


def _bytes_read(value: Instruction, users: Users, counter: CostCounter) -> int:
    """Bytes that users read from a value: slices read a part; most others share one read of the whole value."""
    all_bytes = counter.measure(value.shape).bytes
    size, shared = 0, False
    for user in users[value]:
        match user.opcode:
            case opcodes.FUSION:
                size += sum(
                    _bytes_read_inside(user, number, users, counter)
                    for number, operand in enumerate(user.operands)
                    if operand is value
                )
            # FusionParameterReadBytes has these two apart: they read the whole value once more, each.
            case opcodes.BROADCAST | opcodes.RESHAPE:
                size += all_bytes
            case _:
                taken = _bytes_taken(value, user, counter)
                if taken is not None:
                    size += taken
                elif not shared:
                    shared, size = True, size + all_bytes
    return size


def _bytes_read_inside(inner: Instruction, number: int, users: Users, counter: CostCounter) -> int:
    """Bytes read through an operand of a nested fusion; for users that slice the fusion's result, only their slices.

    That applies only if the operand is used directly by the inner root.
    """
    body = counter.first(inner.called_computations[0]) if inner.called_computations else None
    if body is None or body.root is None or number >= len(body.parameters):
        return 0
    parameter, root = body.parameters[number], body.root
    # XLA looks at operand 0 of the inner root only, and takes a root without operands for a match.
    is_simple = not root.operands or root.operands[0] is parameter
    size, shared = 0, False
    for user in users[inner]:
        slices = is_simple and user.opcode in _SLICING_OPCODES
        taken = _bytes_taken(inner, user, counter) if slices else None
        if taken is not None:
            size += taken
        elif not shared:
            all_bytes = counter.measure(inner.shape).bytes if slices else counter.reads.get(parameter, 0)
            shared, size = True, size + all_bytes
    return size


def _bytes_taken(value: Instruction, user: Instruction, counter: CostCounter) -> int | None:
    """Bytes that `user` reads from a part of `value`; None if it reads all of it."""
    if user.opcode == opcodes.SLICE:
        return counter.measure(user.shape).bytes
    if user.opcode in (opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE) and user.operands[0] is value:
        return counter.measure(user.shape).bytes if user.opcode == opcodes.DYNAMIC_SLICE else 0
    # FusionParameterReadBytes has no gather, though HandleGather counts as much as it takes.
    if counter.rules.gathered_parts and user.opcode == opcodes.GATHER and user.operands[0] is value:
        taken = counter.measure(user.shape).bytes
        # Where more elements are taken than the array has, it is read as a whole.
        return taken if taken < counter.measure(value.shape).bytes and value not in user.operands[1:] else None
    return None


FUSION_HANDLERS: Final[dict[str, Handler]] = {
    "fusion": fusion,
}
"""What counts the cost of each opcode of this family."""


# --- custom calls with a configuration ---
# cuBLAS and cuDNN matmuls, and kernels with an estimate.
#
# Mirrors `GpuHloCostAnalysis::HandleCustomCall` of xla/service/gpu/model/gpu_hlo_cost_analysis.cc and the
# `cost_estimate` of Pallas.


# Where `tpu_custom_call` of JAX puts it, and the same without the message around it.
_ESTIMATE_PATHS: Final = (("custom_call_config", "cost_estimate"), ("cost_estimate",))
_MOSAIC_KERNEL: Final = "tpu_custom_call"  # a Pallas kernel, into which the TPU compiler does not look
# They name memory or promise something to the compiler, and run nothing.
_FREE_TARGETS: Final = frozenset(("AllocateBuffer", "ConcatBitcast", "AssumeGatherIndicesInBound"))


def _custom_call_properties(call: Instruction, counter: CostCounter) -> Properties | None:
    """Properties that differ from the defaults; None if the cost is unknown.

    Scratch memory, which follows the result of a library call, is not written. The TPU compiler counts no bytes for a
    kernel without an estimate, and -1 for the operands of free calls.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> from hlo_cli.analysis.cost.counting import RUN
    >>> dims = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}'
    >>> config = f'backend_config={{"gemm_backend_config":{{{dims}}}}}'
    >>> text = f'r = (f32[2,5], s8[99]) custom-call(f32[2,3] a, f32[3,5] b), custom_call_target="__cublas$gemm"'
    >>> cost = cost_of(parse_module(f"{text}, {config}").entry.root, rules=RUN)
    >>> cost.flops, cost.output_bytes, cost.bytes_accessed, cost.unknown
    (60, 40, 124, 0)
    """
    target, minus_one = call.string("custom_call_target"), counter.rules.minus_one
    if target in _FREE_TARGETS:
        # libtpu's count, compared: the call costs nothing, yet its operands keep XLA's -1.
        unread = {operand_key(number): -1 if minus_one else 0 for number in range(len(call.operands))}
        return {BYTES: 0, OUTPUT_BYTES: 0, **unread}
    config = call.backend_config
    if config is not None and (estimate := _estimate(config)) is not None:
        return estimate
    if target == _MOSAIC_KERNEL and minus_one:
        return {BYTES: 0}
    if (matmul := matmul_of(call)) is None:
        return None
    # gpu_hlo_cost_analysis.cc takes element 0 of the result only: the rest is the library's scratch memory.
    written = matmul.result.logical_bytes
    read = sum(operand.bytes for operand in counter.operands(call))
    return {FLOPS: matmul.flops, OUTPUT_BYTES: written, BYTES: written + read}


def _pallas_properties(call: Instruction) -> Properties | None:
    """What the body of a Pallas kernel computes and moves in all steps of its grid; None if it cannot be read.

    An operand counts as often as its blocks are moved from main memory; one in VMEM, where it stays, counts once. Flops
    are those of matmuls, and one for each element of other arithmetic. An estimate of the author is not asked, as
    nothing checks it.
    """
    from hlo_cli.analysis.kernels.pallas_kernels import kernel_of  # reads MLIR, which few modules have

    kernel = kernel_of(call)
    written = kernel.written_bytes
    if kernel.error or kernel.read_bytes is None or written is None:
        return None
    written += sum(_bytes_in_vmem(leaf) for _, leaf in call.shape.leaves)
    first = kernel.first_window
    operands: Properties = {}
    for number in range(len(call.operands)):
        shape, copied = call.operand_shape(number), kernel.copied_bytes(number)
        if number < first:
            operands[operand_key(number)] = sum(leaf.logical_bytes for _, leaf in shape.leaves)
        else:
            moved = kernel.windows[number - first].moved_bytes or 0
            operands[operand_key(number)] = moved + copied + _bytes_in_vmem(shape)
    return {
        FLOPS: kernel.flops + kernel.work.elementwise,
        TRANSCENDENTALS: kernel.work.transcendentals,
        OUTPUT_BYTES: written,
        BYTES: written + sum(operands.values()),
        **operands,
    }


def _bytes_in_vmem(shape: Shape) -> int:
    is_in_vmem = isinstance(shape, ArrayShape) and shape.layout.memory_space == TpuMemorySpace.VMEM
    return shape.logical_bytes if is_in_vmem else 0


def _estimate(config: BackendConfig) -> Properties | None:
    names = (("flops", FLOPS), ("transcendentals", TRANSCENDENTALS), ("bytes_accessed", BYTES))
    for path in _ESTIMATE_PATHS:
        texts = {figure: str(config.get(*path, name) or "") for name, figure in names}
        # An estimate is the kernel author's own; what does not fit int64 is no number.
        known: Properties = {figure: int(text) for figure, text in texts.items() if text.isdecimal() and len(text) < 20}
        if FLOPS in known:
            return known
    return None


# --- calls, loops, and conditionals ---
# Also async operations and custom calls.
#
# Mirrors `HandleCall`, `HandleWhile`, `HandleConditional`, `HandleAsyncStart`, and `HandleCustomCall` of
# xla/service/hlo_cost_analysis.cc.


# XLA's own marks of calls: free since August 2026, while jaxlib 0.10.2 counts -1.
_CALL_MARKER_TARGETS: Final = ("__xla_internal_call_marker_before", "__xla_internal_call_marker_after")


def call(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the callee, and nothing for the call."""
    properties.clear()
    properties |= _callee(instruction, counter, 0)


def async_start(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the callee; update and done count the default bytes of their operands and results."""
    call(instruction, properties, counter)
    properties[OPTIMAL_SECONDS] = 0


def _while(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts body and condition once or, with `trip_counts`, as often as they run.

    With `trip_counts`, a loop of unknown trip count counts once and adds one operation of unknown cost.
    """
    parts = (_callee(instruction, counter, 0), _callee(instruction, counter, 1))
    # XLA counts a body once whatever the trip count, so only our own options multiply.
    runs = loop_runs(instruction) if counter.rules.trip_counts else None
    properties.clear()
    for part, often in zip(parts, runs or (1, 1), strict=True):
        counter.add(
            properties,
            {name: value if name == UNKNOWN else counter.times(value, often) for name, value in part.items()},
        )
    if runs is None and counter.rules.trip_counts:
        # Not dropped: a sum that contains such a loop is a lower bound, and says so.
        properties[UNKNOWN] = properties.get(UNKNOWN, 0) + 1


def conditional(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts the maximum over all branches for each property.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> text = '''a { p = f32[9] parameter(0)  ROOT r = f32[9] negate(p) }
    ... b { p = f32[9] parameter(0)  ROOT r = f32[9] tanh(p) }
    ... ENTRY e { i = s32[] parameter(0)  x = f32[9] parameter(1)
    ...   ROOT c = f32[9] conditional(i, x, x), branch_computations={a, b} }'''
    >>> cost = cost_of(parse_module(text).entry.root)
    >>> cost.flops, cost.transcendentals
    (9, 9)
    """
    call(instruction, properties, counter)
    for branch in range(1, len(instruction.called_computations)):
        for name, value in _callee(instruction, counter, branch).items():
            # HandleConditional takes the maximum with properties that are present only: -1 of a later branch loses to
            # 0.
            present = properties.get(name, 0)
            properties[name] = value if present < value else present


def custom_call(instruction: Instruction, properties: Properties, counter: CostCounter) -> None:
    """Counts a custom call, whose cost is unknown in general.

    Every property is -1 for XLA; otherwise 0, or derived from the backend configuration with `known_calls`. That of a
    Pallas kernel is the work of its body.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.cost.cost_analysis import cost_of
    >>> from hlo_cli.analysis.cost.counting import EXACT, XLA
    >>> root = parse_module('r = f32[2] custom-call(f32[2] a), custom_call_target="f"').entry.root
    >>> for rules in EXACT, XLA:
    ...     cost = cost_of(root, rules=rules)
    ...     cost.bytes_accessed, cost.unknown
    (0, 1)
    (-1.0, 1)
    """
    rules, target = counter.rules, instruction.string("custom_call_target")
    # XLA counts -1 for what names memory, too, such as a ConcatBitcast of a TPU.
    is_marker = rules.call_markers_are_free and target in _CALL_MARKER_TARGETS
    if is_marker or (target in NO_KERNEL_TARGETS and not rules.minus_one):
        free(instruction, properties, counter)
    elif (
        not rules.minus_one
        and instruction.string("custom_call_target") == _MOSAIC_KERNEL
        and (opened := _pallas_properties(instruction)) is not None
    ):
        properties |= opened
    elif rules.known_calls and (known := _custom_call_properties(instruction, counter)) is not None:
        properties |= known
    elif rules.minus_one:
        properties |= {FLOPS: -1, BYTES: -1, OUTPUT_BYTES: -1, OPTIMAL_SECONDS: -1, UNKNOWN: 1}
        properties |= {operand_key(number): -1 for number in range(len(instruction.operands))}
    else:
        properties[UNKNOWN] = 1
        if not rules.known_calls:
            free(instruction, properties, counter)


def _callee(instruction: Instruction, counter: CostCounter, number: int) -> Properties:
    called = instruction.called_computations
    return counter.totals.get(called[number], {}) if number < len(called) else {}


CONTROL_FLOW_HANDLERS: Final[dict[str, Handler]] = {
    "async-start": async_start,
    "call": call,
    "conditional": conditional,
    "custom-call": custom_call,
    "while": _while,
}
"""What counts the cost of each opcode of this family."""

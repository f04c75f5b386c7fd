"""May an operation join the kernel of a dot that Triton compiles: how do its dimensions lie, and is it worth it?

The elements of a tensor around a dot are walked in the order of dimensions of the dot. An operation can join if that
order carries over to its other side, and Triton can compute it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.analysis.fusion.cpu_rules import slice_bounds
from hlo_cli.analysis.fusion.gpu_emitters import bytes_of, inverse, sizes_of, type_of
from hlo_cli.analysis.fusion.mutable_graph import Node, is_effective_scalar, is_elementwise
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes, operations
from hlo_cli.ir.shape import ArrayShape

# --- the order of dimensions ---
# How a tensor is made of the dimensions of a dot.
#
# Mirrors `DimensionOrder` and `TensorIterationSpec` of xla/service/gpu/triton_tiling_propagation.h.


@dataclass(frozen=True, slots=True)
class Fragment:
    """Part of a dimension of the dot: its size in the tensor, and of it the elements that are read.

    >>> Fragment(0, 8, 2, 4).is_sliced, Fragment.of(1, 8)
    (True, Fragment(dimension=1, size=8, start=0, read=8))
    """

    dimension: int
    size: int
    start: int
    read: int

    @classmethod
    def of(cls, dimension: int, size: int) -> Fragment:
        """A whole part."""
        return cls(dimension, size, 0, size)

    @property
    def is_sliced(self) -> bool:
        """Whether only some elements are read."""
        return self.size != self.read


@dataclass(frozen=True, slots=True)
class DimensionOrder:
    """Fragments of a tensor from minor to major, and for each dimension of the dot the places of its own in order."""

    fragments: tuple[Fragment, ...]
    places: Mapping[int, tuple[int, ...]]

    @classmethod
    def of_tensor(cls, shape: ArrayShape) -> DimensionOrder:
        """The order at an operand or the result of a dot, whose dimensions are the labels.

        >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
        >>> [each.dimension for each in DimensionOrder.of_tensor(parse_shape("f32[2,3]{1,0}")).fragments]
        [1, 0]
        """
        order = shape.layout.minor_to_major
        fragments = tuple(Fragment.of(d, shape.dimensions[d]) for d in order)
        return cls(fragments, {d: (place,) for place, d in enumerate(order)})

    def iteration(self) -> Iteration:
        """How the tensor is walked: equal for two orders whose strides and sizes are equal."""
        found: dict[int, list[_Run]] = {}
        stride, last = 1, -1
        for fragment in self.fragments:
            runs = found.setdefault(fragment.dimension, [])
            if last == fragment.dimension:
                _extend(runs, fragment)
            else:
                read = (fragment.read,)
                runs.append(_Run(stride, fragment.size, fragment.start, fragment.read, read))
            stride *= fragment.size
            last = fragment.dimension
        return frozenset(
            (dimension, tuple(run for run in runs if len(runs) == 1 or run.size != 1))
            for dimension, runs in found.items()
            if any(run.size != 1 for run in runs) or len(runs) == 1
        )


class _Run(NamedTuple):
    """Fragments of a dimension that are next to each other in memory."""

    stride: int
    size: int
    start: int
    read: int
    parts: tuple[int, ...]


Iteration: TypeAlias = frozenset[tuple[int, tuple[_Run, ...]]]
"""For each dimension of the dot, the runs of its elements."""


def _extend(runs: list[_Run], fragment: Fragment) -> None:
    """Adds a fragment to the last run, of the same dimension."""
    run = runs[-1]
    parts = run.parts[:-1] if run.parts and run.parts[-1] == 1 else run.parts
    if fragment.size == 1:
        runs[-1] = run._replace(parts=parts)
        return
    runs[-1] = run._replace(
        start=fragment.start * run.size,
        read=fragment.read * run.size,
        size=run.size * fragment.size,
        parts=(*parts, fragment.read),
    )


# --- what a dot allows ---
# Which orders the kernel of a dot can walk.
#
# Mirrors `GetRequirementsIfSupportedOrder` and `CombineDotRequirements` of triton_tiling_propagation.cc.


NO_SPLIT: Final = 0
"""No requirement on the major part of the dimension that may be split."""
_NO_DIMENSION: Final = -1  # no dimension of a dot has it


class Side(NamedTuple):
    """Where operations join: at an operand of the dot, or at its result.

    `own` is the dimension of this operand alone, `splittable` the one that other dimensions may divide once.
    """

    own: int = _NO_DIMENSION
    splittable: int = _NO_DIMENSION


class Refusal(Exception):
    """Why an operation does not join, in XLA's words."""

    @property
    def reason(self) -> str:
        """The reason."""
        return str(self.args[0])


def combine_splits(one: int, other: int) -> int:
    """The requirement that follows from two; Refusal if they contradict.

    >>> combine_splits(NO_SPLIT, 8), combine_splits(8, 8)
    (8, 8)
    """
    if one != other and NO_SPLIT not in (one, other):
        raise Refusal("Conflicting splits of splittable dimension")
    return one or other


def _required_split(order: DimensionOrder, side: Side) -> int:
    """Size of the major part of the dimension that an order splits; Refusal for an order that cannot be walked."""
    split = NO_SPLIT
    fragments = order.fragments
    for dimension, places in order.places.items():
        if any(fragments[place].is_sliced for place in places[:-1]):
            raise Refusal("Sliced non-major-most fragment.")
        last = -1
        for groups, (size, end) in enumerate(_groups(places, fragments), 1):
            if last > end:
                raise Refusal("Transpose within a dimension.")
            if groups > 1 and dimension != side.splittable:
                raise Refusal("Unsupported split of a dimension.")
            if groups > 2:  # the requirement is one size, so one split
                raise Refusal("2nd split of a splittable dimension.")
            if groups > 1:
                split = combine_splits(split, size)
            last = end
    return split


def _groups(places: Sequence[int], fragments: Sequence[Fragment]) -> Iterator[tuple[int, int]]:
    """Sizes and last places of fragments that are next to each other; without those of one element."""
    at = 0
    while at < len(places):
        size = fragments[places[at]].size
        while at + 1 < len(places) and places[at + 1] == places[at] + 1:
            at += 1
            size *= fragments[places[at]].size
        if size > 1:
            yield size, places[at]
        at += 1


# --- orders at the other side of an operation ---
# Mirrors `GetPropagatedDimOrders` and what it calls of triton_tiling_propagation.cc.


_CONCATENATED: Final = 64  # `kMinConcatFragmentSize`: no tile reads two operands of a concatenate
_BARRED: Final = (opcodes.CONCATENATE, opcodes.DYNAMIC_SLICE)
_RESHAPES: Final = (opcodes.BITCAST, opcodes.RESHAPE)
Orders: TypeAlias = dict[Node, DimensionOrder]
"""Orders of operands, or of the operation itself."""


def orders_of_operands(node: Node, order: DimensionOrder, side: Side) -> tuple[Orders, int]:
    """Orders of the operands of an operation whose result has an order, and the split that they require.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> node = mutable_graph_of(parse_module("r = f32[2,3] transpose(f32[3,2] a), dimensions={1,0}").entry).root
    >>> orders, split = orders_of_operands(node, DimensionOrder.of_tensor(node.shape), Side())
    >>> [(each.dimension, each.size) for each in orders[node.operands[0]].fragments], split
    ([(0, 2), (1, 3)], 0)
    """
    orders = _operand_orders(node, order, side)
    split = NO_SPLIT
    for operand in node.operands:
        if operand in orders:
            split = combine_splits(split, _required_split(orders[operand], side))
    return orders, split


def order_of_result(node: Node, order: DimensionOrder, side: Side) -> tuple[DimensionOrder, int]:
    """The order of the result of an operation of which an operand has an order, and the split that it requires."""
    if _is_scalar_constant(node) or node.opcode == opcodes.PARAMETER:
        raise Refusal("Unimplemented instruction.")
    if node.opcode in (opcodes.TRANSPOSE, opcodes.COPY):
        source = node.operands[0].shape
        assert isinstance(source, ArrayShape)
        groups = _by_dimension(order, source)
        permutation = _permutation(node)
        result = _arranged(order, [groups[d] for d in permutation], node, is_broadcast=False)
    elif is_elementwise_in_triton(node.opcode, type_of(node.operands[0]) if node.operands else ""):
        result = order
    elif node.opcode in _RESHAPES:
        _require_bitcast(node)
        result = _reshaped(order, node)
    else:
        directions = {
            opcodes.BROADCAST: "Unsupported broadcast direction.",
            opcodes.SLICE: "Unsupported slice direction.",
        }
        raise Refusal(directions.get(node.opcode, "Unimplemented instruction."))
    return result, _required_split(result, side)


def _operand_orders(node: Node, order: DimensionOrder, side: Side) -> Orders:
    if node.opcode != opcodes.PARAMETER and any(user.opcode in _BARRED for user in node.users):
        raise Refusal("No fusion into concatenations or dynamic slice.")
    if node.opcode == opcodes.PARAMETER or _is_scalar_constant(node):
        return {}
    if node.opcode in (opcodes.TRANSPOSE, opcodes.COPY, opcodes.BROADCAST, opcodes.SLICE):
        return {node.operands[0]: _order_of_operand(node, order)}
    if node.operands and is_elementwise_in_triton(node.opcode, type_of(node.operands[0])):
        return dict.fromkeys(node.operands, order)
    if node.opcode in _RESHAPES:
        _require_bitcast(node)
        return {node.operands[0]: _reshaped(order, node.operands[0])}
    if node.opcode == opcodes.CONCATENATE:
        return _orders_of_concatenated(node, order, side)
    raise Refusal("Unimplemented instruction.")


def _order_of_operand(node: Node, order: DimensionOrder) -> DimensionOrder:
    """The order of the operand of a transpose, copy, broadcast, or slice."""
    assert isinstance(node.shape, ArrayShape)
    operand = node.operands[0]
    if node.opcode == opcodes.SLICE and is_effective_scalar(node.shape):
        raise Refusal("Slice to scalar is not implemented yet.")
    groups = _by_dimension(order, node.shape)
    if node.opcode == opcodes.SLICE:
        groups = [
            _sliced(order, group, bound.limit - bound.start, bound.start, size)
            for group, bound, size in zip(groups, slice_bounds(node), sizes_of(operand), strict=True)
        ]
    elif node.opcode == opcodes.BROADCAST:
        groups = [groups[d] for d in node.instruction.integers("dimensions")]
    else:
        # The operand's dimension d is where the transpose takes it to.
        groups = [groups[place] for place in inverse(_permutation(node))]
    return _arranged(order, groups, operand, is_broadcast=node.opcode == opcodes.BROADCAST)


def _permutation(node: Node) -> tuple[int, ...]:
    """For each dimension of a transpose or copy, the dimension of the operand."""
    if node.opcode == opcodes.COPY:
        return tuple(range(len(sizes_of(node))))
    return node.instruction.integers("dimensions")


Group: TypeAlias = list[tuple[int, Fragment]]
"""Fragments that a logical dimension is made of, with their places in the order; -1 for a new one."""


def _by_dimension(order: DimensionOrder, shape: ArrayShape) -> list[Group]:
    """The fragments of each logical dimension of a tensor."""
    if len(order.fragments) < shape.rank:
        raise Refusal("Cannot propagate further from trivial sized tensor")
    groups: list[Group] = [[] for _ in shape.dimensions]
    place = 0
    for d in shape.layout.minor_to_major:
        size = 1
        # At least one, also for a dimension of one element.
        while not groups[d] or size < shape.dimensions[d]:
            if place == len(order.fragments):
                raise Refusal("Cannot propagate further from trivial sized tensor")
            groups[d].append((place, order.fragments[place]))
            size *= order.fragments[place].size
            place += 1
    return groups


def _sliced(order: DimensionOrder, group: Group, taken: int, start: int, size: int) -> Group:
    """The fragments of a dimension before it is sliced."""
    if taken == size:
        return group
    if len(group) > 1:
        raise Refusal("Slicing of fragmented dimension.")
    place, fragment = group[0]
    return [(place, replace(fragment, size=size, start=fragment.start + start))]


def _arranged(order: DimensionOrder, groups: list[Group], tensor: Node, *, is_broadcast: bool) -> DimensionOrder:
    """The order of a tensor whose logical dimensions are made of these fragments."""
    shape = tensor.shape
    assert isinstance(shape, ArrayShape)
    fragments: list[Fragment] = []
    moved: dict[int, int] = {}
    for d in shape.layout.minor_to_major:
        for place, fragment in groups[d]:
            moved[place] = len(fragments)
            fragments.append(fragment)
    present = {each.dimension for each in fragments if each.size > 1}
    places: dict[int, tuple[int, ...]] = {}
    for dimension, old in order.places.items():
        dropped = [place for place in old if place not in moved]
        if is_broadcast and dimension in present and any(order.fragments[place].size > 1 for place in dropped):
            raise Refusal("Unsupported broadcast")
        kept = tuple(moved[place] for place in old if place in moved)
        if kept:
            places[dimension] = kept
    return DimensionOrder(tuple(fragments), places)


def _orders_of_concatenated(node: Node, order: DimensionOrder, side: Side) -> Orders:
    if len(order.places.get(side.own, ())) > 1:
        raise Refusal("Concatenations on split non-contracting dimensions are unsupported.")
    (along,) = node.instruction.integers("dimensions")[:1]
    assert isinstance(node.shape, ArrayShape)
    if _dimension_of_label(node.shape, order, side.own) != along:
        raise Refusal("Unsupported concatenation.")
    if any(sizes_of(operand)[along] % _CONCATENATED for operand in node.operands):
        raise Refusal("At least one operand of concatenation can not be perfectly tiled.")
    groups = _by_dimension(order, node.shape)
    if len(groups[along]) != 1 or groups[along][0][1].is_sliced:
        raise Refusal("Unsupported concatenation.")
    found: Orders = {}
    before = 0
    for operand in node.operands:
        size = sizes_of(operand)[along]
        ((place, fragment),) = groups[along]
        own = [(place, Fragment(fragment.dimension, size, -before, size))]
        before += size
        found[operand] = _arranged(order, [*groups[:along], own, *groups[along + 1 :]], operand, is_broadcast=False)
        # A fragment that is new has no place in its dimension.
        places = {d: kept for d, kept in found[operand].places.items() if d != fragment.dimension}
        found[operand] = DimensionOrder(found[operand].fragments, places)
    return found


def _dimension_of_label(shape: ArrayShape, order: DimensionOrder, label: int) -> int | None:
    """The logical dimension of a tensor that has a fragment of a dimension of the dot."""
    place = 0
    for d in shape.layout.minor_to_major:
        size = 1
        while size < shape.dimensions[d] and place < len(order.fragments):
            size *= order.fragments[place].size
            if order.fragments[place].dimension == label:
                return d
            place += 1
    return None


def _reshaped(order: DimensionOrder, result: Node) -> DimensionOrder:
    """The order of a tensor of other dimensions over the same bytes."""
    shape = result.shape
    assert isinstance(shape, ArrayShape)
    sizes = [shape.dimensions[d] for d in shape.layout.minor_to_major]
    fragments: list[Fragment] = []
    moved: list[list[int]] = []
    left, at = 1, 0  # the part of a dimension that is still to be filled, and the next dimension
    for fragment in order.fragments:
        begin = len(fragments)
        if left >= fragment.size:
            if left % fragment.size:
                raise Refusal("Unsupported bitcast")
            fragments.append(fragment)
            left //= fragment.size
        else:
            left, at = _split_fragment(fragment, sizes, left, at, fragments)
        moved.append(list(range(begin, len(fragments))))
    while at < len(sizes):
        if sizes[at] != 1:
            raise Refusal("Unsupported bitcast")
        # Dimensions of one element belong to what is next to them.
        if fragments:
            moved[-1].append(len(fragments))
            fragments.append(Fragment.of(fragments[-1].dimension, 1))
        at += 1
    places = {d: tuple(new for place in old for new in moved[place]) for d, old in order.places.items()}
    return DimensionOrder(tuple(fragments), {d: found for d, found in places.items() if found})


def _split_fragment(
    fragment: Fragment, sizes: Sequence[int], left: int, at: int, fragments: list[Fragment]
) -> tuple[int, int]:
    """Appends the parts of a fragment that is larger than the rest of a dimension; returns the new rest and place."""
    size = fragment.size
    if left > 1:
        if size % left or fragment.is_sliced:
            raise Refusal("Unsupported bitcast")
        fragments.append(Fragment.of(fragment.dimension, left))
        size //= left
        left = 1
    while size > 1:
        if at == len(sizes):
            raise Refusal("Unsupported bitcast")
        part = sizes[at]
        if part > size:
            if part % size:
                raise Refusal("Unsupported bitcast")
            left, part = part // size, size
        if fragment.is_sliced:
            raise Refusal("Unsupported bitcast")
        fragments.append(Fragment.of(fragment.dimension, part))
        size //= part
        at += 1
    return left, at


def _require_bitcast(node: Node) -> None:
    if node.opcode == opcodes.RESHAPE and not is_bitcast_reshape(node):
        raise Refusal("Non-bitcast reshape.")


def is_bitcast_reshape(node: Node) -> bool:
    """Whether a reshape keeps all bytes in place (`ShapeUtil::ReshapeIsBitcast`).

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> for text in ("f32[6] reshape(f32[2,3]{1,0} a)", "f32[6] reshape(f32[2,3]{0,1} a)"):
    ...     print(is_bitcast_reshape(mutable_graph_of(parse_module(f"r = {text}").entry).root))
    True
    False
    """
    given, result = node.operands[0].shape, node.shape
    if not isinstance(given, ArrayShape) or not isinstance(result, ArrayShape):
        return False
    return _strides(given) == _strides(result)


def _strides(shape: ArrayShape) -> list[tuple[int, int]]:
    """Sizes and strides of the dimensions in logical order, with those merged that lie as one."""
    stride = 1
    strides = dict[int, int]()
    for d in shape.layout.minor_to_major:
        strides[d] = stride
        stride *= shape.dimensions[d]
    found: list[tuple[int, int]] = []
    for d, size in enumerate(shape.dimensions):
        if size == 1:
            continue
        if found and found[-1][1] == size * strides[d]:
            found[-1] = found[-1][0] * size, strides[d]
        else:
            found.append((size, strides[d]))
    return found


def _is_scalar_constant(node: Node) -> bool:
    return node.opcode == opcodes.CONSTANT and isinstance(node.shape, ArrayShape) and not node.shape.dimensions


# --- what Triton computes ---
# Types and operations that Triton's kernels of dots have.
#
# Mirrors xla/backends/gpu/codegen/triton/support_legacy.cc.


_TYPES: Final = frozenset(("f16", "f32", "bf16", "s32", "pred", "s8", "s16"))
_SINCE: Final = {"f8e5m2": 80, "f8e4m3fn": 90}
"""Types that need a compute capability."""
_FLOATS: Final = ("f16", "bf16", "f32", "f64")
_WITHOUT_ORDER: Final = frozenset(
    (
        *_RESHAPES,
        opcodes.TRANSPOSE,
        opcodes.SLICE,
        opcodes.PAD,
        opcodes.CONCATENATE,
        opcodes.BROADCAST,
        opcodes.PARAMETER,
    )
)
"""Operations whose types do not matter."""


def is_elementwise_in_triton(opcode: str, element: str) -> bool:
    """Whether Triton computes an operation of each element; `element` is the type of operand 0.

    >>> is_elementwise_in_triton("divide", "f32"), is_elementwise_in_triton("divide", "f16")
    (True, False)
    """
    if element == "pred":
        return opcode in operations.TRITON_OF_PREDICATES
    if opcode in operations.TRITON:
        return True
    # support_legacy.cc leaves out quotients of halves.
    return element in _FLOATS and opcode in operations.TRITON_OF_FLOATS and (opcode, element) != ("divide", "f16")


def has_type(element: str, device: GpuDevice) -> bool:
    """Whether Triton's kernels of dots have an element type."""
    return element in _TYPES or (element in _SINCE and device.capability >= _SINCE[element])


def _require_support(node: Node, device: GpuDevice) -> None:
    if is_elementwise(node):
        if not has_type(type_of(node), device):
            raise Refusal("Unsupported output data type.")
        for operand in node.operands:
            is_nibble = node.opcode == opcodes.CONVERT and type_of(operand) == "s4"
            if not is_nibble and not has_type(type_of(operand), device):
                raise Refusal("Unsupported input data type.")
        if node.opcode == opcodes.CONSTANT:
            return
        if not node.operands or not is_elementwise_in_triton(node.opcode, type_of(node.operands[0])):
            raise Refusal("Unsupported elementwise operation.")
    elif node.opcode not in _WITHOUT_ORDER:
        raise Refusal("Unsupported opcode.")


# --- whether it is worth it ---
# Mirrors `GetPropagatedDimOrdersAndRequirementsIfProfitablyFusible` of triton_tiling_propagation.cc.


_TOLERANCE: Final = 1024  # `kIoToleranceBytes`: so many bytes more to read or write do not matter
_REDUCTIONS: Final = (opcodes.REDUCE, opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START, opcodes.ALL_REDUCE_DONE)
_GIVEN: Final = (opcodes.PARAMETER, opcodes.CONSTANT)


def join_as_input(node: Node, order: DimensionOrder, side: Side, device: GpuDevice) -> tuple[Orders, int]:
    """Orders of the operands of an operation that joins before a dot, and the required split; else Refusal.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
    >>> from hlo_cli.analysis.hardware.gpu_devices import gpu_device
    >>> node = mutable_graph_of(parse_module("r = f32[2,3] sign(f32[2,3] a)").entry).root
    >>> join_as_input(node, DimensionOrder.of_tensor(node.shape), Side(), gpu_device("h100"))
    Traceback (most recent call last):
    hlo_cli.analysis.fusion.dimension_order.Refusal: Unsupported elementwise operation.
    """
    _require_kind(node, device)
    orders, split = orders_of_operands(node, order, side)
    if not _has_cheap_broadcast(node, orders, side, device) and not _is_input_worth(node):
        raise Refusal("Not obviously profitable to fuse as input.")
    return orders, split


def join_as_output(
    node: Node, value: Node, order: DimensionOrder, side: Side, device: GpuDevice, *, is_last: bool
) -> tuple[DimensionOrder, int]:
    """The order of the result of an operation that joins after a dot, and the required split; else Refusal.

    `value` is the operand that the kernel computes; `is_last` says that no user could join.
    """
    _require_kind(node, device)
    result, split = order_of_result(node, order, side)
    source = node.operands.index(value)
    for place, operand in enumerate(node.operands):
        if place == source or is_effective_parameter(operand):
            continue
        is_broadcast = operand.opcode == opcodes.BROADCAST
        if is_broadcast and (not sizes_of(operand.operands[0]) or is_effective_parameter(operand.operands[0])):
            continue
        raise Refusal("Has multiple inputs - not properly analyzed yet.")
    if not is_last and _added_bytes(node) < -_TOLERANCE:
        raise Refusal("Not obviously profitable to fuse as output.")
    return result, split


def is_effective_parameter(node: Node) -> bool:
    """Whether a value is an argument, at most seen as other dimensions or taken of a tuple."""
    while node.opcode in (opcodes.BITCAST, opcodes.GET_TUPLE_ELEMENT):
        node = node.operands[0]
    return node.opcode == opcodes.PARAMETER


def _require_kind(node: Node, device: GpuDevice) -> None:
    if node.opcode in (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT):
        raise Refusal("Unsupported instruction.")
    if node.opcode in _REDUCTIONS:
        raise Refusal("Reductions are not fused yet.")
    if node.opcode == opcodes.PAD:
        raise Refusal("Pads are not fused yet.")
    _require_support(node, device)


def _has_cheap_broadcast(node: Node, orders: Orders, side: Side, device: GpuDevice) -> bool:
    """Whether an operation of two operands has one that is a broadcast of little and can join."""
    if len(node.operands) != 2 or not is_elementwise(node):
        return False
    for operand in node.operands:
        if operand.opcode == opcodes.BROADCAST and operand.operands[0].opcode in _GIVEN:
            try:
                join_as_input(operand, orders[operand], side, device)
            except Refusal:
                continue
            return True
    return False


def _added_bytes(node: Node) -> int:
    """Bytes of the operands less those of the result."""
    return sum(bytes_of(operand.shape) for operand in node.operands) - bytes_of(node.shape)


def _is_input_worth(node: Node) -> bool:
    if any(not isinstance(operand.shape, ArrayShape) for operand in node.operands):
        return False
    if _added_bytes(node) <= _TOLERANCE:
        return True
    if node.opcode == opcodes.SLICE and _shares_source(node):
        return True
    if len(node.users) > 1:
        return False
    # Of scales of parts of a dimension, which XLA joins by a flag that is off.
    if node.opcode == "multiply":
        return False
    are_given = all(operand.opcode in _GIVEN for operand in node.operands)
    if node.opcode == opcodes.SLICE and are_given:
        return True
    return are_given and all(len(operand.users) == 1 for operand in node.operands)


def _shares_source(node: Node) -> bool:
    """Whether a slice is one of several users of a value that a kernel can read as it is."""
    source = node.operands[0]
    while source.opcode in (*_RESHAPES, opcodes.TRANSPOSE) and len(source.users) == 1:
        source = source.operands[0]
    if len(source.users) < 2:
        return False
    slices = [user for user in source.users if user.opcode == opcodes.SLICE]
    if len(slices) == len(source.users) and all(each.shape == node.shape for each in slices):
        return False
    return source.opcode in _GIVEN or is_elementwise(source) or len(slices) == len(source.users)

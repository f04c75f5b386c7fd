"""Values of attributes made up by a `Random`, one maker for each kind, for laws that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from random import Random
from typing import TypeVar

from hlo_cli.ir.attributes import enumerations
from hlo_cli.ir.attributes.metadata import (
    BackendConfig,
    DebugAttributes,
    DebuggedArray,
    FrontendAttributes,
    Metadata,
    OriginalArray,
    OriginalTuple,
    OriginalValue,
    Recovery,
    RecoveryTable,
    Statistic,
    StatisticsViz,
)
from hlo_cli.ir.attributes.sharding import (
    AnySharding,
    AxisRef,
    CollectiveDeviceList,
    DimensionSharding,
    Domain,
    IotaReplicaGroupList,
    IotaTransform,
    MaximalMesh,
    Mesh,
    MeshAxesReplicaGroupList,
    MeshAxis,
    NamedSharding,
    ReplicaGroups,
    ShardGroup,
    Sharding,
    ShardingType,
    TileAssignment,
    TupleSharding,
)
from hlo_cli.ir.attributes.value_types import (
    Alias,
    AttributeValue,
    BlockScalingConfig,
    BufferDonor,
    ComputationLayout,
    ConvolutionDimensionNumbers,
    Name,
    OutputOperandAlias,
    PaddingConfig,
    PaddingDimension,
    ResultAccuracy,
    Slice,
    SliceDimension,
    SparsityConfig,
    TensorBlockScaling,
    TensorSparsity,
    Tolerance,
    Window,
    WindowDimension,
)
from hlo_cli.ir.shape import Shape, TokenShape, TupleShape
from hlo_cli.source import Source
from hlo_cli.syntax.attribute_table import Kind
from hlo_cli.syntax.literal_reading import read_shaped_literal
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.scanning.tokens import Tokens
from strategies import an_array as array_shape

_T = TypeVar("_T")
_AXES = ("x", "y", "data", "axis_3")
_TEXTS = (
    "",
    "a",
    "a b",
    "it's",
    'say "hi"',
    "line\nbreak",
    "{x}",
    "{",
    "é☃",
    "\\",
    '{"k":"}"}',
    "a, b=(1)",
    "/* no */",
)
_NAMES = ("add", "fusion.1", "a-b", "__xla_x", "true", "f32")


def several(random: Random, make: Callable[[Random], _T], most: int = 4, least: int = 0) -> tuple[_T, ...]:
    """Some values made one after the other."""
    return tuple(make(random) for _ in range(random.randint(least, most)))


def a_number(random: Random) -> int:
    """A whole number, mostly a small one."""
    return random.choice((0, 1, 2, 3, 7, 128, 2**40, -1, -(2**63), 2**63 - 1))


def a_size(random: Random) -> int:
    """A number that is not negative."""
    return random.choice((0, 1, 2, 3, 7, 128, 2**40))


def an_index(random: Random) -> tuple[int, ...]:
    """A shape index."""
    return several(random, lambda random: random.randrange(9), 3)


def shape_value(random: Random) -> Shape:
    """A shape that XLA takes; it looks more closely at arrays in tuples, so that these are plain here."""
    plain = TupleShape((parse_shape("f32[2]{0}"), TokenShape(), TupleShape(())))
    return random.choice((array_shape(random, random.randrange(4)), TokenShape(), plain))


def a_window(random: Random) -> Window:
    """A window; each field is there once in a while."""

    def dimension(random: Random) -> WindowDimension:
        stride, base, dilation = (random.choice((1, 1, 2, 5)) for _ in range(3))
        low, high = (random.choice((0, 0, 1, -2)) for _ in range(2))
        return WindowDimension(a_size(random), stride, low, high, base, dilation, window_reversal=random.random() < 0.1)

    return Window(several(random, dimension))


def dimension_labels(random: Random) -> ConvolutionDimensionNumbers:
    """Dimension numbers in which now and then a dimension is left out."""
    rank = random.randrange(4)

    def part() -> tuple[int, int, tuple[int, ...]]:
        first, second, *spatial = random.sample(range(rank + 2 + random.randrange(2)), rank + 2)
        return first, second, tuple(spatial)

    return ConvolutionDimensionNumbers(*part(), *part(), *part())


def a_transform(random: Random, count: int) -> IotaTransform:
    """An iota of so many numbers, in some order."""
    dims = []
    while count > 1:
        dims.append(random.choice([d for d in range(2, count + 1) if count % d == 0]))
        count //= dims[-1]
    dims = dims or [1]
    return IotaTransform(tuple(dims), tuple(random.sample(range(len(dims)), len(dims))) if len(dims) > 1 else (0,))


def a_mesh(random: Random) -> Mesh:
    """A mesh of a few axes, whose devices may stand in some other order."""
    axes = tuple(MeshAxis(name, random.choice((1, 2, 4, 6))) for name in random.sample(_AXES, random.randint(1, 3)))
    count = Mesh(axes).device_count
    devices = tuple(random.sample(range(count), count))
    ids = random.choice((None, None, a_transform(random, count), devices if list(devices) != sorted(devices) else None))
    return Mesh(axes, ids)


def some_axes(random: Random, mesh: Mesh) -> list[AxisRef]:
    """Axes of a mesh in some order, each whole or one part of it."""

    def ref(axis: MeshAxis) -> AxisRef:
        parts = [(p, s) for p in range(1, axis.size) for s in range(2, axis.size) if axis.size % (p * s) == 0]
        return AxisRef(axis.name, *random.choice(parts)) if parts and random.random() < 0.4 else AxisRef(axis.name)

    return [ref(axis) for axis in random.sample(mesh.axes, random.randint(1, len(mesh.axes)))]


def replica_groups(random: Random) -> ReplicaGroups:
    """Groups in any of the three forms."""
    count, size = random.choice((1, 2, 4)), random.choice((1, 2, 6))
    match random.randrange(3):
        case 0:
            return CollectiveDeviceList(several(random, lambda random: several(random, a_size)))
        case 1:
            return IotaReplicaGroupList(count, size, a_transform(random, count * size))
    mesh = a_mesh(random)
    return MeshAxesReplicaGroupList(mesh, tuple(some_axes(random, mesh)))


def a_metadata(random: Random) -> Metadata:
    """Metadata with some of its fields."""
    return Metadata(op_name=random.choice(_TEXTS), source_file=random.choice(_TEXTS), source_line=random.randrange(3))


def a_named_sharding(random: Random) -> NamedSharding:
    """A sharding over the axes of a mesh."""
    metadata = several(random, a_metadata, 2) if random.random() < 0.3 else ()
    if random.random() < 0.1:
        return NamedSharding(MaximalMesh(random.randrange(9)), metadata=metadata)
    mesh = a_mesh(random)
    if random.random() < 0.2:
        whole = random.choice(("replicated", "manual", "unreduced"))
        reduction = random.choice((None, *enumerations.ReductionKind)) if whole == "unreduced" else None
        return NamedSharding(mesh, whole=whole, reduction=reduction, metadata=metadata)
    lists: list[list[AxisRef]] = [[] for _ in range(6)]
    for axis in some_axes(random, mesh):
        random.choice(lists).append(axis)
    names = [axis.name for axis in mesh.axes]
    replicated, unreduced, manual = (tuple(sorted(axes, key=lambda a: names.index(a.name))) for axes in lists[3:])
    dimensions = tuple(DimensionSharding(tuple(axes), is_closed=random.random() < 0.7) for axes in lists[:3])
    reduction = random.choice((None, *enumerations.ReductionKind)) if unreduced else None
    return NamedSharding(mesh, dimensions, replicated, unreduced, manual, reduction, metadata=metadata)


def a_single_sharding(random: Random) -> Sharding:
    """A sharding of one array that names no mesh."""
    kind = random.choice(tuple(ShardingType))
    group = random.choice((None, None, ShardGroup(random.randrange(9), is_like=random.random() < 0.5)))
    metadata = several(random, a_metadata, 2) if random.random() < 0.3 else ()
    if kind is not ShardingType.TILED:
        reduction = random.choice((None, enumerations.ReductionKind.MAX)) if kind is ShardingType.UNREDUCED else None
        device = random.randrange(9) if kind is ShardingType.MAXIMAL else None
        return Sharding(kind, device=device, reduction=reduction, group=group, metadata=metadata)
    dimensions = several(random, lambda random: random.choice((1, 2, 3)), least=1)
    count = TileAssignment(dimensions, ()).device_count
    listed = tuple(random.sample(range(count), count))
    devices = listed if count > 1 and random.random() < 0.5 else a_transform(random, count)
    replicate = random.random() < 0.3
    types = [kind for kind in ShardingType if kind not in (ShardingType.TILED, ShardingType.UNKNOWN)]
    last = () if replicate else tuple(random.choices(types, k=random.randrange(len(dimensions) + 1)))
    tiles = TileAssignment(dimensions, devices)
    return Sharding(kind, tiles, None, replicate, last, None, group, metadata)


def a_sharding(random: Random) -> AnySharding:
    """A sharding of any form."""

    def single(random: Random) -> Sharding | NamedSharding:
        return a_named_sharding(random) if random.random() < 0.4 else a_single_sharding(random)

    return TupleSharding(several(random, single, 8)) if random.random() < 0.3 else single(random)


def an_array(random: Random) -> OriginalArray:
    """An original array, or none."""
    return OriginalArray(random.choice(_NAMES), an_index(random)) if random.random() < 0.8 else OriginalArray()


def a_tree(random: Random, depth: int = 3) -> OriginalArray | OriginalTuple:
    """A tree of original arrays."""
    if depth == 0 or random.random() < 0.5:
        return an_array(random)
    return OriginalTuple(several(random, lambda random: a_tree(random, depth - 1), 3))


def debug_attributes(random: Random) -> DebuggedArray:
    """What is logged of an array."""

    def one(random: Random) -> DebugAttributes:
        mode = random.choice((None, *enumerations.DebugLogMode))
        return DebugAttributes(mode, random.randrange(3), random.random() < 0.5, random.randrange(3))

    return DebuggedArray(an_array(random), several(random, one, 2, 1))


def a_recovery(random: Random) -> Recovery:
    """An entry of a recovery table."""
    return Recovery(an_array(random), an_array(random), random.choice(("", 'HloModule m, a="\\n"\n')))


def a_word(kind: type[StrEnum]) -> Callable[[Random], StrEnum]:
    """The maker of words of an enumeration."""
    return lambda random: random.choice(tuple(kind))


def _tolerance(random: Random) -> Tolerance:
    return Tolerance(random.choice((0.0, 0.5)), random.choice((0.0, 1e-06)), random.randrange(3))


def _sparse(random: Random) -> TensorSparsity | None:
    return TensorSparsity(*(random.randrange(9) for _ in range(5))) if random.random() < 0.6 else None


def _scaled(random: Random) -> TensorBlockScaling | None:
    if random.random() < 0.4:
        return None
    sizes = (tuple(random.randint(1, 9) for _ in range(random.randrange(4))) for _ in range(2))
    return TensorBlockScaling(random.randrange(9), random.choice((None, 0, 3)), *sizes)


def _original_value(random: Random) -> OriginalValue:
    return random.choice(
        (
            OriginalValue(None),
            OriginalValue(None, ""),
            OriginalValue(a_tree(random)),
            OriginalValue(a_tree(random), "call/while.1"),
        )
    )


def _alias(random: Random) -> Alias:
    return Alias(an_index(random), random.randrange(9), an_index(random), random.choice(("may-alias", "must-alias")))


def _padding(random: Random) -> PaddingConfig:
    def dimension(random: Random) -> PaddingDimension:
        return PaddingDimension(a_number(random), a_number(random), random.choice((0, 0, 3)))

    return PaddingConfig(several(random, dimension, least=1))


def _slice(random: Random) -> Slice:
    return Slice(several(random, lambda random: SliceDimension(a_size(random), a_size(random), random.choice((1, 2)))))


def _frontend(random: Random) -> FrontendAttributes:
    return FrontendAttributes(
        tuple((name, random.choice(_TEXTS)) for name in ("a", "a.b-c", "z")[: random.randrange(4)])
    )


def _statistics(random: Random) -> StatisticsViz:
    def statistic(random: Random) -> Statistic:
        return Statistic(random.choice(("a", "stat-1")), random.choice((0.0, 33.0, 1.5, -2.0)))

    return StatisticsViz(random.randrange(3), several(random, statistic))


_LITERALS = ("f32[] 0.1", "s32[2]{0} {1, 2}", "pred[2,1]{1,0} { {1}, {0} }", "( s4[] -3, ( f32[] -inf ), (  ) )")


def _name(random: Random) -> Name:
    return Name(random.choice(_NAMES))


def _bool(random: Random) -> bool:
    return random.random() < 0.5


MAKERS: dict[Kind, Callable[[Random], AttributeValue]] = {
    Kind.BOOL: _bool,
    Kind.BOOL_IF_GIVEN: _bool,
    Kind.BOOLS: lambda random: several(random, _bool),
    Kind.BOOLS_OR_BOOL: lambda random: several(random, _bool),
    Kind.INT: a_number,
    Kind.INT32: lambda random: random.choice((0, -1, 2**31 - 1)),
    Kind.INTS: lambda random: several(random, a_number),
    Kind.INT_LISTS: lambda random: several(random, lambda random: several(random, a_number)),
    Kind.FLOAT: lambda random: random.choice((0.001, 1.0, 1e-05)),
    Kind.STRING: lambda random: random.choice(_TEXTS),
    Kind.STRING_OR_JSON: lambda random: BackendConfig(random.choice(_TEXTS)),
    Kind.SHAPE: shape_value,
    Kind.SHAPES: lambda random: several(random, shape_value),
    Kind.LITERAL: lambda random: read_shaped_literal(Tokens(Source("", random.choice(_LITERALS)))),
    Kind.COMPUTATION: _name,
    Kind.COMPUTATIONS: lambda random: several(random, _name),
    Kind.INSTRUCTIONS: lambda random: several(random, _name),
    Kind.ALGORITHM: a_word(enumerations.PrecisionAlgorithm),
    Kind.ALIASING: lambda random: several(random, _alias),
    Kind.API_VERSION: a_word(enumerations.CustomCallApiVersion),
    Kind.BLOCK_SCALING: lambda random: BlockScalingConfig(_scaled(random), _scaled(random)),
    Kind.BUFFER_DONORS: lambda random: several(random, lambda r: BufferDonor(r.randrange(9), an_index(r))),
    Kind.COMPUTATION_LAYOUT: lambda random: ComputationLayout(several(random, shape_value), shape_value(random)),
    Kind.CONVOLUTION_KIND: a_word(enumerations.ConvolutionKind),
    Kind.DEBUG_ATTRIBUTES: lambda random: several(random, debug_attributes),
    Kind.DIM_LABELS: dimension_labels,
    Kind.DIRECTION: a_word(enumerations.ComparisonDirection),
    Kind.DISTRIBUTION: a_word(enumerations.RandomDistribution),
    Kind.DOMAIN: lambda random: Domain(a_sharding(random), a_sharding(random)),
    Kind.FFT_TYPE: a_word(enumerations.FftType),
    Kind.FRONTEND_ATTRIBUTES: _frontend,
    Kind.FUSION_KIND: a_word(enumerations.FusionKind),
    Kind.GROUP_MODE: a_word(enumerations.CollectiveOpGroupMode),
    Kind.METADATA: a_metadata,
    Kind.OPERAND_ALIASING: lambda random: several(
        random, lambda random: OutputOperandAlias(an_index(random), random.randrange(9), an_index(random))
    ),
    Kind.ORDER: a_word(enumerations.ComparisonOrder),
    Kind.ORIGIN: _original_value,
    Kind.PADDING: _padding,
    Kind.PADDING_TYPE: a_word(enumerations.PaddingType),
    Kind.PRECISIONS: lambda random: several(random, a_word(enumerations.Precision)),
    Kind.RANDOM_ALGORITHM: a_word(enumerations.RandomAlgorithm),
    Kind.RECOVERY_TABLE: lambda random: RecoveryTable(several(random, a_recovery)),
    Kind.REPLICA_GROUPS: replica_groups,
    Kind.RESULT_ACCURACY: lambda random: ResultAccuracy(
        random.choice((*enumerations.ResultAccuracyMode, _tolerance(random)))
    ),
    Kind.SCHEDULE: a_word(enumerations.CustomCallSchedule),
    Kind.SHARDING: a_sharding,
    Kind.SHUFFLE_MODE: a_word(enumerations.ShuffleMode),
    Kind.SLICE: _slice,
    Kind.SPARSITY: lambda random: SparsityConfig(_sparse(random), _sparse(random)),
    Kind.STATISTICS: _statistics,
    Kind.TRANSPOSE: a_word(enumerations.Transpose),
    Kind.TYPE: a_word(enumerations.ComparisonType),
    Kind.WINDOW: a_window,
}

"""How long does a matmul take on a GPU: measured times of XLA's tables or of the user, and a model for other shapes?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from math import ceil, exp, log, log2, sqrt
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.chip_table import (
    ChipSpec,
    CollectiveTimes,
    MatmulShape,
    MatmulTimes,
    MeasuredTimes,
    Series,
)
from hlo_cli.analysis.hardware.time_model import (
    SHAPE_BAND,
    TF32_ON_REQUEST,
    Band,
    Estimate,
    around,
)
from hlo_cli.dataclass import dataclass

# --- measured times of matmuls and collectives ---
# From XLA's tables; `tests/make_time_tables.py` made the files.
#
# Mirrors default_matmul_perf_table and default_collective_perf_table of xla/service/gpu/model.


MEASURED_AS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "h100": "h100",
        "h100-pcie": "h100",
        "h200": "h100",
        "b200": "b200",
        "gb200": "b200",
        "b300": "b200",
        "gb300": "b200",
        "mi350x": "mi350x",
        "mi355x": "mi350x",
    }
)
"""The measured chip with the same kind of cores."""
LINKS_MEASURED_AS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "h100": "h100",
        "h200": "h100",
        "b200": "b200",
        "gb200": "gb200",
        "b300": "gb300",
        "gb300": "gb300",
        "mi350x": "mi350x",
        "mi355x": "mi350x",
    }
)
"""The measured chip with the same links."""
_TABLES: Final = "XLA's default_matmul_perf_table and default_collective_perf_table"


@cache
def matmul_times() -> Mapping[tuple[str, str], MatmulTimes]:
    """Returns the measured times of matmuls by chip and types.

    Types are bf16, f32 (which uses TF32), and f8 of H100 and B200; of MI350X, those of operands and result.

    >>> times = matmul_times()
    >>> columns = ("h100", "bf16"), ("mi350x", "bf16xbf16->bf16")
    >>> tuple(f"{times[column][1, 4096, 1024, 4096]:.2e}" for column in columns)
    ('4.57e-05', '4.79e-05')
    """
    head, *lines = _rows_of_table("matmul_times.csv")
    columns = [(chip, kind) for chip, _, kind in (name.partition(" ") for name in head[4:])]
    times: dict[tuple[str, str], dict[MatmulShape, float]] = {column: {} for column in columns}
    for batch, m, n, k, *cells in lines:
        for column, cell in zip(columns, cells, strict=True):
            if cell:
                # The tables are in microseconds, as XLA's are.
                times[column][int(batch), int(m), int(n), int(k)] = float(cell) / 1e6
    return times


@cache
def collective_times() -> Mapping[tuple[str, str], Series]:
    """Returns the measured times of collectives by chip and opcode, then by groups and devices in a group.

    For a collective-permute, these are 0 and the number of pairs. Devices are in one host or NVLink domain.

    >>> times = collective_times()["h100", "all-gather"]
    >>> sorted(times), f"{times[1, 8][1 << 20]:.2e}"
    ([(1, 8), (2, 4), (4, 2)], '3.11e-05')
    """
    times_by_kind: dict[tuple[str, str], dict[tuple[int, int], CollectiveTimes]] = {}
    for chip, opcode, groups, devices, pairs in _rows_of_table("collective_times.csv")[1:]:
        times = (pair.split(":") for pair in pairs.split())
        key = (0 if groups == "pairs" else int(groups), int(devices))
        times_by_kind.setdefault((chip, opcode), {})[key] = {int(size): float(time) / 1e6 for size, time in times}
    return times_by_kind


def _rows_of_table(name: str) -> list[list[str]]:
    # Only matmuls and collectives of measured chips need the tables.
    from importlib.resources import files  # slow to import

    text = (files("hlo_cli.analysis.hardware") / name).read_text("utf-8")
    return [line.split(",") for line in text.splitlines()]


@cache
def _shipped(chip: str) -> MeasuredTimes:
    """The times of a measured chip in the package."""
    matmuls = {types: times for (name, types), times in matmul_times().items() if name == chip}
    return MeasuredTimes(matmuls, {}, _TABLES)


# --- a model of tiles and waves ---
# For any number of cores and peak rate; measured times of similar shapes correct it.
#
# Libraries and autotuning choose the best tile, so the model takes the fastest of several tile sizes. If the result has
# fewer tiles than the chip has cores, k is split among several cores; if it is a vector, scalar units compute it.


@dataclass(frozen=True, slots=True)
class MatmulModel:
    """How a chip computes matmuls, for any number of cores and peak rate.

    Each core computes one tile of the result at a time, in waves. `launch_seconds` is what every kernel takes,
    `tile_seconds` what every wave takes in addition to its flops at `share` of the peak rate of a core. While a core
    computes one flop at its peak rate, it reads at most `bytes_per_flop`. Main memory reaches `memory_share` of its
    peak.
    """

    launch_seconds: float
    share: float
    bytes_per_flop: float
    tile_seconds: float
    memory_share: float


# `python tests/fit_time_model.py` fits these constants on three quarters of the measured shapes, and prints them with
# the quantiles of measured over estimated time on the other quarter.
MATMUL_MODELS: Final[Mapping[tuple[str, str], MatmulModel]] = MappingProxyType(
    {
        ("h100", "bf16"): MatmulModel(4.84e-6, 0.824, 0.0166, 0.728e-6, 0.803),
        ("h100", "f32"): MatmulModel(5.62e-6, 0.672, 0.0143, 0.371e-6, 0.589),
        ("h100", "f8"): MatmulModel(4.67e-6, 1.45, 0.0235, 1.56e-6, 0.95),  # more than the published peak
        ("b200", "bf16"): MatmulModel(4.55e-6, 0.749, 0.015, 1.42e-6, 0.763),
        ("b200", "f32"): MatmulModel(6.55e-6, 0.749, 0.0343, 1.07e-6, 0.731),
        ("b200", "f8"): MatmulModel(5.59e-6, 0.746, 0.00684, 0.331e-6, 0.723),
        ("mi350x", "bf16"): MatmulModel(3.88e-6, 0.502, 0.0237, 0.266e-6, 0.37),
        ("mi350x", "f32"): MatmulModel(5.95e-6, 0.794, 0.0149, 0.501e-6, 0.805),
        ("mi350x", "f8"): MatmulModel(3.34e-6, 0.315, 0.0145, 2.05e-6, 0.508),
    }
)
"""The model of each measured chip and kind of matmul."""
OTHER_MATMULS: Final = MatmulModel(5.43e-6, 0.726, 0.0164, 0.579e-6, 0.751)
"""The model of matmuls on chips that were not measured."""

# Blocks that libraries have kernels for, from square to narrow; chosen, not fitted.
_TILES: Final = ((256, 256), (256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (64, 32))
_SPLIT_FACTORS: Final = (1, 2, 4, 8)  # split-k factors of libraries; chosen, not fitted
_SPLIT_SECONDS: Final = 1e-6  # chosen, not fitted: a barrier between blocks
"""The time in which cores exchange their parts of a sum."""
_ELEMENT_BYTES: Final = {"bf16": (2, 2), "f32": (4, 4), "f8": (1, 2)}
"""Bytes of an operand element and of a result element, by kind of matmul."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What the model of a matmul knows of a chip: cores, and rates per second.

    `scalar_flops_per_second` is the rate of the units that multiply without matrices.
    """

    cores: int
    flops_per_second: float
    scalar_flops_per_second: float
    bytes_per_second: float


def unit_of(chip: ChipSpec, flops_per_second: float) -> Unit:
    """What the model knows of a chip that multiplies at this rate.

    >>> from hlo_cli import chip_spec
    >>> unit_of(chip_spec("a100-80gb"), 312e12).scalar_flops_per_second
    19500000000000.0
    """
    scalar = chip.flops_of("f32 highest")
    slow = flops_per_second if scalar is None else min(flops_per_second, scalar.per_second)
    return Unit(chip.cores, flops_per_second, slow, chip.memory.per_second)


def measured_unit(chip: str, kind: str) -> Unit:
    """What the model knows of a measured chip; f32 multiplies in TF32 where that is the default.

    >>> measured_unit("h100", "f32").flops_per_second, measured_unit("mi350x", "f32").flops_per_second
    (494700000000000.0, 144200000000000.0)
    """
    spec = chip_spec(chip)
    full = "f32 highest" if chip in TF32_ON_REQUEST else "tf32"
    rate = spec.flops_of(full if kind == "f32" else kind)
    assert rate is not None
    return unit_of(spec, rate.per_second)


def modeled_seconds(
    shape: MatmulShape, sizes: tuple[float, float], unit: Unit, model: MatmulModel, moved_bytes: int | None = None
) -> float:
    """The time of a matmul by the model alone; `sizes` are the bytes of an operand element and a result element.

    >>> unit = Unit(100, 1e15, 1e14, 3e12)
    >>> model = MatmulModel(0.0, 1.0, 1.0, 0.0, 1.0)
    >>> f"{modeled_seconds((1, 12800, 12800, 8192), (2, 2), unit, model):.2e}"  # 100 × 100 tiles, in 100 waves
    '2.68e-03'
    """
    batch, m, n, k = shape
    operand_bytes, result_bytes = sizes
    rate = unit.flops_per_second / unit.cores
    bandwidth = unit.bytes_per_second * model.memory_share
    flops = 2 * batch * m * n * k
    # A matrix times a vector: no tile of the matrix units is filled, and scalar units are as fast.
    best = flops / unit.scalar_flops_per_second
    for rows, columns in _TILES:
        tiles = batch * ceil(m / rows) * ceil(n / columns)
        step = max(2 * rows * columns / model.share, (rows + columns) * operand_bytes / model.bytes_per_flop) / rate
        for parts in _SPLIT_FACTORS:
            waves = ceil(tiles * parts / unit.cores)
            seconds = waves * (ceil(k / parts) * step + model.tile_seconds)
            if parts > 1:
                # Partial sums are f32, 4 bytes, whatever the types of the matrices.
                seconds += _SPLIT_SECONDS + 4 * batch * m * n * parts / bandwidth
            best = min(best, seconds)
    moved = moved_bytes if moved_bytes is not None else batch * (operand_bytes * (m * k + k * n) + result_bytes * m * n)
    return model.launch_seconds + max(best, moved / bandwidth)


def element_bytes(kind: str) -> tuple[float, float]:
    """Bytes of an element of the operands and of the result of a matmul that multiplies in a type.

    >>> element_bytes("tf32"), element_bytes("f8"), element_bytes("s8")
    ((4, 4), (1, 2), (1, 2))
    """
    named = _KINDS.get(kind, "f8" if kind.startswith(("s", "u", "f4", "f6")) else "f32")
    return _ELEMENT_BYTES[named]


# --- from measured shapes to others ---
# What measured shapes near by took, relative to the model, is what this shape takes.
#
# The grid of measured shapes is coarse, and which of three ways is best between its points differs by chip and types:
# a smooth function (kriging), a step where libraries switch kernels (the weighted median), or a mean.


Method = Literal["mean", "median", "kriging"]
METHODS: Final[tuple[Method, ...]] = ("mean", "median", "kriging")
_Point: TypeAlias = tuple[float, float, float, float]
Places: TypeAlias = Sequence[tuple[float, float, float, float]]
"""Places of measured shapes; shapes of similar time are near each other."""

_NEIGHBOR_COUNT: Final = 8  # chosen, not fitted: about the corners of a cell in the grid of measured shapes
_KRIGED_COUNT: Final = 16  # 32 change the held-out error by less than 1%, and take eight times as long
_NUGGET: Final = 0.0256  # variance of one measurement over that of shapes: 8% and 50%
_MAX_DISTANCE: Final = 1.5
"""Distance of the nearest measured shape, as powers of two, from which on the table says little."""


class Interpolation(NamedTuple):
    """A way between measured shapes, and the band of its estimates."""

    method: Method
    band: Band


class TableFit(NamedTuple):
    """How a table of matmuls is interpolated below and from `LARGE_SECONDS` on.

    Found by leaving out each measured shape in turn; see `fit_of`.
    """

    small: Interpolation
    large: Interpolation


LARGE_SECONDS: Final = 20e-6
"""From here on the time of a matmul is that of its flops and bytes; below, launches rule."""


def _point_of(shape: MatmulShape, method: Method) -> _Point:
    """Shapes of similar time are near: size of the result, its shape, batch, and k, as powers of two."""
    batch, m, n, k = (log2(max(size, 1)) for size in shape)
    if method == "mean":
        # The number of tiles and k decide the time, the aspect less; factors chosen, judged on the held-out shapes.
        return 0.7 * (batch + m + n), 0.4 * (m - n), batch, k
    # Shapes with the same number of tiles and the same k differ least, of whatever aspect and batch.
    return 0.5 * (batch + m + n), 0.1 * (m - n), 0.1 * batch, 0.5 * k


def residuals(
    times: MatmulTimes, sizes: tuple[float, float], unit: Unit, model: MatmulModel, method: Method = "mean"
) -> tuple[Places, Sequence[float]]:
    """Places of measured shapes, and logarithms of measured over modeled time; `sizes` as of `modeled_seconds`."""
    logs = [log(seconds / modeled_seconds(shape, sizes, unit, model)) for shape, seconds in times.items()]
    return [_point_of(shape, method) for shape in times], logs


def correction_near(
    shape: MatmulShape, places: Places, logs: Sequence[float], method: Method = "mean"
) -> tuple[float, float]:
    """Distance of the nearest place, and what the logarithms there say of a shape.

    >>> from hlo_cli.analysis.hardware.measured_times import OTHER_MATMULS
    >>> unit, shape = Unit(132, 9.9e14, 6.7e13, 3.35e12), (1, 512, 512, 512)
    >>> double = {shape: 2 * modeled_seconds(shape, (2, 2), unit, OTHER_MATMULS)}
    >>> for method in METHODS:
    ...     near = residuals(double, (2, 2), unit, OTHER_MATMULS, method)
    ...     print(round(exp(correction_near((1, 640, 512, 512), *near, method)[1]), 6))
    2.0
    2.0
    2.0
    """
    point = _point_of(shape, method)
    return _correction_at(point, _nearest(point, places, logs, method), method)


def _nearest(
    point: _Point, places: Places, logs: Sequence[float], method: Method
) -> Sequence[tuple[float, float, _Point]]:
    """The nearest places with their squared distances and logarithms."""
    a, b, c, d = point
    count = _KRIGED_COUNT if method == "kriging" else _NEIGHBOR_COUNT
    return sorted(
        ((p - a) ** 2 + (q - b) ** 2 + (r - c) ** 2 + (s - d) ** 2, each, (p, q, r, s))
        for (p, q, r, s), each in zip(places, logs, strict=True)
    )[:count]


def _correction_at(point: _Point, near: Sequence[tuple[float, float, _Point]], method: Method) -> tuple[float, float]:
    distance = sqrt(near[0][0])
    if method == "kriging":
        return distance, _kriged(near)
    # Near shapes decide: a steep weight, bounded where a shape was measured itself. Chosen; the held-out quarter judged
    # it.
    weights = [(sqrt(squared) + 0.05) ** -3 for squared, _, _ in near]
    if method == "mean":
        return distance, sum(weight * each for weight, (_, each, _) in zip(weights, near, strict=True)) / sum(weights)
    pairs = sorted((each, weight) for weight, (_, each, _) in zip(weights, near, strict=True))
    passed = accumulate(weight for _, weight in pairs)
    half = sum(weights) / 2
    return distance, next((each for (each, _), sum_ in zip(pairs, passed, strict=True) if sum_ >= half), pairs[-1][0])


def _kriged(near: Sequence[tuple[float, float, _Point]]) -> float:
    """The expected value at the origin of the distances: ordinary kriging with a Matérn covariance of order 3/2."""
    values = [each for _, each, _ in near]
    matrix = [
        [_covariance(sqrt(sum((x - y) ** 2 for x, y in zip(p, q, strict=True)))) + _NUGGET * (i == j)
         for j, (_, _, q) in enumerate(near)]
        for i, (_, _, p) in enumerate(near)
    ]  # fmt: skip
    weights, ones = _solved(matrix, values), _solved(matrix, [1.0] * len(near))
    mean = sum(weights) / sum(ones)
    to_point = [_covariance(sqrt(squared)) for squared, _, _ in near]
    return mean + sum(c * (w - mean * o) for c, w, o in zip(to_point, weights, ones, strict=True))


def _covariance(distance: float) -> float:
    scaled = sqrt(3.0) * distance  # of order 3/2: once differentiable, as times between two kernels of a library are
    return (1.0 + scaled) * exp(-scaled)


def _solved(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """The solution of a system of linear equations with a symmetric positive definite matrix, by Cholesky factors."""
    size = len(right)
    factor = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = matrix[i][j] - sum(factor[i][p] * factor[j][p] for p in range(j))
            factor[i][j] = sqrt(rest) if i == j else rest / factor[j][j]
    found = list(right)
    for i in range(size):
        found[i] = (found[i] - sum(factor[i][p] * found[p] for p in range(i))) / factor[i][i]
    for i in reversed(range(size)):
        found[i] = (found[i] - sum(factor[p][i] * found[p] for p in range(i + 1, size))) / factor[i][i]
    return found


TABLE_FITS: Final[Mapping[tuple[str, str], TableFit]] = MappingProxyType(
    {
        ("h100", "bf16"): TableFit(Interpolation("kriging", (0.95, 1.05)), Interpolation("median", (0.97, 1.02))),
        ("h100", "f32"): TableFit(Interpolation("kriging", (0.89, 1.10)), Interpolation("mean", (0.90, 1.14))),
        ("h100", "f8"): TableFit(Interpolation("kriging", (0.94, 1.05)), Interpolation("kriging", (0.95, 1.07))),
        ("b200", "bf16"): TableFit(Interpolation("median", (0.99, 1.03)), Interpolation("median", (0.99, 1.01))),
        ("b200", "f32"): TableFit(Interpolation("median", (0.95, 1.04)), Interpolation("median", (0.96, 1.03))),
        ("b200", "f8"): TableFit(Interpolation("kriging", (0.94, 1.05)), Interpolation("kriging", (0.98, 1.03))),
        ("mi350x", "bf16xbf16->bf16"): TableFit(
            Interpolation("kriging", (0.90, 1.08)), Interpolation("kriging", (0.91, 1.13))
        ),
        ("mi350x", "bf16xbf16->f32"): TableFit(
            Interpolation("kriging", (0.91, 1.11)), Interpolation("kriging", (0.89, 1.10))
        ),
        ("mi350x", "f16xf16->f16"): TableFit(
            Interpolation("kriging", (0.90, 1.12)), Interpolation("kriging", (0.89, 1.11))
        ),
        ("mi350x", "f16xf16->f32"): TableFit(
            Interpolation("kriging", (0.91, 1.11)), Interpolation("kriging", (0.90, 1.10))
        ),
        ("mi350x", "f32xf32->f32"): TableFit(
            Interpolation("kriging", (0.85, 1.10)), Interpolation("median", (0.97, 1.03))
        ),
        ("mi350x", "f8e4m3fnxf8e4m3fn->bf16"): TableFit(
            Interpolation("median", (0.90, 1.09)), Interpolation("kriging", (0.92, 1.11))
        ),
        ("mi350x", "f8e4m3fnxf8e4m3fn->f32"): TableFit(
            Interpolation("kriging", (0.86, 1.16)), Interpolation("kriging", (0.92, 1.17))
        ),
        ("mi350x", "f8e4m3fnxf8e4m3fn->f8e4m3fn"): TableFit(
            Interpolation("median", (0.91, 1.14)), Interpolation("kriging", (0.94, 1.07))
        ),
        ("mi350x", "f8e4m3fnxf8e5m2->bf16"): TableFit(
            Interpolation("median", (0.91, 1.07)), Interpolation("median", (0.82, 1.12))
        ),
        ("mi350x", "f8e4m3fnxf8e5m2->f32"): TableFit(
            Interpolation("kriging", (0.90, 1.12)), Interpolation("kriging", (0.94, 1.08))
        ),
        ("mi350x", "f8e4m3fnxf8e5m2->f8e4m3fn"): TableFit(
            Interpolation("median", (0.93, 1.09)), Interpolation("median", (0.91, 1.08))
        ),
        ("mi350x", "f8e4m3fnxf8e5m2->f8e5m2"): TableFit(
            Interpolation("median", (0.92, 1.09)), Interpolation("median", (0.94, 1.08))
        ),
        ("mi350x", "f8e5m2xf8e4m3fn->bf16"): TableFit(
            Interpolation("median", (0.90, 1.10)), Interpolation("median", (0.93, 1.09))
        ),
        ("mi350x", "f8e5m2xf8e4m3fn->f32"): TableFit(
            Interpolation("kriging", (0.90, 1.12)), Interpolation("kriging", (0.95, 1.09))
        ),
        ("mi350x", "f8e5m2xf8e4m3fn->f8e4m3fn"): TableFit(
            Interpolation("median", (0.92, 1.08)), Interpolation("median", (0.93, 1.08))
        ),
        ("mi350x", "f8e5m2xf8e4m3fn->f8e5m2"): TableFit(
            Interpolation("median", (0.93, 1.08)), Interpolation("median", (0.94, 1.09))
        ),
    }
)
"""How each table of a measured chip is interpolated; `python tests/fit_time_model.py` prints these."""


# --- how good is a table ---


_MIN_LEFT_OUT: Final = 8  # fewer errors have no 10% quantile
_FAR: Final = 0.3  # an error of a step between two kernels: larger ones say nothing more of a method
_MAX_LEFT_OUT: Final = 80
"""Shapes of a table of the user that are left out, each in turn; more take longer than a command may."""


def fit_of(
    times: MatmulTimes, sizes: tuple[float, float], unit: Unit, model: MatmulModel, *, most: int | None = None
) -> TableFit:
    """The method with the least error if each shape is left out of its table in turn, and the quantiles of its errors.

    `most` limits the shapes that are left out, evenly over the table.

    >>> unit = Unit(132, 9.9e14, 6.7e13, 3.35e12)
    >>> shapes = [(1, 512 * m, 512 * n, 512) for m in range(1, 5) for n in range(1, 5)]
    >>> slow = {shape: 2 * modeled_seconds(shape, (2, 2), unit, OTHER_MATMULS) for shape in shapes}
    >>> [round(end, 6) for end in fit_of(slow, (2, 2), unit, OTHER_MATMULS).small.band]
    [1.0, 1.0]
    """
    by_method = {method: _left_out_errors(times, sizes, unit, model, method, most) for method in METHODS}
    parts = []
    for is_large in (False, True):
        errors = {
            method: [error for seconds, error in found if (seconds >= LARGE_SECONDS) == is_large]
            for method, found in by_method.items()
        }
        if len(errors[METHODS[0]]) < _MIN_LEFT_OUT:
            errors = {method: [error for _, error in found] for method, found in by_method.items()}
        best = min(METHODS, key=lambda method: sum(min(abs(error), _FAR) for error in errors[method]))
        is_known = len(errors[best]) >= _MIN_LEFT_OUT
        parts.append(Interpolation(best, band_of(errors[best]) if is_known else SHAPE_BAND))
    return TableFit(*parts)


def _left_out_errors(
    times: MatmulTimes, sizes: tuple[float, float], unit: Unit, model: MatmulModel, method: Method, most: int | None
) -> list[tuple[float, float]]:
    """Seconds, and the logarithm of measured over estimated time, of each shape without itself in the table."""
    places, logs = residuals(times, sizes, unit, model, method)
    step = max(len(times) // most, 1) if most else 1
    found = []
    for number, (shape, seconds) in enumerate(times.items()):
        if number % step == 0 and len(times) > 1:
            others = [*places[:number], *places[number + 1 :]], [*logs[:number], *logs[number + 1 :]]
            found.append((seconds, logs[number] - correction_near(shape, *others, method)[1]))
    return found


def band_of(errors: Iterable[float]) -> Band:
    """The 10% and 90% quantile of measured over estimated time, around 1, from their logarithms.

    >>> band_of([log(0.5), *[0.0] * 8, log(3)])
    (1.0, 3.0)
    """
    found = sorted(errors)
    low, high = (exp(found[min(int(share * len(found)), len(found) - 1)]) for share in (0.1, 0.9))
    return min(float(f"{low:.6g}"), 1.0), max(float(f"{high:.6g}"), 1.0)


# --- time of a matmul ---


# Which kind of matmul a type is: f16 runs as bf16, f32 is measured in TF32.
_KINDS: Final = {"bf16": "bf16", "f16": "bf16", "tf32": "f32", "f8": "f8"}


def matmul_time(
    shape: MatmulShape, kind: str, chip: ChipSpec, *, types: str = "", moved_bytes: int | None = None
) -> Estimate | None:
    """The time of a matmul that multiplies in `kind`, a type as from `matmul_type`; None if the chip has no cores.

    `types` are those of operands and result, such as `bf16xbf16->f32`; `moved_bytes` are those of operands and result,
    if they are not matrices of this shape, as of a convolution.

    >>> from hlo_cli import chip_spec
    >>> for chip in ("h100", "gb200", "mi350", "a100-80gb"):
    ...     found = matmul_time((1, 3000, 4096, 4096), "bf16", chip_spec(chip))
    ...     print(f"{found.seconds * 1e6:.0f} µs", *found.sources)
    135 µs table
    74 µs table
    86 µs table
    478 µs shape model
    """
    if chip.chip in TF32_ON_REQUEST and kind == "tf32":
        kind = "f32 highest"
    rate = chip.flops_of(kind)
    if rate is None or not chip.cores:
        return None
    plain = "f8" if kind.startswith("f8") else kind
    unit = unit_of(chip, rate.per_second)
    return _estimate(shape, plain, chip.chip, unit, types, moved_bytes, chip.measured)


@lru_cache(maxsize=4096)
def _estimate(
    shape: MatmulShape,
    kind: str,
    chip: str,
    unit: Unit,
    types: str,
    moved_bytes: int | None,
    own: MeasuredTimes | None,
) -> Estimate:
    is_f32 = kind == "f32 highest" and chip in TF32_ON_REQUEST
    family = "f32" if is_f32 else _KINDS.get(kind, kind)
    table = _table(chip, family, types, unit, own)
    if table is None:
        seconds = modeled_seconds(shape, element_bytes(kind), unit, OTHER_MATMULS, moved_bytes)
        return around(seconds, SHAPE_BAND, "shape model")
    if moved_bytes is None and (seconds_measured := table.times.get(shape)) is not None and unit == table.unit:
        return around(seconds_measured, table.band_at(seconds_measured), "table")
    seconds = modeled_seconds(shape, table.sizes, unit, table.model, moved_bytes)
    found = table.correct(shape, seconds, table.fit.large)
    return found if found.seconds >= LARGE_SECONDS else table.correct(shape, seconds, table.fit.small)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """A table of measured matmuls of some types, and what the model makes of it; `unit` is that of the chip."""

    times: MatmulTimes
    sizes: tuple[float, float]
    unit: Unit
    model: MatmulModel
    fit: TableFit
    near: Mapping[Method, tuple[Places, Sequence[float]]]

    def band_at(self, seconds: float) -> Band:
        """The band of a matmul of this duration."""
        return (self.fit.large if seconds >= LARGE_SECONDS else self.fit.small).band

    def correct(self, shape: MatmulShape, seconds: float, way: Interpolation) -> Estimate:
        """The estimate of a shape that takes so many seconds by the model."""
        distance, correction = correction_near(shape, *self.near[way.method], way.method)
        seconds *= exp(correction)
        if distance > _MAX_DISTANCE:
            return around(seconds, SHAPE_BAND, "shape model")
        return around(seconds, way.band, "table")


def _table(chip: str, family: str, types: str, unit: Unit, own: MeasuredTimes | None) -> _Table | None:
    """The table for matmuls of some types on a chip: the user's, else that of the measured chip with its cores."""
    measured = MEASURED_AS.get(chip, "")
    model = MATMUL_MODELS.get((measured, family), OTHER_MATMULS)
    if own is not None and (column := _column(own.matmuls, types, family)):
        return _own_table(own, column, unit, model)
    column = _column(_shipped(measured).matmuls, types, family) if measured else ""
    return _shipped_table(measured, column) if column else None


def _column(columns: Iterable[str], types: str, family: str) -> str:
    """The types in a table that are nearest to those of a matmul; empty if none of the same kind were measured."""
    known = [each for each in columns if family_of(each) == family]
    if types in known or not known:
        return types if known else ""
    operands, _, result = types.partition("->")

    def likeness(column: str) -> tuple[bool, bool]:
        """Whether operands and result are the same; operands decide which kernels a library has."""
        sides, _, last = column.partition("->")
        return sides == operands, last == result

    return max(known, key=likeness)


def has_matmul_times(chip: ChipSpec) -> bool:
    """Whether matmuls of a chip, or of one with the same cores, were measured.

    >>> from hlo_cli import chip_spec
    >>> has_matmul_times(chip_spec("h200")), has_matmul_times(chip_spec("mi300x"))
    (True, False)
    """
    return chip.chip in MEASURED_AS or bool(chip.measured is not None and chip.measured.matmuls)


def family_of(types: str) -> str:
    """The kind of matmul of some types, as kinds are named in tables and models.

    >>> family_of("f16xf16->f32"), family_of("f8e5m2xf8e4m3fn->bf16"), family_of("f32"), family_of("s8xs8->s32")
    ('bf16', 'f8', 'f32', 's8')
    """
    lhs = types.partition("x")[0]
    return "f32" if lhs == "f32" else _KINDS.get(lhs[:2] if lhs.startswith("f8") else lhs, lhs)


def sizes_of(types: str) -> tuple[float, float]:
    """Bytes of an element of the operands and of the result, by the types of a table.

    >>> sizes_of("bf16xbf16->f32"), sizes_of("f8e5m2xf8e4m3fn->bf16"), sizes_of("f8")
    ((2, 4), (1, 2), (1, 2))
    """
    operands, arrow, result = types.partition("->")
    if not arrow:
        return element_bytes("tf32" if types == "f32" else types)
    return _bytes_of(operands.partition("x")[0]), _bytes_of(result)


def _bytes_of(name: str) -> int:
    # The first number of a type's name is its bits: f8e4m3fn, bf16, s32.
    digits = "".join(each if each.isdigit() else " " for each in name).split()
    return max(int(digits[0]) // 8, 1) if digits and len(digits[0]) < _MAX_DIGITS else 4


_MAX_DIGITS: Final = 4  # c128 has three: a longer number is no width of a type


# A chip has tens of columns, and a command asks for one chip.
@lru_cache(maxsize=64)
def _shipped_table(chip: str, types: str) -> _Table:
    family = family_of(types)
    unit, model, fit = measured_unit(chip, family), MATMUL_MODELS[chip, family], TABLE_FITS[chip, types]
    return _table_of(_shipped(chip).matmuls[types], types, unit, model, fit)


# The same.
@lru_cache(maxsize=64)
def _own_table(own: MeasuredTimes, types: str, unit: Unit, model: MatmulModel) -> _Table:
    times = own.matmuls[types]
    return _table_of(times, types, unit, model, fit_of(times, sizes_of(types), unit, model, most=_MAX_LEFT_OUT))


def _table_of(times: MatmulTimes, types: str, unit: Unit, model: MatmulModel, fit: TableFit) -> _Table:
    sizes, methods = sizes_of(types), {fit.small.method, fit.large.method}
    near = {method: residuals(times, sizes, unit, model, method) for method in methods}
    return _Table(times, sizes, unit, model, fit, near)

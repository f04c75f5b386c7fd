"""Time of a matmul on a GPU: a model of tiles and waves, corrected by measured times of similar shapes.

Libraries and autotuning choose the best tile, so the model takes the fastest of several tile sizes. If the result has
fewer tiles than the chip has cores, k is split among several cores; if it is a vector, scalar units compute it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, exp, log, log2, sqrt
from typing import Final, TypeAlias

from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.estimate import Estimate, around
from hlo_cli.analysis.hardware.measured_times import MEASURED_AS, MatmulTimes, matmul_times
from hlo_cli.analysis.hardware.time_model import (
    KERNEL_BAND,
    KERNEL_SLOWDOWN,
    LAUNCH_SECONDS,
    MATMUL_MODELS,
    OTHER_MATMULS,
    SHAPE_BAND,
    TABLE_BANDS,
    TF32_ON_REQUEST,
    MatmulModel,
)
from hlo_cli.dataclass import dataclass

Shape: TypeAlias = tuple[int, int, int, int]
"""Batch, m, n, and k."""
_Point: TypeAlias = tuple[float, float, float, float]

_TILES: Final = ((256, 256), (256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (64, 32))
_SPLITS: Final = (1, 2, 4, 8)
_SPLIT_SECONDS: Final = 1e-6
"""The time in which cores exchange their parts of a sum."""
_BYTES: Final = {"bf16": (2, 2), "f32": (4, 4), "f8": (1, 2)}
"""Bytes of an operand element and of a result element, by type as in the tables."""
_NEIGHBORS: Final = 8
_MAX_DISTANCE: Final = 1.5
"""Distance of the nearest measured shape from which on the table says little."""
_TABLE_TYPES: Final = {"bf16": "bf16", "f16": "bf16", "tf32": "f32", "f8": "f8"}


@dataclass(frozen=True, slots=True)
class Unit:
    """What the model of a matmul knows of a chip: cores, and rates per second.

    `scalar_flops_per_second` is the rate of the units that multiply without matrices.
    """

    cores: int
    flops_per_second: float
    scalar_flops_per_second: float
    bytes_per_second: float


def matmul_time(shape: Shape, kind: str, chip: ChipSpec, *, moved_bytes: int | None = None) -> Estimate | None:
    """The time of a matmul that multiplies in `kind`, a type as from `matmul_type`; None if the chip has no cores.

    `moved_bytes` are those of operands and result, if they are not matrices of this shape, as of a convolution.

    >>> from hlo_cli import chip_spec
    >>> for chip in ("h100", "gb200", "mi350"):
    ...     found = matmul_time((1, 3000, 4096, 4096), "bf16", chip_spec(chip))
    ...     print(f"{found.seconds * 1e6:.0f} µs", *found.sources)
    135 µs table
    73 µs table
    61 µs shape model
    """
    rate = chip.flops_of(kind)
    if rate is None or not chip.cores:
        return None
    if chip.chip in TF32_ON_REQUEST and kind == "tf32":
        return matmul_time(shape, "f32 highest", chip, moved_bytes=moved_bytes)
    plain = "f8" if kind.startswith("f8") else kind
    return _matmul_time(shape, plain, chip.chip, unit_of(chip, rate.per_second), moved_bytes)


def unit_of(chip: ChipSpec, flops_per_second: float) -> Unit:
    """What the model knows of a chip that multiplies at this rate.

    >>> from hlo_cli import chip_spec
    >>> unit_of(chip_spec("a100-80gb"), 312e12).scalar_flops_per_second
    19500000000000.0
    """
    scalar = chip.flops_of("f32 highest")
    slow = flops_per_second if scalar is None else min(flops_per_second, scalar.per_second)
    return Unit(chip.cores, flops_per_second, slow, chip.memory.per_second)


@lru_cache(maxsize=4096)
def _matmul_time(shape: Shape, kind: str, chip: str, unit: Unit, moved_bytes: int | None) -> Estimate:
    key = (MEASURED_AS.get(chip, ""), _TABLE_TYPES.get(kind, ""))
    model = MATMUL_MODELS.get(key, OTHER_MATMULS)
    if chip in TF32_ON_REQUEST:
        shared = 1 / KERNEL_SLOWDOWN  # with other kernels: what was measured is a mean over all of them
        model = replace(model, launch_seconds=LAUNCH_SECONDS, tile_seconds=0.0, memory_share=shared)
    seconds = modeled_seconds(shape, element_bytes(kind), unit, model, moved_bytes)
    if key not in MATMUL_MODELS:
        return around(seconds, SHAPE_BAND if key[0] else KERNEL_BAND, "shape model")
    distance, correction = _correction(shape, *_points(*key))
    if distance > _MAX_DISTANCE:
        return around(seconds * exp(correction), SHAPE_BAND, "shape model")
    return around(seconds * exp(correction), TABLE_BANDS[key], "table")


def modeled_seconds(
    shape: Shape, sizes: tuple[float, float], unit: Unit, model: MatmulModel, moved_bytes: int | None = None
) -> float:
    """The time of a matmul by the model alone; `sizes` are the bytes of an operand element and a result element.

    >>> unit = Unit(100, 1e15, 1e14, 3e12)
    >>> model = MatmulModel(0.0, 1.0, 1.0, 0.0, 1.0)
    >>> f"{modeled_seconds((1, 12800, 12800, 8192), (2, 2), unit, model):.2e}"  # 100 × 100 tiles, in 100 waves
    '2.68e-03'
    """
    batch, m, n, k = shape
    given, made = sizes
    rate = unit.flops_per_second / unit.cores
    bandwidth = unit.bytes_per_second * model.memory_share
    flops = 2 * batch * m * n * k
    best = flops / unit.scalar_flops_per_second
    for rows, columns in _TILES:
        tiles = batch * ceil(m / rows) * ceil(n / columns)
        step = max(2 * rows * columns / model.share, (rows + columns) * given / model.bytes_per_flop) / rate
        for parts in _SPLITS:
            waves = ceil(tiles * parts / unit.cores)
            seconds = waves * (ceil(k / parts) * step + model.tile_seconds)
            if parts > 1:
                seconds += _SPLIT_SECONDS + 4 * batch * m * n * parts / bandwidth
            best = min(best, seconds)
    moved = moved_bytes if moved_bytes is not None else batch * (given * (m * k + k * n) + made * m * n)
    return model.launch_seconds + max(best, moved / bandwidth)


def correction_of(shape: Shape, times: MatmulTimes, kind: str, unit: Unit, model: MatmulModel) -> float:
    """The natural logarithm of measured over modeled time of shapes similar to this one.

    >>> from hlo_cli.analysis.hardware.time_model import OTHER_MATMULS
    >>> unit, shape = Unit(132, 9.9e14, 6.7e13, 3.35e12), (1, 512, 512, 512)
    >>> double = {shape: 2 * modeled_seconds(shape, (2, 2), unit, OTHER_MATMULS)}
    >>> round(exp(correction_of((1, 640, 512, 512), double, "bf16", unit, OTHER_MATMULS)), 6)
    2.0
    """
    return _correction(shape, *_residuals(times, kind, unit, model))[1]


@lru_cache(maxsize=16)
def _points(chip: str, kind: str) -> tuple[Sequence[_Point], Sequence[float]]:
    """Places of the measured shapes, and logarithms of measured over modeled time."""
    return _residuals(matmul_times()[chip, kind], kind, measured_unit(chip, kind), MATMUL_MODELS[chip, kind])


def measured_unit(chip: str, kind: str) -> Unit:
    """What the model knows of a measured chip; f32 multiplies in TF32.

    >>> measured_unit("h100", "f32").flops_per_second
    494700000000000.0
    """
    from hlo_cli.analysis.hardware.chip_specs import chip_spec

    spec = chip_spec(chip)
    rate = spec.flops_of("tf32" if kind == "f32" else kind)
    assert rate is not None
    return unit_of(spec, rate.per_second)


def _residuals(
    times: MatmulTimes, kind: str, unit: Unit, model: MatmulModel
) -> tuple[Sequence[_Point], Sequence[float]]:
    sizes = element_bytes(kind)
    logs = [log(seconds / modeled_seconds(shape, sizes, unit, model)) for shape, seconds in times.items()]
    return [_place(shape) for shape in times], logs


def _correction(shape: Shape, places: Sequence[_Point], logs: Sequence[float]) -> tuple[float, float]:
    """Distance of the nearest place, and the mean of the logarithms there, weighted by distance."""
    a, b, c, d = _place(shape)
    near = sorted(
        ((p - a) ** 2 + (q - b) ** 2 + (r - c) ** 2 + (s - d) ** 2, each)
        for (p, q, r, s), each in zip(places, logs, strict=True)
    )[:_NEIGHBORS]
    weights = [(sqrt(squared) + 0.05) ** -3 for squared, _ in near]
    mean = sum(weight * each for weight, (_, each) in zip(weights, near, strict=True)) / sum(weights)
    return sqrt(near[0][0]), mean


def _place(shape: Shape) -> _Point:
    """Shapes of similar time are near: size of the result, its shape, batch, and k, as powers of two."""
    batch, m, n, k = (log2(max(size, 1)) for size in shape)
    return 0.7 * (batch + m + n), 0.4 * (m - n), batch, k


def element_bytes(kind: str) -> tuple[float, float]:
    """Bytes of an element of the operands and of the result of a matmul that multiplies in a type.

    >>> element_bytes("tf32"), element_bytes("f8"), element_bytes("s8")
    ((4, 4), (1, 2), (1, 2))
    """
    named = _TABLE_TYPES.get(kind, "f8" if kind.startswith(("s", "u", "f4", "f6")) else "f32")
    return _BYTES[named]

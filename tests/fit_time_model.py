"""Fits the constants of `hlo_cli/analysis/hardware/measured_times.py` and `time_model.py`, and prints them.

    python tests/fit_time_model.py

A shape is held out by a hash of its sizes, with all its types and chips; see `is_held_out`. Constants of the model of
tiles are fitted on the others only. How a table is interpolated, and its bands, are found by leaving out each shape in
turn: `judged` finds them on the shapes that are not held out, and judges them on those that are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from math import exp, log
from random import Random
from statistics import median

from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.chip_table import MatmulShape, MatmulTimes
from hlo_cli.analysis.hardware.measured_times import (
    LARGE_SECONDS,
    MatmulModel,
    Method,
    TableFit,
    collective_times,
    correction_near,
    family_of,
    fit_of,
    matmul_times,
    measured_unit,
    modeled_seconds,
    residuals,
    sizes_of,
)
from hlo_cli.analysis.hardware.time_model import Band
from hlo_cli.analysis.sharding.collectives import bands_of, interpolated, left_out_errors, smoothed

Groups = Sequence[tuple[str, str]]
START = MatmulModel(4e-6, 0.8, 0.015, 0.5e-6, 0.8)
# one column a chip and kind, so that no chip counts more than another
GROUPS = (
    *((chip, kind) for chip in ("h100", "b200") for kind in ("bf16", "f32", "f8")),
    ("mi350x", "bf16xbf16->bf16"),
    ("mi350x", "f32xf32->f32"),
    ("mi350x", "f8e4m3fnxf8e4m3fn->bf16"),
)


def is_held_out(*key: object) -> bool:
    """Whether a shape is in the quarter that is not fitted."""
    text = "hlo time model split 1: " + ",".join(map(str, key))
    return hashlib.sha256(text.encode()).digest()[0] < 64


def part(times: MatmulTimes, *, held_out: bool) -> MatmulTimes:
    """The shapes of one side."""
    return {shape: seconds for shape, seconds in times.items() if is_held_out(*shape) == held_out}


def errors(
    times: MatmulTimes,
    group: tuple[str, str],
    model: MatmulModel,
    known: MatmulTimes | None = None,
    method: Method = "mean",
) -> list[tuple[MatmulShape, float, float]]:
    """Shape, seconds, and the logarithm of measured over estimated time; `known` times correct the model."""
    chip, types = group
    unit, sizes = measured_unit(chip, family_of(types)), sizes_of(types)
    near = None if known is None else residuals(known, sizes, unit, model, method)
    found = []
    for shape, seconds in times.items():
        correction = 0.0 if near is None else correction_near(shape, *near, method)[1]
        found.append((shape, seconds, log(seconds / modeled_seconds(shape, sizes, unit, model)) - correction))
    return found


def judged(group: tuple[str, str], model: MatmulModel) -> tuple[TableFit, Sequence[Sequence[float]]]:
    """The fit of the shapes that are not held out, and the errors of those that are, of small and of large ones."""
    chip, types = group
    known, held_out = (part(matmul_times()[group], held_out=is_held) for is_held in (False, True))
    fit = fit_of(known, sizes_of(types), measured_unit(chip, family_of(types)), model)
    small, large = (errors(held_out, group, model, known, way.method) for way in fit)
    return fit, (
        [error for _, seconds, error in small if seconds < LARGE_SECONDS],
        [error for _, seconds, error in large if seconds >= LARGE_SECONDS],
    )


def inside(band: Band, found: Sequence[float]) -> int:
    """How many logarithms of measured over estimated time are in a band."""
    return sum(log(band[0]) <= error <= log(band[1]) for error in found)


def loss(groups: Groups, model: MatmulModel) -> float:
    """The mean error, each group with the same weight; a little for being far from where the search began."""
    tables = matmul_times()
    total = 0.0
    for group in groups:
        found = errors(part(tables[group], held_out=False), group, model)
        total += sum(abs(error) for _, _, error in found) / len(found)
    far = sum(log(one / other) ** 2 for one, other in zip(astuple(model), astuple(START), strict=True))
    return total / len(groups) + 0.001 * far


def fitted(groups: Groups, rounds: int = 600) -> MatmulModel:
    """The constants with the least error: a random walk that only goes down, with shorter and shorter steps."""
    random = Random(23)
    best = START
    least = loss(groups, best)
    step = 0.4
    for number in range(rounds):
        changed = tuple(
            value * exp(random.gauss(0, step)) if random.random() < 0.5 else value for value in astuple(best)
        )
        rounded = MatmulModel(*(float(f"{value:.3g}") for value in changed))
        candidate = replace(rounded, memory_share=min(rounded.memory_share, 0.95))  # small operands come from caches
        if (found := loss(groups, candidate)) < least:
            best, least = candidate, found
        step = max(0.4 * (1 - number / rounds), 0.02)
    return best


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile, without interpolation."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def summary(found: Sequence[tuple[MatmulShape, float, float]]) -> str:
    """Shares of the errors, and the quantiles of measured over estimated time."""
    large = [abs(exp(-error) - 1) for _, seconds, error in found if seconds >= LARGE_SECONDS]
    ratios = [exp(error) for _, _, error in found]
    share = sum(each < 0.15 for each in large) / len(large)
    return (
        f"{len(large)} over 20 µs: {share:.0%} within 15%; of all {len(found)}: "
        f"10% {quantile(ratios, 0.1):.2f}, median {median(ratios):.2f}, 90% {quantile(ratios, 0.9):.2f}"
    )


Errors = list[tuple[int, float]]
"""Payload bytes, and the logarithm of measured over estimated time."""


def collective_errors(chip: str) -> tuple[Errors, Errors]:
    """Errors of the sizes that are not held out, each left out in turn, and of held-out sizes, of all collectives."""
    left_out: Errors = []
    held_out: Errors = []
    for (name, kind), series in collective_times().items():
        if name != chip:
            continue
        known = {
            shape: {size: time for size, time in times.items() if not is_held_out(kind, *shape, size)}
            for shape, times in series.items()
        }
        left_out += left_out_errors(known)
        smooth = {shape: smoothed(times) for shape, times in known.items()}
        for shape, times in series.items():
            held_out += [
                (size, log(seconds / interpolated(smooth, size, *shape)))
                for size, seconds in times.items()
                if is_held_out(kind, *shape, size)
            ]
    return left_out, held_out


def other_collective_errors() -> Mapping[str, Errors]:
    """Errors of each chip, estimated as an H100 with other links; groups of at most 8 devices."""
    tables = collective_times()
    found: dict[str, Errors] = {}
    for (chip, kind), series in tables.items():
        known = {shape: smoothed(times) for shape, times in tables["h100", kind].items()}
        ratio = links_of("h100") / links_of(chip)
        for shape, times in series.items() if chip != "h100" else ():
            for size, seconds in times.items() if shape[1] <= 8 else ():
                full = interpolated(known, size, *shape)
                latency = min(interpolated(known, 1, *shape), full)
                found.setdefault(chip, []).append((size, log(seconds / (latency + (full - latency) * ratio))))
    return found


def links_of(chip: str) -> float:
    """The bandwidth of the links of a chip."""
    links = chip_spec(chip).links
    assert links is not None
    return links.per_second


def summary_of_collectives(found: Sequence[tuple[int, float]]) -> str:
    """Shares of the errors, and the quantiles of measured over estimated time, of large and small collectives."""
    large = [error for size, error in found if size >= 1 << 20]
    small = [error for size, error in found if size < 1 << 20]
    near = sum(abs(exp(-error) - 1) < 0.3 for error in large) / len(large)
    fair = sum(abs(error) < log(2) for error in small) / len(small)
    quantiles = (
        f"{name} 10% {exp(quantile(each, 0.1)):.2f}, 90% {exp(quantile(each, 0.9)):.2f}"
        for name, each in (("large", large), ("small", small))
    )
    shares = f"{len(large)} of 1 MiB or more: {near:.0%} within 30%; {len(small)} smaller: {fair:.0%} within 2 ×"
    return f"{shares}; {'; '.join(quantiles)}"


def shown(band: Band) -> str:
    """A band with two digits."""
    return f"({band[0]:.2f}, {band[1]:.2f})"


def main(say: Callable[[str], None] = print) -> None:
    """Fits and prints all."""
    models = {(chip, family_of(types)): fitted([(chip, types)]) for chip, types in GROUPS}
    for key, model in models.items():
        say(f"{key}: {model}")
    for group, times in matmul_times().items():
        chip, types = group
        model = models[chip, family_of(types)]
        fit = fit_of(times, sizes_of(types), measured_unit(chip, family_of(types)), model)
        say(f"    {group}: TableFit({', '.join(f'Interpolation({way.method!r}, {shown(way.band)})' for way in fit)}),")
    for group in matmul_times():
        fit, (small, large) = judged(group, models[group[0], family_of(group[1])])
        near = sum(abs(exp(-error) - 1) < 0.15 for error in large)
        coverage = f"{inside(fit.small.band, small)} of {len(small)}, {inside(fit.large.band, large)} of {len(large)}"
        say(f"  held out, {group}: {near} of {len(large)} within 15%; in the band {coverage}")
    say(f"other chips: {fitted(GROUPS)}")
    crossed = []
    for chip in ("h100", "b200", "mi350x"):
        model = fitted([group for group in GROUPS if group[0] != chip])
        for group in GROUPS:
            if group[0] == chip:
                found = errors(part(matmul_times()[group], held_out=True), group, model)
                crossed += found
                say(f"  fitted on others, {group}: {summary(found)}")
    say(f"fitted on two chips, judged on the third: {summary(crossed)}")
    for chip in sorted({chip for chip, _ in collective_times()}):
        _, held_out = collective_errors(chip)
        whole = [
            each for (name, _), series in collective_times().items() if name == chip for each in left_out_errors(series)
        ]
        say(f"    {chip}: {', '.join(map(shown, bands_of(whole)))}")
        say(f"  held out: {summary_of_collectives(held_out)}")
    others = other_collective_errors()
    for chip, errors_of_chip in others.items():
        say(f"  {chip} like H100: {summary_of_collectives(errors_of_chip)}")
    say(f"like H100: {', '.join(map(shown, bands_of([each for found in others.values() for each in found])))}")


if __name__ == "__main__":
    main()

"""Fits the constants of `hlo_cli/analysis/hardware/time_model.py`; prints them and the quantiles on held-out shapes.

    python tests/fit_time_model.py

A shape is held out by a hash of its sizes, with all its types and chips; see `is_held_out`. Only the others are fitted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from math import exp, log
from random import Random
from statistics import median

from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.time_model import MatmulModel, MatmulTimes, collective_times, matmul_times
from hlo_cli.analysis.schedule.kernel_times import (
    MatmulShape,
    correction_near,
    element_bytes,
    measured_unit,
    modeled_seconds,
    residuals,
)
from hlo_cli.analysis.sharding.collectives import interpolated, smoothed

Groups = Sequence[tuple[str, str]]
START = MatmulModel(4e-6, 0.8, 0.015, 0.5e-6, 0.8)


def is_held_out(*key: object) -> bool:
    """Whether a shape is in the quarter that is not fitted."""
    text = "hlo time model split 1: " + ",".join(map(str, key))
    return hashlib.sha256(text.encode()).digest()[0] < 64


def part(times: MatmulTimes, *, held_out: bool) -> MatmulTimes:
    """The shapes of one side."""
    return {shape: seconds for shape, seconds in times.items() if is_held_out(*shape) == held_out}


def errors(
    times: MatmulTimes, group: tuple[str, str], model: MatmulModel, known: MatmulTimes | None = None
) -> list[tuple[MatmulShape, float, float]]:
    """Shape, seconds, and the logarithm of measured over estimated time; `known` times correct the model."""
    chip, kind = group
    unit = measured_unit(chip, kind)
    found = []
    for shape, seconds in times.items():
        correction = 0.0 if known is None else correction_near(shape, *residuals(known, kind, unit, model))[1]
        found.append(
            (shape, seconds, log(seconds / modeled_seconds(shape, element_bytes(kind), unit, model)) - correction)
        )
    return found


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
    large = [abs(exp(-error) - 1) for _, seconds, error in found if seconds > 20e-6]
    ratios = [exp(error) for _, _, error in found]
    share = sum(each < 0.15 for each in large) / len(large)
    return (
        f"{len(large)} over 20 µs: {share:.0%} within 15%; of all {len(found)}: "
        f"10% {quantile(ratios, 0.1):.2f}, median {median(ratios):.2f}, 90% {quantile(ratios, 0.9):.2f}"
    )


def collective_errors() -> list[tuple[int, float]]:
    """Payload bytes, and the logarithm of measured over interpolated time, of held-out sizes of collectives."""
    found = []
    for (_, kind), series in collective_times().items():
        known = {
            shape: smoothed({size: time for size, time in times.items() if not is_held_out(kind, *shape, size)})
            for shape, times in series.items()
        }
        for shape, times in series.items():
            for size, seconds in times.items():
                if is_held_out(kind, *shape, size):
                    found.append((size, log(seconds / interpolated(known, size, *shape))))
    return found


def other_collective_errors() -> list[tuple[int, float]]:
    """The same for all other chips, estimated as an H100 with other links; groups of at most 8 devices."""
    tables = collective_times()
    found = []
    for (chip, kind), series in tables.items():
        known = {shape: smoothed(times) for shape, times in tables["h100", kind].items()}
        ratio = links_of("h100") / links_of(chip)
        for shape, times in series.items() if chip != "h100" else ():
            for size, seconds in times.items() if shape[1] <= 8 else ():
                full = interpolated(known, size, *shape)
                latency = min(interpolated(known, 1, *shape), full)
                found.append((size, log(seconds / (latency + (full - latency) * ratio))))
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


def main(say: Callable[[str], None] = print) -> None:
    """Fits and prints all."""
    groups = tuple(matmul_times())
    held_out = {group: part(matmul_times()[group], held_out=True) for group in groups}
    known = {group: part(matmul_times()[group], held_out=False) for group in groups}
    for group in groups:
        model = fitted([group])
        say(f"{group}: {model}")
        say(f"  model alone: {summary(errors(held_out[group], group, model))}")
        say(f"  with table:  {summary(errors(held_out[group], group, model, known[group]))}")
    both = fitted(groups)
    say(f"other chips: {both}")
    crossed = []
    for chip, other in (("h100", "b200"), ("b200", "h100")):
        model = fitted([group for group in groups if group[0] == chip])
        for group in groups:
            if group[0] == other:
                found = errors(held_out[group], group, model)
                crossed += found
                say(f"  fitted on {chip}, {group}: {summary(found)}")
    say(f"fitted on one chip, judged on the other: {summary(crossed)}")
    say(f"collectives, interpolated: {summary_of_collectives(collective_errors())}")
    say(f"collectives, like H100: {summary_of_collectives(other_collective_errors())}")


if __name__ == "__main__":
    main()

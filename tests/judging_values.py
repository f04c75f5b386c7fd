"""How far the evaluator is from what XLA:CPU computes of a random module, in the units of its operation.

Some of XLA's answers are in `data/values_of_xla.json.gz`, which `python tests/evaluation_in_xla.py --keep 12 700` writes.
"""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from evaluation_opcodes import PARTS
from evaluation_programs import Program
from hlo_cli import parse_module
from hlo_cli.analysis.evaluate.run import evaluate
from hlo_cli.analysis.semantics.typed_values import Array, arrays_of, carrier
from hlo_cli.ir.layout import FLOAT_FORMATS, PrimitiveType

Found = dict[str, Any]


# --- what is allowed ---


_OF_XLA = {
    ("log-plus-one", "f64"): 200, ("tanh", "f64"): 9, ("tanh", "f32"): 6, ("exponential-minus-one", "f64"): 6,
    ("exponential-minus-one", "f32"): 7, ("exponential", "f32"): 8, ("erf", "f32"): 7,
}  # fmt: skip
"""Functions of which XLA:CPU itself is farther from the exact value than the limit for all others, at a few points."""


def limit_of(found: Found) -> float:
    """How far a result may be from XLA's: in units in the last place, or of roundoff times the sum of magnitudes."""
    match found["family"]:
        case "exact" | "bits":
            return 0
        case "rounded":
            return _OF_XLA.get((found["opcode"], found["types"][0]), 4)
        case "complex" if found["opcode"] in ("power", "atan2"):
            return 256  # both lose digits: terms of a logarithm cancel
        case "complex" if (found["opcode"], found["types"][0]) == ("log-plus-one", "c128"):
            return 200  # of XLA, as for real parts
        case "complex" if found["opcode"] in ("tan", "tanh", "sine", "cosine", "logistic"):
            return 256  # of XLA, which is off by as much near zeros and poles
        case "complex":
            return 16
        case "norms":
            return 32
        case "positive":
            return float(found["terms"])
        case "sums":
            return 4 + sqrt(found["terms"])
        case _:
            return 2  # of the bound of a stable solution: each side may be off by it


def is_known(found: Found) -> bool:
    """Where XLA:CPU disagrees with XLA's own evaluator, or cannot be right."""
    text = found["text"]
    if found["opcode"] == "convert" and found["types"][0] == "f4e2m1fn":
        return re.search(r"= [su]\d+\[[\d,]*\] convert", text) is not None  # the largest becomes that of the integers
    if found["opcode"] == "convolution":  # it reads beyond its arrays
        return re.search(r"pad=[\d_x]*-.*feature_group_count=[2-9]", text) is not None
    if found["opcode"] == "reduce-precision":
        return "mantissa_bits=0" in text  # NaN, of which nothing is left
    return False


# --- distances ---


def _units(found: Array, expected: Array, kind: PrimitiveType) -> float:
    """The largest distance in units in the last place of what is expected; of a complex number, of its magnitude."""
    if kind.kind not in ("float", "complex"):
        return 0.0 if np.array_equal(found, expected.astype(found.dtype)) else np.inf
    is_complex = kind.kind == "complex"
    form = FLOAT_FORMATS[PARTS.get(kind.name, kind.name)]
    magnitude = np.abs(expected).astype(np.float64)
    parts = ((found.real, expected.real), (found.imag, expected.imag)) if is_complex else ((found, expected),)
    worst = 0.0
    for mine, theirs in parts:
        a, b = np.asarray(mine, np.float64), np.asarray(theirs, np.float64)
        _, exponent = np.frexp(np.where(np.isfinite(magnitude), magnitude, 1))
        # XLA:CPU divides complex numbers through products of their parts, in which denormal numbers are lost.
        least = 1 - form.bias - (0 if is_complex else form.mantissa_bits)
        unit = np.ldexp(1.0, np.maximum(exponent - 1 - form.mantissa_bits, least))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0, np.abs(a - b) / unit)
        worst = max(worst, float(np.where(np.isnan(apart), np.inf, apart).max(initial=0)))
        signs = (np.signbit(a) != np.signbit(b)) & ~np.isnan(a) & ~np.isnan(b) & (a == 0) & (b == 0)
        if worst == 0 and not is_complex and signs.any():
            worst = 0.5  # zeros of the other sign
    return worst


def _sum_units(found: Array, expected: Array, kind: PrimitiveType, scale: Array) -> float:
    """The largest distance in units of the roundoff times the sum of the magnitudes of the terms."""
    form = FLOAT_FORMATS[PARTS.get(kind.name, kind.name)]
    wide = np.complex128 if kind.kind == "complex" else np.float64
    apart = np.abs(found.astype(wide) - expected.astype(wide))
    unit = np.ldexp(1.0, -form.mantissa_bits - 1) * np.abs(scale).astype(np.float64)
    least = np.ldexp(1.0, 1 - form.bias - form.mantissa_bits)
    beyond = ~np.isfinite(scale)  # the sum may overflow in any order
    apart = np.where((found == expected) | beyond, 0, apart)
    return float(np.max(apart / np.maximum(unit, least), initial=0))


def judged(program: Program, arguments: Sequence[Array], expected: Sequence[Array]) -> Found:
    """How far the evaluator is from the results that XLA computed."""
    module = parse_module(program.text)
    assert module.entry.root is not None
    try:
        result = evaluate(module, arguments).result
    except Exception as error:  # noqa: BLE001 any is a disagreement
        return {"outcome": "crashed", "why": f"{type(error).__name__}: {error}"}
    scale = evaluate(module, [np.abs(each) for each in arguments]).result if program.family == "sums" else result
    worst = 0.0
    shown: list[str] = []
    every = zip(
        arrays_of(result, module.entry.root.shape), arrays_of(scale, module.entry.root.shape), expected, strict=True
    )
    for (_, mine, shape), (_, magnitudes, _), theirs in every:
        if mine.shape != theirs.shape:
            return {"outcome": "crashed", "why": f"sizes {mine.shape} for {theirs.shape}"}
        kind = shape.element_type
        held = held_as(theirs, kind)
        with np.errstate(all="ignore"):
            if program.family == "sums" and kind.kind in ("float", "complex"):
                if program.opcode == "fft":
                    rank = program.text.split("fft_length={")[1].split("}")[0].count(",") + 1
                    magnitudes = np.max(np.abs(magnitudes), axis=tuple(range(-rank, 0)), keepdims=True)
                apart = _sum_units(mine, held, kind, magnitudes)
            elif program.family == "norms":
                unit = np.ldexp(1.0, -FLOAT_FORMATS[kind.name].mantissa_bits)
                apart = float(
                    np.max(np.abs(mine - held) / unit, initial=0) / max(1.0, float(np.abs(held).max(initial=0)))
                )
            elif program.family == "solved":
                form = FLOAT_FORMATS[PARTS.get(kind.name, kind.name)]
                unit = np.ldexp(1.0, -form.mantissa_bits) * program.condition(arguments, held)
                apart = float(np.max(np.abs(mine - held) / unit, initial=0))
            else:
                if program.family == "complex":  # one infinite part makes a number infinite, whatever the other is
                    infinite = (np.isinf(mine.real) | np.isinf(mine.imag)) & (np.isinf(held.real) | np.isinf(held.imag))
                    mine = np.where(infinite, held, mine)
                apart = _units(mine, held, kind)
        if apart > worst:
            bad = ~((mine == held) | ((mine != mine) & (held != held)))
            shown = [f"{mine[bad][:4]} for {held[bad][:4]}"]
            shown += [str(each[bad][:4] if each.shape == mine.shape else each.reshape(-1)[:4]) for each in arguments]
            worst = apart
    return {"outcome": "ran", "worst": worst, "shown": shown}


def held_as(array: Array, kind: PrimitiveType) -> Array:
    """The values of an array as the evaluator holds them."""
    to = carrier(kind)
    is_same_size = array.dtype.itemsize == to.itemsize
    return array.view(to) if to.kind in "iu" and array.dtype.kind in "iu" and is_same_size else array.astype(to)


# --- answers that are kept ---

_KEPT = Path(__file__).parent / "data" / "values_of_xla.json.gz"


@dataclass(frozen=True, slots=True)
class Answer:
    """A program, the arguments it was run with, and what XLA:CPU computed of them, as the evaluator holds it."""

    program: Program
    arguments: Sequence[Array]
    results: Sequence[Array]

    @property
    def is_near(self) -> bool:
        """Whether the evaluator computes the same, within what is allowed of the operation."""
        found = asdict(self.program) | judged(self.program, self.arguments, self.results)
        return bool(found["outcome"] == "ran" and found["worst"] <= limit_of(found))


def keep(answers: Sequence[Answer]) -> None:
    """Keeps answers for the tests that run without XLA."""
    written = [[asdict(each.program), *map(_written, (each.arguments, each.results))] for each in answers]
    _KEPT.write_bytes(gzip.compress(json.dumps(written, separators=(",", ":")).encode(), mtime=0))


@cache
def kept() -> Sequence[Answer]:
    """The answers that are kept."""
    return [
        Answer(Program(**about), _read(arguments), _read(results))
        for about, arguments, results in json.loads(gzip.decompress(_KEPT.read_bytes()))
    ]


def _written(arrays: Sequence[Array]) -> list[object]:
    return [[each.dtype.str, each.shape, b64encode(np.ascontiguousarray(each).tobytes()).decode()] for each in arrays]


def _read(arrays: Sequence[tuple[str, list[int], str]]) -> list[Array]:
    return [np.frombuffer(b64decode(data), kind).reshape(sizes) for kind, sizes, data in arrays]

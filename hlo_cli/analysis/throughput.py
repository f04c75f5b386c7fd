"""How much known chips can calculate and move in a second, with the public source of every number.

All numbers are of one device as XLA counts them, as in `chips.py`: one core of TPU v2, v3 and 7x, one die of an AMD
MI250, else a whole chip. Flops are peaks of dense products, without sparsity; links count one direction, all together,
and so does the way to the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.chips import find_chip

_CLOUD: Final = "https://docs.cloud.google.com/tpu/docs/"
_JAX: Final = "https://github.com/jax-ml/jax/blob/main/jax/_src/pallas/mosaic/tpu_info.py"
_BOOK: Final = "https://jax-ml.github.io/scaling-book/"
_XLA: Final = "https://github.com/openxla/xla/blob/main/xla/backends/gpu/target_config/specs/"
_GARDEN: Final = "https://glennklockwood.com/garden/processors/"
_ENGINEERING: Final = "https://github.com/stas00/ml-engineering/blob/master/"
_PEAKS: Final = f"{_ENGINEERING}compute/accelerator/README.md"
_WIRES: Final = f"{_ENGINEERING}network/README.md"
_IRONWOOD: Final = "https://tadviser.com/index.php/Product:Ironwood_(AI_processor)"
_V100: Final = "https://huggingface.co/RajBhope/gpu-runtime-predictor/blob/main/gpu_catalog.json"
_T4: Final = (
    "https://heise.de/news/Nvidia-Tesla-P4-K-I-Beschleuniger-mit-8-TFlops-bei-75-Watt-Leistungsaufnahme-4164684.html"
)
_CARDS: Final = "https://hmc-tech.com/gpu/nvidia-l4-vs-nvidia-t4"
_L4: Final = "https://fpsbench.com/compare/gpu/nvidia-l4-vs-nvidia-tesla-m40"
_INSTINCT: Final = "https://rooflinenotes.dev/accelerators/"

_NARROW: Final = ("bf16", "f16", "f32")
_INSTEAD: Final[Mapping[str, tuple[str, ...]]] = {
    "f4": ("f4", "f8", *_NARROW),
    "f6": ("f6", "f8", *_NARROW),
    "f8": ("f8", *_NARROW),
    "f16": ("f16", "bf16", "f32"),
    "bf16": ("bf16", "f32"),
    "f64": ("f64", "f32", "bf16"),
    "c128": ("f64", "f32", "bf16"),
    "s2": ("s4", "s8", *_NARROW),
    "s4": ("s4", "s8", *_NARROW),
    "s8": ("s8", *_NARROW),
}


@dataclass(frozen=True, slots=True)
class Rate:
    """Flops or bytes a second, and where the number is published."""

    per_second: float
    source: str


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a chip can do in a second: flops by element type, bytes of its main memory, over its links, and to its host.

    What nobody publishes is None.
    """

    chip: str
    flops: Mapping[str, Rate]
    memory: Rate
    links: Rate | None = None
    host: Rate | None = None

    def flops_of(self, element_type: str) -> Rate | None:
        """The peak for products of this type, or of the type that the chip multiplies instead; None if there is none.

        TPUs multiply f32 as bf16 unless more precision is asked for.

        >>> v5e, h100 = throughput_of("v5e"), throughput_of("h100")
        >>> v5e.flops_of("f32").per_second == v5e.flops_of("f8e5m2").per_second == 197e12
        True
        >>> h100.flops_of("f8e4m3fn").per_second, h100.flops_of("u8").per_second, h100.flops_of("c64").per_second
        (1978900000000000.0, 1978900000000000.0, 66900000000000.0)
        """
        name = element_type.replace("u", "s") if element_type.startswith("u") else element_type
        name = name[:2] if name[:2] in ("f4", "f6", "f8") else name
        return next((self.flops[n] for n in _INSTEAD.get(name, ("f32", "bf16")) if n in self.flops), None)


def throughput_of(chip: str, own: Mapping[str, Throughput] | None = None) -> Throughput:
    """The throughput of a chip, however its name is written; `own` goes before what is known here.

    >>> throughput_of("TPU v5p").memory
    Rate(per_second=2765000000000.0, source='https://docs.cloud.google.com/tpu/docs/v5p')
    """
    if own and chip in own:
        return own[chip]
    name = find_chip(chip).name
    return own[name] if own and name in own else THROUGHPUTS[name]


def _rates(source: str, numbers: Mapping[str, float]) -> dict[str, Rate]:
    return {kind: _rate(number, source) for kind, number in numbers.items()}


def _rate(number: float, source: str) -> Rate:  # in units of 10^12
    return Rate(float(round(number * 1e12)), source)


def _products(source: str, both: float, **others: float) -> dict[str, Rate]:  # bf16 and f16 are equally fast
    return _rates(source, {"bf16": both, "f16": both, **others})


def _part(whole: Throughput, chip: str, parts: int = 2) -> Throughput:
    """One of the devices that a chip consists of: each has an equal part of everything."""

    def share(rate: Rate | None) -> Rate | None:
        return None if rate is None else Rate(rate.per_second / parts, rate.source)

    flops = {kind: Rate(rate.per_second / parts, rate.source) for kind, rate in whole.flops.items()}
    memory = Rate(whole.memory.per_second / parts, whole.memory.source)
    return Throughput(chip, flops, memory, share(whole.links), share(whole.host))


_V4: Final = Throughput(
    "v4",
    _rates(f"{_CLOUD}v4", {"bf16": 275, "s8": 275}),
    _rate(1.2, f"{_CLOUD}v4"),
    _rate(0.045 * 6, f"{_BOOK}tpus"),
    _rate(0.016, f"{_BOOK}tpus"),
)
_V100_FLOPS: Final = _rates(_V100, {"f16": 125, "f32": 15.7})
_A100_FLOPS: Final = _products(f"{_GARDEN}A100", 312, s8=624, s4=1248, f32=19.5, f64=19.5)
_HOPPER: Final = _products(f"{_GARDEN}h100", 989.4, f8=1978.9, s8=1978.9, f32=66.9, f64=66.9)
_CDNA3: Final = _products(_PEAKS, 1300, f8=2610, s8=2600, f32=163.4)
_MI350: Final = 144.2 / 157.3
"""An MI355X at the clock of an MI350X, as the source says."""

_TABLE: Final = (
    _part(Throughput("v2", _rates(_JAX, {"bf16": 46}), _rate(0.716, _JAX)), "v2"),
    _part(
        Throughput(
            "v3", _rates(f"{_CLOUD}v3", {"bf16": 123}), _rate(0.9, f"{_CLOUD}v3"), _rate(0.1 * 4, f"{_BOOK}tpus")
        ),
        "v3",
    ),
    _V4,
    _part(_V4, "v4-core"),
    Throughput(
        "v5e",
        _rates(f"{_CLOUD}v5e", {"bf16": 197, "s8": 393}) | _rates(_JAX, {"s4": 788}),
        _rate(0.819, f"{_CLOUD}v5e"),
        _rate(0.2, f"{_CLOUD}v5e"),
        _rate(0.015, f"{_BOOK}tpus"),
    ),
    Throughput(
        "v5p",
        _rates(f"{_CLOUD}v5p", {"bf16": 459, "f8": 459}) | _rates(_JAX, {"s8": 918, "s4": 1840}),
        _rate(2.765, f"{_CLOUD}v5p"),
        _rate(0.6, f"{_CLOUD}v5p"),
        _rate(0.015, f"{_BOOK}tpus"),
    ),
    Throughput(
        "v6e",
        _rates(f"{_CLOUD}v6e", {"bf16": 918, "s8": 1836})
        | _rates(f"{_CLOUD}tpu7x", {"f8": 918})
        | _rates(_JAX, {"s4": 3680}),
        _rate(1.638, f"{_CLOUD}v6e"),
        _rate(0.4, f"{_CLOUD}v6e"),
        _rate(0.032, f"{_BOOK}tpus"),
    ),
    _part(
        Throughput("7x", _rates(f"{_CLOUD}tpu7x", {"bf16": 2307, "f8": 4614}), _rate(7.4, _JAX), _rate(0.6, _IRONWOOD)),
        "7x",
    ),
    Throughput(
        "v100-16gb",
        _V100_FLOPS,
        _rate(0.898048, f"{_XLA}v100.txtpb"),
        _rate(0.15, _WIRES),
        _rate(0.017179869184, f"{_XLA}v100.txtpb"),
    ),
    Throughput("v100-32gb", _V100_FLOPS, _rate(0.9, _V100), _rate(0.15, _WIRES)),
    Throughput(
        "t4",
        _rates(_T4, {"f32": 8.1, "s8": 130, "s4": 260}) | _rates(_CARDS, {"f16": 65.13}),
        _rate(0.32, _T4),
    ),
    Throughput(
        "l4",
        _rates(_L4, {"f32": 30.29}) | _products(_CARDS, 125.34, f8=250.68, s8=250.68, s4=501.35),
        _rate(0.3001, _L4),
    ),
    Throughput(
        "a100-40gb",
        _A100_FLOPS,
        _rate(1.5552, f"{_XLA}a100_sxm_40.txtpb"),
        _rate(0.3, f"{_BOOK}gpus"),
        _rate(0.034359738368, f"{_XLA}a100_sxm_40.txtpb"),
    ),
    Throughput("a100-80gb", _A100_FLOPS, _rate(2.03904, f"{_XLA}a100_sxm_80.txtpb"), _rate(0.3, f"{_BOOK}gpus")),
    Throughput(
        "h100",
        _HOPPER,
        _rate(3.35232, f"{_XLA}h100_sxm.txtpb"),
        _rate(0.45, f"{_BOOK}gpus"),
        _rate(0.034359738368, f"{_XLA}h100_sxm.txtpb"),
    ),
    Throughput(
        "h200",
        _HOPPER,
        _rate(4.8, f"{_XLA}h200.txtpb"),
        _rate(0.45, f"{_BOOK}gpus"),
        _rate(0.034359738368, f"{_XLA}h200.txtpb"),
    ),
    Throughput(
        "b200",
        _products(f"{_GARDEN}B200", 2250, f8=4500, f6=4500, f4=9000, s8=4500, f32=80, f64=40),
        _rate(7.67232, f"{_XLA}b200.txtpb"),
        _rate(0.9, f"{_BOOK}gpus"),
        _rate(0.068719476736, f"{_XLA}b200.txtpb"),
    ),
    Throughput(
        "b300",
        _products(f"{_GARDEN}B300", 2250, f8=4500, f6=4500, f4=13125, f32=75, f64=1.25),
        _rate(7.936, f"{_XLA}b300.txtpb"),
        _rate(0.9, _WIRES),
    ),
    _part(
        Throughput("mi250", _products(_PEAKS, 383, s8=383, f32=47.9), _rate(1.6384 * 2, f"{_XLA}mi200.txtpb")), "mi250"
    ),
    Throughput("mi300x", _CDNA3, _rate(5.3, _INSTINCT), _rate(0.448, _WIRES)),
    Throughput("mi325x", _CDNA3, _rate(6, _INSTINCT), _rate(0.448, _WIRES)),
    Throughput(
        "mi350x",
        _products(_PEAKS, 2500 * _MI350, f8=5000 * _MI350, f6=10100 * _MI350, f4=10100 * _MI350, f32=144.2),
        _rate(7.782, f"{_XLA}mi350.txtpb"),
    ),
)

THROUGHPUTS: Final[Mapping[str, Throughput]] = MappingProxyType({each.chip: each for each in _TABLE})
"""What every chip of `CHIPS` can do."""

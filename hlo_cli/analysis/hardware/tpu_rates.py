"""How much TPUs can calculate and move in a second, as their vendor says."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.hardware.rates import ChipSpec, part_of, rate_from, rates_from

_CLOUD: Final = "https://docs.cloud.google.com/tpu/docs/"
_JAX: Final = "https://github.com/jax-ml/jax/blob/main/jax/_src/pallas/mosaic/tpu_info.py"
_BOOK: Final = "https://jax-ml.github.io/scaling-book/tpus"

_V3: Final = ChipSpec(
    "v3",
    rates_from(f"{_CLOUD}v3", {"bf16": 123}),
    rate_from(f"{_CLOUD}v3", 0.9),
    rate_from(_BOOK, 0.1 * 4),
)
_V4: Final = ChipSpec(
    "v4",
    rates_from(f"{_CLOUD}v4", {"bf16": 275, "s8": 275}),
    rate_from(f"{_CLOUD}v4", 1.2),
    rate_from(_BOOK, 0.045 * 6),
    rate_from(_BOOK, 0.016),
)
_7X: Final = ChipSpec(
    "7x",
    rates_from(f"{_CLOUD}tpu7x", {"bf16": 2307, "f8": 4614}),
    rate_from(_JAX, 7.4),
    rate_from(f"{_CLOUD}tpu7x", 0.6),
)

TPUS: Final = (
    part_of(ChipSpec("v2", rates_from(_JAX, {"bf16": 46}), rate_from(_JAX, 0.716)), "v2"),
    part_of(_V3, "v3"),
    _V4,
    part_of(_V4, "v4-core"),
    ChipSpec(
        "v5e",
        rates_from(f"{_CLOUD}v5e", {"bf16": 197, "s8": 393}) | rates_from(_JAX, {"s4": 788}),
        rate_from(f"{_CLOUD}v5e", 0.819),
        rate_from(f"{_CLOUD}v5e", 0.2),
        rate_from(_BOOK, 0.015),
    ),
    ChipSpec(
        "v5p",
        rates_from(f"{_CLOUD}v5p", {"bf16": 459, "f8": 459}) | rates_from(_JAX, {"s8": 918, "s4": 1840}),
        rate_from(f"{_CLOUD}v5p", 2.765),
        rate_from(f"{_CLOUD}v5p", 0.6),
        rate_from(_BOOK, 0.015),
    ),
    ChipSpec(
        "v6e",
        rates_from(f"{_CLOUD}v6e", {"bf16": 918, "s8": 1836})
        | rates_from(f"{_CLOUD}tpu7x", {"f8": 918})
        | rates_from(_JAX, {"s4": 3680}),
        rate_from(f"{_CLOUD}v6e", 1.638),
        rate_from(f"{_CLOUD}v6e", 0.4),
        rate_from(_BOOK, 0.032),
    ),
    part_of(_7X, "7x"),
)

"""The attributes of elementwise operations, random numbers, tuples, and what goes to and comes from the host.

Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc, in whose order the rows stand.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind

OTHERS: Final = (
    AttributeRow(
        "direction",
        Kind.DIRECTION,
        "compare",
        "which comparison",
        words={
            "EQ": "equal",
            "NE": "not equal",
            "GE": "greater or equal",
            "GT": "greater",
            "LE": "less or equal",
            "LT": "less",
        },
        required=True,
        proto_field="comparison_direction",
    ),
    AttributeRow(
        "order", Kind.ORDER, "compare", "how floats are compared; an old spelling", proto_field="comparison_order"
    ),
    AttributeRow(
        "type",
        Kind.TYPE,
        "compare",
        "how the numbers are compared",
        words={
            "FLOAT": "as floats: nothing equals nan",
            "TOTALORDER": "as floats in total order: -nan, -inf, … -0, 0, … inf, nan",
            "SIGNED": "as signed integers",
            "UNSIGNED": "as unsigned integers",
        },
        proto_field="comparison_type",
    ),
    AttributeRow("exponent_bits", Kind.INT, "reduce-precision", "bits that are left for the exponent", required=True),
    AttributeRow("mantissa_bits", Kind.INT, "reduce-precision", "bits that are left for the mantissa", required=True),
    AttributeRow(
        "distribution",
        Kind.DISTRIBUTION,
        "rng",
        "how the numbers are distributed",
        words={"rng_uniform": "uniform between two limits", "rng_normal": "normal with mean and deviation"},
        required=True,
    ),
    AttributeRow("delta", Kind.INT, "rng-get-and-update-state", "how far the state moves on", required=True),
    AttributeRow("infeed_config", Kind.STRING, "infeed", "settings of the infeed"),
    AttributeRow("outfeed_shape", Kind.SHAPE, "outfeed", "the shape in which the host gets it"),
    AttributeRow("outfeed_config", Kind.STRING, "outfeed", "settings of the outfeed"),
    AttributeRow(
        "index",
        Kind.INT,
        "get-tuple-element",
        "which element, counted from 0",
        required=True,
        proto_field="tuple_index",
    ),
    AttributeRow("domain", Kind.DOMAIN, "domain", "the attribute's values on both sides", required=True),
)

"""The generated part of `hlo help gpu-fusion`: XLA's reasons against a fusion, and what they mean."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.gpu_fusion import reasons

_SHARED: Final = reasons.SHARED_MEMORY.format(budget=49_152)
_OMITTED: Final = frozenset(
    (
        *(reasons.NO_USERS, reasons.ROOT, reasons.BITCAST_CONSUMER, reasons.TRITON, reasons.IN_PLACE_TWICE),
        *(reasons.SEVERAL_MOVES, reasons.IN_PLACE_CONFLICT, reasons.SEVERAL_UPDATES, reasons.UNRECOGNIZED),
        *(reasons.SLICE_SHAPE, reasons.SLICE_INDEX, reasons.SLICE_SHARED),
        *(reasons.DYNAMIC_SLICE_SHAPE, reasons.DYNAMIC_SLICE_INDEX, reasons.DYNAMIC_SLICE_SHARED),
    )
)
"""Reasons that explain themselves, and those about updates in place, which the page explains together."""


def markdown() -> str:
    """The reasons as a Markdown list.

    >>> markdown().splitlines()[0]
    '- `not fusing because there are only bitcast users`: the readers are bitcasts, such as those before a matmul.'
    """
    found = {reason: meaning for reason, meaning in reasons.MEANINGS.items() if reason not in _OMITTED}
    return "\n".join(
        f"- `{_SHARED if reason == reasons.SHARED_MEMORY else reason}`: {meaning}." for reason, meaning in found.items()
    )

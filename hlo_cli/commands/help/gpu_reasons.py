"""The generated part of `hlo help gpu-fusion`: XLA's reasons against a fusion, and what they mean."""

from __future__ import annotations

from typing import Final

from hlo_cli.analysis.fusion import gpu_rules

_SHARED: Final = gpu_rules.SHARED_MEMORY.format(budget=49_152)
_OMITTED: Final = frozenset(
    (
        *(gpu_rules.NO_USERS, gpu_rules.ROOT, gpu_rules.BITCAST_CONSUMER, gpu_rules.TRITON, gpu_rules.IN_PLACE_TWICE),
        *(gpu_rules.SEVERAL_MOVES, gpu_rules.IN_PLACE_CONFLICT, gpu_rules.SEVERAL_UPDATES, gpu_rules.UNRECOGNIZED),
        *(gpu_rules.SLICE_SHAPE, gpu_rules.SLICE_INDEX, gpu_rules.SLICE_SHARED),
        *(gpu_rules.DYNAMIC_SLICE_SHAPE, gpu_rules.DYNAMIC_SLICE_INDEX, gpu_rules.DYNAMIC_SLICE_SHARED),
    )
)
"""Reasons that explain themselves, and those about updates in place, which the page explains together."""


def markdown() -> str:
    """The reasons as a Markdown list.

    >>> markdown().splitlines()[0]
    '- `not fusing because there are only bitcast users`: the readers are bitcasts, such as those before a matmul.'
    """
    found = {reason: meaning for reason, meaning in gpu_rules.MEANINGS.items() if reason not in _OMITTED}
    return "\n".join(
        f"- `{_SHARED if reason == gpu_rules.SHARED_MEMORY else reason}`: {meaning}."
        for reason, meaning in found.items()
    )

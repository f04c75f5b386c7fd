"""Screenshots of pages: compared with kept ones, with a tolerance for the fonts and the browser of a machine.

HLO_WRITE_PICTURES=1 python -m pytest tests/test_pages.py -k looks    renews them
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

KEPT = Path(__file__).parent / "data" / "pages"
SCALE = 4  # a kept picture is a quarter as wide and high: text becomes gray, structure stays
MAX_DIFFERENT = 0.06
"""The share of pixels that may differ."""
DIFFERS = 40
"""From which difference of 255 a pixel counts as different."""


def check_picture(name: str, data: bytes) -> None:
    """Compares a screenshot with the kept one; writes it where HLO_WRITE_PICTURES is set."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    found = image.open(io.BytesIO(data)).convert("RGB")
    small = found.resize((found.width // SCALE, found.height // SCALE), image.Resampling.BOX)
    path = KEPT / f"{name}.png"
    if os.environ.get("HLO_WRITE_PICTURES"):
        KEPT.mkdir(parents=True, exist_ok=True)
        small.quantize(64).save(path, optimize=True)
        return
    kept = image.open(path).convert("RGB")
    assert kept.size == small.size
    share = different_share(kept.tobytes(), small.tobytes())
    assert share <= MAX_DIFFERENT, f"{share:.1%} of the pixels of {name} differ; look at the page"


def different_share(kept: bytes, found: bytes) -> float:
    """The share of pixels of two pictures, of three bytes each, with a channel that differs.

    >>> different_share(bytes(6), bytes((0, 0, 0, 0, 0, 255)))
    0.5
    """
    pixels = len(kept) // 3
    differing = sum(
        max(abs(kept[at + channel] - found[at + channel]) for channel in range(3)) >= DIFFERS
        for at in range(0, len(kept), 3)
    )
    return differing / pixels if pixels else 0.0

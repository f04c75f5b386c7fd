"""Colors of pages: every text can be read on every ground, in both schemes, and style sheets have no other colors."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from hlo_cli.render.web.colors import BANDS, DARK, LIGHT, Scheme, page_variables

TEXTS = ("ink", "quiet", "alarm", "name", "waste", "saving", "odd")
GROUNDS = ("paper", "wash", "chosen")
GRAPHICS = ("busy", "pick", "alarm", "waste")
"""Colors of bars and marks that carry a meaning; WCAG asks for 3:1."""


def luminance(color: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(color: str, ground: str) -> float:
    low, high = sorted((luminance(color), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_can_be_read(scheme: Scheme) -> None:
    pairs = [(text, ground) for text in TEXTS for ground in GROUNDS] + [("ink", "found"), ("paper", "ink")]
    low = {(text, ground): round(contrast(getattr(scheme, text), getattr(scheme, ground)), 2) for text, ground in pairs}
    assert {pair: value for pair, value in low.items() if value < 4.5} == {}


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_can_be_seen(scheme: Scheme) -> None:
    assert [mark for mark in GRAPHICS if contrast(getattr(scheme, mark), scheme.paper) < 3] == []


def test_black_is_readable_on_bands() -> None:
    assert [band for band in BANDS if contrast("#111111", band) < 4.5] == []


def test_style_sheets_have_no_other_colors() -> None:
    """Each color is a variable, so that a theme changes all of them, and each variable is defined."""
    defined = set(re.findall(r"(--[a-z0-9-]+):", page_variables()))
    folder = files("hlo_cli.render.web") / "css"
    for sheet in ("base", "graph", "report", "static", "tables"):
        text = (folder / f"{sheet}.css").read_text("utf-8")
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[^{}]*[;}])|\brgba?\(|\bhsla?\(", text) == [], sheet
        assert set(re.findall(r"var\((--[a-z0-9-]+)\)", text)) <= defined, sheet

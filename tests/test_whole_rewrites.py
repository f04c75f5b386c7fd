"""What each rewrite makes of small modules, line by line, as in `data/whole_rewrites.txt`."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest

from hlo_cli import parse_module
from whole_rewrites import kept, rewrite_of, told


@cache
def by_source() -> dict[str, dict[str, str]]:
    """The rewrites of each module, and what they change."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for (source, words), lines in kept().items():
        found[source][words] = lines
    return found


@pytest.mark.parametrize("source", by_source())
def test_rewrites_change_these_lines_and_no_others(source: str) -> None:
    for words, lines in by_source()[source].items():
        assert told(source, words) == lines, words


@pytest.mark.parametrize("dimensions", ["", ", dimensions={0,5}", ", dimensions={7}", ", dimensions={}"])
@pytest.mark.parametrize("opcode", ["transpose(x)", "concatenate(x, x)"])
@pytest.mark.parametrize("shape", ["f32[64,64]{0,1}", "f32[1,64,64]{0,1,2}"])
def test_wrong_dimensions_do_not_stop_fusion(opcode: str, dimensions: str, shape: str) -> None:
    """Lint reports them (HLO003, HLO010); the model of GPU kernels takes the operand's order, and the first dimension."""
    lines = f"x = f32[64,64] parameter(0)  t = {shape} {opcode}{dimensions}  ROOT n = {shape} negate(t)"
    made = parse_module(rewrite_of("gpu h100")(parse_module(f"HloModule m  ENTRY e {{ {lines} }}")))
    assert {each.opcode for each in made.instructions} >= {opcode.partition("(")[0], "negate"}

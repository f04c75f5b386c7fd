"""Our places of elements against where compiled TPU programs have them."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator

from dumps import FIXTURES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.syntax.scanning.shape_reader import parse_shape


def placed() -> Iterator[tuple[ArrayShape, tuple[int, ...], int]]:
    """Each array with an element of it, and how many come before that in memory."""
    with gzip.open(FIXTURES / "layouts" / "placement.csv.gz", "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            array = parse_shape(row["shape"])
            assert isinstance(array, ArrayShape)
            yield array, tuple(map(int, row["index"].split())), int(row["linear"])


def test_elements_lie_where_the_compiler_puts_them() -> None:
    """Witness: constants in programs compiled for v4 and v5e, see fixtures/README.md."""
    facts = list(placed())
    assert len(facts) == 4884
    for array, index, linear in facts:
        assert array.tiling.linear_index(index) == linear, (str(array), index)
        assert array.tiling.element(linear) == index, (str(array), linear)

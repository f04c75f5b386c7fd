"""Our sizes against the compiler's: every buffer of every assignment, and the bytes of all arguments.

`HLO_CORPUS=DIR python tests/test_witness.py` holds the same against all dumps below a folder, and prints the counts.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hlo_cli.ir.layout import Tile
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.text.parser import parse_module

FIXTURES = Path(__file__).parent.parent / "fixtures"
CORPUS = Path(os.environ.get("HLO_CORPUS", FIXTURES))

_VALUE = re.compile(r"^ value: <(\d+) (.+) @(\d+)> \(size=(\d+),offset=(\d+)\): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Value:
    """One line of a buffer assignment."""

    name: str
    size: int
    shape: Shape
    platform: str


@dataclass(frozen=True, slots=True)
class Quirk:
    """A rule by which the compiler counts otherwise: when it may, and what it then says."""

    reason: str
    applies: Callable[[Value, ArrayShape], bool]
    size: Callable[[ArrayShape], int]


def _untiled(array: ArrayShape) -> ArrayShape:
    return replace(array, layout=replace(array.layout, tiles=()))


def _in_default_tiles(array: ArrayShape) -> int:
    return replace(array, layout=replace(array.layout, tiles=(Tile((8, 128)),))).padded_bytes


QUIRKS = (
    Quirk(
        "in S(2), the scalar memory, a tile is printed and not applied",
        lambda value, array: array.memory_space == 2 and bool(array.layout.tiles),
        lambda array: _untiled(array).padded_bytes,
    ),
    Quirk(
        "an untiled array on TPU may be kept in tiles of (8,128)",
        lambda value, array: value.platform == "tpu" and not array.layout.tiles,
        _in_default_tiles,
    ),
)


@dataclass(slots=True)
class Witness:
    """What a comparison of sizes found: how many are equal, which rule explains how many others, and the rest."""

    equal: int
    explained: Counter[str]
    tables: int
    rest: list[str]


def compare_sizes(path: Path) -> Witness:
    """Every value of a buffer assignment: the size printed there against our padded bytes."""
    found = Witness(0, Counter(), 0, [])
    for value in values(path):
        if isinstance(value.shape, TupleShape):
            found.tables += 1
        elif value.shape.padded_bytes == value.size:
            found.equal += 1
        elif reason := explanation(value):
            found.explained[reason] += 1
        else:
            found.rest.append(f"{value.name}: {value.size} for {value.shape}, not {value.shape.padded_bytes}")
    return found


def explanation(value: Value) -> str | None:
    """The rule by which the compiler's size is what it is."""
    if not isinstance(value.shape, ArrayShape):
        return None
    array = value.shape
    return next((e.reason for e in QUIRKS if e.applies(value, array) and e.size(array) == value.size), None)


def values(path: Path) -> Iterator[Value]:
    """The values that a buffer assignment lists."""
    platform = platform_of(path)
    for _, name, _, size, _, shape in _VALUE.findall(text_of(path)):
        yield Value(name, int(size), parse_shape(shape), platform)


def argument_bytes(module: Module) -> tuple[int, int]:
    """Padded bytes of the entry's parameters: on the device, and in the host's memory, S(5)."""
    device = host = 0
    for parameter in module.entry.parameters:
        for _, leaf in parameter.shape.leaves:
            if isinstance(leaf, ArrayShape) and leaf.memory_space == 5:
                host += leaf.padded_bytes
            else:
                device += leaf.padded_bytes
    return device, host


def text_of(path: Path) -> str:
    """A file's text, compressed or not."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def platform_of(path: Path) -> str:
    """The folder that says for which platform a dump is."""
    return next((part for part in reversed(path.parts) if part in ("tpu", "gpu", "cpu")), "")


def assignments(root: Path) -> list[Path]:
    """Every buffer assignment below a folder."""
    return sorted(path for path in root.rglob("*buffer-assignment.txt*"))


def truths(root: Path) -> list[tuple[Path, Path]]:
    """Every compiled module below a folder that the compiler's memory analysis is kept for, with that."""
    found = []
    for truth in sorted(root.rglob("*truth.json")):
        said = json.loads(truth.read_text(encoding="utf-8"))
        names = [path for path in truth.parent.iterdir() if re.search(r"after_optimizations\.txt(\.gz)?$", path.name)]
        names = [
            path for path in names if "module" not in said or text_of(path).startswith(f"HloModule {said['module']},")
        ]
        if said.get("memory_analysis") and len(names) == 1:
            found.append((truth, names[0]))
    return found


def _name(path: Path) -> str:
    return path.relative_to(CORPUS).as_posix()


@pytest.mark.parametrize("path", assignments(CORPUS), ids=_name)
def test_every_buffer_has_the_size_that_the_compiler_gave_it(path: Path) -> None:
    found = compare_sizes(path)
    assert found.rest == []
    assert found.equal + found.tables + found.explained.total() > 0


def test_most_buffers_need_no_explanation() -> None:
    total: Counter[str] = Counter()
    for path in assignments(CORPUS):
        found = compare_sizes(path)
        total += found.explained
        total["equal"] += found.equal
    assert total["equal"] > 50 * sum(count for reason, count in total.items() if reason != "equal")
    if CORPUS == FIXTURES:
        assert {reason: total[reason] for reason in (e.reason for e in QUIRKS)} == {
            QUIRKS[0].reason: 7,
            QUIRKS[1].reason: 22,
        }


@pytest.mark.parametrize(("truth", "text"), truths(CORPUS), ids=lambda path: _name(path))
def test_arguments_add_up(truth: Path, text: Path) -> None:
    said = json.loads(truth.read_text(encoding="utf-8"))["memory_analysis"]
    expected = said["argument_size_in_bytes"], said["host_argument_size_in_bytes"]
    assert argument_bytes(parse_module(text_of(text))) == expected


def main() -> int:
    """Print how many sizes agree, and what does not."""
    total, equal, tables, rest = Counter[str](), 0, 0, 0
    for path in assignments(CORPUS):
        found = compare_sizes(path)
        equal, tables, rest = equal + found.equal, tables + found.tables, rest + len(found.rest)
        total += found.explained
        for line in found.rest[:10]:
            print(f"{_name(path)}: {line}")
    print(f"{equal:>8} sizes equal in {len(assignments(CORPUS))} assignments; {tables} tables of tuples")
    for reason, count in total.most_common():
        print(f"{count:>8} {reason}")
    print(f"{rest:>8} not explained")
    agree = 0
    for truth, text in truths(CORPUS):
        said = json.loads(truth.read_text(encoding="utf-8"))["memory_analysis"]
        expected = said["argument_size_in_bytes"], said["host_argument_size_in_bytes"]
        found_bytes = argument_bytes(parse_module(text_of(text)))
        agree += found_bytes == expected
        if found_bytes != expected:
            print(f"{_name(text)}: arguments {found_bytes}, the compiler says {expected}")
    print(f"{agree:>8} of {len(truths(CORPUS))} modules: arguments add up")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The table of chips: every number has a source, and every name finds its chip."""

from __future__ import annotations

import pytest

from hlo_cli.analysis.hardware.chip_table import Chip
from hlo_cli.analysis.hardware.chips import find_chip, known_chips
from hlo_cli.source import HloError

each_chip = pytest.mark.parametrize("chip", known_chips(), ids=lambda chip: chip.name)


@each_chip
def test_every_number_has_a_source_that_people_can_open(chip: Chip) -> None:
    for capacity in chip.memories.values():
        assert capacity.source.startswith("https://")
        assert capacity.bytes > 0
    assert chip.usable is None or chip.usable.source


@each_chip
def test_usable_is_less_than_nominal_and_most_of_it(chip: Chip) -> None:
    limit = chip.limit()
    assert limit is not None
    assert 0.9 * chip.memories[0].bytes < limit.bytes <= chip.memories[0].bytes


@each_chip
def test_every_name_finds_its_chip_however_it_is_written(chip: Chip) -> None:
    for name in (chip.name, *chip.aliases):
        for written in (name, name.upper(), name.replace(" ", "-"), f" {chip.target} {name}".replace(" gpu", "nvidia")):
            assert find_chip(written) is chip


def test_names_are_told_apart() -> None:
    names = [name for chip in known_chips() for name in (chip.name, *chip.aliases)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a100", "ambiguous chip 'a100': a100-40gb, a100-80gb, or a100-pcie-80gb"),
        ("v100", "ambiguous chip 'v100': v100-16gb or v100-32gb"),
        ("v5f", "unknown chip 'v5f'"),
        ("", "unknown chip"),
        ("x" * 10_000, "unknown chip"),
    ],
)
def test_what_is_said_of_names_that_mean_no_chip(name: str, said: str) -> None:
    with pytest.raises(HloError, match=said):
        find_chip(name)


def test_all_chips_are_listed_where_no_name_is_near() -> None:
    with pytest.raises(HloError) as caught:
        find_chip("qqqqqqqq")
    hint = caught.value.diagnostic.hint or ""
    assert hint.startswith("available: v2, ")
    assert "mi350x" in hint


@pytest.mark.parametrize(("name", "near"), [("trilium", "v6e"), ("h10", "h100"), ("mi30", "mi300x"), ("ironwod", "7x")])
def test_the_nearest_name_is_offered(name: str, near: str) -> None:
    with pytest.raises(HloError) as caught:
        find_chip(name)
    assert caught.value.diagnostic.hint == f"did you mean '{near}'?"


def test_small_memories_are_those_that_compilers_enforce() -> None:
    # Compilers of libtpu 0.0.51 refuse kernels beyond these sizes, and say so.
    told = {"v2": (16, 16), "v3": (16, 16), "v4": (16, 1024), "v5e": (128, 1024), "v5p": (64, 1024)}
    told |= {"v6e": (128, 1024), "7x": (64, 1024)}
    for name, (vmem_mib, smem_kib) in told.items():
        vmem, smem = find_chip(name).limit(1), find_chip(name).limit(6)
        assert vmem is not None
        assert smem is not None
        assert (vmem.bytes >> 20, smem.bytes >> 10) == (vmem_mib, smem_kib)


@pytest.mark.parametrize(("name", "near"), [("v5x", ["v5e", "v5p"]), ("mi35x", ["mi350x", "mi355x"])])
def test_the_beginning_of_a_name_tells_the_family(name: str, near: list[str]) -> None:
    with pytest.raises(HloError) as caught:
        find_chip(name)
    assert caught.value.diagnostic.hint == f"did you mean {' or '.join(map(repr, near))}?"

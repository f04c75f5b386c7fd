"""Shardings that avoid full rematerialization, held to the partitioner, which has to take them without a warning."""

from __future__ import annotations

from random import Random

import pytest

from hlo_cli import parse_shape, sharding_of
from hlo_cli.analysis.sharding.placement import sharding_of_placement
from hlo_cli.analysis.sharding.reshard import MAX_CANDIDATES, Detour, find_detour, reshard
from hlo_cli.analysis.sharding.reshard_steps import candidates, grid_of
from partitioning import Pair, partition, random_pairs
from test_shard_reshard import predicted, resharded
from versions import IS_NEWER_XLA


def warned_pairs(devices: int, count: int, seed: int, *, is_even: bool = True) -> list[tuple[Pair, Detour | None]]:
    """Random pairs of tiled shardings that need full rematerialization, with their detours."""
    found = list[tuple[Pair, Detour | None]]()
    random = Random(seed)
    while len(found) < count:
        [pair] = random_pairs(random, devices, 1, is_even=is_even)
        direct = resharded(pair, devices)
        if direct.is_full_rematerialization and direct.source.is_tiled and direct.target.is_tiled:
            found.append((pair, find_detour(direct)))
    return found


def silent_share(devices: int, count: int, seed: int) -> float:
    """The part of warned pairs whose detour the partitioner takes without a warning, exactly as predicted."""
    found = warned_pairs(devices, count, seed)
    halves = list[Pair]()
    for (shape, source, target), detour in found:
        if detour is not None:
            by = str(sharding_of_placement(detour.by))
            halves += [(shape, source, by), (shape, by, target)]
            direct = resharded((shape, source, target))
            assert detour.sent_bytes < direct.sent_bytes
    answers = partition(devices, halves)
    if answers is None and IS_NEWER_XLA:
        pytest.skip("the partitioner of jaxlib 0.12 ends its process on a pair of the sample")
    assert answers is not None
    right = [
        not answer.is_warned and answer == predicted(half, devices)
        for half, answer in zip(halves, answers, strict=True)
    ]
    return sum(map(all, zip(right[::2], right[1::2], strict=True))) / count


@pytest.mark.oracle
@pytest.mark.parametrize("devices", [12, 16])
def test_the_partitioner_takes_detours_silently(devices: int) -> None:
    pytest.importorskip("jaxlib")
    assert silent_share(devices, 12, devices) == 1


@pytest.mark.long
@pytest.mark.parametrize("devices", [8, 12, 16, 24, 32])
def test_the_partitioner_takes_many_detours_silently(devices: int) -> None:
    pytest.importorskip("jaxlib")
    assert silent_share(devices, 64, 50 + devices) == 1


def test_no_other_candidate_is_better() -> None:
    """The order of trials and their end must not change what is found."""
    for pair, detour in warned_pairs(8, 6, 3) + warned_pairs(8, 3, 4, is_even=False):
        direct = resharded(pair, 8)
        grid = grid_of(direct.source, direct.target, 8)
        best = None
        for candidate in candidates(grid, direct.shape.sizes):
            by = grid.placement(candidate)
            if by in (direct.source, direct.target):
                continue
            halves = [reshard(direct.shape, direct.source, by), reshard(direct.shape, by, direct.target)]
            if not any(half.is_full_rematerialization or half.problem for half in halves):
                cost = sum(half.sent_bytes for half in halves), sum(len(half.steps) for half in halves)
                best = min(best or cost, cost)
        assert (best is None) == (detour is None)
        if detour is not None:
            assert best is not None
            assert best[0] <= detour.sent_bytes <= best[0] * 1.05  # whole axes are preferred


def test_the_detour_of_a_tutorial() -> None:
    pair = (
        "f32[2048,2048]",
        "{devices=[2,32,4]<=[2,8,4,4]T(0,2,1,3) last_tile_dim_replicate}",
        "{devices=[1,256]<=[256]}",
    )
    direct = resharded(pair)
    found = find_detour(direct)
    assert found is not None
    assert str(sharding_of_placement(found.by)) == "{devices=[2,128]<=[2,8,4,4]T(0,2,1,3)}"
    assert [step.operation for step in (*found.first.steps, *found.second.steps)] == [
        "dynamic-slice",
        "all-to-all",
        "collective-permute",
    ]
    assert (direct.sent_bytes, found.sent_bytes) == (16515072, 97792)
    assert (found.candidates, found.is_complete) == (MAX_CANDIDATES, False)


def test_a_pair_without_warning_has_no_detour() -> None:
    found = reshard(parse_shape("f32[8]"), sharding_of("{devices=[4]<=[4]}"), sharding_of("{replicated}"))
    assert find_detour(found) is None


def test_devices_in_no_order_are_a_grid_of_their_own() -> None:
    direct = resharded(("f32[16,16]", "{devices=[2,4]3,0,6,1,7,2,5,4}", "{devices=[8,1]<=[8]}"))
    found = find_detour(direct)
    assert direct.is_full_rematerialization == (found is not None)

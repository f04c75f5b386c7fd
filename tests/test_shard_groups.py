"""Groups of devices: all modes and all forms, against execution on simulated devices and XLA's own examples."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from math import prod
from random import Random
from time import process_time

import pytest

from group_execution import Case, program, random_programs, run
from hlo_cli import parse_module
from hlo_cli.analysis.sharding.meshes import device_groups, device_pairs, devices_of
from hlo_cli.source import HloError

Results = dict[str, list[int]]


def expected_of(cases: list[Case]) -> list[Results]:
    """The results of each collective on each device, from the groups that we read."""
    module = parse_module(program(cases))
    devices = devices_of(module)
    found = []
    for at, case in enumerate(cases):
        instruction = module.instruction(f"x{at}")
        results: Results = {str(device): [0] for device in range(devices.count)}
        for source, target in device_pairs(instruction, devices):
            results[str(target)] = [source + 1]
        for group in device_groups(instruction, devices):
            for place, device in enumerate(group):
                bits = sum(1 << other for other in group)
                match case.opcode:
                    case "all-reduce":
                        results[str(device)] = [bits]
                    case "reduce-scatter":
                        results[str(device)] = [bits + 256 * place * len(group)]
                    case _:
                        results[str(device)] = list(group)
        found.append(results)
    return found


def compare(programs: list[list[Case]]) -> int:
    """Asserts that all results are those of XLA, and returns the number of collectives."""
    for cases, answers in zip(programs, run(programs), strict=True):
        for case, ours, theirs in zip(cases, expected_of(cases), answers, strict=True):
            assert ours == theirs, case
    return sum(map(len, programs))


@pytest.mark.oracle
@pytest.mark.slow
def test_groups_are_those_of_execution() -> None:
    """Witness: XLA runs the collectives on up to 8 simulated CPU devices."""
    assert compare(random_programs(seed=20, count=6, each=12)) == 72


@pytest.mark.oracle
@pytest.mark.long
def test_groups_of_many_programs_are_those_of_execution() -> None:
    assert compare(random_programs(seed=21, count=110)) == 1100


def group_texts() -> list[tuple[str, int, list[list[int]]]]:
    """Groups with the number of devices: those of xla/hlo/ir/replica_group_test.cc, and of XLA's documents."""
    return [
        ("{{0,2},{1,3}}", 4, [[0, 2], [1, 3]]),
        ("[2,4]<=[8]", 8, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("[4,2]<=[2,4]T(1,0)", 8, [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("mesh['a'=8] {'a':(1)2,'a':(4)2}", 8, [[0, 1, 4, 5], [2, 3, 6, 7]]),
        ("mesh['a'=8] {'a':(4)2,'a':(1)2}", 8, [[0, 4, 1, 5], [2, 6, 3, 7]]),
        ("mesh['x'=2,'y'=2], device_ids=(3,1,0,2) {'x'}", 4, [[3, 0], [1, 2]]),
        ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}", 8, [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ("{}", 4, [[0, 1, 2, 3]]),
    ]


@pytest.mark.parametrize(("text", "count", "groups"), group_texts())
def test_groups_of_known_texts(text: str, count: int, groups: list[list[int]]) -> None:
    found = groups_in(text, count)
    assert found == tuple(map(tuple, groups))


def groups_in(text: str, count: int) -> tuple[tuple[int, ...], ...]:
    """The groups of an all-gather over global ids in a module of so many partitions."""
    line = f"ROOT r = f32[{count}] all-gather(p), dimensions={{0}}, replica_groups={text}, channel_id=1"
    entry = f"ENTRY e {{ p = f32[1] parameter(0)  {line}, use_global_device_ids=true }}"
    module = parse_module(f"HloModule m, num_partitions={count}  {entry}")
    root = module.entry.root
    assert root is not None
    return device_groups(root, devices_of(module))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("plane['a'=4] {'a'}", "cannot read the replica groups plane"),
        ("[2,2]<=[4]T(1,0)", "cannot read the replica groups"),
        ("{{0,1},{2,9}}", "a group names device 9, but the module has 4 devices"),
        ("{{0,1},{1,2}}", "device 1 is in more than one group"),
        ("[2,4]<=[8]", "a group names device 4, but the module has 4 devices"),
    ],
)
def test_groups_that_are_not_understood_are_an_error(text: str, reason: str) -> None:
    """An unknown form is not "no groups", which would be one group of all devices."""
    with pytest.raises(HloError, match=reason.replace("[", r"\[")):
        groups_in(text, 4)


def test_pairs_that_are_not_understood_are_an_error() -> None:
    text = "r = f32[2] collective-permute(f32[2] a), channel_id=1, source_target_pairs=ring(4)"
    root = parse_module(text).entry.root
    assert root is not None
    with pytest.raises(HloError, match="cannot read the source_target_pairs"):
        device_pairs(root, devices_of(parse_module(text)))


def test_without_counts_in_the_header_groups_are_as_given() -> None:
    """A line typed alone has no replicas and no partitions; its numbers are those of its devices."""
    module = parse_module("r = f32[8] all-reduce(f32[8] a), replica_groups={{0,2},{1,3}}, to_apply=f, channel_id=1")
    root = module.entry.root
    assert root is not None
    assert (devices_of(module).count, devices_of(module).is_stated) == (4, False)
    assert device_groups(root, devices_of(module)) == ((0, 2), (1, 3))


_NAMED = """
import json, sys
from jaxlib import xla_client
answers = []
for text in json.load(sys.stdin):
    sharding = xla_client.HloSharding.from_string(text).v3_to_v2_sharding()
    tiled = sharding.is_tiled()
    answers.append((sharding.tile_assignment_dimensions(), sharding.tile_assignment_devices()) if tiled else None)
print(json.dumps(answers))
"""


def random_mesh_groups(random: Random) -> tuple[str, str]:
    """Groups over parts of a mesh, and a matrix whose rows are sharded over the same axes, columns over the rest."""
    while True:
        sizes = [random.choice((2, 3, 4, 6, 8)) for _ in range(random.randint(1, 3))]
        if prod(sizes) <= 96:
            break
    parts = list[str]()
    for at, size in enumerate(sizes):
        ends = [1]
        while ends[-1] < size:
            rest = size // ends[-1]
            ends.append(ends[-1] * random.choice([each for each in range(2, rest + 1) if rest % each == 0]))
        whole = len(ends) == 2
        parts += [f"'a{at}'" if whole else f"'a{at}':({a}){b // a}" for a, b in pairwise(ends)]
    count = prod(sizes)
    ids = random.sample(range(count), count)
    factor = random.choice([each for each in range(1, count + 1) if count % each == 0])
    forms = [""]
    if 1 < factor < count:
        forms.append(f", device_ids=([{factor},{count // factor}]T(1,0))")
    if ids != sorted(ids):
        forms.append(f", device_ids=({','.join(map(str, ids))})")
    listed = random.choice(forms)
    axes = ",".join(f"'a{at}'={size}" for at, size in enumerate(sizes))
    used = random.sample(parts, random.randint(1, len(parts)))
    others = [part for part in parts if part not in used]
    mesh = f"mesh[{axes}]{listed}"
    if _touch(used) or _touch(others):
        return random_mesh_groups(random)
    return f"{mesh} {{{','.join(used)}}}", f"{{{mesh}, [{{{','.join(used)}}}, {{{','.join(others)}}}]}}"


def _touch(parts: list[str]) -> bool:
    """Whether two neighbors could be one, on which the oracle aborts."""
    cut = [part.replace(":(", " ").replace(")", " ").split() for part in parts]
    return any(len(a) == len(b) == 3 and a[0] == b[0] and int(a[1]) * int(a[2]) == int(b[1]) for a, b in pairwise(cut))


def compare_named(seed: int, count: int) -> None:
    """Asserts that groups over axes of a mesh are those of devices which a named sharding puts in one column."""
    pytest.importorskip("jaxlib.xla_client")
    random = Random(seed)
    texts = [random_mesh_groups(random) for _ in range(count)]
    asked = subprocess.run(
        [sys.executable, "-c", _NAMED],
        input=json.dumps([sharding for _, sharding in texts]),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    for (text, _), answer in zip(texts, json.loads(asked.stdout), strict=True):
        (rows, columns), devices = answer
        theirs = {tuple(devices[row * columns + column] for row in range(rows)) for column in range(columns)}
        assert set(groups_in(text, rows * columns)) == theirs, text


@pytest.mark.oracle
@pytest.mark.slow
def test_groups_over_parts_of_a_shuffled_mesh() -> None:
    """Witness: jaxlib's conversion of a named sharding to tiles."""
    compare_named(seed=30, count=100)


@pytest.mark.oracle
@pytest.mark.long
def test_groups_over_parts_of_many_meshes() -> None:
    compare_named(seed=31, count=1500)


def test_a_repeated_device_is_found_in_one_pass() -> None:
    count = 30_000
    ids = ",".join(map(str, [*range(count), count - 1]))
    header = f"HloModule m, replica_count={count}  "
    text = f"{header}ENTRY e {{ p = f32[2] parameter(0)  ROOT r = f32[2] all-reduce(p), replica_groups={{{{{ids}}}}} }}"
    module = parse_module(text)
    reduce = next(each for each in module.entry.instructions if each.name == "r")
    started = process_time()
    with pytest.raises(HloError, match=f"device {count - 1} is in more than one group"):
        device_groups(reduce, devices_of(module))
    assert process_time() - started < 3


@pytest.mark.parametrize("groups", ["mesh['a'=0] {'a'}", "mesh['a'=2,'b'=0] {'a'}"])
def test_a_mesh_without_devices_has_no_groups(groups: str) -> None:
    module = parse_module(f"r = f32[2] all-reduce(f32[2] p), replica_groups={groups}")
    root = module.entry.root
    assert root is not None
    with pytest.raises(HloError):
        device_groups(root, devices_of(module))

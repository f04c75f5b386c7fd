"""Random collectives run by XLA on simulated CPU devices: which device is in a group with which, and at which place.

Each device gathers, exchanges, adds, or sends its flattened id, so the results show the groups. The replica and
partition ids of the program are those of the device, because all instructions are manual.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from math import prod
from random import Random

import pytest

OPCODES = ("all-gather", "all-to-all", "all-reduce", "reduce-scatter", "collective-permute")
GRIDS = ((1, 8), (8, 1), (2, 4), (4, 2), (2, 2), (1, 6), (3, 2), (2, 3), (1, 4), (4, 1), (1, 5))

_RUN = """
import json, sys
import jax, numpy
from jax._src.lib import _jax
from jaxlib import _hlo
client = jax.devices("cpu")[0].client
answers = []
for text, replicas, partitions in json.load(sys.stdin):
    module = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    options = _jax.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, partitions
    options.executable_build_options.use_spmd_partitioning = partitions > 1
    count = replicas * partitions
    options.device_assignment = _jax.DeviceAssignment.create(numpy.arange(count).reshape(replicas, partitions))
    devices = _jax.DeviceList(tuple(client.devices()[:count]))
    program = client.compile_and_load(_jax.mlir.hlo_to_stablehlo(module), devices, options)
    results = program.execute_sharded([]).disassemble_into_single_device_arrays()
    answers.append([{each.device.id: numpy.asarray(each).tolist() for each in result} for result in results])
print(json.dumps(answers))
"""


@dataclass(frozen=True)
class Case:
    """A collective with its attributes, in a program for a grid of replicas and partitions, and its group size."""

    opcode: str
    replicas: int
    partitions: int
    attributes: str
    size: int

    @property
    def line(self) -> str:
        """The instruction as text, with operands that the program has."""
        size, manual = self.size, "sharding={manual}"
        match self.opcode:
            case "all-gather":
                return f"u32[{size}] all-gather(v), dimensions={{0}}, {self.attributes}, {manual}"
            case "all-to-all":
                return f"u32[{size}] all-to-all(v{size}), dimensions={{0}}, {self.attributes}, {manual}"
            case "all-reduce":
                return f"u32[1] all-reduce(bit), to_apply=sum, {self.attributes}, {manual}"
            case "reduce-scatter":
                return f"u32[1] reduce-scatter(w{size}), dimensions={{0}}, to_apply=sum, {self.attributes}, {manual}"
        return f"u32[1] collective-permute(next), {self.attributes}, {manual}"

    @property
    def header(self) -> str:
        """The header of the program."""
        return f"HloModule m, replica_count={self.replicas}, num_partitions={self.partitions}"


def program(cases: list[Case]) -> str:
    """One program with all of these collectives, for the grid of the first."""
    size = cases[0].partitions
    lines = [
        "r = u32[] replica-id()",
        "p = u32[] partition-id()",
        f"n = u32[] constant({size})",
        "s = u32[] multiply(r, n)",
        "id = u32[] add(s, p)",
        "v = u32[1] reshape(id)",
        "one = u32[1] constant({1})",
        "next = u32[1] add(v, one)",
        "bit = u32[1] shift-left(one, v)",
    ]
    for each in sorted({case.size for case in cases}):
        lines += [
            f"v{each} = u32[{each}] broadcast(id), dimensions={{}}",
            f"i{each} = u32[{each}] iota(), iota_dimension=0",
            f"b{each} = u32[] reshape(bit)",
            f"c{each} = u32[{each}] broadcast(b{each}), dimensions={{}}",
            f"k{each} = u32[] constant(256)",
            f"m{each} = u32[{each}] broadcast(k{each}), dimensions={{}}",
            f"j{each} = u32[{each}] multiply(i{each}, m{each})",
            f"w{each} = u32[{each}] add(c{each}, j{each})",
        ]
    body = [f"{line}, sharding={{manual}}" for line in lines]
    body += [f"x{at} = {case.line}" for at, case in enumerate(cases)]
    shapes = ", ".join(case.line.split()[0] for case in cases)
    names = ", ".join(f"x{at}" for at in range(len(cases)))
    body.append(f"ROOT t = ({shapes}) tuple({names}), sharding={{{', '.join(['{manual}'] * len(cases))}}}")
    reducer = "sum { a = u32[] parameter(0)  b = u32[] parameter(1)  ROOT c = u32[] add(a, b) }"
    return f"{cases[0].header}\n{reducer}\nENTRY e {{\n" + "\n".join(body) + "\n}"


def run(programs: list[list[Case]]) -> list[list[dict[str, list[int]]]]:
    """For each program and each of its collectives, the result on each device."""
    pytest.importorskip("jaxlib._hlo")
    pytest.importorskip("jax")
    flags = "--xla_force_host_platform_device_count=8"
    asked = subprocess.run(
        [sys.executable, "-c", _RUN],
        input=json.dumps([(program(cases), cases[0].replicas, cases[0].partitions) for cases in programs]),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "XLA_FLAGS": flags},
    )
    assert asked.returncode == 0, asked.stderr[-2000:]
    answers: list[list[dict[str, list[int]]]] = json.loads(asked.stdout.splitlines()[-1])
    return answers


def random_programs(seed: int, count: int, *, each: int = 10) -> list[list[Case]]:
    """Programs of random collectives in all modes and all forms that the importer of the oracle keeps."""
    random = Random(seed)
    found = []
    for at in range(count):
        replicas, partitions = GRIDS[at % len(GRIDS)]
        devices = replicas * partitions
        rows = random.choice([rows for rows in range(1, devices + 1) if devices % rows == 0])
        mesh = (rows, devices // rows)  # the importer of the oracle confuses several meshes of a program
        found.append([_case(random, replicas, partitions, mesh) for _ in range(each)])
    return found


def _case(random: Random, replicas: int, partitions: int, mesh: tuple[int, int]) -> Case:
    opcode = random.choice(OPCODES)
    has_channel = random.random() < 0.7
    is_global = has_channel and random.random() < 0.5
    channel = ", channel_id=1" if has_channel else ""
    if opcode == "collective-permute":
        ids = list(range(partitions if has_channel else replicas))
        targets = random.sample(ids, len(ids))
        pairs = [pair for pair in zip(ids, targets, strict=True) if random.random() < 0.7]
        listed = ",".join(f"{{{a},{b}}}" for a, b in pairs)
        return Case(opcode, replicas, partitions, f"source_target_pairs={{{listed}}}{channel}", 1)
    if opcode == "all-to-all":
        is_global = False
        count, times = (partitions if has_channel else replicas), 1
    elif is_global:
        count, times = replicas * partitions, 1
        channel += ", use_global_device_ids=true"
    else:
        count, times = replicas, partitions if has_channel else 1
    size = random.choice([size for size in range(1, count + 1) if count % size == 0])
    groups = _groups(random, count, size, mesh)
    if size == count and not is_global and opcode != "all-to-all" and random.random() < 0.5:
        groups = "{}"
    return Case(opcode, replicas, partitions, f"replica_groups={groups}{channel}", size * times)


def _groups(random: Random, count: int, size: int, mesh: tuple[int, int]) -> str:
    """Groups of this size as a list, an iota, or along an axis of a mesh."""
    has_mesh = prod(mesh) == count and size in mesh and 1 < size < count
    form = random.choice(("list", "iota", "mesh") if has_mesh else ("list", "iota"))
    ids = random.sample(range(count), count)
    if form == "list":
        groups = (ids[at : at + size] for at in range(0, count, size))
        return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"
    if form == "iota":
        dims = _factors(random, count)
        order = random.sample(range(len(dims)), len(dims))
        turned = f"T({','.join(map(str, order))})" if len(dims) > 1 else ""
        return f"[{count // size},{size}]<=[{','.join(map(str, dims))}]{turned}"
    axis = random.choice([name for name, length in zip("ab", mesh, strict=True) if length == size])
    return f"mesh['a'={mesh[0]},'b'={mesh[1]}] {{'{axis}'}}"


def _factors(random: Random, number: int) -> list[int]:
    found = []
    while number > 1:
        factor = random.choice([each for each in range(2, number + 1) if number % each == 0])
        found.append(factor)
        number //= factor
    return found or [1]

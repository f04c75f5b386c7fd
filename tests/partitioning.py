"""What the SPMD partitioner of jaxlib does to reshard arrays: many pairs of shardings in one program, by its own dump.

Run as a program, it reads a JSON list of [shape, sharding, sharding], compiles it on simulated CPU devices up to the
partitioner, and writes the module after it to standard output.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hlo_cli import Instruction

Pair = tuple[str, str, str]
"""A whole shape, the sharding that it has, and the one that it gets."""


class Operation(NamedTuple):
    """A collective or a slice: the bytes of its operand, its group size, the pairs of devices that differ, its groups.

    Groups are sorted, and the pairs of a permute too; exchanges of edges have none.
    """

    opcode: str
    operand_bytes: int
    group_size: int
    moving: int
    groups: tuple[tuple[int, ...], ...] = ()


class Partitioned(NamedTuple):
    """The operations of a pair in order, and whether the partitioner warned."""

    operations: tuple[Operation, ...]
    is_warned: bool


def partition(devices: int, pairs: Sequence[Pair]) -> list[Partitioned] | None:
    """What the partitioner does for each pair; None if it crashes."""
    done = subprocess.run(
        [sys.executable, __file__, str(devices)],
        input=json.dumps(pairs),
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0", "PYTHONPATH": str(Path(__file__).parent.parent)},
        timeout=600,
        check=False,
    )
    if done.returncode < 0:
        return None
    assert done.returncode == 0, done.stderr[-2000:]
    warned = {int(number) for number in re.findall(r'nvoluntary full remat[^\n]*op_name="pair(\d+)"', done.stderr)}
    return [
        Partitioned(tuple(each), at in warned) for at, each in enumerate(_operations(done.stdout, len(pairs), devices))
    ]


def _operations(text: str, count: int, devices: int) -> list[list[Operation]]:
    from hlo_cli import parse_module

    found: list[list[Operation]] = [[] for _ in range(count)]
    for instruction in parse_module(text).entry.instructions:
        name = instruction.metadata.op_name or ""
        if not name.startswith("pair") or not instruction.operands:
            continue
        operand = instruction.operands[0]
        group = moving = 1
        groups: tuple[tuple[int, ...], ...] = ()
        match instruction.opcode:
            case "dynamic-slice":
                if operand.opcode == "constant":
                    continue  # the offset of a device, read from a table
                moving = 0
            case "collective-permute":
                pairs = re.findall(r"\{(\d+),(\d+)\}", instruction.attribute("source_target_pairs") or "")
                moving = sum(source != target for source, target in pairs)
                groups = tuple(sorted((int(source), int(target)) for source, target in pairs))
            case "all-gather" | "all-to-all" | "all-reduce":
                group = _group_size(instruction.attribute("replica_groups") or "")
                groups = _sorted_groups(instruction, devices)
            case _:
                continue
        size = operand.shape.logical_bytes
        found[int(name[4:])].append(Operation(instruction.opcode, size, group, moving, groups))
    return found


def _sorted_groups(instruction: Instruction, devices: int) -> tuple[tuple[int, ...], ...]:
    """The groups as sets, by the code whose own tests hold it to execution."""
    groups = instruction.replica_groups
    assert groups is not None
    return tuple(sorted(tuple(sorted(group)) for group in groups.groups(devices)))


def _group_size(groups: str) -> int:
    """The size of a group, read without the code that is tested."""
    if match := re.fullmatch(r"mesh\[(.*?)\].*?\{([^{}]*)\}", groups):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
        axes = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", match[2])
        return prod(int(part or sizes[name]) for name, part in axes)
    if match := re.match(r"\[\d+,(\d+)\]", groups):
        return int(match[1])
    return groups.split("}")[0].count(",") + 1


def settled(operations: Sequence[Operation]) -> list[Operation]:
    """The operations with neighboring permutes sorted: those that exchange edges together have no order."""
    found, run = list[Operation](), list[Operation]()
    for each in operations:
        if each.opcode == "collective-permute":
            run.append(each)
            continue
        found += [*sorted(run), each]
        run = []
    return [*found, *sorted(run)]


def random_pairs(random: Random, devices: int, count: int, *, is_even: bool) -> list[Pair]:
    """Shapes with two different shardings: cuts of any dimensions, in any order of devices, with replicas or without."""
    found = list[Pair]()
    while len(found) < count:
        rank = random.choice((1, 2, 2, 3, 3, 4))
        source, target = (_random_sharding(random, devices, rank) for _ in range(2))
        if is_even:
            sizes = [devices * random.choice((1, 2, 3)) for _ in range(rank)]
        else:
            sizes = [
                random.choice((random.randrange(1, 6), random.randrange(2, 40), devices, random.randrange(10, 60)))
                for _ in range(rank)
            ]
        if source != target:
            found.append((f"{random.choice(('f32', 'bf16', 's8'))}[{','.join(map(str, sizes))}]", source, target))
    return found


def _random_sharding(random: Random, devices: int, rank: int) -> str:
    if random.random() < 0.06:
        return random.choice(("{replicated}", "{replicated}", f"{{maximal device={random.randrange(devices)}}}"))
    primes = _primes(devices)
    dims = [1] * (rank + 1)
    for prime in primes:
        dims[random.randrange(rank + 1)] *= prime
    if random.random() < 0.4:
        dims[random.randrange(rank)] *= dims[-1]
        dims[-1] = 1
    if prod(dims[:-1]) == 1:
        return "{replicated}"
    random.shuffle(primes)
    order = f"<=[{devices}]"
    choice = random.random()
    if choice > 0.9:
        order = ",".join(map(str, random.sample(range(devices), devices)))
    elif choice > 0.35:
        while len(primes) > 1 and random.random() < 0.5:
            at = random.randrange(len(primes) - 1)
            primes[at : at + 2] = [primes[at] * primes[at + 1]]
        if len(primes) > 1:
            axes = random.sample(range(len(primes)), len(primes))
            order = f"<=[{','.join(map(str, primes))}]T({','.join(map(str, axes))})"
    has_copies = dims[-1] > 1
    tiles = ",".join(map(str, dims if has_copies else dims[:-1]))
    return f"{{devices=[{tiles}]{order}{' last_tile_dim_replicate' if has_copies else ''}}}"


def _primes(number: int) -> list[int]:
    return (
        [] if number == 1 else (lambda p: [p, *_primes(number // p)])(next(p for p in range(2, 99) if not number % p))
    )


def _program(pairs: Sequence[Pair]) -> str:
    """One module with all pairs, and a call of an unknown target, which stops the compiler after the partitioner."""
    lines = ["HloModule pairs", "ENTRY main {"]
    for at, (shape, source, target) in enumerate(pairs):
        origin = f'metadata={{op_name="pair{at}"}}'
        lines.append(f"  given{at} = {shape} parameter({at}), sharding={source}, {origin}")
        lines.append(
            f'  taken{at} = {shape} custom-call(given{at}), custom_call_target="Sharding", sharding={target}, {origin}'
        )
    lines.append(
        '  stop = f32[] custom-call(), custom_call_target="stop", api_version=API_VERSION_TYPED_FFI, '
        "backend_config={}, sharding={replicated}"
    )
    shapes = ", ".join([*(shape for shape, _, _ in pairs), "f32[]"])
    names = ", ".join([*(f"taken{at}" for at in range(len(pairs))), "stop"])
    shardings = ", ".join([*(target for _, _, target in pairs), "{replicated}"])
    lines.append(f"  ROOT all = ({shapes}) tuple({names}), sharding={{{shardings}}}")
    return "\n".join([*lines, "}"])


def _main(devices: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FLAGS"] = (
            f"--xla_force_host_platform_device_count={devices} --xla_dump_to={folder} --xla_dump_hlo_as_text "
            "--xla_dump_hlo_pass_re=spmd-partitioning"
        )
        from jaxlib import _hlo, _jax, xla_client

        module = _hlo.hlo_module_from_text(_program(json.load(sys.stdin)))
        client = xla_client.make_cpu_client()
        options = _jax.CompileOptions()
        options.num_replicas, options.num_partitions = 1, devices
        options.executable_build_options.use_spmd_partitioning = True
        program = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
        try:
            client.compile_and_load(program, _jax.DeviceList(tuple(client.local_devices())), options)
        except _jax.JaxRuntimeError as error:
            if "stop" not in str(error):
                raise
        [dump] = Path(folder).glob("*after_spmd-partitioning*.txt")
        sys.stdout.write(dump.read_text())


if __name__ == "__main__":
    _main(int(sys.argv[1]))

"""Compiles programs in jax before and after an edit that a rule advises: `python advice_programs.py TARGET [NAME…]`, JSON on stdout.

TARGET is cpu, tpu, or gpu. Nothing is run, and no accelerator is needed. The edits are in the modules named in FAMILIES.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

FAMILIES = ("advice_of_layouts", "advice_of_memory", "advice_of_fusions", "advice_of_collectives", "advice_of_types")
TOPOLOGIES = {1: "v5e:1x1", 4: "v5e:2x2"}
OPTIONS: Mapping[str, Mapping[str, Any]] = {"gpu": {"xla_gpu_autotune_level": 0}}


class Program(NamedTuple):
    """A function, its arguments, arguments of `jax.jit`, options of the compiler, and whether x64 is enabled."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    jit: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    x64: bool = False


class Target(NamedTuple):
    """Where to compile for: cpu, tpu, or gpu."""

    name: str

    def mesh(self, *sizes: int, names: Sequence[str] = ("d",)) -> Mesh:
        """A mesh with axes of these sizes."""
        count = int(np.prod(sizes))
        return Mesh(np.array(devices(self.name, count)[:count]).reshape(sizes), tuple(names))

    def array(
        self, *sizes: int, dtype: Any = "float32", spec: PartitionSpec | None = None, mesh: Mesh | None = None
    ) -> Any:
        """An argument, by default on one device."""
        sharding = NamedSharding(self.mesh(1) if mesh is None else mesh, spec or PartitionSpec())
        return jax.ShapeDtypeStruct(sizes, dtype, sharding=sharding)


Edit = Callable[[Target], tuple[Program, Program]]
EDITS: dict[str, dict[str, Edit]] = {"cpu": {}, "tpu": {}, "gpu": {}}


def edit(name: str, *targets: str) -> Callable[[Edit], Edit]:
    """Registers a program before and after an edit, under the code of a rule and more if that has several."""

    def register(made: Edit) -> Edit:
        for target in targets:
            EDITS[target][name] = made
        return made

    return register


@cache
def devices(target: str, count: int) -> Sequence[Any]:
    """At least `count` devices of a target."""
    found: Sequence[Any]
    if target == "cpu":
        found = jax.devices("cpu")
    elif target == "gpu":
        found = importlib.import_module("compiling").devices_of("gpu", "h100:4")  # of fixtures/
    else:
        one = {"chips_per_host_bounds": (1, 1, 1)} if count == 1 else {}
        found = topologies.get_topology_desc(TOPOLOGIES[1 if count == 1 else 4], "tpu", **one).devices
    return found


def compiled(program: Program, target: str) -> dict[str, Any]:
    """The texts before and after optimizations, and what the compiler says of memory and costs, in bytes."""
    jax.config.update("jax_enable_x64", program.x64)
    with tempfile.TemporaryDirectory() as place:
        dumps = {"xla_dump_to": place, "xla_dump_hlo_as_text": True}
        lowered = jax.jit(program.function, **program.jit).lower(*program.arguments)
        executable = lowered.compile(compiler_options={**dumps, **OPTIONS.get(target, {}), **program.options})
        texts = {stage: _text(Path(place), stage) for stage in ("before", "after")}
    stats = executable.memory_analysis()
    sizes = {kind: getattr(stats, f"{kind}_size_in_bytes") for kind in ("argument", "output", "alias", "temp")}
    total = sizes["argument"] + sizes["output"] - sizes["alias"] + sizes["temp"]
    costs = executable.cost_analysis() if target != "gpu" else {}
    return {**texts, **sizes, "total": total, "accessed": costs.get("bytes accessed", 0.0)}


def _text(place: Path, stage: str) -> str:
    """The largest module: an execution may need small ones as well."""
    return max((each.read_text() for each in place.glob(f"*{stage}_optimizations.txt")), key=len)


def main(target: str, *names: str) -> None:
    """Compiles the named edits of a target, or every one."""
    for family in FAMILIES:
        importlib.import_module(family)
    found: dict[Edit, dict[str, dict[str, Any]]] = {}
    chosen = {name: made for name, made in EDITS[target].items() if not names or name in names}
    for make in chosen.values():
        if make not in found:
            before, after = make(Target(target))
            found[make] = {"before": compiled(before, target), "after": compiled(after, target)}
    print(json.dumps({name: found[make] for name, make in chosen.items()}))


if __name__ == "__main__":
    # Families register with the module of this name, not with the script.
    importlib.import_module("advice_programs").main(*sys.argv[1:])

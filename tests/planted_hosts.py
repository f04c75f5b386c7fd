"""Jobs of several hosts as texts: one program in healthy forms, and one host with a planted divergence.

The forms differ in what JAX and XLA let differ between healthy hosts: the number of a module, names, paths, source
lines in the metadata, the order of computations, and which small programs a host has besides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

HANGS = ("shape", "order", "missing", "groups", "channel", "module", "trips")
KINDS = (*HANGS, "constant", "flag")
DEVICES = 8
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "collective-permute")
_GROUPS = ("{{0,1,2,3,4,5,6,7}}", "{{0,1,2,3},{4,5,6,7}}", "{{0,4},{1,5},{2,6},{3,7}}", "{{0,2,4,6},{1,3,5,7}}")


@dataclass(frozen=True)
class Layer:
    """One layer: a constant is added, and a collective communicates the sum."""

    rows: int
    constant: float
    kind: str
    groups: int
    channel: int
    has_collective: bool = True


@dataclass(frozen=True)
class Program:
    """A program of independent layers, in the order of the schedule; the last is in a loop."""

    name: str
    layers: tuple[Layer, ...]
    trips: int = 3


def random_program(random: Random, name: str = "jit_step") -> Program:
    """A program of 3 to 6 layers with different channels."""
    layers = tuple(
        Layer(
            8 * random.randint(1, 9), random.randint(1, 99), random.choice(_COLLECTIVES), random.randrange(4), channel
        )
        for channel in range(1, random.randint(4, 7))
    )
    return Program(name, layers)


def planted(random: Random, program: Program, kind: str) -> tuple[Program, int]:
    """The program with a divergence of a kind, and the index of the first layer that differs."""
    layers = list(program.layers)
    at = random.randrange(len(layers) - 1)
    layer = layers[at]
    match kind:
        case "shape":
            layers[at] = replace(layer, rows=layer.rows + 8)
        case "order":  # not with the loop, which is another program
            at = random.randrange(len(layers) - 2)
            layers[at], layers[at + 1] = layers[at + 1], layers[at]
        case "missing":
            layers[at] = replace(layer, has_collective=False)
        case "groups":
            if layer.kind == "collective-permute":
                layers[at] = replace(layer, groups=layer.groups ^ 1)
            else:
                layers[at] = replace(layer, groups=(layer.groups + 1) % 4)
        case "channel":
            layers[at] = replace(layer, channel=99)
        case "constant":
            layers[at] = replace(layer, constant=layer.constant + 0.5)
        case "trips":
            return replace(program, trips=program.trips + 1), len(layers) - 1
    return replace(program, layers=tuple(layers)), at


def _collective(layer: Layer, name: str, operand: str, line: int) -> str:
    rows, kind, groups = layer.rows, layer.kind, _GROUPS[layer.groups]
    size = {0: 8, 1: 4, 2: 2, 3: 4}[layer.groups]
    metadata = f'metadata={{op_name="jit(step)/{kind}" source_file="PATH" source_line={line}}}'
    if not layer.has_collective:
        return f"%{name} = f32[{rows},16]{{1,0}} copy(%{operand}), {metadata}"
    if kind == "collective-permute":
        pairs = "{{0,1},{1,2},{2,3},{3,0}}" if layer.groups % 2 else "{{0,4},{4,0}}"
        form = f"f32[{rows},16]{{1,0}} {kind}(%{operand}), channel_id={layer.channel}, source_target_pairs={pairs}"
        return f"%{name} = {form}, {metadata}"
    common = f"channel_id={layer.channel}, replica_groups={groups}, use_global_device_ids=true"
    if kind == "all-reduce":
        return f"%{name} = f32[{rows},16]{{1,0}} {kind}(%{operand}), {common}, to_apply=%add, {metadata}"
    result = rows * size if kind == "all-gather" else rows // size
    more = ", to_apply=%add" if kind == "reduce-scatter" else ""
    return f"%{name} = f32[{result},16]{{1,0}} {kind}(%{operand}), {common}, dimensions={{0}}{more}, {metadata}"


def text_of(program: Program) -> str:
    """The program as a scheduled module."""
    body, results, line = list[str](), list[str](), 10
    *straight, looped = program.layers
    for number, layer in enumerate(straight):
        line += 3
        shape = f"f32[{layer.rows},16]{{1,0}}"
        metadata = f'metadata={{op_name="jit(step)/add" source_file="PATH" source_line={line}}}'
        body += [
            f"%x.{number} = {shape} parameter({number})",
            f"%c.{number} = f32[] constant({layer.constant})",
            f"%b.{number} = {shape} broadcast(%c.{number}), dimensions={{}}",
            f"%s.{number} = {shape} add(%x.{number}, %b.{number}), {metadata}",
            _collective(layer, f"r.{number}", f"s.{number}", line + 1),
        ]
        results.append(f"%r.{number}")
    count = len(straight)
    shape = f"f32[{looped.rows},16]{{1,0}}"
    inside = replace(looped, kind="all-reduce")
    carried = f"(s32[], {shape})"
    loop = 'backend_config={"known_trip_count":{"n":"TRIPS"}}'.replace("TRIPS", str(program.trips))
    body += [
        f"%x.{count} = {shape} parameter({count})",
        "%zero = s32[] constant(0)",
        f"%init = {carried} tuple(%zero, %x.{count})",
        f"%loop = {carried} while(%init), condition=%cond, body=%body, {loop}",
        f"%r.{count} = {shape} get-tuple-element(%loop), index=1",
    ]
    results.append(f"%r.{count}")
    shapes = [re.search(rf"%{each[1:]} = (\S+) ", "\n".join(body))[1] for each in results]  # type: ignore[index]
    body.append(f"ROOT %out = ({', '.join(shapes)}) tuple({', '.join(results)})")
    lines = "\n  ".join(body)
    return f"""HloModule {program.name}, is_scheduled=true, num_partitions={DEVICES}

%add (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}}

%body (carried: {carried}) -> {carried} {{
  %carried = {carried} parameter(0)
  %i = s32[] get-tuple-element(%carried), index=0
  %v = {shape} get-tuple-element(%carried), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  {_collective(inside, "inner", "v", line + 4)}
  ROOT %both = {carried} tuple(%next, %inner)
}}

%cond (state: {carried}) -> pred[] {{
  %state = {carried} parameter(0)
  %k = s32[] get-tuple-element(%state), index=0
  %limit = s32[] constant({program.trips})
  ROOT %less = pred[] compare(%k, %limit), direction=LT
}}

ENTRY %main () -> () {{
  {lines}
}}
""".replace("ENTRY %main () -> ()", "ENTRY %main () -> (" + ", ".join(shapes) + ")")


def renamed(text: str, random: Random) -> str:
    """A healthy form of a text: other names, paths, source lines, and another order of the computations."""
    number = random.randint(100, 999)
    text = re.sub(r"%([\w.]+)", rf"%\1.h{number}", text) if random.random() < 0.5 else text
    text = text.replace("PATH", f"/host{number}/train.py")
    header, *computations, entry = text.rstrip("\n").split("\n\n")
    if random.random() < 0.3:
        first, *others = computations
        random.shuffle(others)
        computations = [first, *others]
    return "\n\n".join((header, *computations, entry)) + "\n"


def write_hosts(folder: Path, random: Random, count: int, kind: str | None = None) -> tuple[str, int]:
    """Writes the dumps of some hosts, and returns the name of the diverging host and the layer that differs."""
    program, helper = random_program(random), random_program(random, "jit_eval")
    odd, at = random.randrange(count), 0
    other = program
    if kind is not None:
        other, at = planted(random, program, kind)
    for host in range(count):
        place = folder / f"host{host}"
        place.mkdir(parents=True)
        number = random.randint(1, 30)
        is_odd = kind is not None and host == odd
        flags = 'xla_dump_to: "/dumps"\n' + ("xla_cpu_enable_fast_math: true\n" if is_odd and kind == "flag" else "")
        programs = [helper, other if is_odd else program]
        if is_odd and kind == "module":
            programs.pop()
        for each in programs:
            number += random.randint(1, 5)
            stem = f"module_{number:04}.{each.name}.cpu_after_optimizations.txt"
            (place / stem).write_text(renamed(text_of(each), random))
            (place / f"module_{number:04}.{each.name}.debug_options").write_text(flags)
    return f"host{odd}", at

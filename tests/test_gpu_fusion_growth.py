"""The work of GPU fusion grows with the module: times of pairs are counted, as clocks differ between machines."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.fusion import gpu_work
from hlo_cli.analysis.fusion.gpu_model import KernelModel, KernelTime
from hlo_cli.analysis.fusion.gpu_work import Work, WorkCounter
from hlo_cli.analysis.fusion.mutable_graph import Node, VisitOrder, mutable_graph_of
from hlo_cli.transform.fusion.fused_nodes import create_fusion, merge_producer
from hlo_cli.transform.fusion.gpu_fusion import gpu_fuse
from hlo_cli.transform.rewriting import ModuleNames

F = "f32[1024,512]"


def _chain(count: int) -> list[str]:
    return [f"v{k} = {F} negate({f'v{k - 1}' if k else 'p'})" for k in range(count)]


def _users(count: int) -> list[str]:
    """One value that `count // 2` sums read, each with an operand of its own."""
    sums = ((f"r{k} = {F} tanh(q)", f"v{2 * k + 1} = {F} add(x, r{k})") for k in range(count // 2))
    return [f"x = {F} negate(p)", *(line for pair in sums for line in pair)]


@pytest.mark.slow
@pytest.mark.parametrize("lines", [_chain, _users])
def test_twice_the_module_asks_for_twice_the_times(
    lines: Callable[[int], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [0]
    real = KernelModel.fused_time

    def counted(model: KernelModel, producer: Node, consumer: Node, *, keeps_producer: bool = False) -> KernelTime:
        asked[0] += 1
        return real(model, producer, consumer, keeps_producer=keeps_producer)

    monkeypatch.setattr(KernelModel, "fused_time", counted)
    counts = []
    for size in (100, 200):
        asked[0] = 0
        made = lines(size)
        results = [line.split()[0] for line in made if line[0] == "v"]
        used = f'c = {F} custom-call({", ".join(results)}), custom_call_target="library"'
        text = "\n".join([f"p = {F} parameter(0)", f"q = {F} parameter(1)", *made, used, f"ROOT t = ({F}) tuple(c)"])
        gpu_fuse(parse_module(f"HloModule m\nENTRY e {{\n{text}\n}}"), "h100")
        counts.append(asked[0])
    assert counts[0] > 40
    assert counts[1] < 2.3 * counts[0], counts


def _updates(count: int) -> str:
    """A chain of updates in place, which become one kernel."""
    lines = ["p = f32[1024,8] parameter(0)", "u = f32[1,8] parameter(1)", "z = s32[] parameter(2)"]
    lines += [f"v{k} = f32[1024,8] dynamic-update-slice({f'v{k - 1}' if k else 'p'}, u, z, z)" for k in range(count)]
    text = "\n".join([*lines, f"ROOT r = f32[1024,8] copy(v{count - 1})"])
    return f"HloModule m\nENTRY e {{\n{text}\n}}"


def test_a_kernel_that_grows_by_one_operation_is_not_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    added = [0]
    real = gpu_work._GrowingWork._add

    def counted(work: gpu_work._GrowingWork, node: Node, operands: tuple[Node, ...], place: int) -> None:
        added[0] += 1
        real(work, node, operands, place)

    monkeypatch.setattr(gpu_work._GrowingWork, "_add", counted)
    counts = []
    for size in (50, 100):
        added[0] = 0
        assert len(gpu_fuse(parse_module(_updates(size)), "h100").fused) == size
        counts.append(added[0])
    assert counts[0] >= 50
    assert counts[1] < 2.3 * counts[0], counts


def _parts(work: Work) -> tuple[object, ...]:
    """Work with the order of its groups, by which sums in single precision differ."""
    groups = [[*each] for each in (*work.groups, work.root_groups or {})]
    used = [(work.group_use or {}).get(group) for each in groups for group in each]
    return work.flops, work.reads, work.written, work.utilization, work.size, work.copies, groups, used


@pytest.mark.parametrize("seed", range(4))
def test_work_of_a_kernel_that_grew_is_that_of_one_found_as_it_is(seed: int) -> None:
    random = Random(seed)
    module = parse_module(_random_graph(60, random))
    graph, names = mutable_graph_of(module.entry), ModuleNames(module)
    assert graph.root is not None
    fusion = create_fusion(graph, graph.root, "kLoop", names, name="fusion", body_name="f")
    counter = WorkCounter("sm_90")
    for _ in range(120):
        producers = [operand for operand in fusion.operands if operand.opcode != "parameter"]
        if not producers:
            break
        merge_producer(graph, fusion, random.choice(producers), names)
        work = counter.of(fusion)
        assert _parts(work) == _parts(WorkCounter("sm_90").of(fusion))
        # Each partial sum is rounded.
        cycles = np.array(counter._growing[fusion]._terms, np.float32)
        assert work.flops == int(np.add.accumulate(cycles)[-1])
    assert fusion.body is not None
    assert len(fusion.body.nodes) > 50


def _random_graph(count: int, random: Random) -> str:
    """Operations on values before them, large enough that single precision rounds their cycles."""
    shape, part = "f32[8191,1023]", "f32[8190,1023]"
    names, lines = ["p"], [f"p = {shape} parameter(0)", "z = f32[] constant(0)"]
    for k in range(count):
        one, other = random.choices(names[-12:], k=2)
        operation = random.choice(("add", "power", "divide", "reverse", "slice"))
        if operation == "reverse":
            lines.append(f"v{k} = {shape} reverse({one}), dimensions={{0}}")
        elif operation == "slice":
            lines.append(f"s{k} = {part} slice({one}), slice={{[1:8191], [0:1023]}}")
            lines.append(f"v{k} = {shape} pad(s{k}, z), padding=1_0x0_0")
        else:
            lines.append(f"v{k} = {shape} {operation}({one}, {other})")
        names.append(f"v{k}")
    lines.append(f"ROOT r = {shape} add({names[-2]}, {names[-1]})")
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"


def test_an_order_takes_any_number_of_operations_at_one_place() -> None:
    count = 100
    lines = [f"v{k} = s8[] add(p, {f'v{k - 1}' if k else 'p'})" for k in range(count)]
    text = "p = s8[] parameter(0)\n" + "\n".join(lines) + f"\nROOT r = s8[] add(v{count - 1}, p)"
    nodes = [*mutable_graph_of(parse_module(f"ENTRY e {{ {text} }}").entry).nodes]
    parameter, *operations = nodes
    order = VisitOrder([operations[-1], operations[-2], parameter])
    for node in operations[-2::-1]:
        order.insert(node, node.operands)
    assert [order.place(operations[::-1], node) for node in operations] == [*range(count, -1, -1)]

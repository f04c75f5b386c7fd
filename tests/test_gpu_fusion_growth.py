"""The work of GPU fusion grows with the module: times of pairs are counted, as clocks differ between machines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.fusion.gpu_model import KernelModel, KernelTime
from hlo_cli.analysis.fusion.mutable_graph import Node
from hlo_cli.transform.fusion.gpu_fusion import gpu_fuse

F = "f32[1024,512]"


def _chain(count: int) -> list[str]:
    return [f"v{k} = {F} negate({f'v{k - 1}' if k else 'p'})" for k in range(count)]


def _users(count: int) -> list[str]:
    """One value that `count // 2` sums read, each with an operand of its own."""
    sums = ((f"r{k} = {F} tanh(q)", f"v{2 * k + 1} = {F} add(x, r{k})") for k in range(count // 2))
    return [f"x = {F} negate(p)", *(line for pair in sums for line in pair)]


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

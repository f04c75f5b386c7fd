"""Times of the kernels that priority fusion left apart, from its dump: the fusions are replayed, the times computed."""

from __future__ import annotations

from collections.abc import Collection

from hlo_cli.analysis.fusion.gpu_model import LAUNCH, KernelModel, KernelTime
from hlo_cli.analysis.fusion.gpu_rules import can_be_fused, is_triton
from hlo_cli.analysis.fusion.mutable_graph import Node, graph_of
from hlo_cli.analysis.hardware.chip_specs import gpu_device
from hlo_cli.ir.compiler_messages import FusedStep, FusionProcess, PriorityStep
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.module import Module
from hlo_cli.transform.desugar import desugar
from hlo_cli.transform.fusing.names import ModuleNames
from hlo_cli.transform.fusing.replay import Replay
from hlo_cli.transform.gpu_fuse import gpu_computations

KernelTimes = tuple[KernelTime, KernelTime, KernelTime]


def kernels_of_dump(
    module: Module, process: FusionProcess, chip: str, producers: Collection[str]
) -> dict[str, tuple[int, dict[str, KernelTimes]]]:
    """For producers at the end of the pass that wrote `process`, of the module before it: the ticks that fusing saves,
    and for each consumer the times of the producer, of the consumer, and of both in one kernel.

    Producers of which the model does not know a consumer are missing.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = s8[2] parameter(0)  a = s8[2] not(p)  ROOT b = s8[2] not(a) }")
    >>> saved, times = kernels_of_dump(module, FusionProcess(()), "h100", ("a",))["a"]
    >>> saved, times["b"][2].emitter
    (3999, 'loop')
    """
    model = KernelModel(gpu_device(chip))
    found: dict[str, tuple[int, dict[str, KernelTimes]]] = {}
    with no_garbage_collection():
        module = desugar(module)
        graphs = [graph_of(each, module.source.text) for each in gpu_computations(module)]
        done = Replay(graphs, model, ModuleNames(module))
        for step in _steps_of(process, producers):
            done.fuse(step)
        for name in producers:
            producer = done.nodes.get(name)
            if producer is None or not _is_known(producer) or not all(map(_is_known, producer.users)):
                continue
            one = model.time(producer)
            times = {user.name: (one, model.time(user), model.fused_time(producer, user)) for user in producer.users}
            saved = LAUNCH + one.ticks + sum(other.ticks - both.ticks for _, other, both in times.values())
            found[name] = saved, times
    return found


def _steps_of(process: FusionProcess, producers: Collection[str]) -> list[FusedStep]:
    """The fusions that made the producers and their consumers what they are at the end."""
    wanted = set(producers)
    for step in process.steps:
        if isinstance(step, PriorityStep) and step.producer in wanted:
            wanted.update(step.consumers)
    needed: list[FusedStep] = []
    for each in reversed(process.steps):
        if isinstance(each, FusedStep) and each.fusion in wanted:
            wanted.update((each.producer, each.consumer))
            needed.append(each)
    return needed[::-1]


def _is_known(node: Node) -> bool:
    return can_be_fused(node) and not is_triton(node)

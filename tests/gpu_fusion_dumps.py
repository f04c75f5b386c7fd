"""Programs compiled for GPUs with what XLA wrote about their fusion, and the walk through its steps.

`fixtures/gpu_fusion/CHIP/PROGRAM/` holds modules before and after the two fusion passes, the steps of priority fusion
with its times and reasons, and the instruction ids of the proto; `fixtures/README.md` says how they were made.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hlo_cli import parse_module
from hlo_cli.analysis.fusion.gpu_model import KernelModel
from hlo_cli.analysis.fusion.gpu_rules import is_triton
from hlo_cli.analysis.fusion.mutable_graph import Node, mutable_graph_of
from hlo_cli.analysis.hardware.gpu_devices import gpu_device, gpu_devices
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape, TupleShape
from hlo_cli.transform.fusion.gpu_fusion import gpu_computations
from hlo_cli.transform.fusion.gpu_priority_fusion import PriorityFusion, Update
from hlo_cli.transform.rewriting import ModuleNames

HOME = Path(__file__).parent.parent / "fixtures" / "gpu_fusion"
CHIPS = {device.spec: name for name, device in gpu_devices().items() if device.is_checked}
"""Chips by the names of XLA's target files: those for which a plugin of JAX compiles."""
_TRITON = re.compile("SymbolicTile|Unsupported opcode|Only high padding")


@dataclass(frozen=True)
class Program:
    """One compiled program."""

    home: Path

    @property
    def chip(self) -> str:
        """Name of the chip it was compiled for."""
        return CHIPS[self.home.parent.name]

    @property
    def ids(self) -> dict[str, int] | None:
        """Instruction ids by name."""
        path = self.home / "ids.json.gz"
        return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else None

    def text(self, name: str) -> str:
        """One of the files."""
        return gzip.decompress((self.home / f"{name}.txt.gz").read_bytes()).decode()

    @property
    def has_triton(self) -> bool:
        """Whether it has fusions that Triton compiles, which are not modeled."""
        return "__triton" in self.text("before_priority_fusion")

    def __str__(self) -> str:
        return f"{self.home.parent.name}-{self.home.name}"


@dataclass(frozen=True)
class Step:
    """One step of XLA's dump."""

    kind: str
    producer: str
    consumers: tuple[str, ...]
    fusion: str = ""
    reason: str = ""
    us_fused: float = 0.0
    us_unfused: float = 0.0


def programs(home: Path = HOME) -> list[Program]:
    """The programs of a directory."""
    return [Program(path.parent) for path in sorted(home.glob("*/*/priority_fusion_dump.txt.gz"))]


def steps_of(text: str) -> list[Step]:
    """The steps of a priority_fusion_dump, a text proto of known form."""
    found = []
    for kind, body in re.findall(r"(?m)^  (fusion|update_priority|producer_ineligible) \{\n(.*?)^  \}", text, re.S):
        fields: dict[str, list[str]] = {}
        for name, value in re.findall(r"(?m)^    (\w+): (.*)$", body):
            fields.setdefault(name, []).append(json.loads(value.replace("\\'", "'")) if value[0] == '"' else value)
        found.append(
            Step(
                kind,
                fields["producer_name"][0],
                tuple(fields.get("consumer_names", fields.get("consumer_name", ()))),
                fields.get("fusion_name", [""])[0],
                fields.get("reason", [""])[0],
                float(fields.get("us_fused", [0])[0]),
                float(fields.get("us_unfused", [0])[0]),
            )
        )
    return found


Check = Callable[[Update, Step], None]
Chosen = Callable[[PriorityFusion, Node], None]


def follow(program: Program, check: Check, chosen: Chosen) -> None:
    """Runs our pass in XLA's order; `check` sees each of our updates with XLA's, `chosen` each producer it fused.

    The walk ends where a Triton fusion takes part.
    """
    steps = steps_of(program.text("priority_fusion_dump"))
    module = parse_module(program.text("before_priority_fusion"))
    names = ModuleNames(module)
    model = KernelModel(gpu_device(program.chip))
    at = 0
    waiting = list(gpu_computations(module))
    while waiting:
        computation = _computation_of(steps[at:], waiting)
        waiting.remove(computation)
        fusion = _fusion_of(computation, module.source.text, model, names)
        at = _compare(fusion, steps, at, check)
        while at < len(steps) and steps[at].kind == "fusion":
            nodes = {node.name: node for node in fusion.graph.nodes}
            producer = nodes.get(steps[at].producer)
            if producer is None:
                break
            if any(map(is_triton, (producer, *producer.users))):
                return
            chosen(fusion, producer)
            group = list(_group(steps, at))
            at += len(group)
            place = {step.consumers[0]: number for number, step in enumerate(group)}
            made = len(fusion.fused)
            into = sorted(fusion.consumers_of(producer), key=lambda node: place.get(node.name, -1))
            fusion.fuse_into(producer, into)
            done = fusion.fused[made:]
            assert [(one.name, other.name) for _, one, other in done] == [(s.producer, *s.consumers) for s in group]
            for (node, _, _), step in zip(done, group, strict=True):
                node.name = step.fusion
            at = _compare(fusion, steps, at, check)
    assert at == len(steps)


def _computation_of(steps: list[Step], waiting: list[Computation]) -> Computation:
    """The computation that XLA treats next, in an order that its text does not have."""
    names = [step.producer for step in steps[:1]]
    return next((each for each in waiting if any(i.name in names for i in each.instructions)), waiting[0])


def _fusion_of(computation: Computation, text: str, model: KernelModel, names: ModuleNames) -> PriorityFusion:
    graph = mutable_graph_of(computation, text)
    fusion = PriorityFusion(graph, model, names, {node: number for number, node in enumerate(graph.nodes)})
    fusion.start()
    return fusion


def _group(steps: list[Step], at: int) -> Iterator[Step]:
    """The steps that fuse one producer."""
    for step in steps[at:]:
        if step.kind != "fusion" or step.producer != steps[at].producer:
            return
        yield step


def _compare(fusion: PriorityFusion, steps: list[Step], at: int, check: Check) -> int:
    """Compares the updates of one round, which XLA writes in any order."""
    ours = {update.producer.name: update for update in fusion.updates}
    fusion.updates.clear()
    while ours and at < len(steps) and steps[at].producer in ours and steps[at].kind != "fusion":
        update = ours.pop(steps[at].producer)
        is_in_triton = any(map(is_triton, (update.producer, *update.consumers)))
        if not is_in_triton and not _TRITON.search(steps[at].reason):
            check(update, steps[at])
        at += 1
    assert not ours, "XLA did not write these"
    return at


Kernel = tuple[object, ...]


def named_kernels(module: Module) -> dict[str, list[tuple[str, Kernel]]]:
    """Fusions of each computation: name, and what two runs of a compiler have in common."""
    return {
        computation.name: [
            (node.name, _kernel(node))
            for node in mutable_graph_of(computation).nodes
            if node.body is not None and node.kind != "kCustom" and (node.users or computation.root is node.instruction)
        ]
        for computation in gpu_computations(module)
    }


def kernels_of(module: Module) -> dict[str, Counter[Kernel]]:
    """The fusions of each computation."""
    return {name: Counter(kernel for _, kernel in found) for name, found in named_kernels(module).items() if found}


def _kernel(node: Node) -> Kernel:
    body = node.body
    assert body is not None
    inside = sorted(each.opcode for each in body.operations if not (each is body.root and each.opcode == opcodes.TUPLE))
    operands = sorted(str(operand.shape) for operand in node.operands)
    return node.kind, body.root.opcode, tuple(inside), tuple(operands), _results(node.shape)


def _results(shape: Shape) -> tuple[str, ...]:
    return tuple(sorted(map(str, shape.elements))) if isinstance(shape, TupleShape) else (str(shape),)

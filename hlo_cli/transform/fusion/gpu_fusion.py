"""What would XLA:GPU fuse or leave apart in a module, for which chips, and how long do the kernels take?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from hlo_cli.analysis.cost.cost_analysis import NO_KERNELS
from hlo_cli.analysis.fusion.gemm_tiles import DotSizes, GemmTile, candidate_tiles, dot_sizes
from hlo_cli.analysis.fusion.gpu_emitters import bits_of, bytes_of
from hlo_cli.analysis.fusion.gpu_model import LAUNCH, TRITON, KernelModel, KernelTime
from hlo_cli.analysis.fusion.gpu_rules import GpuFusionRules, can_be_fused, is_fusible_bitcast, is_triton
from hlo_cli.analysis.fusion.gpu_work import TICKS_PER_SECOND, microseconds
from hlo_cli.analysis.fusion.mutable_graph import MutableGraph, Node, mutable_graph_of
from hlo_cli.analysis.fusion.triton_model import TritonKernelModel
from hlo_cli.analysis.hardware.gpu_devices import GpuDevice, gpu_device
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CALLERS
from hlo_cli.transform.fusion.fused_nodes import rebuild, uncalled_names, without_uncalled
from hlo_cli.transform.fusion.gemm_fusion import FusedDot, fuse_dots
from hlo_cli.transform.fusion.gemm_rewrites import (
    NodeMaker,
    SplitDot,
    hoist_bitcasts,
    is_dot_kernel,
    split_dots,
    swap_operands,
)
from hlo_cli.transform.fusion.gpu_passes import GpuPasses
from hlo_cli.transform.fusion.gpu_priority_fusion import UNDECIDED, PriorityFusion, identities_of
from hlo_cli.transform.fusion.softmax_fusion import FusedSoftmax, fuse_softmax
from hlo_cli.transform.rewriting import ModuleNames, check_rewritable
from hlo_cli.transform.sugar import desugar

# --- fusions and what stays apart ---
# Fusions that XLA:GPU would make in a module before its fusion passes, and the pairs that it would leave apart.
#
# Mirrors xla/service/gpu/fusion_pipeline.cc: priority fusion, merging of equal operations, and multi-output fusion.


Pass = Literal["split-k", "gemm", "hoist", "swap", "softmax", "priority", "multi-output"]
MATMULS: Final[tuple[Pass, ...]] = ("split-k", "gemm", "hoist", "swap")
TRITON_PASSES: Final[tuple[Pass, ...]] = (*MATMULS, "softmax")
BOTH: Final[tuple[Pass, ...]] = ("priority", "multi-output")
ALL: Final[tuple[Pass, ...]] = (*TRITON_PASSES, *BOTH)

EXACT: Final = "exact"
TIE: Final = "tie by names and order of the file"
BETWEEN: Final = "passes after those on dots are not modeled"
"""Before the passes on dots: those after them, such as float normalization, may change what is fused."""

# JAX's compute_on("gpu_stream:1") writes it: such a call only marks a stream, and its callee has kernels of its own.
_STREAM_ANNOTATION: Final = "_xla_stream_annotation"
_ENTERED: Final = frozenset((opcodes.WHILE, opcodes.CONDITIONAL, opcodes.FUSION))


class GpuFused(NamedTuple):
    """One fusion step: names of the producer or sibling, of the consumer that it was fused into, and of the fusion."""

    producer: str
    consumer: str
    fusion: str
    by: Pass


class DotTiles(NamedTuple):
    """Tiles that XLA tries for the kernel of a dot, in their order: without a GPU, it takes the first.

    `bits` are those of an element of the operands; there are no tiles for chips whose list is unknown.
    """

    kernel: str
    sizes: DotSizes
    bits: int
    tiles: tuple[GemmTile, ...]


@dataclass(frozen=True, slots=True)
class GpuFusion:
    """A module with the fusions of XLA:GPU, the steps, and for each fusion how certain it is: `EXACT`, `TIE`, `TRITON`,
    `BETWEEN`.

    All fusions of a computation are `UNDECIDED` if priority fusion was ended there, and may grow; `undecided` are the
    names of such computations. `times` is the time of all kernels in microseconds, each run once, before and after, by
    XLA's model. `splits`, `dots`, and `swapped` are what became of dots of a module from before the passes on them, and
    `tiles` those that XLA tries for each kernel of a dot; `softmaxes` are its normalizations.
    """

    module: Module
    fused: tuple[GpuFused, ...]
    certainty: dict[str, str]
    times: tuple[float, float] = (0.0, 0.0)
    undecided: tuple[str, ...] = ()
    splits: tuple[SplitDot, ...] = ()
    dots: tuple[FusedDot, ...] = ()
    swapped: tuple[str, ...] = ()
    tiles: tuple[DotTiles, ...] = ()
    softmaxes: tuple[FusedSoftmax, ...] = ()


class GpuDecision(NamedTuple):
    """A producer and a consumer that stay apart, and why.

    Either there is a `reason` in XLA's words, of this consumer or of `blocker`, another one: XLA fuses a producer into
    all its users or none. Or all times are known: of the producer with all its users, in microseconds, fused and apart.
    The kernels are those of the producer, the consumer, and both as one. `saved_bytes` is the traffic between the two.
    """

    producer: Instruction
    consumer: Instruction
    names: tuple[str, str]
    reason: str | None
    blocker: str | None
    us_fused: float | None
    us_unfused: float | None
    kernels: tuple[KernelTime, KernelTime, KernelTime] | None
    saved_bytes: int


def gpu_computations(module: Module) -> Iterator[Computation]:
    """Computations in which XLA:GPU makes fusions: not those that an operation applies (`GetFusibleComputations`).

    >>> from hlo_cli import parse_module
    >>> text = '''f { ROOT p = f32[] parameter(0) }
    ... ENTRY e { a = f32[] parameter(0)  ROOT r = f32[] call(a), to_apply=f }'''
    >>> [computation.name for computation in gpu_computations(parse_module(text))]
    ['e']
    """
    skipped: set[Computation] = set()
    for instruction in module.instructions:
        if instruction.opcode not in CALLERS:
            continue
        is_stream = instruction.opcode == opcodes.CALL and _STREAM_ANNOTATION in instruction.raw[1]
        # Fusion bodies are fused already, and applied computations are no kernels.
        if instruction.opcode == opcodes.FUSION or (instruction.opcode not in _ENTERED and not is_stream):
            skipped.update(instruction.called_computations)
    for computation in module.computations:
        if computation.root is not None and computation not in skipped:
            yield computation


def gpu_fuse(module: Module, chip: str, *, passes: tuple[Pass, ...] = ALL) -> GpuFusion:
    """Fuses as XLA:GPU does for a chip; HloError for a chip without figures.

    The passes on dots are skipped in a module that has fusions or calls of cuBLAS: they were run before.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = f32[9] add(n, p) }"
    >>> fusion = gpu_fuse(parse_module(text), "h100")
    >>> print(fusion.module.entry.root, fusion.fused[0].producer, fusion.certainty)
    <fusion fusion> n {'fusion': 'exact'}
    """
    model = TritonKernelModel(gpu_device(chip))
    with no_garbage_collection():
        check_rewritable(module)
        return _Pipeline(desugar(module), model, passes).run()


def gpu_fused_module(module: Module, chip: str) -> Module | None:
    """The module as `gpu_fuse` leaves it, without a word on how certain that is; None if it takes too many steps.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = f32[9] add(n, p) }"
    >>> print(gpu_fused_module(parse_module(text), "h100").entry.root)
    <fusion fusion>
    """
    model = TritonKernelModel(gpu_device(chip))
    with no_garbage_collection():
        check_rewritable(module)
        pipeline = _Pipeline(desugar(module), model, ALL)
        graphs = pipeline.fuse()
        return None if pipeline.run_passes.undecided else pipeline.module_of(graphs)


class _Pipeline:
    """The fusion passes over a module."""

    def __init__(self, module: Module, model: TritonKernelModel, passes: tuple[Pass, ...]) -> None:
        self.module = module
        self.model = model
        self.passes = passes
        self.fused: list[GpuFused] = []
        self.before = 0
        self.splits: list[SplitDot] = []
        self.dots: list[FusedDot] = []
        self.swapped: list[str] = []
        self.tiles: list[DotTiles] = []
        self.softmaxes: list[FusedSoftmax] = []
        self.module = self._with_triton()
        self.run_passes = GpuPasses(
            self.module, model, is_priority="priority" in passes, is_multi_output="multi-output" in passes
        )

    def _triton_passes(self) -> tuple[Pass, ...]:
        """The passes that make kernels of Triton, as far as they are to be run and have not been."""
        if self.model.device.is_rocm:
            return ()
        wanted = tuple(each for each in self.passes if each in TRITON_PASSES)
        # What is asked for alone is run on whatever there is.
        if len(self.passes) == 1:
            return wanted
        made = (each for each in self.module.instructions if each.opcode in (opcodes.FUSION, opcodes.CUSTOM_CALL))
        fusions = [each for each in made if each.opcode == opcodes.FUSION or _is_of_cublas(each)]
        if not fusions:
            return wanted
        kinds = (each.attribute("backend_config") or "" for each in fusions)
        is_early = all(
            "__triton_gemm" in kind or _is_of_cublas(each) for each, kind in zip(fusions, kinds, strict=True)
        )
        return tuple(each for each in wanted if each == "softmax" and is_early)

    def _with_triton(self) -> Module:
        """Runs the passes that make kernels of Triton on all computations."""
        passes = self._triton_passes()
        if not passes:
            return self.module
        text, device = self.module.source.text, self.model.device
        maker = NodeMaker(ModuleNames(self.module))
        graphs = {each: mutable_graph_of(each, text) for each in gpu_computations(self.module)}
        for graph in graphs.values():
            if "split-k" in passes:
                self.splits += split_dots(graph, device, maker)
            if "gemm" in passes:
                self.dots += fuse_dots(graph, device, maker)
            if "hoist" in passes:
                hoist_bitcasts(graph, maker)
            if "swap" in passes:
                self.swapped += swap_operands(graph, maker)
            if "softmax" in passes:
                self.softmaxes += fuse_softmax(graph, device, maker)
            self.tiles += (_tiles_of(node, device) for node in graph.nodes if is_dot_kernel(node))
        for dot in self.dots:
            operations = (name for name in dot.operations if dot.fusion and name != dot.dot)
            self.fused += (GpuFused(name, dot.dot, dot.fusion, "gemm") for name in operations)
        if not (self._has_triton_kernels() or self.splits or self.swapped or passes == ("hoist",)):
            return self.module
        # A pass that is run alone leaves what it does not call, as XLA's own.
        kept = uncalled_names(self.module)
        module = replace(self.module, computations=(*maker.computations, *self.module.computations))
        return without_uncalled(rebuild(module, graphs), names=kept)

    def _has_triton_kernels(self) -> bool:
        """Whether the passes made kernels of Triton."""
        return any(dot.fusion for dot in self.dots) or any(each.fusion for each in self.softmaxes)

    def fuse(self) -> dict[Computation, MutableGraph]:
        """Runs the passes on all computations."""
        text = self.module.source.text
        graphs = {each: mutable_graph_of(each, text) for each in gpu_computations(self.module)}
        self.before = sum(self._time(graph) for graph in graphs.values())
        if "priority" in self.passes:
            for graph in graphs.values():
                for node, producer, consumer in self.run_passes.fuse_by_priority(graph):
                    self.fused.append(GpuFused(producer.name, consumer.name, node.name, "priority"))
        if "multi-output" in self.passes:
            for graph in graphs.values():
                for other, into in self.run_passes.fuse_with_several_results(graph):
                    self.fused.append(GpuFused(other.name, into.name, into.name, "multi-output"))
        return graphs

    def module_of(self, graphs: Mapping[Computation, MutableGraph]) -> Module:
        """The module with these computations."""
        # Without the second pass, only what fusion has made uncalled is removed.
        kept = frozenset[str]() if "multi-output" in self.passes else uncalled_names(self.module)
        return without_uncalled(rebuild(self.module, graphs), names=kept)  # XLA removes them between the passes

    def run(self) -> GpuFusion:
        """Runs the passes on all computations, then builds the module."""
        graphs = self.fuse()
        after = sum(self._time(graph) for graph in graphs.values())
        certainty: dict[str, str] = {}
        for graph in graphs.values():
            fusions = [node for node in graph.nodes if node.body is not None and node.kind != "kCustom"]
            if graph in self.run_passes.undecided:
                certainty.update((node.name, UNDECIDED) for node in fusions)
                continue
            ties = self.run_passes.ties(graph)
            # XLA normalizes types and layouts between the two.
            is_whole = not self._has_triton_kernels()
            certainty.update((node.name, _certainty_of(node, ties) if is_whole else BETWEEN) for node in fusions)
        undecided = tuple(graph.computation.name for graph in graphs.values() if graph in self.run_passes.undecided)
        times = microseconds(self.before), microseconds(after)
        return GpuFusion(
            self.module_of(graphs),
            tuple(self.fused),
            certainty,
            times,
            undecided,
            tuple(self.splits),
            tuple(self.dots),
            tuple(self.swapped),
            tuple(self.tiles),
            tuple(self.softmaxes),
        )

    def _time(self, graph: MutableGraph) -> int:
        """Ticks of all kernels of a computation that the model knows."""
        kernels = (node for node in graph.nodes if _is_kernel(node, self.model))
        return sum(LAUNCH + self.model.time(node).ticks for node in kernels)


def _tiles_of(kernel: Node, device: GpuDevice) -> DotTiles:
    """The tiles that XLA tries for a kernel of a dot."""
    assert kernel.body is not None
    dot = next(node for node in kernel.body.nodes if node.opcode == opcodes.DOT)
    return DotTiles(kernel.name, dot_sizes(dot), bits_of(dot.operands[0].shape), tuple(candidate_tiles(dot, device)))


def _is_of_cublas(call: Instruction) -> bool:
    return (call.string("custom_call_target") or "").startswith("__cublas$")


def _certainty_of(node: Node, ties: set[Node]) -> str:
    if any(map(is_triton, (*node.operands, *node.users))):
        return TRITON
    return TIE if node in ties else EXACT


def gpu_decisions(module: Module, chip: str) -> list[GpuDecision]:
    """The pairs that XLA:GPU's priority fusion leaves apart in a module, with most at stake first.

    The pass is run first, unless the module is scheduled: then it has been fused already.

    >>> from hlo_cli import parse_module
    >>> text = '''ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = (f32[9], f32[9]) sort(n, n),
    ... dimensions={0}, to_apply=c }'''
    >>> [(each.names, each.reason) for each in gpu_decisions(parse_module(text), "h100")]
    [(('n', 's'), 'the consumer is not fusible')]
    """
    model = TritonKernelModel(gpu_device(chip))
    decisions: list[GpuDecision] = []
    with no_garbage_collection():
        module = desugar(module)
        names = ModuleNames(module)
        for computation in gpu_computations(module):
            graph = mutable_graph_of(computation, module.source.text)
            fusion = PriorityFusion(graph, model, names, identities_of(graph)[0])
            if not module.is_scheduled:
                fusion.run()
            decisions += _apart(graph, GpuFusionRules(model, graph.root), model, is_decided=fusion.is_decided)
    return sorted(decisions, key=lambda each: (-each.saved_bytes, *each.names))


def _apart(
    graph: MutableGraph, rules: GpuFusionRules, model: KernelModel, *, is_decided: bool
) -> Iterator[GpuDecision]:
    """Decisions on the pairs of kernels that are left; `UNDECIDED` where nothing forbids what a run did not get to."""
    for producer in graph.nodes:
        if not _is_producer(producer):
            continue
        users = list(producer.users)
        reasons = {user: rules.reason(producer, user) for user in users if not is_fusible_bitcast(user)}
        blocker = next((user for user, reason in reasons.items() if reason is not None), None)
        fused = unfused = None
        if blocker is None and can_be_fused(producer):
            fused = microseconds(sum(LAUNCH + model.fused_time(producer, user).ticks for user in users))
            apart = LAUNCH + model.time(producer).ticks + sum(LAUNCH + model.time(user).ticks for user in users)
            unfused = microseconds(apart)
        for user, reason in reasons.items():
            if not _is_consumer(user):
                continue
            kernels = None
            if reason is None:
                kernels = model.time(producer), model.time(user), model.fused_time(producer, user)
            shown = reasons[user if reason is not None or blocker is None else blocker]
            if shown is None and not is_decided:
                shown = UNDECIDED
            yield GpuDecision(
                producer.instruction,
                user.instruction,
                (producer.name, user.name),
                shown,
                blocker.name if reason is None and blocker is not None else None,
                fused,
                unfused,
                kernels,
                # Written by the producer and read by the consumer.
                2 * bytes_of(producer.shape),
            )


def _has_time(node: Node, model: TritonKernelModel) -> bool:
    """Whether the model knows a time: not of fusions for Triton with unknown tiles."""
    return not is_triton(node) or model.tiling_of(node) is not None


def _is_kernel(node: Node, model: TritonKernelModel) -> bool:
    """Whether a node is a kernel whose time the model knows."""
    free = (opcodes.CONSTANT, opcodes.BITCAST)
    return can_be_fused(node) and node.opcode not in free and _has_time(node, model)


def _is_producer(node: Node) -> bool:
    free = (opcodes.PARAMETER, opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE, opcodes.BITCAST)
    return bool(node.users) and node.opcode not in free


def _is_consumer(node: Node) -> bool:
    return node.opcode not in (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT)


# --- several chips ---
# What XLA:GPU would fuse for several chips: the pairs of instructions that only some of them have in one kernel.


# Opcodes without a kernel of their own.
_UNPAIRED = frozenset((opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST))


class ChipPair(NamedTuple):
    """A producer and a consumer of a module before fusion, and the chips for which XLA has them in one kernel."""

    producer: Instruction
    consumer: Instruction
    fused_on: frozenset[str]
    saving_bytes: int


def fusions_by_chip(module: Module, chips: Sequence[str]) -> dict[str, GpuFusion]:
    """The fusions that XLA would make for each chip; HloError for a chip without figures."""
    return {chip: gpu_fuse(module, chip) for chip in chips}


def pairs_by_chip(module: Module, fusions: Mapping[str, GpuFusion]) -> list[ChipPair]:
    """The pairs that are in one kernel on some of the chips, but not on all, those with most traffic first.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT s = f32[9] add(n, p) }")
    >>> pairs_by_chip(module, fusions_by_chip(module, ("h100", "a100-80gb")))
    []
    """
    kernels = {chip: _kernels_with(fusion) for chip, fusion in fusions.items()}
    pairs = []
    for producer, consumer in _edges(module):
        fused_on = frozenset(
            chip for chip, homes in kernels.items() if not _homes(homes, producer).isdisjoint(_homes(homes, consumer))
        )
        if 0 < len(fused_on) < len(fusions):
            pairs.append(ChipPair(producer, consumer, fused_on, 2 * bytes_of(producer.shape)))
    return sorted(pairs, key=lambda pair: (-pair.saving_bytes, pair.producer.name, pair.consumer.name))


def _edges(module: Module) -> Iterator[tuple[Instruction, Instruction]]:
    for computation in gpu_computations(module):
        for consumer in computation.instructions:
            if consumer.opcode in _UNPAIRED:
                continue
            for producer in dict.fromkeys(consumer.operands):
                if producer.opcode not in _UNPAIRED:
                    yield producer, consumer


def _homes(kernels: Mapping[str, set[str]], instruction: Instruction) -> set[str]:
    return kernels.get(instruction.name, {instruction.name})


def _kernels_with(fusion: GpuFusion) -> dict[str, set[str]]:
    """The fusions that have an instruction, by its name; those that were fused on are among them."""
    members: dict[str, dict[str, None]] = {}
    for step in fusion.fused:
        parts = members.setdefault(step.fusion, {})
        for name in (step.producer, step.consumer):
            # Parts of parts: a fusion has all that its producer and consumer had.
            parts.update(members.get(name) or {name: None})
    homes: dict[str, set[str]] = {}
    for name, parts in members.items():
        for part in parts:
            homes.setdefault(part, set()).add(name)
    return homes


# --- times of kernels ---
# Time of each kernel of a module on a GPU, by XLA's model, without those that it does not know.


# No launch: neither constant nor bitcast runs anything.
_WITHOUT_KERNEL = (opcodes.CONSTANT, opcodes.BITCAST)


@dataclass(frozen=True, slots=True)
class GpuKernelTimes:
    """Seconds of each kernel with its launch, by name, and the number of kernels that the model does not know."""

    seconds: dict[str, float]
    unknown: int

    @property
    def total(self) -> float:
        """Seconds of all known kernels, each run once."""
        return sum(self.seconds.values())


def gpu_kernel_times(module: Module, chip: str) -> GpuKernelTimes:
    """Times of the kernels of a module, each run once; HloError for a chip without figures.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  s = f32[9] sort(p), to_apply=c  ROOT n = f32[9] negate(s) }"
    >>> gpu_kernel_times(parse_module(text), "h100")
    GpuKernelTimes(seconds={'n': 1.00075e-06}, unknown=1)
    """
    model = TritonKernelModel(gpu_device(chip))
    seconds: dict[str, float] = {}
    unknown = 0
    for computation in gpu_computations(module):
        for node in mutable_graph_of(computation, module.source.text).nodes:
            if can_be_fused(node) and node.opcode not in _WITHOUT_KERNEL and _has_time(node, model):
                seconds[node.name] = (LAUNCH + model.time(node).ticks) / TICKS_PER_SECOND
            else:
                unknown += node.opcode not in NO_KERNELS
    return GpuKernelTimes(seconds, unknown)

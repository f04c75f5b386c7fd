"""What happened between two modules, in order, each statement with its rows; and how their numbers differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hlo_cli.analysis.cost.cost_analysis import main_costs_among
from hlo_cli.analysis.cost.counting import BYTES, EXACT, FLOPS
from hlo_cli.analysis.dataflow.dependencies import values_of
from hlo_cli.analysis.fusion.kernels import execution_cost, kernels_of
from hlo_cli.analysis.matching.module_diff import ModuleDiff
from hlo_cli.analysis.memory.assignment import peaks_from_definition
from hlo_cli.analysis.memory.buffers import order_independent_facts
from hlo_cli.analysis.query.module_summary import number_of_collectives
from hlo_cli.analysis.statements.interface import (
    collectives_of,
    find_arguments,
    find_collectives,
    find_donation,
    find_interface,
    find_results,
    find_sharding,
)
from hlo_cli.analysis.statements.operations import (
    find_compilation,
    find_details,
    find_header,
    find_metadata,
    find_operations,
    find_remainders,
    find_stage,
    find_values,
    is_movement,
    spread,
)
from hlo_cli.analysis.statements.shapes import (
    REARRANGING,
    claim_reshaped,
    claim_shapes,
    find_origins,
    find_products,
    find_sizes,
    find_types,
    shape_changes_of,
)
from hlo_cli.analysis.statements.statement import (
    ArgumentChange,
    Collectives,
    CompilationChange,
    DimensionChange,
    DonationChange,
    Draft,
    Evidence,
    Fold,
    HeaderChange,
    InterfaceChange,
    LayerChange,
    LoopChange,
    MetadataChange,
    OperationChange,
    ProductChange,
    ResultChange,
    ShardingChange,
    Statement,
    TripCountChange,
    TypeChange,
    ValueChange,
)
from hlo_cli.analysis.statements.user_program import (
    Program,
    find_layers,
    find_loops,
    find_rematerialization,
    find_trips,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import attributes_with
from hlo_cli.ir.shape import TupleShape

# --- metrics of a module ---
# Metrics of a module, for a first comparison of two modules.


@dataclass(frozen=True, slots=True)
class ModuleMetrics:
    """Size, cost, and memory use of a module; loop bodies count once, and the costs are those of XLA's cost analysis.

    Sizes of values are padded for the target; `padding_bytes` is their padding. `peak_bytes` is by memory space, in the
    order of the text if the module is not scheduled.
    """

    instructions: int
    computations: int
    kernels: int
    collectives: int
    flops: int
    bytes_accessed: int
    argument_bytes: int
    value_bytes: int
    padding_bytes: int
    peak_bytes: Mapping[int, int]


@no_garbage_collection()
def module_metrics(module: Module) -> ModuleMetrics:
    """Metrics of a module.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[9]{0:T(128)} parameter(0)  ROOT n = f32[9]{0:T(128)} negate(p) }"
    >>> metrics = module_metrics(parse_module(text))
    >>> metrics.kernels, metrics.argument_bytes, metrics.value_bytes, metrics.padding_bytes
    (1, 512, 1024, 952)
    """
    costs = list(main_costs_among(module.entry.instructions, rules=EXACT))
    # Context of an asynchronous operation is no memory of its own.
    values = [value for value in values_of(module) if not value.is_context]
    padded = sum(value.shape.padded_bytes for value in values)
    opcodes = Counter([instruction.opcode for instruction in module.instructions])
    return ModuleMetrics(
        instructions=module.instruction_count,
        computations=len(module.computations),
        kernels=sum(not kernel.is_transfer for kernel in kernels_of(module)),
        collectives=number_of_collectives(module, opcodes),
        flops=sum(round(cost.get(FLOPS, 0)) for cost in costs),
        bytes_accessed=sum(round(cost.get(BYTES, 0)) for cost in costs),
        argument_bytes=sum(parameter.shape.padded_bytes for parameter in module.entry.parameters),
        # Padding is that of tiles of layouts; on CPU and GPU without tiles it is 0.
        value_bytes=padded,
        padding_bytes=padded - sum(value.shape.logical_bytes for value in values),
        peak_bytes=_peaks(module),
    )


def _peaks(module: Module) -> Mapping[int, int]:
    """Peak of live bytes in each memory space with a buffer."""
    facts = order_independent_facts(module)
    peaks = peaks_from_definition(facts)
    return {space: peaks.get(space, 0) for space in sorted({buffer.space for buffer in facts.buffers})}


# --- numbers that are compared ---
# Numbers of a module that are compared: memory, work with all iterations of loops, and collectives by kind.


@dataclass(frozen=True, slots=True)
class ModuleNumbers:
    """Metrics of a module, and its flops and bytes accessed in one execution: loops count as often as they run.

    A loop of unknown trip count counts as one iteration. `collectives` are by kind, each in the text once.
    """

    metrics: ModuleMetrics
    flops: int
    bytes_accessed: int
    collectives: Mapping[str, Collectives]


@no_garbage_collection()
def numbers_of(module: Module) -> ModuleNumbers:
    """The numbers of a module.

    >>> from hlo_cli import parse_module
    >>> numbers = numbers_of(parse_module("ENTRY e { p = f32[9] parameter(0)  ROOT n = f32[9] negate(p) }"))
    >>> numbers.flops, numbers.bytes_accessed, numbers.collectives
    (9, 72, {})
    """
    metrics = module_metrics(module)
    total = execution_cost(module)
    collectives = {each.kind: each for each in collectives_of(module.instructions)}
    return ModuleNumbers(metrics, total.flops, total.bytes, collectives)


# --- the statements ---
# Statements about two modules: what happened, each statement with the rows of the diff that it explains.


@dataclass(frozen=True, slots=True)
class Statements:
    """What happened, most important first, and the rows that no statement explains."""

    ordered: tuple[Statement, ...]
    unexplained: Fold

    @property
    def folded(self) -> int:
        """The number of rows that statements explain."""
        return sum(each.fold.rows for each in self.ordered)


@no_garbage_collection()
def statements_of(comparison: ModuleDiff) -> Statements:
    """The statements about a diff; each row is in exactly one of them or left over.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.module_diff import diff
    >>> text = "HloModule m  ENTRY e { p = f32[8,4] parameter(0)  n = f32[8,4] negate(p)  ROOT s = f32[8,4] sine(n) }"
    >>> found = statements_of(diff(parse_module(text), parse_module(text.replace("8", "16"))))
    >>> first = found.ordered[0]
    >>> (first.change.before, first.change.after, first.shapes, first.fold.rows), found.unexplained.rows
    (('8', '16', 3, 3), 0)
    """
    evidence = Evidence(comparison)
    old, new = Program(comparison.before), Program(comparison.after)
    is_compiled = old.is_compiled and new.is_compiled
    # The order matters: causes claim rows first, and later finders see only what is open.
    changes = shape_changes_of(evidence)
    find_trips(evidence, changes)
    find_sharding(evidence, changes)
    find_origins(evidence, changes)
    find_sizes(evidence, changes, is_compiled=is_compiled)
    types = find_types(evidence, changes)
    claim_shapes(evidence, changes, types)
    if is_compiled:
        claim_reshaped(evidence, changes)
    find_layers(evidence)
    find_collectives(evidence)
    find_rematerialization(evidence)
    find_loops(evidence, old, new)
    find_products(evidence, types, is_compiled=is_compiled)
    find_arguments(evidence)
    find_results(evidence, changes, types)
    find_interface(evidence)
    find_donation(evidence)
    # Across stages every operation is another one, so only the stage is told.
    if old.is_compiled == new.is_compiled:
        find_operations(evidence, old, new, has_types=bool(types))
    else:
        find_stage(evidence)
    for is_added in (True, False):
        # Instructions without op_name are the compiler's; they follow the nearest cause.
        spread(evidence, is_added=is_added, ranks=(0, _MAX_RANK))
    _claim_used(evidence)
    _claim_operands(evidence)
    if is_compiled:
        find_compilation(evidence)
    find_values(evidence)
    _claim_operands(evidence)
    find_details(evidence)
    find_remainders(evidence)
    _claim_operands(evidence)
    find_metadata(evidence)
    _claim_carriers(evidence)
    find_header(evidence)
    told, rest = evidence.settle()
    return Statements(tuple(sorted(filter(_is_told, told), key=_importance)), rest)


# Below 60, where values begin: another constant adds no instructions nearby.
_MAX_RANK = 59


def _claim_used(evidence: Evidence) -> None:
    """Constants and broadcasts that only one module has belong to what changed in the instructions that use them."""
    of_row = {each.after: claims for each, claims in zip(evidence.diff.changed, evidence.claims, strict=True)}
    of_row |= {each.before: claims for each, claims in zip(evidence.diff.changed, evidence.claims, strict=True)}
    small = {
        each for is_added in (True, False) for each in evidence.unowned(is_added=is_added) if each.opcode in _SMALL
    }
    if not small:
        return
    for user, claims in of_row.items():
        draft = next((draft for draft in claims if draft is not None), None)
        if draft is not None:
            evidence.claim(draft, (operand for operand in user.operands if operand in small))


# Values that compilers copy to each of their users.
_SMALL = frozenset((opcodes.CONSTANT, opcodes.BROADCAST, opcodes.IOTA))


def _claim_operands(evidence: Evidence) -> None:
    """Operands that are other ones because an instruction was added or removed belong to the draft of that."""
    pairs = evidence.diff.pairs
    for row, position, pair, _ in evidence.open_changes("operands"):
        old = [operand for operand in pair.before.operands if operand not in pairs]
        known = {pairs.get(operand) for operand in pair.before.operands}
        new = [operand for operand in pair.after.operands if operand not in known]
        draft = _first_owner(evidence, (*new, *old))
        if draft is not None:
            evidence.claim_change(draft, row, position)


def _first_owner(evidence: Evidence, instructions: tuple[Instruction, ...]) -> Draft | None:
    found = [draft for each in instructions if (draft := evidence.owner.get(each)) is not None]
    return min(found, key=lambda draft: draft.rank) if found else None


def _claim_carriers(evidence: Evidence) -> None:
    """Tuples that have other elements: what happened to the elements is told already."""
    if not evidence.drafts:
        return
    sizes = Counter(evidence.owner.values())
    sizes.update(draft for claims in evidence.claims for draft in claims if draft is not None)
    if not sizes:
        return
    # The largest draft explains tuples, since elements of any draft may be in them.
    largest = max(sizes, key=lambda draft: (sizes[draft], -draft.rank))
    for row, at, each, change in evidence.open_changes("shape", "operands"):
        is_tuple = isinstance(each.after.shape, TupleShape) and isinstance(each.before.shape, TupleShape)
        if is_tuple and (change.kind == "shape" or each.after.opcode == "tuple"):
            evidence.claim_change(largest, row, at)


def _is_told(statement: Statement) -> bool:
    """Whether a statement says something though it may have no rows of its own."""
    if isinstance(statement, DonationChange | HeaderChange | TripCountChange | ShardingChange | InterfaceChange):
        return True
    return bool(statement.fold.rows) or not isinstance(statement, ValueChange | CompilationChange | MetadataChange)


def _importance(statement: Statement) -> tuple[float, int]:
    """What comes first: causes by the number of their rows, then what callers see, then operations and values.

    Then come what compilers did and fields of the header; names and lines of source come last. Statements that the
    program is the same come before all, as does a name that changed in much of the module.
    """
    order: float
    match statement:
        case DimensionChange(is_internal=True):
            order = 4.5  # moves follow from sizes as often as sizes from moves: the more rows, the earlier
        case ProductChange(is_by_compiler=True):
            order = 5
        case ShardingChange() | LayerChange() | TripCountChange() | LoopChange() | DimensionChange() | TypeChange():
            order = 0
        case ValueChange():
            order = _ORDER_OF_VALUES.get(statement.kind, 5)
            own = [each.after.opcode for each in statement.fold.changed if each.after.name in statement.names]
            is_own = not own or own[0] not in REARRANGING
            order = 6 if statement.subject in _ANNOTATIONS else order if is_own or statement.kind == "opcode" else 5
            order = 0 if statement.shapes and is_own else order
        case CompilationChange():
            order = -2 if statement.program in ("same", "alike", "stage") else 5
        case InterfaceChange(form="renamed") | InterfaceChange(part="result", form="shape", fold=Fold((), (), ())):
            order = 4
        case MetadataChange(kind="source", is_whole=False):
            order = 9
        case MetadataChange():
            order = 8
        case HeaderChange():
            order = 7
        case ArgumentChange() | InterfaceChange(part="argument"):
            order = 1
        case ResultChange() | InterfaceChange() | ProductChange() | DonationChange():
            order = 1.5  # of another type also because an argument is
        case OperationChange() if is_movement(statement):
            order = 4.5
        case _:
            order = 2
    return order, -statement.fold.rows


_ORDER_OF_VALUES = {"opcode": 2, "constants": 3, "attribute": 2, "backend_config": 6}
_ANNOTATIONS = frozenset(attributes_with("annotates")) - {"sharding"}

"""Meshes, shardings, and collectives that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Final

from hlo_cli.analysis.statements.evidence import Draft, Evidence
from hlo_cli.analysis.statements.shape_changes import SizePair
from hlo_cli.analysis.statements.shapes import ShapeChanges, is_argument, substitution
from hlo_cli.analysis.statements.sizes import SizeGroup
from hlo_cli.analysis.statements.statement import CollectiveChange, Collectives, ShardingChange, Substitution
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.lazy_regex import lazy_regex

SHARDING, COLLECTIVE = 2, 12
"""Ranks of the drafts."""
_AXIS: Final = lazy_regex(r'\\?"([A-Za-z_][A-Za-z_0-9]*)\\?"=([0-9]+)')
_NAMED_MESH: Final = lazy_regex(r"\{mesh\[([^\]]*+)\]")
_NAMED_AXIS: Final = lazy_regex(r"'([A-Za-z_][A-Za-z_0-9]*)'=([0-9]+)")
_SEVERAL: Final = lazy_regex(r"=(?!1\b)[0-9]")
_ATTRIBUTES: Final = frozenset(
    ("replica_groups", "channel_id", "use_global_device_ids", "source_target_pairs", "sharding")
)
_PLUMBING: Final = frozenset((opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE, opcodes.PARAMETER, opcodes.BITCAST))
_MIN_ROWS: Final = 2


def mesh_of(module: Module) -> str:
    """The axes of the mesh in the header, such as `data=4, model=2`, or else of all shardings; empty if there is none.

    Since JAX 0.11, the header has no mesh, and each sharding names its own.

    >>> from hlo_cli import parse_module
    >>> mesh_of(parse_module("a = f32[8] parameter(0), sharding={mesh['data'=4,'model'=2], [{'data'}]}"))
    'data=4, model=2'
    """
    text = next((each.value for each in module.header if each.name == "frontend_attributes"), "")
    if "meshes" in text:
        return ", ".join(f"{name}={size}" for name, size in dict.fromkeys(_AXIS.findall(text)))
    texts = {found for each in module.instructions for found in _NAMED_MESH.findall(each.raw[1])}
    return ", ".join("=".join(axis) for axis in _NAMED_AXIS.findall(texts.pop())) if len(texts) == 1 else ""


def devices_of(module: Module) -> int:
    """The number of devices that run the program together, 1 by default."""
    numbers = {each.name: each.value for each in module.header if each.name in ("num_partitions", "replica_count")}
    total = 1
    for text in numbers.values():
        total *= int(text) if text.isdecimal() else 1
    return total


def find_sharding(evidence: Evidence, changes: ShapeChanges) -> None:
    """A draft for another mesh, number of devices, or shardings; it takes the sizes that divide differently."""
    before, after = evidence.diff.before, evidence.diff.after
    meshes, devices = (mesh_of(before), mesh_of(after)), (devices_of(before), devices_of(after))
    rows = [
        (row, at)
        for row, at, _, change in evidence.open_changes("sharding", "attributes")
        if change.kind == "sharding" or "sdy.sharding" in change.before + change.after or change.name == "sharding"
    ]
    is_moved = devices[0] != devices[1] or (all(meshes) and meshes[0] != meshes[1])
    is_alone = max(devices) == 1 and not any(_SEVERAL.search(mesh) for mesh in meshes)
    groups = [group for group in changes.sizes.groups if _divides(group, evidence)]
    # What is divided by more devices is gathered elsewhere: some sizes shrink and others grow.
    is_split = {group.ratio > 1 for group in groups} == {True, False}
    is_split = is_split and any(map(changes.sizes.is_of_arguments, groups))
    if is_alone or not (is_moved or is_split or len({row for row, _ in rows}) >= _MIN_ROWS):
        return
    taken = {group.base for group in groups}
    shapes = sum(
        any((group := changes.sizes.group_of(pair)) is not None and group.base in taken for pair in delta.sizes)
        for _, delta in changes.rows.values()
    )
    statement = ShardingChange(
        Substitution(*meshes) if all(meshes) and meshes[0] != meshes[1] else None,
        substitution(devices) if devices[0] != devices[1] else None,
        len({row for row, _ in rows}) or (0 if is_moved else _split_arguments(evidence, changes, taken)),
        shapes,
        tuple(substitution(group.base) for group in groups),
    )
    draft = evidence.draft(SHARDING, statement)
    changes.drafts.update(dict.fromkeys(taken, draft))
    for row, at in rows:
        evidence.claim_change(draft, row, at)
    for row, at, _, change in evidence.open_changes("attributes"):
        if change.name in _ATTRIBUTES:
            evidence.claim_change(draft, row, at)
    evidence.explain_header("frontend_attributes", "num_partitions", "replica_count", "entry_computation_layout")


def _split_arguments(evidence: Evidence, changes: ShapeChanges, taken: Container[SizePair]) -> int:
    """How many arguments have other sizes per device: after partitioning, TPU compilers drop their shardings."""
    groups = [
        {group.base for pair in delta.sizes if (group := changes.sizes.group_of(pair)) is not None}
        for row, (_, delta) in changes.rows.items()
        if is_argument(evidence.diff.changed[row])
    ]
    return sum(any(base in taken for base in bases) for bases in groups)


def _divides(group: SizeGroup, evidence: Evidence) -> bool:
    """Whether a size changed by a factor that the devices of both modules can make."""
    numbers = [devices_of(evidence.diff.before), devices_of(evidence.diff.after)]
    for module in (evidence.diff.before, evidence.diff.after):
        numbers += [int(size) for _, size in _AXIS.findall(mesh_of(module).replace("=", '"=').replace(", ", ', "'))]
    most = max(numbers)
    ratio = group.ratio
    return most > 1 and not most % ratio.numerator and not most % ratio.denominator


def find_collectives(evidence: Evidence) -> None:
    """A draft for the collectives that were added, removed, or took the place of others."""
    alone = {
        is_added: [each for each in evidence.unowned(is_added=is_added) if _kind(each)] for is_added in (False, True)
    }
    rows = [
        (row, at)
        for row, at, each, change in evidence.open_changes("opcode")
        if _kind(each.before) and _kind(each.after)
    ]
    pairs = [evidence.diff.changed[row] for row, _ in rows]
    sides = (collectives_of(module.instructions) for module in (evidence.diff.before, evidence.diff.after))
    before, after = _differences(*sides)
    if not (before or after) or not (pairs or alone[False] or alone[True]):
        return
    statement = CollectiveChange(before, after)
    draft = evidence.draft(COLLECTIVE, statement)
    for row, at in rows:
        evidence.claim_change(draft, row, at)
    for is_added, seeds in alone.items():
        evidence.claim(draft, _with_plumbing(evidence, seeds, is_added=is_added))
    _claim_regions(evidence, draft, [*alone[True], *(each.after for each in pairs)])


def _differences(
    before: Sequence[Collectives], after: Sequence[Collectives]
) -> tuple[tuple[Collectives, ...], tuple[Collectives, ...]]:
    """How many collectives of each kind went and came; of a kind with fewer but larger ones, or the reverse, all."""
    old, new = ({each.kind: each for each in side} for side in (before, after))
    gone: list[Collectives] = []
    come: list[Collectives] = []
    for kind in dict.fromkeys((*old, *new)):
        one, two = old.get(kind, Collectives(kind, 0, 0)), new.get(kind, Collectives(kind, 0, 0))
        count, size = two.count - one.count, two.bytes - one.bytes
        if count * size < 0 or (count == 0) != (size == 0):
            gone.append(one)
            come.append(two)
        elif count < 0:
            gone.append(Collectives(kind, -count, -size))
        elif count > 0:
            come.append(Collectives(kind, count, size))
    return tuple(gone), tuple(come)


def _with_plumbing(evidence: Evidence, seeds: Iterable[Instruction], *, is_added: bool) -> list[Instruction]:
    """The collectives, the computations that they apply, and the instructions that only pass their values on."""
    given = list(seeds)
    applied = {called for each in given for called in each.called_computations}
    return evidence.connected(
        given, lambda each: each.opcode in _PLUMBING or each.computation in applied, is_added=is_added
    )


def _claim_regions(evidence: Evidence, draft: Draft, collectives: Iterable[Instruction]) -> None:
    """What changed in the computations that the collectives apply."""
    applied = {called for each in collectives for called in each.called_computations}
    for row, at, each, _ in evidence.open_changes("metadata", "operands"):
        if each.after.computation in applied:
            evidence.claim_change(draft, row, at)


def _kind(instruction: Instruction) -> str:
    """The kind of a collective: its opcode, with `async` for a start; empty for others and for a done."""
    opcode = instruction.opcode
    if opcode in COLLECTIVES:
        return opcode
    base = opcode.removesuffix("-start")
    return f"async {base}" if base != opcode and base in COLLECTIVES else ""


def collectives_of(instructions: Iterable[Instruction]) -> tuple[Collectives, ...]:
    """The collectives among some instructions, by kind: how many, and the bytes of their results."""
    return _counted(each for each in instructions if _kind(each))


def _counted(instructions: Iterable[Instruction]) -> tuple[Collectives, ...]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for each in instructions:
        kind = _kind(each)
        counts[kind] += 1
        sizes[kind] += each.shape.padded_bytes // (2 if kind.startswith("async") else 1)
    return tuple(Collectives(kind, number, sizes[kind]) for kind, number in counts.items())

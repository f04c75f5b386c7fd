"""What callers and devices see change: arguments, results, donation, meshes, shardings, collectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from hlo_cli.alignment import aligned, longest_increasing
from hlo_cli.analysis.matching.changes import shape_changes
from hlo_cli.analysis.statements.shapes import (
    ShapeChanges,
    SizeGroup,
    SizePair,
    TypePair,
    argument_of,
    is_argument,
    shape_delta,
    substitution,
)
from hlo_cli.analysis.statements.statement import (
    ArgumentChange,
    CollectiveChange,
    Collectives,
    DonationChange,
    Draft,
    Evidence,
    InterfaceChange,
    InterfaceForm,
    ResultChange,
    ShardingChange,
    Substitution,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.lazy_regex import lazy_regex

# --- arguments and results ---
# What callers of a program see: its arguments and results, their order, shapes, and layouts, and what is donated.


# A row that several drafts claim goes to the lowest rank, so causes have lower ranks than what follows from them.
ARGUMENTS, RESULTS, INTERFACE, DONATION = 40, 41, 42, 50
"""Ranks of the drafts."""
_MOST_CELLS: Final = 40_000
"""Pairs of results that are compared one by one: 200 of each module, more than steps of training have; of more, only
the texts of their shapes are aligned."""
# 2 * _ALONE > _OTHER_SHAPE: a result in another shape is one result, not one removed and one added.
_SAME_SHAPE, _ALONE, _OTHER_SHAPE = 1, 2, 3
"""Costs of pairs of results: of one value 0; one result in another shape costs less than one removed and one added."""
_SHAPE_KINDS: Final = ("shape", "layout", "tiling", "memory_space", "operands", "sharding")

Part = Literal["argument", "result"]
Forms = dict[tuple[Part, InterfaceForm], list[tuple[str, Substitution]]]
"""The places of each form of change, by part."""

# --- arguments and results of one module only ---


def find_arguments(evidence: Evidence) -> None:
    """A draft for the arguments that were added and for those that were removed."""
    for is_added in (True, False):
        arguments = [
            each
            for each in evidence.unowned(is_added=is_added)
            if each.opcode == opcodes.PARAMETER and each.computation.is_entry
        ]
        if arguments:
            statement = ArgumentChange(
                is_added,
                tuple(argument_of(each).label or each.name for each in arguments),
                str(arguments[0].shape.to_string(layout=False)) if len(arguments) == 1 else "",
                sum(each.shape.padded_bytes for each in arguments),
            )
            draft = evidence.draft(ARGUMENTS, statement)
            evidence.claim(draft, arguments)


@dataclass(frozen=True, slots=True)
class _Result:
    """One result: the instruction that computes it, and its shape as callers get it."""

    value: Instruction
    shape: Shape

    @property
    def text(self) -> str:
        """The shape without its layout."""
        return self.shape.to_string(layout=False)


def _results_of(module: Module) -> tuple[_Result, ...]:
    """The results in their order: the operands of a tuple at the root, or the root."""
    root, layout = module.entry.root, module.entry_computation_layout
    if root is None:
        return ()
    shapes = _elements(root.shape)
    values = root.operands if root.opcode == opcodes.TUPLE else (root,) * len(shapes)
    if layout is not None and len(header_shapes := _elements(layout.result)) == len(shapes):
        # The header of a cut or edited text may say something else than the root.
        # Layouts may differ from the header's, which are the callers'; the sizes must not.
        same = [
            header_shape.to_string(layout=False) == root_shape.to_string(layout=False)
            for header_shape, root_shape in zip(header_shapes, shapes, strict=True)
        ]
        shapes = header_shapes if all(same) else shapes
    if len(values) != len(shapes):
        return ()
    return tuple(_Result(value, shape) for value, shape in zip(values, shapes, strict=True))


def _elements(shape: Shape) -> tuple[Shape, ...]:
    return shape.elements if isinstance(shape, TupleShape) else (shape,)


def _align(
    olds: Sequence[_Result], news: Sequence[_Result], pairs: Mapping[Instruction, Instruction]
) -> list[tuple[int, int]]:
    """The numbers of results that both modules have.

    Equally many are the same ones, in their order or as their values were paired; of more or fewer, those are paired
    whose values and shapes fit best without changing the order.
    """
    # With equal numbers, nothing was removed: the same place is the best guess, and values show what moved.
    if len(olds) != len(news):
        return _align_in_order(olds, news, pairs)
    partners: dict[int, int] = {}
    places: dict[Instruction, list[int]] = {}
    for j, new in enumerate(news):
        places.setdefault(new.value, []).append(j)
    # First the same place, then any other: two results of one value must not be told as swapped.
    for i, old in enumerate(olds):
        candidates = [j for j in places.get(pairs.get(old.value, old.value), ()) if news[j].text == old.text]
        if i in candidates:
            places[news[i].value].remove(i)
            partners[i] = i
    for i, old in enumerate(olds):
        candidates = [j for j in places.get(pairs.get(old.value, old.value), ()) if news[j].text == old.text]
        if i not in partners and candidates:
            places[news[candidates[0]].value].remove(candidates[0])
            partners[i] = candidates[0]
    taken = set(partners.values())
    free = [i for i in range(len(olds)) if i not in partners]
    left = [j for j in range(len(news)) if j not in taken]
    same = set(free) & set(left)
    partners |= {i: i for i in same}
    partners |= dict(zip((i for i in free if i not in same), (j for j in left if j not in same), strict=True))
    return sorted(partners.items())


def _align_in_order(
    olds: Sequence[_Result], news: Sequence[_Result], pairs: Mapping[Instruction, Instruction]
) -> list[tuple[int, int]]:
    """Pairs of least cost that keep the order, as an edit distance finds them."""
    # An edit distance is quadratic: 40,000 cells take 27 ms, measured.
    if len(olds) * len(news) > _MOST_CELLS:
        return aligned([each.text for each in olds], [each.text for each in news])
    rows: list[list[int]] = [[_ALONE * j for j in range(len(news) + 1)]]
    for i, old in enumerate(olds):
        row = [_ALONE * (i + 1)]
        for j, new in enumerate(news):
            row.append(min(rows[i][j] + _cost(old, new, pairs), rows[i][j + 1] + _ALONE, row[j] + _ALONE))
        rows.append(row)
    aligned_pairs: list[tuple[int, int]] = []
    i, j = len(olds), len(news)
    while i and j:
        if rows[i][j] == rows[i - 1][j - 1] + _cost(olds[i - 1], news[j - 1], pairs):
            i, j = i - 1, j - 1
            aligned_pairs.append((i, j))
        elif rows[i][j] == rows[i - 1][j] + _ALONE:
            i -= 1
        else:
            j -= 1
    return aligned_pairs[::-1]


def _cost(old: _Result, new: _Result, pairs: Mapping[Instruction, Instruction]) -> int:
    if old.text != new.text:
        return _OTHER_SHAPE
    return 0 if pairs.get(old.value) is new.value else _SAME_SHAPE


def find_results(evidence: Evidence, changes: ShapeChanges, types: Mapping[TypePair, Draft]) -> None:
    """Drafts for results that were added or removed, and for those in another order, shape, type, or layout."""
    olds, news = _results_of(evidence.diff.before), _results_of(evidence.diff.after)
    if not olds or not news:
        return
    both = _align(olds, news, evidence.diff.pairs)
    drafts: list[Draft] = []
    for is_added, results, aligned_numbers in ((True, news, {j for _, j in both}), (False, olds, {i for i, _ in both})):
        numbers = [number for number in range(len(results)) if number not in aligned_numbers]
        if numbers:
            drafts.append(
                _draft_of_results(evidence, [results[number] for number in numbers], numbers, is_added=is_added)
            )
    forms: Forms = {}
    values: dict[tuple[Part, InterfaceForm], list[tuple[_Result, _Result]]] = {}
    _add_moves(forms, both)
    for i, j in both:
        old, new = olds[i], news[j]
        change = _form(evidence, changes, types, old, new)
        if change is not None:
            forms.setdefault(("result", change[0]), []).append((str(j), change[1]))
            # A value that another statement explains, as a size that changed throughout, is not told twice.
            if not _is_made_elsewhere(evidence, change[0], old, new):
                values.setdefault(("result", change[0]), []).append((old, new))
    for key, draft in _draft_forms(evidence, forms):
        drafts.append(draft)
        for old, new in values.get(key, ()):
            _claim_value(evidence, draft, old.value, is_added=False)
            _claim_value(evidence, draft, new.value, is_added=True)
    if drafts:
        _claim_root(evidence, drafts[0])


def _draft_of_results(
    evidence: Evidence, results: Sequence[_Result], numbers: Sequence[int], *, is_added: bool
) -> Draft:
    only = results[0] if len(results) == 1 else None
    statement = ResultChange(
        is_added,
        tuple(numbers),
        only.text if only is not None else "",
        only.value.opcode if only is not None else "",
        sum(each.shape.padded_bytes for each in results),
    )
    draft = evidence.draft(RESULTS, statement)
    # A state of an optimizer enters and leaves; one statement is enough for both.
    if any(
        isinstance(each.statement, ArgumentChange) and each.statement.is_added == is_added for each in evidence.drafts
    ):
        return draft  # a state of an optimizer is an argument and a result: what computes it is told with the argument
    for each in results:
        _claim_value(evidence, draft, each.value, is_added=is_added)
    return draft


def _add_moves(forms: Forms, both: Sequence[tuple[int, int]]) -> None:
    """Adds a smallest set of results that explains the new order; a result added before others moves none of them."""
    # A result in place i of j moved only if it is not part of the longest increasing run, as in a diff of lines.
    displaced = [(i, j) for i, j in both if i != j]
    # In a swap of pairs each result of the pair moved; the increasing run would name only half of them.
    swapped = {(j, i) for i, j in displaced} == set(displaced)
    stays = longest_increasing([j for _, j in both])
    for at, (i, j) in enumerate(both):
        if at not in stays or (swapped and i != j):
            forms.setdefault(("result", "reordered"), []).append(("", Substitution(str(i), str(j))))


def _form(
    evidence: Evidence, changes: ShapeChanges, types: Mapping[TypePair, Draft], old: _Result, new: _Result
) -> tuple[InterfaceForm, Substitution] | None:
    """How a result changed, if no size or type that changed throughout explains it."""
    if old.text != new.text:
        delta = shape_delta(old.shape, new.shape)
        if delta is not None and (delta.sizes or delta.types) and not delta.is_rearranged:
            groups = {changes.sizes.group_of(pair) for pair in delta.sizes}
            # The whole program has this size: its own statement explains the result, too.
            is_of_arguments = all(g is not None and changes.sizes.is_of_arguments(g) for g in groups)
            if is_of_arguments and delta.types <= types.keys():
                return None
        return _form_of_shapes(old.shape, new.shape)
    chain = list(_only_used_by(evidence, new.value, is_added=True)) + list(
        _only_used_by(evidence, old.value, is_added=False)
    )
    # Only movements on both sides: a square matrix that is transposed keeps its shape, so shapes cannot show it.
    if any(each.opcode == opcodes.TRANSPOSE for each in chain) and all(each.opcode in _MOVEMENT for each in chain):
        return "transposed", Substitution(str(old.shape), str(new.shape))  # a square one keeps its shape
    return _form_of_layouts(old.shape, new.shape)


def _is_made_elsewhere(evidence: Evidence, form: InterfaceForm, old: _Result, new: _Result) -> bool:
    """Whether the other shape follows from what computes the result: both modules have it."""
    return form == "shape" and evidence.diff.pairs.get(_innermost(old.value)) is _innermost(new.value)


def _innermost(value: Instruction) -> Instruction:
    """What computes the value of a fusion."""
    while (
        value.opcode == opcodes.FUSION and value.called_computations and value.called_computations[0].root is not None
    ):
        value = value.called_computations[0].root
    return value


_MOVEMENT: Final = frozenset((opcodes.TRANSPOSE, opcodes.COPY, opcodes.BITCAST, opcodes.RESHAPE))


def _form_of_shapes(before: Shape, after: Shape) -> tuple[InterfaceForm, Substitution]:
    """What happened to an argument or a result whose shape is another one.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> [_form_of_shapes(parse_shape("f32[4,6]"), parse_shape(text))[0] for text in ("f32[6,4]", "f32[24]", "f32[4]")]
    ['transposed', 'reshaped', 'shape']
    >>> print(_form_of_shapes(parse_shape("f32[4,6]"), parse_shape("bf16[4,6]"))[1])
    f32 → bf16
    """
    change = Substitution(before.to_string(layout=False), after.to_string(layout=False))
    if not isinstance(before, ArrayShape) or not isinstance(after, ArrayShape):
        return "shape", change
    if before.element_type is not after.element_type:
        if before.dimensions == after.dimensions:
            return "type", Substitution(str(before.element_type), str(after.element_type))
        return "shape", change
    if sorted(before.dimensions) == sorted(after.dimensions):
        # Permuted sizes: the usual cause is a transpose, and the transpose itself may be fused or folded into a
        # product.
        return "transposed", change
    return ("reshaped" if before.elements == after.elements else "shape"), change


def _form_of_layouts(before: Shape, after: Shape) -> tuple[InterfaceForm, Substitution] | None:
    """The other layout of an argument or a result of the same shape; None if it is the same one.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> print(_form_of_layouts(parse_shape("f32[4,6]{1,0}"), parse_shape("f32[4,6]{0,1}"))[1])
    {1,0} → {0,1}
    """
    found = list(shape_changes(before, after))
    if not found:
        return None
    texts = [(change.before, change.after) for change in found]
    return "layout", Substitution(*(" ".join(filter(None, side)) for side in zip(*texts, strict=True)))


# --- arguments of both modules ---


def find_interface(evidence: Evidence) -> None:
    """Drafts for arguments of both modules with another name, number, shape, type, or layout.

    A name counts as another one only if no argument of the other module has it: labels of lists shift with each
    argument that was added before.
    """
    forms: Forms = {}
    claims: dict[tuple[Part, InterfaceForm], list[tuple[int, int]]] = {}
    layouts = _argument_shapes(evidence.diff.before), _argument_shapes(evidence.diff.after)
    names = [{argument_of(p).label for p in m.entry.parameters} for m in (evidence.diff.before, evidence.diff.after)]

    def add(form: InterfaceForm, number: int, label: str, change: Substitution, *places: tuple[int, int]) -> None:
        forms.setdefault(("argument", form), []).append((f"{number} ({label})" if label else str(number), change))
        claims.setdefault(("argument", form), []).extend(places)

    changed = {each.after: row for row, each in enumerate(evidence.diff.changed)}
    for old in evidence.diff.before.entry.parameters:
        new = evidence.diff.pairs.get(old)
        number = new.parameter_number if new is not None else None
        if new is None or number is None or not new.computation.is_entry:
            continue
        label, row = argument_of(new).label, changed.get(new)
        shapes = layouts[0].get(old, old.shape), layouts[1].get(new, new.shape)
        row_changes = evidence.diff.changed[row].changes if row is not None else ()
        is_other = any(change.kind == "shape" for change in row_changes)
        if not is_other and (form_and_change := _form_of_layouts(*shapes)) is not None:
            # Layouts of arguments are in both texts, header and parameter; the row is claimed so that it is told once.
            open_layouts = [
                (row, position)
                for position, c in enumerate(row_changes)
                if row is not None and c.kind in _SHAPE_KINDS[1:4]
            ]
            add(form_and_change[0], number, label, form_and_change[1], *open_layouts)
        for position, change in enumerate(row_changes):
            if row is None or evidence.claims[row][position] is not None:
                continue
            if change.kind == "shape":
                form, both = _form_of_shapes(old.shape, new.shape)
                add(form, number, label, both, (row, position))
            elif change.name == "argument number":
                add("reordered", number, label, Substitution(change.before, change.after), (row, position))
            # A name that the other module also has belongs to another argument: then the order changed, not the name.
            elif change.name == "op_name" and change.before not in names[1] and change.after not in names[0]:
                add("renamed", number, label, Substitution(change.before, change.after), (row, position))
    for key, draft in _draft_forms(evidence, forms):
        for row, position in claims[key]:
            evidence.claim_change(draft, row, position)


def _argument_shapes(module: Module) -> dict[Instruction, Shape]:
    """The shapes of arguments as callers pass them: before compilation, only the header has their layouts."""
    layout, parameters = module.entry_computation_layout, module.entry.parameters
    if layout is None or len(layout.parameters) != len(parameters):
        return {}
    pairs = zip(parameters, layout.parameters, strict=True)
    return {p: shape for p, shape in pairs if p.shape.to_string(layout=False) == shape.to_string(layout=False)}


def _draft_forms(evidence: Evidence, forms: Forms) -> Iterator[tuple[tuple[Part, InterfaceForm], Draft]]:
    """Makes a draft of each form of change; the field of the header that lists shapes and layouts is explained."""
    for (part, form), places in forms.items():
        yield (part, form), evidence.draft(INTERFACE, InterfaceChange(part, form, tuple(places)))
        evidence.explain_header("entry_computation_layout")


# --- what belongs to a result ---


def _claim_root(evidence: Evidence, draft: Draft) -> None:
    """The tuple of results has other elements, shapes, and shardings."""
    root = evidence.diff.after.entry.root
    for row, at, each, _ in evidence.open_changes(*_SHAPE_KINDS):
        # The tuple at the root repeats what its elements show.
        if each.after is root and each.after.opcode == opcodes.TUPLE:
            evidence.claim_change(draft, row, at)


def _claim_value(evidence: Evidence, draft: Draft, value: Instruction, *, is_added: bool) -> None:
    """What only this result needs, or how its value changed."""
    for each in (value, _innermost(value)):
        evidence.claim(draft, _only_used_by(evidence, each, is_added=is_added))
    for row, at, pair, _ in evidence.open_changes("shape", "layout", "tiling"):
        if value in (pair.after, pair.before):
            evidence.claim_change(draft, row, at)


def _only_used_by(evidence: Evidence, value: Instruction, *, is_added: bool) -> Iterable[Instruction]:
    """Yields instructions of one module only that compute a value and nothing else, with what they call."""
    alone = evidence.added if is_added else evidence.removed

    def is_free(instruction: Instruction) -> bool:
        return instruction in alone and instruction not in evidence.owner

    if not is_free(value):
        return
    root = value.computation.root
    computing = {value}
    todo = [value]
    while todo:
        current = todo.pop()
        yield current
        for called in current.called_computations:
            yield from (inner for inner in called.instructions if is_free(inner))
        for operand in current.operands:
            users = evidence.users(operand, is_added=is_added)
            # The root uses all results, so it does not count as another user.
            if is_free(operand) and operand not in computing and all(u in computing or u is root for u in users):
                computing.add(operand)
                todo.append(operand)


# --- donation ---


def find_donation(evidence: Evidence) -> None:
    """A draft for arguments of both modules that share their memory with a result in only one of them."""
    # Both are in xla/hlo/ir/hlo_input_output_alias_config.h.
    if not evidence.header.keys() & {"input_output_alias", "buffer_donor"}:
        return
    old, new = evidence.diff.before.donated_parameters, evidence.diff.after.donated_parameters
    pairs = evidence.diff.pairs
    both = {one: two for one in evidence.diff.before.entry.parameters if (two := pairs.get(one)) is not None}
    changed = [one for one, two in both.items() if (one in old) != (two in new)]
    if changed:
        evidence.explain_header("input_output_alias", "buffer_donor")
        labels = tuple(argument_of(each).label or each.name for each in changed)
        size = sum(each.shape.padded_bytes for each in changed)
        statement = DonationChange(len(old), len(new), labels, size)
        evidence.draft(DONATION, statement)


# --- meshes, shardings, and collectives ---
# Meshes, shardings, and collectives that changed.


# Meshes are the first cause (2), as sizes per device follow from them; collectives come after sizes' causes (12).
SHARDING, COLLECTIVE = 2, 12
"""Ranks of the drafts."""
# Quotes are escaped or not, by the printer: see `header_meshes`.
_AXIS: Final = lazy_regex(r'\\?"([A-Za-z_][A-Za-z_0-9]*)\\?"=([0-9]+)')
_NAMED_MESH: Final = lazy_regex(r"\{mesh\[([^\]]*+)\]")
_NAMED_AXIS: Final = lazy_regex(r"'([A-Za-z_][A-Za-z_0-9]*)'=([0-9]+)")
# Axes of size 1 divide nothing.
_SEVERAL: Final = lazy_regex(r"=(?!1\b)[0-9]")
_ATTRIBUTES: Final = frozenset(
    ("replica_groups", "channel_id", "use_global_device_ids", "source_target_pairs", "sharding")
)
_PLUMBING: Final = frozenset((opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE, opcodes.PARAMETER, opcodes.BITCAST))
# One sharding alone is read faster as its row than as a statement about shardings.
_MIN_ROWS: Final = 2


def mesh_of(module: Module) -> str:
    """The axes of the mesh in the header, such as `data=4, model=2`, or else of all shardings; empty if there is none.

    Since JAX 0.11, the header has no mesh, and each sharding names its own.

    >>> from hlo_cli import parse_module
    >>> mesh_of(parse_module("a = f32[8] parameter(0), sharding={mesh['data'=4,'model'=2], [{'data'}]}"))
    'data=4, model=2'
    """
    text = next((each.value for each in module.header if each.name == "frontend_attributes"), "")
    # Shardy's meshes in the header are the user's; meshes of single shardings may be the partitioner's own.
    if "meshes" in text:
        return ", ".join(f"{name}={size}" for name, size in dict.fromkeys(_AXIS.findall(text)))
    # Several different meshes in shardings: none of them is the module's.
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
    # Shardings may change with propagation only; another mesh or number of devices is a change by the user.
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
    # Sizes per device change by divisors of the number of devices; any other factor has another cause.
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
        # More but smaller, or fewer but larger: not a difference of numbers but a replacement, so both are shown.
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
    for collective in instructions:
        kind = _kind(collective)
        counts[kind] += 1
        # A start has a tuple of operand and result; half of it is the size of one, exact for all-reduce only.
        sizes[kind] += collective.shape.padded_bytes // (2 if kind.startswith("async") else 1)
    return tuple(Collectives(kind, number, sizes[kind]) for kind, number in counts.items())

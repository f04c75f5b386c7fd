"""Which part of a module fails alone, when its values are known? What is right becomes an argument.

Of a pair, a value is right if the other module has it too; of one module that makes NaN, if it has none. Between right
values and a wrong one lies the cause: that part is the new module, of both of a pair. If the cause is in a computation
that an instruction calls, the computation becomes the entry, with the arguments of the execution that went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Final

from hlo_cli.analysis.comparison.entry_values import (
    EntryValues,
    agree,
    as_argument,
    cut_to_sizes,
    differs,
    entry_values,
    has_elements,
    is_argument,
    truth,
)
from hlo_cli.analysis.comparison.first_difference import ExecutionValues
from hlo_cli.analysis.comparison.two_runs import compare_runs
from hlo_cli.analysis.evaluate.arguments import made_up_arguments
from hlo_cli.analysis.evaluate.settings import Limits, Wanted
from hlo_cli.analysis.semantics.typed_values import Floats, Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Attribute, free_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CONTROL_PREDECESSORS
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.source import HloError
from hlo_cli.transform.reduction.draft import Body, Draft, Line, entering
from hlo_cli.transform.reduction.search import Case, Change, Stage
from hlo_cli.transform.reduction.steps import Edit, inlining

Read = Callable[[str], Module]
"""Reads a text, which is valid."""


@dataclass(frozen=True, slots=True)
class Question:
    """How values are computed and judged: those of two modules by their distance, those of one by what they have."""

    read: Read
    wanted: Wanted | None = None
    floats: Floats = "widen"
    tolerance: float = 1e-6
    limits: Limits = Limits()

    def values(self, draft: Draft, case: Case, *, only: tuple[str, ...] | None = None) -> EntryValues:
        """The values of the entry of a draft with the arguments of its case."""
        module = self.read(draft.to_string())
        return entry_values(module, case.arguments or {}, floats=self.floats, limits=self.limits, only=only)

    def fails(self, case: Case) -> bool:
        """Whether the results of a pair differ, or one has what is wanted; HloError if a module does not run."""
        roots = [draft.entry[draft.entry.root] for draft in case.drafts]
        found = [
            self.values(draft, case, only=(root.name,)).by_name.get(root.name)
            for draft, root in zip(case.drafts, roots, strict=True)
        ]
        if None in found:
            return False
        return self.is_wrong(found[-1] or (), found[0] or (), (roots[0].shape, roots[-1].shape))

    def is_wrong(self, new: Sequence[Value], old: Sequence[Value], shapes: tuple[Shape, Shape]) -> bool:
        """Whether a value is not that of the other module, or has what is wanted."""
        if self.wanted is not None:
            return has_elements(new, shapes[-1], self.wanted)
        return not agree(old, new, shapes, floats=self.floats, tolerance=self.tolerance)


def cuts(question: Question) -> tuple[Stage, ...]:
    """The stages that cut where values are known, for cases with arguments."""
    return (
        Stage("one result kept", partial(_results, question)),
        Stage("cut to the first instruction that differs", partial(_first_difference, question)),
        Stage("cut between right values and a wrong one", partial(_parts, question)),
        Stage("one computation kept, with its arguments", partial(_callees, question)),
        Stage("called computations inlined", _inlined),
        Stage("unused parameters dropped", lambda case: (_without_unused,)),
        Stage("values of the first module as arguments", partial(_reference_values, question)),
    )


# --- results ---


def _results(question: Question, case: Case) -> Iterator[Change]:
    del question
    shapes = [draft.entry[draft.entry.root].shape for draft in case.drafts]
    counts = {len(shape.elements) if isinstance(shape, TupleShape) else 0 for shape in shapes}
    if len(counts) == 1:
        yield from (partial(_keep_result, at) for at in range(min(counts)))


def _keep_result(at: int, case: Case) -> Case | None:
    drafts = []
    for draft in case.drafts:
        entry = draft.entry
        root = entry[entry.root]
        if not isinstance(root.shape, TupleShape) or at >= len(root.shape.elements):
            return None
        if root.opcode == opcodes.TUPLE and "#" not in root.operands[at]:
            drafts.append(draft.with_entry(replace(entry, root=root.operands[at])))
        else:
            element = Line(
                free_name(f"{root.name}.element", {line.name for line in entry.lines}, {}),
                root.shape.elements[at],
                opcodes.GET_TUPLE_ELEMENT,
                (root.name,),
                (Attribute("index", str(at)),),
            )
            drafts.append(draft.with_entry(replace(entry, lines=(*entry.lines, element), root=element.name)))
    return replace(case, drafts=tuple(drafts))


def _without_unused(case: Case) -> Case | None:
    """The case without parameters that none of its modules uses."""
    used = {name for draft in case.drafts for line in draft.entry.lines for name in line.used}
    used |= {draft.entry.root for draft in case.drafts}
    unused = {line.name for line in case.draft.entry.parameters} - used
    if not unused:
        return None
    drafts = tuple(draft.with_entry(draft.entry.replaced(dict.fromkeys(unused))) for draft in case.drafts)
    left = {name: value for name, value in (case.arguments or {}).items() if name not in unused}
    return Case(drafts, left)


# --- parts of the entry ---

_MOST_ENDS: Final = 12
"""Wrong values that are tried as results: the first ones are the causes, if the names of both modules fit."""
_MOST_COMPARED: Final = 64
"""Values of the other module with the same sizes that are compared with one: programs have many zeros."""
_MOST_ORPHANS: Final = 200
"""Values that only the first module has, each compared with those that only the second has: so many take a second."""
_SAME_NAMES: Final = 0.5
"""The share of values with the same names, types, and sizes from which two modules are one, edited or passed on."""


@dataclass(slots=True)
class _Known:
    """The values of a case: what is right, with the name of the value that the other module has."""

    case: Case
    question: Question
    old: EntryValues | None
    new: EntryValues
    right: dict[str, str] = field(default_factory=dict)
    wrong: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.old is None:
            self._judge_alone()
        else:
            self._judge_pair(self.old)

    def _judge_alone(self) -> None:
        for line in self.case.draft.entry.lines:
            values = self.new.by_name.get(line.name)
            if values is None:
                continue
            if self.question.is_wrong(values, (), (line.shape, line.shape)):
                self.wrong.append((line.name, line.name))
            else:
                self.right[line.name] = line.name

    def _judge_pair(self, old: EntryValues) -> None:
        first, second = (draft.entry for draft in self.case.drafts)
        others = {line.name: line for line in first.lines}
        named = [line for line in second.lines if self._fits(line, others.get(line.name))]
        # Compilers give names anew, so that equal names mean little between a text and its compilation.
        has_same_names = len(named) >= _SAME_NAMES * max(len(first.lines), len(second.lines))
        by_sizes: dict[str, list[Line]] = {}
        for line in first.lines:
            by_sizes.setdefault(_sizes(line.shape), []).append(line)
        for line in second.lines:
            other = others.get(line.name) if has_same_names or line.is_parameter else None
            if other is not None and self._fits(line, other):
                if self._are_equal(line, other, old):
                    self.right[line.name] = other.name
                    continue
                self.wrong.append((line.name, other.name))
                continue
            same = by_sizes.get(_sizes(line.shape), ())[:_MOST_COMPARED]
            found = next((each for each in same if self._are_equal(line, each, old)), None)
            if found is not None and line.name != second.root:
                self.right[line.name] = found.name
        if not has_same_names:
            self.wrong += self._counterparts(first, second, old)
        roots = (second.root, first.root)
        if roots not in self.wrong and second.root not in self.right:
            self.wrong.append(roots)

    def _counterparts(self, first: Body, second: Body, old: EntryValues) -> Iterator[tuple[str, str]]:
        """Values that only one of the modules has, made of the same operands: whatever their names, they differ."""
        others = {line.name: line for line in first.lines}
        own = {line.name: line for line in second.lines}
        known = set(self.right.values())
        orphans = [line for line in first.lines if line.name not in known and line.operands][:_MOST_ORPHANS]
        for line in second.lines:
            if line.name in self.right or not line.operands:
                continue
            for other in orphans:
                if self._fits(line, other) and len(line.operands) == len(other.operands):
                    pairs = zip(line.operands, other.operands, strict=True)
                    # Elements of tuples have no values of their own here.
                    if all(a in own and b in others and self._are_equal(own[a], others[b], old) for a, b in pairs):
                        yield line.name, other.name

    def other_operands(self, new: str, old: str) -> Iterator[tuple[str, str]]:
        """The operands of a value and of its counterpart that are not the same, both of one operation."""
        if self.old is None:
            return
        first, second = (draft.entry for draft in self.case.drafts)
        line, other = second[new], first[old]
        if line.opcode == other.opcode and len(line.used) == len(other.used):
            for mine, others in zip(line.used, other.used, strict=True):
                if self.right.get(mine) != others and self._fits(second[mine], first[others]):
                    yield mine, others

    @staticmethod
    def _fits(line: Line, other: Line | None) -> bool:
        return other is not None and _sizes(line.shape) == _sizes(other.shape)

    def _are_equal(self, line: Line, other: Line, old: EntryValues) -> bool:
        values, others = self.new.by_name.get(line.name), old.by_name.get(other.name)
        if values is None or others is None:
            return False
        return not self.question.is_wrong(values, others, (other.shape, line.shape))


def _sizes(shape: Shape) -> str:
    return shape.to_string(layout=False)


def _known(question: Question, case: Case) -> _Known | None:
    try:
        found = [question.values(draft, case) for draft in case.drafts]
    except HloError:
        return None
    return _Known(case, question, found[0] if len(found) > 1 else None, found[-1])


def _parts(question: Question, case: Case) -> Iterator[Change]:
    """The part between right values and a wrong one, for the first wrong ones and for the result."""
    known = _known(question, case)
    if known is None:
        return
    ends = [each for each in known.wrong if not case.draft.entry[each[0]].is_parameter]
    tried = dict.fromkeys((*ends[:_MOST_ENDS], *ends[-1:]))
    # An operand that was replaced by another right value is wrong in its place only.
    replaced = [each for end in ends[:1] for each in known.other_operands(*end)]
    for (new, old), is_right in (*((each, True) for each in replaced), *((each, False) for each in tried)):
        smaller = _part(known, new, old, is_right=is_right)
        if smaller is not None:
            yield lambda now, smaller=smaller: smaller if now is case else None  # type: ignore[misc]


def _part(known: _Known, new: str, old: str, *, is_right: bool) -> Case | None:
    """The case of what lies between right values and the wrong one of this name in each module.

    With `is_right`, the values of these names may be right, though they are not the same.
    """
    drafts, case = [], known.case
    names = _Parameters(known)
    ends = [(case.drafts[0], known.old, old), (case.draft, known.new, new)][-len(case.drafts) :]
    back: dict[str, str] = {}
    for name, other in known.right.items():
        back.setdefault(other, name)
    bodies = []
    for draft, values, end in ends:
        is_old = values is known.old and known.old is not None
        right = back if is_old else {name: name for name in known.right}
        bodies.append((draft, names.cut(draft.entry, end, right, is_old=is_old, with_end=is_right)))
    for draft, body in bodies:
        lines = (*names.lines, *(line for line in body.lines if not line.is_parameter))
        drafts.append(draft.with_entry(replace(body, lines=lines)))
    return Case(tuple(drafts), names.arguments)


class _Parameters:
    """Parameters that modules of a case have in common, with their arguments; they are made as cuts ask for them."""

    def __init__(self, known: _Known) -> None:
        self._known = known
        self._shapes = {line.name: line for line in known.case.draft.entry.lines}
        self.lines: list[Line] = []
        self.arguments: dict[str, Value] = {}

    def cut(self, entry: Body, end: str, right: Mapping[str, str], *, is_old: bool, with_end: bool) -> Body:
        """What a value depends on, up to right values, which are parameters; `right` has their names by that here."""
        needed, kept = {end}, []
        renamed: dict[str, str] = {}
        for line in reversed(entry.lines):
            if line.name not in needed:
                continue
            shared = right.get(line.name)
            # Both modules have the same arguments, so that an element of one is right even as a result.
            is_element = not is_old and line.opcode == opcodes.GET_TUPLE_ELEMENT and entry[line.used[0]].is_parameter
            shared = line.name if is_element else shared
            if (line.name != end or with_end or is_element) and shared is not None and self._add(shared):
                renamed[line.name] = f"{shared}"
                continue
            if line.is_parameter:  # a wrong argument, such as NaN, or one that no run has kept
                self._add_as_it_is(line)
                renamed[line.name] = line.name
                continue
            needed.update(line.used)
            kept.append(line)
        # A value of another meaning may have the name that a parameter has, or gets of the other module.
        for line in kept if is_old else ():
            if line.name in self._known.right:
                taken = {*self._shapes, *(each.name for each in entry.lines)}
                renamed[line.name] = free_name(f"{line.name}.0", taken, {})
        lines = tuple(replace(line, name=renamed.get(line.name, line.name)) for line in reversed(kept))
        return replace(entry, lines=lines, root=end).redirected(renamed)

    def _add(self, name: str) -> bool:
        """Makes a parameter of a right value of the failing module; False if it cannot be an argument."""
        if name in self.arguments:
            return True
        values, line = self._known.new.by_name.get(name), self._shapes[name]
        # Files of arguments hold the elements of a tuple; and a constant is as short as a parameter.
        is_plain = isinstance(line.shape, ArrayShape) and line.opcode != opcodes.CONSTANT
        if values is None or not is_plain or not is_argument(values, line.shape):
            return False
        attributes: tuple[Attribute, ...] = ()
        if differs(values) and isinstance(line.shape, ArrayShape):
            tiles = ",".join(map(str, (len(values), *([1] * (line.shape.rank - 1)))))
            attributes = (Attribute("sharding", f"{{devices=[{tiles}]<=[{len(values)}]}}"),)
        self.lines.append(Line(name, line.shape, opcodes.PARAMETER, attributes=attributes))
        self.arguments[name] = as_argument(values, line.shape)
        return True

    def _add_as_it_is(self, line: Line) -> None:
        given = self._known.case.arguments or {}
        if line.name not in self.arguments and line.name in given:
            self.lines.append(line)
            self.arguments[line.name] = given[line.name]


def _reference_values(question: Question, case: Case) -> Iterator[Change]:
    """A value that only the first module has as an argument, where the second then needs fewer parameters."""
    known = _known(question, case) if len(case.drafts) > 1 else None
    if known is None or known.old is None:
        return
    entry = case.drafts[0].entry
    for line in reversed(entry.lines):
        values = known.old.by_name.get(line.name)
        is_inner = line.name != entry.root and not line.is_parameter and line.opcode != opcodes.CONSTANT
        if is_inner and values is not None and isinstance(line.shape, ArrayShape) and not differs(values):
            smaller = _with_reference_value(case, line, as_argument(values, line.shape))
            if smaller is not None:
                yield lambda now, smaller=smaller: smaller if now is case else None  # type: ignore[misc]


def _with_reference_value(case: Case, line: Line, value: Value) -> Case | None:
    old, new = case.drafts
    taken = {each.name for draft in case.drafts for each in draft.entry.lines}
    parameter = Line(free_name(f"{line.name}.0", taken, {}), line.shape, opcodes.PARAMETER)
    changed = old.entry.replaced({line.name: None}).redirected({line.name: parameter.name})
    drafts = (
        old.with_entry(replace(changed, lines=(parameter, *changed.lines))),
        new.with_entry(replace(new.entry, lines=(parameter, *new.entry.lines))),
    )
    found = Case(drafts, {parameter.name: value, **(case.arguments or {})})
    found = _without_unused(found) or found
    return found if found.draft.size < case.draft.size else None


# --- modules that have little in common ---

_SMALL: Final = 8
"""Instructions up to which two modules are left as they are: the comparison runs both several times."""


def _first_difference(question: Question, case: Case) -> Iterator[Change]:
    """The instruction that a comparison names, and its counterpart, with the values that they had.

    Compilations of one text have other instructions and names, but the comparison finds pairs by their structure.
    """
    if len(case.drafts) == 1 or case.draft.size <= _SMALL or question.floats != "widen":
        return
    old, new = (question.read(text) for text in case.texts)
    given = [(case.arguments or {})[parameter.name] for parameter in new.entry.parameters]
    try:
        compared = compare_runs(old, new, given, limits=question.limits, allow_uncovered=True)
    except HloError:
        return
    values = compared.values
    if values is None or values.new is None or values.old is None or values.new.place.device:
        return
    smaller = _executed_pair(question, case, values.old, values.new)
    if smaller is not None:
        yield lambda now: smaller if now is case else None


def _executed_pair(question: Question, case: Case, old: ExecutionValues, new: ExecutionValues) -> Case | None:
    """The case of one instruction of each module, whose operands are arguments; those of equal values are the same."""
    parameters: dict[str, Line] = {}
    arguments: dict[str, Value] = {}
    drafts = []
    for draft, side in ((case.draft, new), (case.drafts[0], old)):
        instruction = side.place.instruction
        body = draft[instruction.computation.name]
        line, names = body[instruction.name], dict[str, str]()
        for operand, value in zip(line.used, side.operands, strict=True):
            shape = body[operand].shape
            if not is_argument((value,), shape):
                return None
            argument = as_argument((value,), shape)
            same = (
                name
                for name, each in parameters.items()
                if _sizes(each.shape) == _sizes(shape)
                and not question.is_wrong((argument,), (arguments[name],), (shape, shape))
            )
            name = next(same, "") or free_name(operand, {line.name, *parameters}, {})
            names[operand] = name
            arguments.setdefault(name, argument)
            parameters.setdefault(name, Line(name, shape, opcodes.PARAMETER))
        drafts.append((draft, body, line, names))
    pair = []
    for draft, body, line, names in reversed(drafts):
        lines = (*parameters.values(), line.without((CONTROL_PREDECESSORS,)))
        # Names are mapped before the parameters come, as one may be that of another operand.
        renamed = replace(body, lines=(lines[-1],), root=line.name).redirected(names)
        entry = replace(renamed, lines=(*lines[:-1], *renamed.lines), thread="main")
        pair.append(entering(body.name, draft).with_entry(entry))
    return Case(tuple(pair), arguments)


# --- called computations ---

_SEEDS: Final = range(8)
"""Arguments that are tried for a computation of scalars, whose executions no run records."""


def _callees(question: Question, case: Case) -> Iterator[Change]:
    """A computation that the last instruction calls, with its arguments in the execution that went wrong."""
    ends = [draft.entry[draft.entry.root] for draft in case.drafts]
    if not ends[-1].called or any(len(end.called) != len(ends[0].called) for end in ends):
        return
    known = _known(question, case)
    if known is None:
        return
    for at, arguments in _executions(known, ends):
        smaller = _entered(case, [end.called[at] for end in ends], arguments)
        if smaller is not None:
            yield lambda now, smaller=smaller: smaller if now is case else None  # type: ignore[misc]


def _executions(known: _Known, ends: Sequence[Line]) -> Iterator[tuple[int, Sequence[Value]]]:
    """Called computations by number, with arguments with which they may fail."""
    end, values = ends[-1], known.new
    operands = [values.by_name.get(name, (None,)) for name in end.used]
    if values.devices > 1 or any("#" in operand for operand in end.operands):
        return
    first = [value for value, *_ in operands]
    if end.opcode == opcodes.WHILE:
        yield from _iterations(known, ends, first[0])
    elif end.opcode == opcodes.CONDITIONAL:
        chosen = truth(first[0])
        selector = known.case.draft.entry[end.used[0]].shape
        is_pred = isinstance(selector, ArrayShape) and selector.element_type.kind == "pred"
        # `true_computation` comes first, and an index out of bounds takes the last branch.
        at = 1 - chosen if is_pred else chosen if 0 <= chosen < len(end.called) else len(end.called) - 1
        yield at, first[at + 1 : at + 2]
    elif end.opcode in (opcodes.FUSION, opcodes.CALL, "async-start"):
        yield 0, first
    else:
        for at, name in enumerate(end.called):
            module = known.question.read(entering(name, known.case.draft).to_string())
            yield from ((at, made_up_arguments(module, seed=seed)) for seed in _SEEDS)


def _iterations(known: _Known, ends: Sequence[Line], initial: Value) -> Iterator[tuple[int, Sequence[Value]]]:
    """The first iteration that makes a wrong value of a right one; or that after which only one loop goes on."""
    end = ends[-1]
    new = known.new.rounds.get(end.name, ())
    old = new if known.old is None else known.old.rounds.get(ends[0].name, ())
    bodies = [at for at, name in enumerate(end.called) if known.case.draft[name].parameters and _is_body(known, name)]
    # Body after body, until the loops part: all before was right.
    before = initial
    for one, other in zip(old, new, strict=False):
        if known.question.is_wrong((other,), (one,), (ends[0].shape, end.shape)):
            yield from ((at, (before,)) for at in bodies)
            return
        before = other
    yield from ((at, (before,)) for at in range(len(end.called)) if at not in bodies)


def _is_body(known: _Known, name: str) -> bool:
    body = known.case.draft[name]
    return _sizes(body[body.root].shape) == _sizes(body.parameters[0].shape)


def _entered(case: Case, callees: Sequence[str], arguments: Sequence[Value]) -> Case | None:
    """The case of called computations, whose parameters get the names that they have in the failing module."""
    parameters = case.draft[callees[-1]].parameters
    drafts = []
    for draft, name in zip(case.drafts, callees, strict=True):
        renamed = _with_parameters(draft[name], parameters)
        if renamed is None or len(parameters) != len(arguments):
            return None
        drafts.append(entering(name, draft).with_entry(replace(renamed, thread="main")))
    exact = [as_argument((value,), each.shape) for value, each in zip(arguments, parameters, strict=True)]
    return Case(tuple(drafts), {each.name: value for each, value in zip(parameters, exact, strict=True)})


def _inlined(case: Case) -> Iterator[Change]:
    """The computation of a fusion or a call in its place, in one of the modules: its values are then known too."""
    for at, draft in enumerate(case.drafts):
        for edit in inlining(draft):

            def change(now: Case, at: int = at, edit: Edit = edit) -> Case | None:
                opened = edit(now.drafts[at])
                drafts = (*now.drafts[:at], opened, *now.drafts[at + 1 :]) if opened is not None else None
                return None if drafts is None else replace(now, drafts=drafts)

            yield change


def _with_parameters(body: Body, parameters: Sequence[Line]) -> Body | None:
    """The body whose parameters have these names; None if their types or sizes are others."""
    if [_sizes(each.shape) for each in body.parameters] != [_sizes(each.shape) for each in parameters]:
        return None
    names = {mine.name: own.name for mine, own in zip(body.parameters, parameters, strict=True)}
    taken = {*names.values(), *(line.name for line in body.lines)}
    for line in body.lines:
        if not line.is_parameter and line.name in names.values():
            names[line.name] = free_name(f"{line.name}.0", taken, {})
    lines = tuple(replace(line, name=names.get(line.name, line.name)) for line in body.lines)
    return replace(body, lines=lines).redirected(names)


def pair_of(old: Draft, new: Draft) -> tuple[Draft, Draft]:
    """Two drafts whose parameters have the names that they have in the second one; HloError if they are others.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.transform.reduction.draft import draft_of
    >>> one, two = (draft_of(parse_module(f"{name} = s32[] negate(s32[] {name}.1)")) for name in ("a", "b"))
    >>> [draft.entry.parameters[0].name for draft in pair_of(one, two)]
    ['b.1', 'b.1']
    """
    entry = _with_parameters(old.entry, new.entry.parameters)
    if entry is None:
        raise HloError("the parameters of the two modules have different types or sizes")
    return replace(old, bodies=(*old.bodies[:-1], entry)), new


# --- arguments of smaller sizes ---


def with_fitting_arguments(case: Case, before: Case) -> Case | None:
    """The case whose arguments have the types and sizes of its parameters, after a step that has changed these.

    None if an argument is that of several devices, of which a part cannot be cut in the same way.
    """
    old = {line.name: line.shape for line in before.draft.entry.parameters}
    arguments: dict[str, Value] = {}
    for line in case.draft.entry.parameters:
        value, shape = (before.arguments or {})[line.name], line.shape
        if _sizes(shape) != _sizes(old[line.name]):
            if any(each.name == "sharding" for each in line.attributes):
                return None
            value = as_argument((cut_to_sizes(value, shape),), shape)
        arguments[line.name] = value
    return Case(case.drafts, arguments)


def together(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Stages of edits for cases with arguments, which are cut to the sizes of the parameters."""

    def of(stage: Stage) -> Stage:
        def changes(case: Case) -> Iterator[Change]:
            for change in stage.changes(case):

                def fitting(now: Case, change: Change = change) -> Case | None:
                    smaller = change(now)
                    return None if smaller is None else with_fitting_arguments(smaller, now)

                yield fitting

        return Stage(stage.words, changes)

    return tuple(map(of, stages))

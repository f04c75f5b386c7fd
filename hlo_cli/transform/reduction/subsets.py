"""Which of many changes makes something fail? The first one of a sequence, or the least set of those made together.

Both ask a judge, which may take minutes for an answer and may have none: `None` is a candidate that cannot be judged,
such as a module that is not valid.

`changes_between` makes the changes of two modules: each instruction that differs is one. Instructions that only one of
the modules has come and go with those that use them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from hlo_cli.analysis.matching.module_diff import ModuleDiff, diff
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Attribute, Computation, free_name
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CONTROL_PREDECESSORS
from hlo_cli.transform.reduction.draft import Body, Draft, Line, callees_first, draft_of

Item = TypeVar("Item")

# --- the first of a sequence ---


def first_failing(count: int, fails: Callable[[int], bool | None]) -> tuple[int, int] | None:
    """The numbers of the last that passes and of the first that fails after it, found in log2(count) questions.

    Between both are only those that cannot be judged. None if the first that can be judged fails already, or the last
    one passes. The sequence may fail and pass again: then this is one of its changes, as for `git bisect`.

    >>> asked = []
    >>> first_failing(100, lambda at: asked.append(at) or at >= 37), len(asked)
    ((36, 37), 8)
    >>> first_failing(6, lambda at: None if at in (2, 3) else at > 3)
    (1, 4)
    """
    known: dict[int, bool | None] = {}

    def judge(at: int) -> bool | None:
        if at not in known:
            known[at] = fails(at)
        return known[at]

    # The last one first: if that passes, there is nothing to look for.
    last = next((at for at in reversed(range(count)) if judge(at) is not None), None)
    if last is None or not judge(last):
        return None
    first = next(at for at in range(count) if judge(at) is not None)
    if judge(first):
        return None
    while True:
        middle = (first + last) // 2
        # Those that cannot be judged are passed by: the nearest one to the middle halves the rest best.
        between = sorted(range(first + 1, last), key=lambda at, middle=middle: (abs(at - middle), at))  # type: ignore[misc]
        found = next(((at, verdict) for at in between if (verdict := judge(at)) is not None), None)
        if found is None:
            return first, last
        at, verdict = found
        first, last = (first, at) if verdict else (at, last)


# --- the least set ---


def smallest_failing(
    items: Sequence[Item], fails: Callable[[Sequence[Item]], bool | None], is_over: Callable[[], bool] = lambda: False
) -> tuple[tuple[Item, ...], bool]:
    """A set of items that fails, and fails no more without any one of them; all items are known to fail together.

    Delta debugging (Zeller and Hildebrandt, 2002): halves alone, then without them, then quarters. Also returns whether
    the search ended before `is_over`. Several minimal sets may exist; the same one is found each time.

    >>> smallest_failing(range(32), lambda some: {3, 17} <= set(some))
    ((3, 17), True)
    """
    left, parts = tuple(items), 2
    while len(left) > 1:
        parts = min(parts, len(left))
        chunks = [left[at * len(left) // parts : (at + 1) * len(left) // parts] for at in range(parts)]
        rests = [tuple(each for other in chunks if other is not chunk for each in other) for chunk in chunks]
        # With two parts, the rests are the parts.
        tried: list[tuple[Item, ...]] = [*chunks, *(rests if parts > 2 else ())]
        for number, some in enumerate(tried):
            if is_over():
                return left, False
            if fails(some):
                left, parts = some, 2 if number < len(chunks) else parts - 1
                break
        else:
            if parts == len(left):
                return left, True
            parts *= 2
    # What fails without any of them needs none.
    return ((), True) if left and not is_over() and fails(()) else (left, not is_over())


# --- the changes between two modules ---


@dataclass(frozen=True, slots=True)
class LineChange:
    """What one change replaces: a line of a computation, its root, its parameters, or an attribute of the header.

    `before` and `after` are what both modules have, as text; `name` is that of the instruction or of the attribute.
    """

    kind: str
    computation: str
    name: str
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.computation, self.name


@dataclass(frozen=True, slots=True)
class _Pair:
    """A computation of both modules in one set of names: those of the old one where there are pairs."""

    old: Body
    new: Body


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes that make a module of another one, each of which can be made alone as far as the result is valid."""

    old: Draft
    new: Draft
    pairs: tuple[_Pair, ...]
    all: tuple[LineChange, ...]

    def applied(self, chosen: Collection[LineChange]) -> Draft | None:
        """The old module with some changes; None if values would depend on each other in a circle, or be missing.

        >>> from hlo_cli import parse_module
        >>> text = "ENTRY e { p = f32[] parameter(0)  q = f32[] negate(p)  ROOT r = f32[] sine(q) }"
        >>> changes = changes_between(*map(parse_module, (text, text.replace("negate", "abs").replace("sine", "tan"))))
        >>> [change.name for change in changes.all]
        ['q', 'r']
        >>> print("".join(changes.applied(changes.all[:1]).entry.chunks(is_entry=True)).rstrip())
        ENTRY %e (p: f32[]) -> f32[] {
          %p = f32[] parameter(0)
          %q = f32[] abs(%p)
          ROOT %r = f32[] sine(%q)
        }
        """
        keys = {change.key for change in chosen}
        bodies: dict[str, Body] = {}
        for pair in self.pairs:
            body = _mixed(pair, keys)
            if body is None:
                return None
            bodies[body.name] = body
        for draft in (self.old, self.new):
            for body in draft.bodies:
                bodies.setdefault(body.name, body)
        entry = bodies.pop(self.old.entry.name)
        names = dict.fromkeys(each.name for draft in (self.old, self.new) for each in draft.header)
        new, old = ({each.name: each for each in draft.header} for draft in (self.new, self.old))
        header = [(new if ("header", "", name) in keys else old).get(name) for name in names]
        draft = Draft(
            self.old.name,
            (*callees_first(bodies), entry),
            tuple(each for each in header if each is not None),
            self.old.tables,
        )
        return draft.pruned()


def _mixed(pair: _Pair, keys: Collection[tuple[str, str, str]]) -> Body | None:
    """A computation with the lines of both modules: those of chosen changes, and all that only one of them has."""
    name = pair.old.name

    def chosen(kind: str, what: str) -> bool:
        return (kind, name, what) in keys

    olds, news = ({line.name: line for line in body.lines} for body in (pair.old, pair.new))
    parameters = (pair.new if chosen("parameters", "") else pair.old).parameters
    lines = {line.name: line for line in parameters}
    for each in dict.fromkeys((*olds, *news)):
        line = news[each] if each not in olds or (each in news and chosen("line", each)) else olds[each]
        # A parameter that only the other module has is no value here.
        if not line.is_parameter:
            lines[each] = line
    root = (pair.new if chosen("root", "") else pair.old).root
    ordered = _ordered(lines, root)
    if ordered is None:
        return None
    return replace(pair.old, lines=(*parameters, *(line for line in ordered if not line.is_parameter)), root=root)


def _ordered(lines: Mapping[str, Line], root: str) -> tuple[Line, ...] | None:
    """The parameters and what the root depends on, each value after those that it is made of; None if that fails.

    Lines with side effects are kept, as far as their operands are there.
    """
    done: dict[str, Line] = {}

    def add(start: str) -> bool:
        stack, open_ = [(start, False)], set[str]()
        while stack:
            name, is_done = stack.pop()
            if is_done:
                open_.discard(name)
                done[name] = lines[name]
            elif name not in done:
                if name in open_ or name not in lines:
                    return False
                open_.add(name)
                stack.append((name, True))
                stack += [(operand, False) for operand in reversed(lines[name].used) if operand not in done]
        return True

    if not add(root):
        return None
    for name, line in lines.items():
        if line.is_parameter or "has_side_effect" in {each.name for each in line.attributes}:
            before = dict(done)
            if not add(name):
                done = before
    at = {name: number for number, name in enumerate(done)}
    # An order between instructions that one of the modules does not have is none.
    return tuple(_with_predecessors(line, at) for line in done.values())


_NAME: Final = re.compile(r"%?([A-Za-z_][A-Za-z0-9_.\-]*+)")


def _with_predecessors(line: Line, places: Mapping[str, int]) -> Line:
    found = next((each for each in line.attributes if each.name == CONTROL_PREDECESSORS), None)
    if found is None:
        return line
    here = places[line.name]
    left = [name for name in _NAME.findall(found.value) if places.get(name, here) < here]
    if not left:
        return line.without((CONTROL_PREDECESSORS,))
    value = "{" + ", ".join(f"%{name}" for name in left) + "}"
    changed = (Attribute(each.name, value) if each is found else each for each in line.attributes)
    return replace(line, attributes=tuple(changed))


def changes_between(old: Module, new: Module) -> Changes:
    """The changes between two modules, whose instructions are paired as by `hlo diff`.

    Names alone, metadata, and the order of instructions are no changes.
    """
    found = diff(old, new)
    # Texts have names with and without `%`, which is no change.
    first = draft_of(old).mapped(lambda line: _renamed_line(line, {}, {}))
    second = draft_of(new)
    entries = {old.entry: new.entry}
    computations = {**found.computations, **entries}
    names = _computation_names(computations, first, second)
    olds = {body.name: body for body in first.bodies}
    renamed = [_renamed(found, body, olds.get(names[body.name]), names) for body in second.bodies]
    second = replace(second, bodies=tuple(renamed))
    pairs = tuple(_Pair(olds[body.name], body) for body in second.bodies if body.name in olds)
    return Changes(first, second, pairs, (*_header_changes(first, second), *_line_changes(pairs)))


def _computation_names(
    computations: Mapping[Computation, Computation], first: Draft, second: Draft
) -> Mapping[str, str]:
    """The name of each computation of the second module: that of its counterpart, or one that the first has not."""
    partners = {b.name: a.name for a, b in computations.items()}
    olds = {body.name for body in first.bodies}
    names = {body.name: partners[body.name] for body in second.bodies if partners.get(body.name) in olds}
    taken = {*olds, *names.values()}
    for body in second.bodies:
        if body.name not in names:
            names[body.name] = free_name(body.name, taken, {})
            taken.add(names[body.name])
    return names


def _renamed(found: ModuleDiff, body: Body, partner: Body | None, names: Mapping[str, str]) -> Body:
    """A computation of the second module with the names of the first one, for itself and for its instructions."""
    known = {} if partner is None else _line_names(found, partner, body)
    lines = tuple(_renamed_line(line, known, names) for line in body.lines)
    return replace(body, name=names[body.name], lines=lines, root=known.get(body.root, body.root))


def _line_names(found: ModuleDiff, old: Body, new: Body) -> Mapping[str, str]:
    """The name in the first module of each instruction of a computation of the second; a free one if it has none."""
    olds = {line.name: line for line in old.lines}
    known = {
        after.name: before.name
        for before, after in found.pairs.items()
        if (before.computation.name, after.computation.name) == (old.name, new.name) and before.name in olds
    }
    left = olds.keys() - known.values()
    for line in new.lines:
        # Instructions of other opcodes are not paired: of the same name, or at the end, one has replaced the other.
        same = old.root if line.name == new.root and old.root in left else line.name
        if line.name not in known and same in left and not olds[same].is_parameter and not line.is_parameter:
            known[line.name] = same
            left.discard(same)
    taken = {*olds, *known.values()}
    for line in new.lines:
        if line.name not in known:
            known[line.name] = free_name(line.name, taken, {})
            taken.add(known[line.name])
    return known


def _renamed_line(line: Line, known: Mapping[str, str], computations: Mapping[str, str]) -> Line:
    def operand(text: str) -> str:
        name, mark, index = text.partition("#")
        return known.get(name, name) + mark + index

    called = frozenset(line.called)

    def attribute(each: Attribute) -> Attribute:
        if each.name == CONTROL_PREDECESSORS:
            return Attribute(each.name, _NAME.sub(lambda m: f"%{known.get(m[1], m[1])}", each.value))
        if called and not each.value.startswith(('"', '{"')):
            changed = _NAME.sub(lambda m: f"%{computations.get(m[1], m[1])}" if m[1] in called else m[0], each.value)
            return Attribute(each.name, changed)
        return each

    return replace(
        line,
        name=known.get(line.name, line.name),
        operands=tuple(map(operand, line.operands)),
        attributes=tuple(map(attribute, line.attributes)),
        called=tuple(computations.get(name, name) for name in line.called),
    )


def _header_changes(first: Draft, second: Draft) -> Iterator[LineChange]:
    old, new = ({each.name: each.value for each in draft.header} for draft in (first, second))
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield LineChange("header", "", name, old.get(name, ""), new.get(name, ""))


_IGNORED: Final = ("metadata", "origin")


def _line_changes(pairs: Sequence[_Pair]) -> Iterator[LineChange]:
    for pair in reversed(pairs):
        name = pair.old.name
        olds, news = ({line.name: line for line in body.lines} for body in (pair.old, pair.new))
        listed = [", ".join(f"{line.name}: {line.shape}" for line in body.parameters) for body in (pair.old, pair.new)]
        if listed[0] != listed[1]:
            yield LineChange("parameters", name, "", *listed)
        for each, line in olds.items():
            other = news.get(each)
            if other is None or (line.is_parameter and other.is_parameter):
                continue
            if line.without(_IGNORED) != other.without(_IGNORED):
                yield LineChange("line", name, each, _text(line), _text(other))
        if pair.old.root != pair.new.root:
            yield LineChange("root", name, "", pair.old.root, pair.new.root)


def _text(line: Line) -> str:
    """A line as text, without what has no meaning."""
    return line.without(_IGNORED).to_string(0).partition(" = ")[2]

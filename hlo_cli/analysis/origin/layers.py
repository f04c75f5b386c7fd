"""Which instructions are alike, one operation of the user's program repeated, and in which layer is each?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.analysis.origin.scopes_and_moves import all_general, common_scope, scope_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction

# --- likeness ---
# Instructions of one operation of the user's program, which compilers repeat by the hundred.
#
# Unrolled layers, clones in several fusions, and rematerialization repeat an operation. Two instructions are alike if
# their opcodes and the stems of their names are equal, and their operands and users come from the same places.


# Suffixes of `Clone`, rematerialization, and sinking into loops in XLA.
_COPIED: Final = re.compile(r"\.\.?(?:clone|remat|sunk)")
_NUMBER: Final = "0123456789."  # a name is made unique by `.N`, which later passes may follow by another
_KEYS: Final = 5  # the keys of `_key`, from a copied name to equal users


Place: TypeAlias = tuple[str, ...]
"""A source location, and possibly a scope."""


_Signature: TypeAlias = tuple[str, str, int, int, bool, bool]
"""Shape, value of a constant, numbers of the places of operands and of users, and whether any are known."""


class Surroundings(NamedTuple):
    """Where the operands of an instruction come from, in order, and its users, as a set; None where unknown."""

    operands: tuple[Place | None, ...]
    users: frozenset[Place]


def _copied_name(name: str) -> str:
    """The name of the instruction that was cloned.

    >>> _copied_name("add.12.clone.3"), _copied_name("constant.1064..sunk.5"), _copied_name("add.12")
    ('add.12', 'constant.1064', 'add.12')
    """
    found = _COPIED.search(name)
    return name[: found.start()] if found else name


def _stem_of(name: str) -> str:
    """The name without the number that makes it unique: what the compiler named it after.

    >>> _stem_of("convert_element_type.818.clone.1"), _stem_of("fusion")
    ('convert_element_type', 'fusion')
    """
    return _copied_name(name).rstrip(_NUMBER)


class Likeness:
    """Known instructions, to be found by those that are alike; each kind is compared when it is first asked for."""

    def __init__(
        self,
        known: Iterable[Instruction],
        place: Callable[[Instruction], Hashable],
        surroundings: Callable[[Instruction], Surroundings],
    ) -> None:
        """Takes the instructions whose places are known, their places, and the surroundings of all."""
        self._known: dict[str, list[Instruction]] = {}
        for instruction in known:
            self._known.setdefault(instruction.opcode, []).append(instruction)
        self._place = place
        self._surroundings = surroundings
        self._signatures: dict[Instruction, _Signature] = {}
        self._numbers: dict[Hashable, int] = {}
        self._stems: dict[tuple[str, str], list[Instruction]] = {}
        self._found: dict[Hashable, dict[Hashable, list[Instruction]]] = {}

    def find(self, instruction: Instruction, keys: Sequence[int] = range(_KEYS)) -> Sequence[Instruction]:
        """The known instructions like this one by the first of some keys, if all that are come from one place."""
        stem = instruction.opcode, _stem_of(instruction.name)
        known = self._of_stem(stem)
        for number in keys if known else ():
            if (key := self._key(number, instruction)) is not None:
                if (found := self._found.get((number, stem))) is None:
                    found = self._found[number, stem] = self._compared(number, known)
                if alike := found.get(key):
                    return alike
        return ()

    def _compared(self, number: int, instructions: Iterable[Instruction]) -> dict[Hashable, list[Instruction]]:
        """Instructions by a key; none for a key that instructions from two places have."""
        by_key: dict[Hashable, list[Instruction]] = {}
        for instruction in instructions:
            if (key := self._key(number, instruction)) is None:
                continue
            if (alike := by_key.get(key)) is None:
                by_key[key] = [instruction]
            elif alike and self._place(alike[0]) == self._place(instruction):
                alike.append(instruction)
            else:
                # Kept empty, not removed, so that a third one does not count as the first.
                alike.clear()  # alike, and yet from two places
        return by_key

    def _key(self, number: int, instruction: Instruction) -> Hashable | None:
        if number == 0:
            return _copied_name(instruction.name)
        if (signature := self._signatures.get(instruction)) is None:
            shape = instruction.shape.to_string(layout=False)
            argument = instruction.raw[0] if instruction.opcode == opcodes.CONSTANT else ""
            operands, users = self._surroundings(instruction)
            has_operands = any(each is not None for each in operands)
            signature = shape, argument, self._number(operands), self._number(users), has_operands, bool(users)
            self._signatures[instruction] = signature
        return _key(number, signature)

    def _number(self, near: Hashable) -> int:
        """A number for what is near, which is faster to compare."""
        return self._numbers.setdefault(near, len(self._numbers))

    def _of_stem(self, stem: tuple[str, str]) -> list[Instruction]:
        """The known instructions with an opcode and a stem, compared when they are first asked for."""
        for each in self._known.pop(stem[0], ()):
            self._stems.setdefault((each.opcode, _stem_of(each.name)), []).append(each)
        return self._stems.get(stem, [])


def _key(number: int, signature: _Signature) -> Hashable | None:
    """What instructions of one opcode and stem have in common that are alike, from the strictest at number 0."""
    shape, argument, operands, users, has_operands, has_users = signature
    match number:
        # Unknown surroundings are equal to unknown ones, which would make all strangers alike.
        case 1 if has_operands or has_users:
            return shape, argument, operands, users
        case 2 if has_operands or has_users:
            return operands, users
        case 3 if has_operands:
            return shape, operands
        case 4 if has_users or argument:
            return shape, argument, users
        case _:
            return None


# --- layers, told by neighbors ---
# Which of several layers an instruction is in: told by its neighbors, as those of instructions that are alike do.
#
# Instructions that are alike come from one source line, in the scopes of several layers. Each known one shows how its
# scope follows from the scopes of its operands, its users, and its caller, and from the name of its argument: the same,
# that of the next layer, or a part of it. What holds for the known ones is applied to the neighbors of the others.


_DIGITS: Final = re.compile(r"(\d+)")
_MAX_PATTERNS: Final = 4  # chosen, not measured: same layer, next, previous, and one exception
"""The most frequent ways to follow from a neighbor that are tried."""

_NEARLY: Final = 0.999  # sums of equal votes differ by rounding alone
"""Votes are equal if they differ by less than this factor."""

Part: TypeAlias = str | int | tuple[int, int]
"""A part of a scope: text, the part of the neighbor's scope at a position, or that part with a number added to it."""
Pattern: TypeAlias = tuple[Part, ...]
_SAME: Final[Pattern] = ((0, 0),)
"""The scope of the neighbor."""


class Neighbor(NamedTuple):
    """What an instruction is next to: its `role`, such as the first operand, and its scope, or its name.

    >>> Neighbor(("operand", 0), "layers/3/mlp").scope
    'layers/3/mlp'
    """

    role: Hashable
    scope: str
    is_label: bool = False


class _Learned:
    """How the scopes of known instructions follow from their neighbors in one role."""

    __slots__ = ("names", "patterns", "scopes", "total")

    def __init__(self) -> None:
        self.total = 0
        self.patterns: Counter[Pattern] = Counter()
        self.scopes: set[str] = set()
        self.names: set[str] = set()

    def add(self, neighbor: Neighbor, scope: str) -> None:
        self.total += 1
        self.scopes.add(scope)
        self.names.add(neighbor.scope)
        self.patterns[(_numbered if neighbor.is_label else _pattern)(neighbor.scope, scope)] += 1

    def votes(self, neighbor: Neighbor) -> Iterable[tuple[str, float]]:
        """Scopes of an instruction with a neighbor in this role, each with the share of the known that agree."""
        # The scope is the same whatever the neighbor, so the neighbor's own does not matter.
        if len(self.scopes) == 1 and len(self.names) > 1:
            yield next(iter(self.scopes)), 1.0
            return
        apply = _with_numbers if neighbor.is_label else _applied
        for pattern, count in self.patterns.most_common(_MAX_PATTERNS):
            if (scope := apply(pattern, neighbor.scope)) is not None:
                # Squared, so that one neighbor that always tells outweighs several that often do.
                yield scope, (count / self.total) ** 2


class _Alike:
    """What known instructions that are alike tell: the first of each scope, and how scopes follow from neighbors."""

    __slots__ = ("general", "most", "roles", "scopes")

    def __init__(
        self, scopes: Sequence[str], neighbors: Iterable[Sequence[Neighbor]], known: Sequence[Instruction]
    ) -> None:
        self.most = Counter(scopes).most_common(1)[0][0]
        self.scopes: dict[str, Instruction] = {}
        self.general: dict[str, Instruction] = {}
        self.roles: dict[Hashable, _Learned] = {}
        for instruction, scope, near in zip(known, scopes, neighbors, strict=True):
            self.scopes.setdefault(scope, instruction)
            self.general.setdefault(all_general(scope), instruction)
            for neighbor in near:
                self.roles.setdefault(neighbor.role, _Learned()).add(neighbor, scope)


class Layers:
    """Choices between layers, learned from known instructions when they are first asked for."""

    def __init__(
        self,
        place: Mapping[Instruction, tuple[str, str]],
        neighbors: Callable[[Instruction], Sequence[Neighbor]],
    ) -> None:
        """Takes the source and the path of known instructions, and the neighbors of all."""
        self._place = place
        self._neighbors = neighbors
        self._learned: dict[int, _Alike] = {}

    def choose(self, alike: Sequence[Instruction], instruction: Instruction) -> tuple[Instruction, str]:
        """The known instruction that is nearest to one that is like all given, and the scope of the latter.

        The scope is what several have in common if neighbors tell each as much as the others.

        >>> from hlo_cli import parse_module
        >>> lines = "  ".join(f"n{at} = f32[2] negate()" for at in range(4))
        >>> known = parse_module(f"HloModule m  ENTRY e {{ {lines} ROOT r = f32[2] copy(n0) }}").entry.instructions[:4]
        >>> place = {each: ("a.py:3", f"jit(f)/layers_{at}/mlp") for at, each in enumerate(known[:3])}
        >>> users = {each: [Neighbor("user", f"layers_{at}/norm")] for at, each in enumerate(known)}
        >>> Layers(place, users.__getitem__).choose(known[:2], known[2])
        (<negate n0>, 'layers_2/mlp')
        >>> Layers(place, lambda _: []).choose(known[:2], known[2])
        (<negate n0>, 'layers_*/mlp')
        """
        learned = self._learn(alike)
        there = self._at[self._place[alike[0]][0]]
        scopes = self._votes(learned.roles, there, instruction) or tuple(sorted(learned.scopes))
        # Undecided between layers: `layers_*` is true, a guess would not be.
        scope = scopes[0] if len(scopes) == 1 else common_scope(scopes) or learned.most
        general = all_general(scope)
        teller = learned.scopes.get(scope) or learned.general.get(general) or there.get(general)
        return teller or learned.scopes[learned.most], scope

    def _votes(
        self, roles: Mapping[Hashable, _Learned], at_location: Mapping[str, Instruction], instruction: Instruction
    ) -> tuple[str, ...]:
        """The scopes that most neighbors tell, of those known at the source location, in layers that exist."""
        votes: dict[str, float] = {}
        for neighbor in self._neighbors(instruction):
            for scope, weight in roles[neighbor.role].votes(neighbor) if neighbor.role in roles else ():
                # A pattern may lead beyond the last layer, or to a scope that this line never has.
                if all_general(scope) in at_location and _numbered_part(scope) in self._numbered:
                    votes[scope] = votes.get(scope, 0.0) + weight
        most = _NEARLY * max(votes.values(), default=0.0)
        return tuple(sorted(scope for scope, weight in votes.items() if weight >= most))

    def _learn(self, alike: Sequence[Instruction]) -> _Alike:
        if (found := self._learned.get(id(alike))) is None:
            scopes = list(map(self._scope, alike))
            found = self._learned[id(alike)] = _Alike(scopes, map(self._neighbors, alike), alike)
        return found

    def _scope(self, instruction: Instruction) -> str:
        return scope_of(f"{self._place[instruction][1]}/")

    @cached_property
    def _numbered(self) -> set[str]:
        """The known layers: scopes up to the last part with a number."""
        return {_numbered_part(scope_of(f"{path}/")) for path in {path for _, path in self._place.values()}}

    @cached_property
    def _at(self) -> dict[str, dict[str, Instruction]]:
        """For each source location the first instruction of each scope, by the scope without numbers."""
        first: dict[tuple[str, str], Instruction] = {}
        for each, place in self._place.items():
            first.setdefault(place, each)
        found: dict[str, dict[str, Instruction]] = {}
        for (source, path), each in first.items():
            found.setdefault(source, {}).setdefault(all_general(scope_of(f"{path}/")), each)
        return found


@cache
def _numbered_part(scope: str) -> str:
    """A scope up to its last part with a number; empty if there is none.

    >>> _numbered_part("decoder/layer_3/mlp"), _numbered_part("decoder")
    ('decoder/layer_3', '')
    """
    parts = scope.split("/")
    last = max((at for at, part in enumerate(parts) if _DIGITS.search(part)), default=-1)
    return "/".join(parts[: last + 1])


@cache
def _pattern(neighbor: str, scope: str) -> Pattern:
    if neighbor == scope:
        return _SAME
    near = neighbor.split("/") if neighbor else []
    parts: list[Part] = []
    for position, part in enumerate(scope.split("/") if scope else []):
        if position < len(near) and part == near[position]:
            parts.append(position)
        elif (
            position < len(near)
            and all_general(part) == all_general(near[position])
            and (change := _change(near[position], part)) is not None
        ):
            parts.append((position, change))
        else:
            parts.append(part)
    return tuple(parts)


def _change(before: str, after: str) -> int | None:
    """The difference between the only number in two names."""
    one, other = _DIGITS.findall(before), _DIGITS.findall(after)
    return int(other[0]) - int(one[0]) if len(one) == len(other) == 1 else None


@cache
def _applied(pattern: Pattern, neighbor: str) -> str | None:
    if pattern == _SAME:
        return neighbor
    near = neighbor.split("/") if neighbor else []
    parts: list[str] = []
    for part in pattern:
        match part:
            case str():
                parts.append(part)
            case int() if part < len(near):
                parts.append(near[part])
            case (at, change) if at < len(near) and len(numbers := _DIGITS.findall(near[at])) == 1:
                parts.append(_DIGITS.sub(str(int(numbers[0]) + change), near[at]))
            case _:
                return None
    return "/".join(parts)


@cache
def _numbered(label: str, scope: str) -> Pattern:
    """A scope with positions for the numbers that a label has too."""
    numbers = _DIGITS.findall(label)
    return tuple(numbers.index(part) if part in numbers else part for part in _DIGITS.split(scope))


@cache
def _with_numbers(pattern: Pattern, label: str) -> str | None:
    numbers = _DIGITS.findall(label)
    return "".join(numbers[part] if isinstance(part, int) else str(part) for part in pattern)

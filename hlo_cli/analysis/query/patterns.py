"""Which texts and opcodes does a condition mean: substrings, globs, expressions, opcodes, and lowered forms?"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator
from fnmatch import translate
from typing import Final, TypeAlias
from warnings import catch_warnings, simplefilter

from hlo_cli.analysis.cost.matmuls import LIBRARY_CONVOLUTIONS, LIBRARY_DOTS
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.expressions import Both, Call, Comparison, Condition, Either, Not, Text, Where
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import MATMULS, OPCODE_ARITY, is_known
from hlo_cli.source import Span, did_you_mean, nearest

# --- substrings, globs, and regular expressions, each in time linear in the text ---
# Python's `re` tries one way after the other, so that `.*.*.*x` takes the fourth power of the length of a text that has
# no `x`. Patterns come from people and from files of settings, texts from dumps, so neither may decide how long a
# filter takes. An expression without repeats and alternatives is left to `re`; any other becomes an automaton that is
# in all places of the expression at once (Thompson, 1968), whose states are built as texts need them. What no automaton
# can do, back-references and lookarounds, is refused.


Matcher = Callable[[str], bool]

MAX_MATCHED_LENGTH: Final = 20_000
"""Number of characters that a regular expression searches; only literals and kernels in a backend_config are longer."""

_PIECE: Final = re.compile(r"(?s)\\.|\[\^?\]?(?:[^\]\\]|\\.)*+\]|[*+?]|\{[0-9,]*+\}|.")
_REPEATS: Final = re.compile(r"[*+]|\{[0-9]*+,[0-9]*+\}|\{[0-9]{3,}\}|\{[2-9][0-9]\}")
_MAX_DEPTH: Final = 50  # groups in groups; far below the recursion that `re` and the reader allow


def matcher(where: Where, text: Text) -> Matcher:
    """Function that tests whether a text contains or matches a pattern.

    >>> from hlo_cli.source import Source
    >>> nowhere = Where(Source("", ""), None)
    >>> [matcher(nowhere, Text(text, Span(0, 0)))("fusion.14") for text in ("ion", "fus*4", "fus*", "*.1", "fusi…14")]
    [True, True, True, False, True]
    """
    match text.pattern:
        case "part":
            part = text.text.removeprefix("%")
            return lambda value: part in value
        case "glob":
            return _glob(text.text)
        case "expression":
            return _expression(where, text)


def _name_matcher(where: Where, text: Text) -> Matcher:
    """Function that tests whether a name equals a text, or matches a glob or regular expression.

    >>> from hlo_cli.source import Source
    >>> nowhere = Where(Source("", ""), None)
    >>> [_name_matcher(nowhere, Text(text, Span(0, 0)))("add.1") for text in ("%add.1", "add", "add*")]
    [True, False, True]
    """
    if text.pattern == "part":
        name = text.text.removeprefix("%")
        return lambda value: value == name
    return matcher(where, text)


def call_matcher(where: Where, call: Call) -> Matcher:
    """Function that tests whether a name is the argument of a function: `uses(%a)` equals, `uses(~a)` contains it.

    >>> from hlo_cli.syntax.conditions import parse_where
    >>> calls = [parse_where(text) for text in ("uses(add)", "uses(~add)", "uses(add*)")]
    >>> [call_matcher(where, where.condition)("add.1") for where in calls]
    [False, True, True]
    """
    return (matcher if call.is_pattern else _name_matcher)(where, call.argument)


def is_exact(call: Call) -> bool:
    """Whether the argument of a function is a name, not a pattern.

    >>> from hlo_cli.syntax.conditions import parse_where
    >>> [is_exact(parse_where(text).condition) for text in ("uses(add)", "uses(~add)", "uses(add*)")]
    [True, False, False]
    """
    return not call.is_pattern and call.argument.pattern == "part"


def _glob(text: str) -> Matcher:
    """Matcher for a glob in which brackets are literal, as in shapes, and … matches any text."""
    # Shapes have brackets, so a bracket is no class of characters.
    found = re.compile(translate(text.removeprefix("%").replace("[", "[[]").replace("…", "*"))).match
    return lambda value: found(value) is not None


def _expression(where: Where, text: Text) -> Matcher:
    pattern = text.text.replace("…", ".*")
    inside = text.span.start + 1
    if (at := _catastrophic_repeat(pattern)) is not None:
        message = "nested repeats are not supported (unbounded matching time)"
        raise where.error(message, Span(inside + at, inside + at + 1), "use [ab]* for (a|b)*, a* for (a*)*")
    try:
        return expression_matcher(pattern)
    except re.error as error:
        at = inside + (error.pos or 0)
        raise where.error(f"invalid regular expression: {error.msg}", Span(at, at + 1)) from None
    except _Unsupported as error:
        at = inside + error.position
        raise where.error(f"{error} not supported (unbounded matching time)", Span(at, at + 1), error.hint) from None
    except (OverflowError, RecursionError):
        raise where.error("regular expression too large", text.span) from None


def _catastrophic_repeat(pattern: str) -> int | None:
    """Position of a repeated group that contains repeats or alternatives, or of too deep nesting; None if there is
    none.
    """
    groups = [False]
    closed = False
    for match in _PIECE.finditer(pattern):
        piece = match[0]
        repeats = _REPEATS.fullmatch(piece) is not None
        if (repeats and closed) or len(groups) > _MAX_DEPTH:
            return match.start()
        closed = False
        if piece == "(":
            groups.append(False)
        elif piece == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1] |= closed
        elif repeats or piece == "|":
            groups[-1] = True
    return None


# --- regular expressions in linear time ---


def expression_matcher(pattern: str) -> Matcher:
    """Function that tests whether a regular expression matches anywhere in a text, in linear time.

    `.` matches newlines too. Raises `re.error` for an invalid pattern, OverflowError for one that is too large, and
    a ValueError for back-references, lookarounds, and what else gives up ways to match.

    >>> matches = expression_matcher("(fus|loop)[a-z]*\\\\.[0-9]+$")
    >>> matches("loop_add_fusion.14"), matches("add.1")
    (True, False)
    """
    found = _compiled(pattern, re.DOTALL).search
    # Without special characters `re` never goes back.
    if _SIMPLE.isdisjoint(pattern):
        return lambda value: found(value[:MAX_MATCHED_LENGTH]) is not None
    parts = _Reader(pattern).read().parts
    # `.*` at the ends changes nothing in a search, and would keep every place alive.
    while parts and _is_anything(parts[0]):
        parts = parts[1:]
    while parts and _is_anything(parts[-1]):
        parts = parts[:-1]
    literal = _longest_literal(parts)
    if len(literal) == len(parts):
        return lambda value: literal in value[:MAX_MATCHED_LENGTH]
    automaton = _Automaton(_Sequence(parts))

    def matches(value: str) -> bool:
        text = value[:MAX_MATCHED_LENGTH]
        # `in` rejects most texts at the speed of memory.
        return literal in text and automaton.matches(text)

    return matches


def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    """The pattern compiled, without warnings of Python about what it may mean one day, as in `[[]`."""
    with catch_warnings():
        simplefilter("ignore")
        return re.compile(pattern, flags)


class _Unsupported(ValueError):
    """What an automaton cannot match, with its place in the pattern."""

    def __init__(self, what: str, position: int, hint: str | None = None) -> None:
        super().__init__(f"{what} are")
        self.position = position
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Character:
    """One character of a kind; `literal` is the character, if it can be one alone."""

    atom: str
    flags: int
    literal: str | None


@dataclass(frozen=True, slots=True)
class _Assertion:
    """A place without width, such as `^` and `\\b`."""

    atom: str
    flags: int


@dataclass(frozen=True, slots=True)
class _Sequence:
    """One after the other."""

    parts: tuple[_Tree, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    """One of several."""

    branches: tuple[_Tree, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    """From `least` to `most` times; None is any number."""

    inner: _Tree
    least: int
    most: int | None


_Tree: TypeAlias = "_Character | _Assertion | _Sequence | _Choice | _Repeat"

_ATOM: Final = re.compile(
    r"(?s)\\N\{[^}]*\}|\\x..|\\u.{4}|\\U.{8}|\\0[0-7]{0,2}|\\[0-3][0-7][0-7]|\\.|\[\^?\]?(?:[^\]\\]|\\.)*+\]|."
)
_QUANTIFIER: Final = re.compile(r"\*|\+|\?|\{([0-9]*)(?:(,)([0-9]*))?\}")
_GROUP: Final = re.compile(r"\((?:\?P<[^>]*>|\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-z]+))?(?P<end>[:)]))?")
_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "a": re.ASCII, "u": 0}
_SIMPLE: Final = frozenset("(*+?{|\\")
"""Without these, an expression takes one step a character from each place of a text, as many as it has characters."""
_ANCHORS: Final = frozenset(("^", "$", r"\A", r"\Z", r"\z", r"\b", r"\B"))
_LOOKING: Final = "use several conditions joined by `and` and `not`"


class _Reader:
    """Reads a pattern that `re` has accepted, with a stack of open groups."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._flags: int = re.DOTALL
        self._open: list[tuple[list[list[_Tree]], int]] = [([[]], self._flags)]

    def read(self) -> _Sequence:
        """The tree of the pattern."""
        while self._at < len(self._pattern):
            here = self._pattern[self._at]
            if here == "(":
                self._begin()
            elif here == ")":
                branches, self._flags = self._open.pop()
                self._at += 1
                self._append(_joined(branches))
            elif here == "|":
                self._open[-1][0].append([])
                self._at += 1
            else:
                self._append(self._atom())
        tree = _joined(self._open[0][0])
        return tree if isinstance(tree, _Sequence) else _Sequence((tree,))

    def _begin(self) -> None:
        """Reads the begin of a group, or flags for all of the pattern."""
        if self._pattern.startswith("(?#", self._at):
            self._at = self._pattern.index(")", self._at) + 1
            return
        found = _GROUP.match(self._pattern, self._at)
        assert found is not None
        if found.end() == self._at + 1 and self._pattern.startswith("(?", self._at):
            raise self._refusal()
        before = self._flags
        for letter in found["on"] or "":
            if letter not in _FLAGS:
                raise _Unsupported(f"flags (?{letter})", self._at, "remove the flag")
            self._flags |= _FLAGS[letter]
        for letter in found["off"] or "":
            self._flags &= ~_FLAGS.get(letter, 0)
        self._at = found.end()
        if found["end"] != ")":
            self._open.append(([[]], before))

    def _refusal(self) -> _Unsupported:
        """The error for a group that is more than a part of the pattern."""
        kind = self._pattern[self._at + 2 : self._at + 4]
        if kind[:1] in ("=", "!") or kind in ("<=", "<!"):
            return _Unsupported("lookarounds", self._at, _LOOKING)
        what = "atomic groups" if kind[:1] == ">" else "back-references"
        return _Unsupported(what, self._at, "use a plain group, (…)")

    def _atom(self) -> _Tree:
        found = _ATOM.match(self._pattern, self._at)
        assert found is not None
        atom, at = found[0], self._at
        self._at = found.end()
        if atom in _ANCHORS:
            return _Assertion(atom, self._flags)
        if atom[0] == "\\" and atom[1:2] in "123456789" and len(atom) == 2:
            raise _Unsupported("back-references", at, "write the text again")
        is_plain = atom[0] not in "\\[." or (len(atom) == 2 and atom[0] == "\\" and not atom[1].isalnum())
        return _Character(atom, self._flags, atom[-1] if is_plain and not self._flags & re.IGNORECASE else None)

    def _append(self, tree: _Tree) -> None:
        """Adds a part to the open group, with the repeats after it."""
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is not None and found[0] != "{}":
            self._at = found.end()
            if self._pattern.startswith("+", self._at):
                raise _Unsupported("possessive repeats", self._at, "remove the second +")
            if self._pattern.startswith("?", self._at):
                self._at += 1  # the shortest way to match is a way to match
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(found[0], _bounds(found))
            tree = _Repeat(tree, least, most)
        self._open[-1][0][-1].append(tree)


def _bounds(counted: re.Match[str]) -> tuple[int, int | None]:
    """The numbers of `{2}`, `{2,}`, `{,3}`, and `{2,3}`."""
    least = int(counted[1] or 0)
    if counted[2] is None:
        return least, least
    return least, int(counted[3]) if counted[3] else None


def _joined(branches: list[list[_Tree]]) -> _Tree:
    sequences = [_Sequence(tuple(parts)) for parts in branches]
    return sequences[0] if len(sequences) == 1 else _Choice(tuple(sequences))


def _is_anything(tree: _Tree) -> bool:
    """Whether a part matches every text, so that it changes nothing at the begin and the end of a search."""
    if not isinstance(tree, _Repeat) or tree.least or tree.most is not None:
        return False
    return isinstance(tree.inner, _Character) and tree.inner.atom == "." and bool(tree.inner.flags & re.DOTALL)


def _longest_literal(parts: tuple[_Tree, ...]) -> str:
    """The longest text that each match contains, as far as it is seen at once: `in` finds it faster than any automaton.

    >>> _longest_literal(_Reader("ab.*fusion[0-9]").read().parts)
    'fusion'
    """
    longest = current = ""
    for part in parts:
        literal = part.literal if isinstance(part, _Character) else None
        current = current + literal if literal is not None else ""
        longest = max(longest, current, key=len)
    return longest


# --- the automaton ---

_MAX_PLACES: Final = 1000
"""Places of an expression: `x{500}` has as many. A character takes at most a step for each."""
_MAX_STATES: Final = 4000
"""States that are remembered; some expressions have 2^n, and few texts need many."""
_END: Final = ""
_LAST_NEWLINE: Final = "\n$"
"""What follows in a text, besides characters: its end, and a newline at its end, before which `$` matches too."""
_ASCII_WORD, _OTHER_WORD, _NO_WORD, _NEWLINE, _BEGIN = "a", "é", " ", "\n", ""
"""Characters that stand for all that assertions tell apart before them, and the begin of a text."""
_EMPTY_HAS_INSIDE: Final = sys.version_info >= (3, 14)
r"""Whether `\B` matches in an empty text, as it does from Python 3.14 on."""


class _Automaton:
    """The places of an expression, each with edges that take a character, and with edges that take none."""

    def __init__(self, tree: _Tree) -> None:
        self._free: list[list[tuple[_Assertion | None, int]]] = [[]]  # place 0 is the end of a match
        self._taking: list[tuple[Callable[[str], object], int] | None] = [None]
        self._tests: dict[tuple[str, int], Callable[[str], object]] = {}
        self._begin = self._add(tree, 0)
        self._known: dict[tuple[frozenset[int], str], _State] = {}
        self.found = _State(self, frozenset(), _BEGIN)

    def matches(self, text: str) -> bool:
        """Whether the expression matches anywhere in a text."""
        state = self._state(frozenset((self._begin,)), _BEGIN)
        for character in text[:-1]:
            state = state[character]
        if text:
            state = state[_LAST_NEWLINE if text[-1] == "\n" else text[-1]]
        return state[_END] is self.found

    def after(self, state: _State, key: str) -> _State:
        """The state after a character, or the one that stays: a match was found."""
        if state is self.found:
            return state
        reached: set[int] = set()
        waiting = list(state.places)
        following = {self._begin}
        while waiting:
            place = waiting.pop()
            if place in reached:
                continue
            # Place 0 is the end of a match.
            if not place:
                return self.found
            reached.add(place)
            waiting += [to for check, to in self._free[place] if check is None or _holds(check, state.before, key)]
            taking = self._taking[place]
            if taking is not None and key != _END and taking[0](key[0]):
                following.add(taking[1])
        return self._state(frozenset(following), _before(key))

    def _state(self, places: frozenset[int], before: str) -> _State:
        state = self._known.get((places, before))
        if state is None:
            # Forgetting all states costs little: texts revisit the same few.
            if len(self._known) >= _MAX_STATES:
                for each in self._known.values():
                    each.clear()
                self._known.clear()
            state = self._known[places, before] = _State(self, places, before)
        return state

    def _place(self) -> int:
        if len(self._free) >= _MAX_PLACES:
            raise OverflowError
        self._free.append([])
        self._taking.append(None)
        return len(self._free) - 1

    def _add(self, tree: _Tree, target: int) -> int:
        """The place from which a part leads to `target`; groups are at most `_MAX_DEPTH` deep."""
        match tree:
            case _Character(atom, flags):
                place = self._place()
                test = self._tests.setdefault((atom, flags), _compiled(atom, flags).fullmatch)
                self._taking[place] = test, target
                return place
            case _Assertion():
                place = self._place()
                self._free[place].append((tree, target))
                return place
            case _Sequence(parts):
                for part in reversed(parts):
                    target = self._add(part, target)
                return target
            case _Choice(branches):
                place = self._place()
                self._free[place] += [(None, self._add(branch, target)) for branch in branches]
                return place
            case _Repeat(inner, least, most):
                return self._add_repeat(inner, least, most, target)

    def _add_repeat(self, inner: _Tree, least: int, most: int | None, target: int) -> int:
        if max(least, most or 0) > _MAX_PLACES:
            raise OverflowError
        entry = target
        if most is None:
            entry = self._place()
            self._free[entry] += [(None, self._add(inner, entry)), (None, target)]
        for _ in range((most or least) - least):
            place = self._place()
            self._free[place] += [(None, self._add(inner, entry)), (None, target)]
            entry = place
        # Repeats are written out, which the limit of places bounds.
        for _ in range(least):
            entry = self._add(inner, entry)
        return entry


class _State(dict[str, "_State"]):
    """The places that a search is in at once, by the next character the following state, found when it is needed."""

    __slots__ = ("_automaton", "before", "places")

    def __init__(self, automaton: _Automaton, places: frozenset[int], before: str) -> None:
        super().__init__()
        self._automaton = automaton
        self.places = places
        self.before = before

    def __missing__(self, key: str) -> _State:
        following = self._automaton.after(self, key)
        self[key] = following
        return following


def _before(key: str) -> str:
    """What stands for a character as the one before."""
    if key in (_NEWLINE, _LAST_NEWLINE):
        return _NEWLINE
    if key == _END or not (key.isalnum() or key == "_"):
        return _NO_WORD
    return _ASCII_WORD if key.isascii() else _OTHER_WORD


def _holds(check: _Assertion, before: str, key: str) -> bool:
    """Whether an assertion holds between two characters."""
    is_multiline = bool(check.flags & re.MULTILINE)
    match check.atom:
        case "^":
            return before == _BEGIN or (is_multiline and before == _NEWLINE)
        case "$":
            return key in (_END, _LAST_NEWLINE) or (is_multiline and key == _NEWLINE)
        case r"\A":
            return before == _BEGIN
        case r"\b" | r"\B":
            if before == _BEGIN and key == _END:
                return check.atom == r"\B" and _EMPTY_HAS_INSIDE
            ascii_only = bool(check.flags & re.ASCII)
            is_boundary = _is_word(before, ascii_only=ascii_only) != _is_word(key, ascii_only=ascii_only)
            return is_boundary == (check.atom == r"\b")
        case _:  # \Z, and \z from Python 3.14 on
            return key == _END


def _is_word(character: str, *, ascii_only: bool) -> bool:
    first = character[:1]
    return (first.isalnum() or first == "_") and (first.isascii() or not ascii_only)


# --- opcodes in conditions, of which an unknown one is an error ---


EXACT: Final = ("==", "!=", "in", "not in")
"""Operators that compare a whole text."""

_ASYNC: Final = re.compile(r"(.+)-(?:start|update|done)")


def opcode_check(
    existing: Callable[[], Collection[str]], *, is_opcode: Callable[[str], bool] = is_known
) -> Callable[[Where, Comparison], None]:
    """Check that raises HloError, with the nearest opcode, for an opcode that XLA does not have.

    `existing` returns the opcodes of the module, which can be those of a fork.

    >>> from hlo_cli.syntax.conditions import parse_where
    >>> where = parse_where("opcode == cpoy")
    >>> opcode_check(lambda: ("frob",))(where, where.condition)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:11: error: unknown opcode 'cpoy'
      help: did you mean 'copy'?
    """

    def check(where: Where, comparison: Comparison) -> None:
        for value in comparison.values if comparison.operator in EXACT else ():
            if isinstance(value, Text) and not is_opcode(value.text) and value.text not in existing():
                # A near miss of a known opcode is more likely than an opcode of the future.
                hint = did_you_mean(nearest(value.text, (*OPCODE_ARITY, *existing())))
                hint = hint or f'for a custom opcode, write opcode ~ "^{value.text}$"'
                raise where.error(f"unknown opcode '{value.text}'", value.span, hint)

    return check


def check_operation_opcode(where: Where, comparison: Comparison) -> None:
    """Raises HloError for an unknown opcode, and for the async form of a logical operation.

    >>> from hlo_cli.syntax.conditions import parse_where
    >>> where = parse_where("opcode == all-gather-start")
    >>> check_operation_opcode(where, where.condition)
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: 1:11: error: all-gather-start is matched as all-gather
      help: use opcode == all-gather, and add `async` to require an async operation
    """
    for value in comparison.values:
        match = _ASYNC.fullmatch(value.text) if isinstance(value, Text) else None
        if match and (match[1] in OPCODE_ARITY or match[1] == "async"):
            is_any = match[1] == "async"
            and_async = f"use opcode == {match[1]}, and add `async` to require an async operation"
            hint = "use `async`" if is_any else and_async
            message = f"{value.text} is matched as {'the operation that it starts' if is_any else match[1]}"
            raise where.error(message, value.span, hint)
    opcode_check(lambda: (), is_opcode=OPCODE_ARITY.__contains__)(where, comparison)


def opcodes_of(module: Module) -> tuple[str, ...]:
    """Distinct opcodes of a module.

    >>> from hlo_cli import parse_module
    >>> opcodes_of(parse_module("r = f32[2] negate(f32[2] p)"))
    ('parameter', 'negate')
    """
    return tuple(dict.fromkeys(instruction.opcode for instruction in module.instructions))


def _comparisons_in(condition: Condition) -> Iterator[Comparison]:
    """Yields all comparisons of a condition.

    >>> from hlo_cli.syntax.conditions import parse_where
    >>> [str(each.field) for each in _comparisons_in(parse_where("a == 1 and not (b == 2 or c)").condition)]
    ['a', 'b']
    """
    match condition:
        case Comparison():
            yield condition
        case Not(part):
            yield from _comparisons_in(part)
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _comparisons_in(part)


# --- forms of opcodes after lowering: custom calls to libraries, or convolutions on TPU ---
# The TPU compiler turns dots into convolutions. The passes gemm_rewriter.cc and conv_rewriter.cc of
# xla/service/gpu/transforms, and onednn_contraction_rewriter.cc of xla/service/cpu, replace operations by custom
# calls.


_LIBRARY_TARGETS: Final = {
    opcodes.DOT: LIBRARY_DOTS,
    opcodes.SCALED_DOT: LIBRARY_DOTS,
    opcodes.RAGGED_DOT: LIBRARY_DOTS,
    opcodes.CONVOLUTION: LIBRARY_CONVOLUTIONS,
    opcodes.CHOLESKY: ("__cusolver$cholesky", "cusolver_potrf"),
    opcodes.TRIANGULAR_SOLVE: ("__cublas$triangularSolve",),
    opcodes.SORT: ("__cub$DeviceRadixSort",),
    opcodes.TOPK: ("__gpu$TopK", "TopK"),
}
"""Opcodes that libraries implement, with prefixes of the custom-call targets."""
_DOTS: Final = (opcodes.DOT, opcodes.SCALED_DOT, opcodes.RAGGED_DOT)
_CALL: Final = opcodes.CUSTOM_CALL


@dataclass(frozen=True, slots=True)
class LoweredForm:
    """Opcode in a condition, its form in the module, and the first instruction of that form.

    `form` is an opcode or a custom-call target; `count` is 0 if the target never has the opcode.
    """

    opcode: str
    form: str
    count: int
    first: Instruction | None


def lowered_forms(module: Module, where: Where) -> tuple[LoweredForm, ...]:
    """Opcodes of a condition that the module has in another form only.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.syntax.conditions import parse_where
    >>> shape = "f32[8,128]{1,0:T(8,128)}"
    >>> module = parse_module(f"r = {shape} convolution({shape} a, f32[128,128]{{1,0}} b), dim_labels=bf_io->bf")
    >>> [(each.opcode, each.form) for each in lowered_forms(module, parse_where("opcode == dot"))]
    [('dot', 'convolution')]
    >>> [each.opcode for each in lowered_forms(module, parse_where("opcode ~ dot"))]
    ['dot', 'scaled-dot', 'ragged-dot']
    """
    compared = [each for each in _comparisons_in(where.condition) if each.field.name == "opcode"]
    named = [opcode for each in compared for opcode in _opcodes_named(where, each)]
    found = (_lowered_form(module, opcode, named) for opcode in dict.fromkeys(named) if opcode in _LIBRARY_TARGETS)
    return tuple(lowered for lowered in found if lowered is not None)


def _opcodes_named(where: Where, comparison: Comparison) -> list[str]:
    """The opcodes that a comparison names, those of libraries if it has a pattern."""
    texts = [value for value in comparison.values if isinstance(value, Text)]
    # Only patterns may mean several opcodes.
    if comparison.operator not in ("~", "!~"):
        return [text.text for text in texts]
    tests = [matcher(where, text) for text in texts]
    return [opcode for opcode in (*_LIBRARY_TARGETS, _CALL) if any(test(opcode) for test in tests)]


def _lowered_form(module: Module, opcode: str, named_opcodes: list[str]) -> LoweredForm | None:
    target = target_of(module)
    if target is None:  # nothing is form for a target yet
        return None
    # A module may have kept a dot, which then is the form that counts.
    if target == "tpu" and opcode in _DOTS and "convolution" not in named_opcodes:
        if any(instruction.opcode == opcode for instruction in module.instructions):
            return None
        others = [each for each in module.instructions if each.opcode == opcodes.CONVOLUTION]
        return LoweredForm(opcode, "convolution", len(others), next(iter(others), None))
    if _CALL in named_opcodes:
        return None
    calls = [
        each
        for each in module.instructions
        if each.opcode == _CALL and _target(each).startswith(_LIBRARY_TARGETS[opcode])
    ]
    return LoweredForm(opcode, f"{_CALL} {_target(calls[0])}", len(calls), calls[0]) if calls else None


def _target(call: Instruction) -> str:
    return call.string("custom_call_target") or ""


def is_product_opcode(opcode: str) -> bool:
    """Whether the field `product` is true for an opcode.

    >>> is_product_opcode("dot"), is_product_opcode("sort")
    (True, False)
    """
    return opcode in MATMULS

"""Do the hosts of a job run the same program, and if not, which collective hangs and what differs first?

Each host compiles the program on its own. A collective completes when every device of its group has started it, so a
host with another sequence of collectives stops all others; other differences give other results and stop nobody.
Most hosts have the same text but for names and metadata, which `digests_of_text` finds without parsing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from hlo_cli.analysis.matching.changes import FUSED
from hlo_cli.analysis.matching.module_diff import ModuleDiff, diff
from hlo_cli.analysis.origin.origins import origins_of
from hlo_cli.analysis.sharding.collectives import Collective, collectives_of, groups_text
from hlo_cli.analysis.statements.user_program import same_values
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module

Effect = Literal["hang", "results", "compilation"]
"""`hang`: other collectives. `results`: the same collectives around other operations or constants. `compilation`: the
same values, computed with other layouts, fusions, or kernels."""

# --- texts ---
# The same text but for names and metadata is the same program, in the same order.


_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
NOISE: Final = re.compile(
    r'"(?:\w*(?:compile|compilation|run|tuning)_?time\w*|\w*timestamp\w*)":[ ]?(?:"[^"\\]*+"|[0-9.eE+\-]++|\{[^{}]*+\})'
)
"""What a compiler measured, in a backend_config: other numbers in each run, as `AutotuneResult.run_time`."""
_NOISE_MARKS: Final = (
    *(f"{word}{mark}time" for word in ("compile", "compilation", "run", "tuning") for mark in ("", "_")),
    "timestamp",
)
_HEADER = re.compile(r"HloModule[ ][^\s,]++")
_HEADER_ATTRIBUTES = re.compile(rf",[ ]frontend_attributes=\{{(?:[^{{}}\"]++|{_STRING})*+\}}")
_STACK_TABLE = re.compile(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)(?:\n\d[^\n]*+)*+(?=\n)")
# no backslash: metadata in a string, such as HLO that a custom call holds, is part of the program
_METADATA = re.compile(r',[ ]metadata=\{(?:[^{}"\\]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\{[^{}"\\]*+\})*+\}')
# what the line of a computation says is said again by its parameters and its root
_SIGNATURE = re.compile(r"(\n(?:ENTRY[ ])?%[\w.\-]++)[ ]\([^\n]*+(?<=\{)(?=\n)")
_NAME = re.compile(r"%([A-Za-z_][\w.\-]*+)")
_DEFINED = re.compile(r"%([A-Za-z_][\w.\-]*+)(?: = |\n)")
"""A name where it is defined: before its instruction, or alone on the line of its computation."""


def digests_of_text(text: str) -> Iterator[bytes]:
    """Digests of a module's text, each of less: without metadata, and without names, metadata, and times.

    Two texts with a digest in common, at the same place, are the same program in the same order. Without one, they may
    still be the same program in another order.

    >>> root = 'ROOT %p = s8[] parameter(0), metadata={op_name="a"}'
    >>> text = f"HloModule m\\n\\nENTRY %e (p: s8[]) -> s8[] {{\\n  {root}\\n}}\\n"
    >>> renamed = text.replace("%p", "%q").replace("(p:", "(q:")
    >>> others = (text, text.replace('"a"', '"b"'), renamed, text.replace("0", "1"))
    >>> [[a == b for a, b in zip(digests_of_text(text), digests_of_text(other))] for other in others]
    [[True, True], [True, True], [False, True], [False, False]]
    """
    bare = _without_metadata(text)
    yield digest_of_texts((bare,))
    yield _digest_without_names(bare)


def digest_of_text(text: str, *, with_names: bool) -> bytes:
    """The first or the second digest of `digests_of_text`, each at the cost of its own."""
    bare = _without_metadata(text)
    return digest_of_texts((bare,)) if with_names else _digest_without_names(bare)


def _without_metadata(text: str) -> str:
    header, _, body = text.partition("\n")
    header = _HEADER_ATTRIBUTES.sub("", _HEADER.sub("HloModule", header, count=1))
    return _METADATA.sub("", _STACK_TABLE.sub("", f"{header}\n{body}"))


def _digest_without_names(bare: str) -> bytes:
    # one search tells for most texts that none of the marks is in them
    if "time" in bare and any(mark in bare for mark in _NOISE_MARKS):
        bare = NOISE.sub("", bare)
    bare = _SIGNATURE.sub(r"\1", bare)
    # a name that is not defined, such as `%d` in a string, stays
    numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(_DEFINED.findall(bare)))}
    parts = _NAME.split(bare)
    names = parts[1::2]
    return digest_of_texts(("\0".join(parts[::2]), "\0".join(map(numbers.get, names, names))))


def digest_of_texts(texts: Iterable[str]) -> bytes:
    """The digest of a text in parts.

    >>> digest_of_texts(("ab", "c")) == digest_of_texts(("a", "bc"))
    True
    """
    digest = blake2b(digest_size=16)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.digest()


# --- collectives ---
# What a device meets the others with, in the order in which it starts them.


StepKey: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class CollectiveStep:
    """A collective as the other devices meet it: `shapes` of its operands, without layouts; `runs` per execution."""

    collective: Collective
    shapes: str
    channel: str
    runs: int | None

    @property
    def key(self) -> StepKey:
        """What must be equal on all hosts."""
        return (*self.key_without_channel, self.channel)

    @property
    def key_without_channel(self) -> StepKey:
        """What must be equal, without the number that a missing collective shifts."""
        return self.collective.kind, self.shapes, self.collective.groups, self.collective.pairs, self.runs

    @property
    def instruction(self) -> Instruction:
        """The instruction with the attributes."""
        return self.collective.instruction

    def __str__(self) -> str:
        kind = "" if self.collective.kind in self.instruction.name else self.collective.kind
        operation = f"{kind} {self.shapes}".strip()
        return f"{self.instruction.name} ({operation})" if operation else self.instruction.name


def collective_steps(module: Module) -> tuple[CollectiveStep, ...]:
    """The collectives of a module in the order of the schedule, those of a loop or a call where it stands.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[8] parameter(0)  ROOT r = f32[16] all-gather(p), dimensions={0}, channel_id=3 }"
    >>> [(step.shapes, step.channel, step.runs) for step in collective_steps(parse_module(text))]
    [('f32[8]', '3', 1)]
    """
    found = {each.instruction: each for each in collectives_of(module)}
    if not found:
        return ()
    return tuple(_step(found[each]) for each in _in_order(module) if each in found)


def _step(collective: Collective) -> CollectiveStep:
    instruction = collective.instruction
    shapes = (instruction.operand_shape(at) for at in range(len(instruction.operands)))
    text = ", ".join(re.sub(r"\{[^{}]*\}", "", str(shape)) for shape in shapes)
    return CollectiveStep(collective, text, instruction.attribute("channel_id") or "", collective.runs.known)


def _in_order(module: Module) -> Iterator[Instruction]:
    """The instructions that a module runs in the order of its text, what an instruction calls before itself."""
    entered: set[Computation] = {module.entry}
    waiting = [iter(module.entry.instructions)]
    callers: list[Instruction] = []
    # iterative, as calls may be nested more deeply than Python's recursion limit
    while waiting:
        instruction = next(waiting[-1], None)
        if instruction is None:
            waiting.pop()
            if callers:
                yield callers.pop()
            continue
        called = [each for each in instruction.called_computations if each not in entered]
        entered.update(called)
        if not called:
            yield instruction
            continue
        callers.append(instruction)
        waiting.append(each for computation in called for each in computation.instructions)


Mismatch = Literal["missing", "extra", "order", "kind", "shape", "groups", "channel", "runs"]


@dataclass(frozen=True, slots=True)
class CollectiveMismatch:
    """The first collective that two hosts do not share, by its place among the collectives, from 0.

    `expected` is what the others start at this place, `found` what the diverging host starts; None at the end.
    """

    reason: Mismatch
    position: int
    expected: CollectiveStep | None
    found: CollectiveStep | None

    @property
    def difference(self) -> tuple[str, str]:
        """What differs, of the others and of the diverging host, as text."""
        old, new = (_aspect(self.reason, step) for step in (self.expected, self.found))
        return old, new


def _aspect(reason: Mismatch, step: CollectiveStep | None) -> str:
    if step is None:
        return "the end of the program"
    match reason:
        case "shape":
            return step.shapes
        case "groups":
            return groups_text(step.collective) or "unknown groups"
        case "channel":
            return f"channel_id={step.channel}" if step.channel else "no channel_id"
        case "runs":
            return "an unknown number of runs" if step.runs is None else f"{step.runs:,} runs"
        case _:
            return str(step)


def first_mismatch(expected: Module, found: Module) -> CollectiveMismatch | None:
    """The first collective in which two modules do not meet; None if the sequences are the same.

    >>> from hlo_cli import parse_module
    >>> gather = "ROOT r = f32[16] all-gather(a), dimensions={0}"
    >>> text = f"ENTRY e {{ p = f32[8] parameter(0)  a = f32[8] all-to-all(p)  {gather} }}"
    >>> one, other = parse_module(text), parse_module(text.replace("all-to-all", "negate"))
    >>> mismatch = first_mismatch(one, other)
    >>> mismatch.reason, mismatch.position, mismatch.difference
    ('missing', 0, ('a (all-to-all f32[8])', 'r (all-gather f32[8])'))
    """
    one, other = collective_steps(expected), collective_steps(found)
    position = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a.key != b.key), None)
    if position is None:
        if len(one) == len(other):
            return None
        position = min(len(one), len(other))
    a = one[position] if position < len(one) else None
    b = other[position] if position < len(other) else None
    return CollectiveMismatch(_reason(one, other, a, b), position, a, b)


def _reason(
    one: Sequence[CollectiveStep], other: Sequence[CollectiveStep], a: CollectiveStep | None, b: CollectiveStep | None
) -> Mismatch:
    """Why two collectives at one place differ, by what else both sequences have."""
    if a is None or b is None:
        return "extra" if a is None else "missing"
    if a.key_without_channel == b.key_without_channel:
        # of two alike, the first is missing: the channel tells which
        return "channel" if len(one) == len(other) else "missing" if len(one) > len(other) else "extra"
    before, after = (Counter(step.key_without_channel for step in steps) for steps in (one, other))
    if before == after:
        return "order"
    is_lacking = after[a.key_without_channel] < before[a.key_without_channel]
    is_added = after[b.key_without_channel] > before[b.key_without_channel]
    if is_lacking != is_added:
        return "missing" if is_lacking else "extra"
    if a.collective.kind != b.collective.kind:
        return "kind"
    if a.shapes != b.shapes:
        return "shape"
    return "runs" if a.runs != b.runs else "groups"


# --- the divergence ---


@dataclass(frozen=True, slots=True)
class Divergence:
    """How one program differs from that of the other hosts.

    `expected` and `found` are the first instruction that differs, on the others and on the diverging host; None on the
    side that does not have it, and on both if only the header or the order differs. `difference` says what differs.
    """

    effect: Effect
    expected: Instruction | None
    found: Instruction | None
    difference: str
    mismatch: CollectiveMismatch | None
    comparison: ModuleDiff


def divergence_of(expected: Module, found: Module, ignored: Sequence[str] = ()) -> Divergence | None:
    """The first difference that another host can notice, and its effect; None for the same program.

    `ignored` are the words of `--ignore`.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { c = f32[] constant(1)  ROOT r = f32[] negate(c) }"
    >>> divergence = divergence_of(parse_module(text), parse_module(text.replace("(1)", "(2)")))
    >>> divergence.effect, divergence.expected, divergence.difference
    ('results', <constant c>, 'value 1 → 2')
    """
    comparison = diff(expected, found).without(ignored)
    mismatch = first_mismatch(expected, found)
    first = _first_difference(comparison)
    header = [change for change in comparison.header if change.name not in _NAMES_OF_A_RUN]
    if mismatch is None and first is None and not header:
        return None
    old, new, difference = first or (None, None, "; ".join(f"{change.name}: {change}" for change in header))
    return Divergence(_effect(comparison, mismatch), old, new, difference, mismatch, comparison)


_NAMES_OF_A_RUN: Final = frozenset(("frontend_attributes",))
"""Attributes of a header that hold fingerprints of the text, which has names and lines."""
_OF_COMPILATION: Final = frozenset(("layout", "tiling", "memory_space", "backend_config", FUSED, "computation"))
"""Kinds of changes that do not change which values are computed."""
_FUSED: Final = frozenset((FUSED, "computation"))


def _first_difference(comparison: ModuleDiff) -> tuple[Instruction | None, Instruction | None, str] | None:
    """The first instruction in the order of execution that differs, on both sides, and how."""
    places = [{each: at for at, each in enumerate(_in_order(side))} for side in (comparison.before, comparison.after)]
    last = max(map(len, places))
    found = list[tuple[int, int, Instruction | None, Instruction | None, str]]()
    for each in comparison.changed:
        changes = [change for change in each.changes if not _is_noise(change.kind, change.name)]
        # another fusion is mostly a consequence of what changed in it
        words = [str(change) for change in changes if change.kind not in _FUSED] or [str(each) for each in changes]
        rank = _COMPILED if {change.kind for change in changes} <= _OF_COMPILATION else _rank(each.before)
        if words:
            found.append((rank, places[0].get(each.before, last), each.before, each.after, "; ".join(words)))
    for gone in comparison.removed:
        found.append((_rank(gone), places[0].get(gone, last), gone, None, f"{gone.opcode} {gone.shape} is missing"))
    for new in comparison.added:
        found.append((_rank(new), places[1].get(new, last), None, new, f"{new.opcode} {new.shape} is added"))
    return min(found, key=lambda each: each[:2])[2:] if found else None


_COMPUTED, _CONSTANT, _COMPILED = range(3)
"""What is named first: a constant changes with the operation that uses it, and a layout with either."""


def _rank(instruction: Instruction) -> int:
    return _CONSTANT if instruction.opcode == opcodes.CONSTANT else _COMPUTED


def _is_noise(kind: str, name: str) -> bool:
    return kind == "metadata" or (kind == "backend_config" and bool(NOISE.match(f'"{name.rpartition(".")[2]}":0')))


def _effect(comparison: ModuleDiff, mismatch: CollectiveMismatch | None) -> Effect:
    if mismatch is not None:
        return "hang"
    kinds = {change.kind for each in comparison.changed for change in each.changes} - {"metadata"}
    if kinds <= _OF_COMPILATION and not (comparison.added or comparison.removed):
        return "compilation"
    return "compilation" if same_values(comparison.before, comparison.after) else "results"


def source_of(instruction: Instruction, module: Module) -> str | None:
    """The line of source of an instruction, or of the nearest instruction that has one; None without any."""
    origins = origins_of(module)
    return origins.own(instruction).source or origins.of(instruction).source or None

"""The difference in the code of a kernel in a few words, as `hlo diff` names operations and changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.matching.changes import FUSED, PLACE_KINDS
from hlo_cli.analysis.statements.operations import tally

if TYPE_CHECKING:
    from hlo_cli.analysis.matching.changes import Change
    from hlo_cli.analysis.profile.profile_diff import BodyDifference, ComparedKernel
    from hlo_cli.ir.instruction import Instruction

_MAX_OPCODES: Final = 3
_MAX_TEXT: Final = 40
_FOLLOWING: Final = frozenset(("metadata", "operands", *PLACE_KINDS))
"""Kinds of changes that are named only if there is no other."""


def difference_words(kernel: ComparedKernel) -> str | None:
    """What differs in the code of a kernel, or where the other program has a new or gone one; None if nothing does."""
    match kernel.body:
        case "changed":
            return "; ".join(_parts(kernel.difference)) or "order of operations, or shapes of operands"
        case "new":
            return _place(kernel, "before")
        case "gone":
            return _place(kernel, "after")
    return None


def _parts(found: BodyDifference) -> Iterator[str]:
    removed, added = _opcodes(found.removed), _opcodes(found.added)
    if removed and added:
        yield f"{removed} → {added}"
    elif removed or added:
        yield f"{removed or added} {'added' if added else 'removed'}"
    changes = dict.fromkeys(_short(c) for each in found.changed for c in each.changes if c.kind not in _FOLLOWING)
    if changes:
        first, *others = changes
        yield f"{first}{f', {len(others):,} more' if others else ''}"
    elif not (removed or added):
        moved = [each.after for each in found.changed if any(c.kind == FUSED for c in each.changes)]
        if moved:
            yield f"{_opcodes(moved) or 'operations'} of another fusion"
        elif any(c.kind == "operands" for each in found.changed for c in each.changes):
            yield "operands of its operations"


def _opcodes(instructions: Iterable[Instruction]) -> str:
    counts = tally(instructions)
    words = [f"{name} ×{number:,}" if number > 1 else name for name, number in counts[:_MAX_OPCODES]]
    return ", ".join(words) + (", …" if len(counts) > _MAX_OPCODES else "")


def _short(change: Change) -> str:
    text = str(change)
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def _place(kernel: ComparedKernel, when: str) -> str | None:
    """Where the other program computes what a kernel of one profile does; else what the kernel does."""
    other, owner = kernel.difference.other, kernel.difference.owner
    if owner is not None:
        return f"part of {owner.name} {when}"
    if other is not None:
        return f"{other.name} {when}, not timed"
    instruction = kernel.operation.instruction
    if instruction is None:
        return None
    called = instruction.called_computations
    return _opcodes(called[0].instructions if called else (instruction,)) or None

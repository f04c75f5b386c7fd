"""A recognized text that is not a module: its kind and the HLO in it."""

from __future__ import annotations

from shlex import quote
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError

PastedKind = Literal[
    "out-of-memory",
    "slow-operation",
    "resharding",
    "compiler-error",
    "diff",
    "shape",
    "layout",
    "sharding",
    "replica-groups",
]
NAMES: Final[dict[PastedKind, str]] = {
    "out-of-memory": "an out-of-memory error",
    "slow-operation": "a slow operation warning",
    "resharding": "a resharding warning",
    "compiler-error": "a compiler error",
    "diff": "a diff",
    "shape": "a shape",
    "layout": "a layout",
    "sharding": "a sharding",
    "replica-groups": "a list of replica groups",
}
"""What each kind is called in messages."""


@dataclass(frozen=True, slots=True)
class PastedText:
    """A text that is not a module.

    `name` is that of its file, `text` is freed of wrapping with the line numbers of the file, and `hlo` is the same
    text with everything but HLO blanked; it is empty if there is none. `versions` are the two sides of a diff.
    `others` are the kinds that the text may have if it has no message of its kind.
    """

    kind: PastedKind
    name: str
    text: str
    hlo: str = ""
    versions: tuple[str, str] | None = None
    others: tuple[PastedKind, ...] = ()


class PastedTextError(HloError):
    """A text that is not a module was given where one is required; commands answer it instead of failing.

    >>> error = PastedTextError(PastedText("shape", "<stdin>", "f32[8]"))
    >>> print(error)
    error: <stdin> is a shape, not a module
    """

    def __init__(self, pasted: PastedText) -> None:
        hint = None if pasted.name.startswith("<") else f"to explain it, run `hlo {quote(pasted.name)}`"
        super().__init__(f"{pasted.name} is {NAMES[pasted.kind]}, not a module", hint=hint)
        self.pasted = pasted

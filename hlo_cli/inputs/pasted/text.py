"""A recognized text that is not a module: its kind and the HLO in it."""

from __future__ import annotations

from shlex import quote

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.envelopes import NOUNS, PastedKind
from hlo_cli.source import HloError

__all__ = ["PastedKind", "PastedText", "PastedTextError"]


@dataclass(frozen=True, slots=True)
class PastedText:
    """A text that is not a module.

    `name` is that of its file, `text` is freed of wrapping with the line numbers of the file, and `hlo` is the same
    text with everything but HLO blanked; it is empty if there is none. `versions` are the two sides of a diff.
    `others` are the kinds that the text may have if it has no message of its kind. `given` is the text with its log
    prefixes, which name threads and times; `chip` is the chip that a command was given for it.
    """

    kind: PastedKind
    name: str
    text: str
    hlo: str = ""
    versions: tuple[str, str] | None = None
    others: tuple[PastedKind, ...] = ()
    given: str = ""
    chip: str = ""


class PastedTextError(HloError):
    """A text that is not a module was given where one is required; commands answer it instead of failing.

    >>> error = PastedTextError(PastedText("shape", "<stdin>", "f32[8]"))
    >>> print(error)
    error: <stdin> is a shape, not a module
    """

    def __init__(self, pasted: PastedText) -> None:
        hint = None if pasted.name.startswith("<") else f"to explain it, run `hlo {quote(pasted.name)}`"
        super().__init__(f"{pasted.name} is {NOUNS[pasted.kind]}, not a module", hint=hint)
        self.pasted = pasted

"""What is a text that is not a module? The one table of kinds, the most specific first, with what answers each."""

from __future__ import annotations

from shlex import quote
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.document_kinds import DOCUMENTS
from hlo_cli.inputs.pasted.kinds import Envelope, PastedKind
from hlo_cli.inputs.pasted.message_kinds import GENERAL_MESSAGES, SPECIFIC_MESSAGES
from hlo_cli.source import HloError

_VALUES: Final = (
    # --- recognized by their form, if no word above is in the text ---
    Envelope("cut-header", "the beginning of a module", "prints.printed_tables.cut_header_report"),
    Envelope("diff", "a diff", "pasted.unified_diff.diff_report", explains_hlo=True),
    Envelope("shape", "a shape", "prints.shape_text.shape_report", is_value=True),
    Envelope("shapes", "a list of shapes", "prints.shape_text.shape_report", is_value=True),
    Envelope("layout", "a layout", "prints.shape_text.layout_report", is_value=True),
    Envelope("sharding", "a sharding", "prints.sharding_text.sharding_report", is_value=True),
    Envelope("replica-groups", "a list of replica groups", "prints.sharding_text.replica_groups_report", is_value=True),
    Envelope("mesh", "a mesh", "prints.program_prints.mesh_report", is_value=True),
    Envelope("shape-tree", "a tree of shapes", "prints.program_prints.shape_tree_report", is_value=True),
    Envelope("mentions", "a text that is not recognized", "pasted.mentions.mentions_report"),
    # --- recognized by their bytes ---
    Envelope("memory-profile", "a device memory profile", "pasted.memory.held_memory_report"),
    Envelope("object-file", "an object file", "prints.code_files.object_report"),
    Envelope("exported", "an exported program", "prints.dump_files.exported_report"),
)
"""Kinds without marks, which are asked last."""

ENVELOPES: Final[tuple[Envelope, ...]] = (*SPECIFIC_MESSAGES, *DOCUMENTS, *GENERAL_MESSAGES, *_VALUES)
"""The kinds, the most specific first."""

ENVELOPE_OF: Final[dict[PastedKind, Envelope]] = {envelope.kind: envelope for envelope in ENVELOPES}
"""The row of each kind."""


# --- a recognized text ---
# A recognized text that is not a module: its kind and the HLO in it.


@dataclass(frozen=True, slots=True)
class PastedText:
    """A text that is not a module.

    `name` is that of its file, `text` is freed of wrapping with the line numbers of the file, and `hlo` is the same
    text with everything but HLO blanked; it is empty if there is none. `versions` are the two sides of a diff.
    `others` are the kinds that the text may have if it has no message of its kind. `given` is the text with its log
    prefixes, which name threads and times; `chip` is the chip that a command was given for it. `data` are the bytes
    of a file that is no text, and `text` is then empty. `is_partial` if only parts of a very long text were read.
    """

    kind: PastedKind
    name: str
    text: str
    hlo: str = ""
    versions: tuple[str, str] | None = None
    others: tuple[PastedKind, ...] = ()
    given: str = ""
    chip: str = ""
    data: bytes = b""
    is_partial: bool = False


class PastedTextError(HloError):
    """A text that is not a module was given where one is required; commands answer it instead of failing.

    The message says what the text is, unless another one is given.

    >>> error = PastedTextError(PastedText("shape", "<stdin>", "f32[8]"))
    >>> print(error)
    error: <stdin> is a shape, not a module
    """

    def __init__(self, pasted: PastedText, message: str = "", hint: str | None = None) -> None:
        envelope = ENVELOPE_OF[pasted.kind]
        explain = None if pasted.name.startswith("<") else f"to explain it, run `hlo {quote(pasted.name)}`"
        message = message or f"{pasted.name} is {envelope.noun}, not a module"
        super().__init__(message, hint=hint or envelope.to_hlo or explain)
        self.pasted = pasted

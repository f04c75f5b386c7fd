"""Messages that recur in a text, such as shapes: each distinct text is encoded once."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.syntax.proto_text.tokens import BLOCK
from hlo_cli.syntax.proto_text.values import Slot

_LARGE: Final = frozenset(("HloInstructionProto", "HloComputationProto", "HloModuleProto", "HloProto", "LiteralProto"))
"""The messages that do not recur."""
_LONGEST: Final = 4096
_MOST: Final = 1 << 15


@dataclass(slots=True, eq=False)
class Blocks:
    """The encoded messages of a text, by field and by their text up to the closing bracket."""

    text: str
    _known: dict[tuple[Slot, str], bytes] = field(default_factory=dict)

    def find(self, slot: Slot, at: int) -> tuple[str, bytes | None]:
        """The text of the simple message that begins at an offset, empty if there is none; its field if it is known."""
        if not slot.is_message or slot.field.type in _LARGE or (found := BLOCK.match(self.text, at)) is None:
            return "", None
        block = found[0]
        return block, self._known.get((slot, block))

    def add(self, slot: Slot, block: str, data: bytes) -> None:
        """Keeps a field that was encoded without a problem."""
        if len(block) <= _LONGEST and len(self._known) < _MOST:
            self._known[slot, block] = data

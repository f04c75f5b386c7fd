"""The two lines of a node, and the size of its box, which does not depend on fonts; `js/node_text.js` has the same."""

from __future__ import annotations

from typing import Final

from hlo_cli.render.sanitize import sanitize
from hlo_cli.render.web.graph_colors import CHANGES
from hlo_cli.report.graph import GraphNode

CHARACTER: Final = 6.65
"""The width of a character of monospaced type of 11 px, of the widest of the common fonts."""
NODE_HEIGHT: Final = 34.0
TEXT_MARGIN: Final = 16
MARK: Final = 2
"""The characters before the name of what can be opened."""
_NAME: Final = 32
_LABEL: Final = 30
_LITERALS: Final = 16


def without_middle(text: str, most: int) -> str:
    """A text without its middle, so that it has at most `most` characters.

    >>> without_middle("multiply_add_fusion.12", 12)
    'multi…ion.12'
    """
    if len(text) <= most:
        return text
    return text[: -(-most // 2) - 1] + "…" + text[len(text) - most // 2 :]


def first_line(node: GraphNode) -> str:
    """The name, with the sign of its change."""
    sign = f"{CHANGES[node.change][0]} " if node.change else ""
    return sign + without_middle(sanitize(node.name), _NAME)


def second_line(node: GraphNode) -> str:
    """The operation, the short shape, and small constants.

    >>> second_line(GraphNode(0, "a", "add", "elementwise", "f32[8]", "f32[8]{0}", 32, literals=("1",)))
    'add  f32[8]  1'
    """
    literals = sanitize(", ".join(node.literals))
    parts = (
        node.operation,
        without_middle(_short(sanitize(node.label)), _LABEL),
        literals if len(literals) <= _LITERALS else "",
    )
    return "  ".join(part for part in parts if part)


def _short(label: str) -> str:
    """The first of a tuple and how many more: `f32[8] +2` for `(f32[8], … 2 more)`."""
    first, found, more = label.rpartition(", … ")
    return f"{first[1:]} +{more.removesuffix(' more)')}" if found and label.endswith(" more)") else label


def node_width(node: GraphNode) -> float:
    """The width of the box of a node."""
    first = len(first_line(node)) + (MARK if node.is_expandable else 0)
    return max(first, len(second_line(node))) * CHARACTER + TEXT_MARGIN

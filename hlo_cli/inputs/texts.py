"""The modules in a text: a dump is read at once, anything else is recognized first."""

from __future__ import annotations

from typing import Final

from hlo_cli.inputs.logs import EmbeddedModule, find_modules

_HEAD: Final = 1 << 16


def modules_in_text(text: str, name: str) -> tuple[EmbeddedModule, ...]:
    """The modules and parts of modules in a text; `name` is that of its file.

    PastedTextError for a text that is not a module and can be explained, HloError for one without HLO.

    >>> [found] = modules_in_text("It fails at a = f32[] add(b, c) today.", "-")
    >>> found.text.strip()
    'a = f32[] add(b, c)'
    """
    if _is_dump(text):
        return find_modules(text)
    from hlo_cli.inputs.pasted.read import read_text  # most texts are dumps

    return read_text(text, name)


def _is_dump(text: str) -> bool:
    """Whether a text begins with a module in the lines that XLA prints."""
    return text.startswith("HloModule ") and "\n" in text[:_HEAD] and ") -&gt; " not in text[:_HEAD]

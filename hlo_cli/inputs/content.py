"""A module that a Python program already has in memory: a text, or the bytes of a proto or of a file."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Final

from hlo_cli.inputs.files import STDIN
from hlo_cli.inputs.input import Input, read_inputs, select_module
from hlo_cli.source import HloError, Source

_NAME: Final = "this text"
"""What errors call the content, which has no path."""


def read_content(content: str | bytes, *, stage: str | None = None, module: str | None = None) -> Input:
    """The module in a text or in bytes, which may be compressed; the largest of several, if `module` selects none.

    HloError, which says what the content is instead, if it has no HLO.

    >>> read_content("HloModule m\\n\\nENTRY e { ROOT p = f32[2] parameter(0) }\\n").module
    'm'
    >>> read_content("{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: this text is a jaxpr, not HLO
    """
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    try:
        chosen = select_module(read_inputs(["-"], stage=stage, module=module, stdin=io.BytesIO(data)))
    except HloError as error:
        named = (replace(each, message=each.message.replace(STDIN, _NAME)) for each in error.diagnostics)
        raise HloError.of(named) from None
    source = chosen.source
    name = source.name.removeprefix(STDIN)
    return replace(chosen, source=Source(name, source.text, source.first_line))

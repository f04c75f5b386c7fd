"""Errors as notebooks show them: the line that raised it, the place in the text, and help, without our own frames."""

from __future__ import annotations

import os
import traceback

import hlo_cli
from hlo_cli.render.draw.diagnostics import render_diagnostics
from hlo_cli.render.sanitize import sanitize
from hlo_cli.render.style import Style
from hlo_cli.source import HloError

_OURS = os.path.dirname(hlo_cli.__file__) + os.sep


def lines_of(error: HloError) -> list[str]:
    """The last line of the user's program that was running, and the diagnostics.

    >>> lines_of(HloError("no module found", hint="pass a dump"))
    ['error: no module found', '  help: pass a dump']
    """
    text = "".join(render_diagnostics(error.diagnostics, Style(width=100)))
    return [*_place(error), *text.splitlines()]


def _place(error: HloError) -> list[str]:
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(_OURS)]
    line = (frames[-1].line or "").strip() if frames else ""
    return [f"HloError in line {frames[-1].lineno}: {sanitize(line)}"] if line else []

"""An out-of-memory error in place of a module: the report of `hlo memspace --oom`."""

from __future__ import annotations

from hlo_cli.commands.memspace.oom import report_of_message
from hlo_cli.inputs.pasted.text import PastedText
from hlo_cli.report.report import Report
from hlo_cli.source import Source


def report_of(pasted: PastedText) -> Report:
    """The report on the last out-of-memory message in a text."""
    return report_of_message(Source(pasted.name, pasted.text))

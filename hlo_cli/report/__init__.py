"""The results of a command, independent of their format: `report.Report` has parts such as `table.Table` and
`table.Tree` with raw numbers in their cells; `numbers.format_bytes` and others format numbers for people. The package
itself can be called: `hlo_cli.report(module)`.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # importing typing would cost as much as the package
if TYPE_CHECKING:
    from hlo_cli.report.report import Report


class _Report(ModuleType):
    # A function of this name could not stand beside the package: importing any of its files would put it in its place.
    def __call__(self, module: object, *, chip: str | None = None) -> Report:
        """What `hlo report` says of a module: verdicts, and a section for each question.

        With `chip`, a name such as "h100", it has times. Notebooks and rich show it, `to_html(path)` writes it.

        >>> import hlo_cli
        >>> module = hlo_cli.parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }")
        >>> [verdict["headline"] for verdict in hlo_cli.report(module).to_records()]
        ['Before optimization', 'Main memory peaks at 16 B', 'No transfers', 'No padding', 'No findings']
        """
        from importlib import import_module

        found: Report = import_module("hlo_cli.library").report(module, chip=chip)  # commands make it, and import us
        return found


sys.modules[__name__].__class__ = _Report

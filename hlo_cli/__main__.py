"""Runs `hlo`, as the installed script and for `python -m hlo_cli`: Ctrl-C ends it quietly from its first import on."""

from __future__ import annotations

import os
import sys

from hlo_cli._version import INTERRUPTED

TYPE_CHECKING = False  # importing typing would cost as much as starting Python
if TYPE_CHECKING:
    from typing import Final

_WAITING: Final = "8"
"""After 2^8 cycles, threads of OpenBLAS sleep: by default they spin for 2^26 cycles after each product of numpy, which
took a third of the processor time of a comparison on a busy machine."""


def main() -> int:
    """Runs the command line of the process, and ends the process."""
    sys.unraisablehook = _end_quietly
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _WAITING)
    try:
        from hlo_cli.cli import main as run

        return run()
    except KeyboardInterrupt:  # while modules are imported, before `cli` can answer: no traceback
        os._exit(INTERRUPTED)


def _end_quietly(unraisable: sys.UnraisableHookArgs) -> None:
    """Ends the process for Ctrl-C in a callback, where Python shows the exception and goes on."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        os._exit(INTERRUPTED)
    sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    main()

"""Messages of XLA in a log that also has modules: the modules are read, and one note names the message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hlo_cli.inputs.logs import EmbeddedModule
from hlo_cli.inputs.pasted.recognize import SIGNATURES
from hlo_cli.inputs.pasted.text import NAMES

_LONGEST: Final = 1 << 22
_WEAK: Final = ("INTERNAL: ", "Internal: ", "NOT_FOUND: ", "Binary op ", "was parsing ", "Ran out of ", " usage >= ")
"""Marks that other logs have too."""


def remark_on_messages(text: str, name: str, modules: Iterable[EmbeddedModule]) -> str | None:
    r"""The note on the first message outside of the modules in a text, with the command that explains it; None if none.

    >>> log = "HloModule m\n}\nRESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.\n"
    >>> remark_on_messages(log, "a.log", [EmbeddedModule("HloModule m\n}\n")])
    'line 3 has an out-of-memory error; to explain it, run `hlo memspace a.log --oom a.log`'
    """
    if len(text) > _LONGEST:
        return None
    lines = text.split("\n")
    for each in modules:
        last = each.first_line + each.text.rstrip().count("\n")
        lines[each.first_line - 1 : last] = [""] * (last - each.first_line + 1)
    rest = "\n".join(lines)
    for kind, marks in SIGNATURES.items():
        places = [at for mark in marks if mark not in _WEAK and (at := rest.find(mark)) >= 0]
        if places:
            line = rest.count("\n", 0, min(places)) + 1
            source, dump = ("FILE", "DUMP") if name.startswith(("<", "-")) else (name, name)
            command = f"run `hlo memspace {dump} --oom {source}`" if kind == "out-of-memory" else "paste it alone"
            return f"line {line} has {NAMES[kind]}; to explain it, {command}"
    return None

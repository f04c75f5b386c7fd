"""What both readers of lines, the compiled one and that in Python, say of a text; they must say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

from damaging import Damager
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.text import build
from hlo_cli.syntax.text.instruction_lines import NotLineStructured
from hlo_cli.syntax.text.parser import parse_module

ODD = (
    "\0",
    "é",
    "\u0100",
    "\U0001f600",
    "\ud800",
    '"',
    "'",
    "\\",
    "\r",
    "ROOT ",
    "/*index=5*/",
    "(",
    ")",
    "b(",
    "%",
    ", ",
    " ",
    "\n",
)


def is_compiled() -> bool:
    """Whether the compiled reader is there."""
    return build.read_lines is not None


@contextmanager
def in_python() -> Iterator[None]:
    """Reads without the compiled reader."""
    with patch.object(build, "read_lines", None):
        yield


def said_by_both(text: str) -> tuple[object, object]:
    """Everything that the compiled reader finds in a text, and everything that Python finds."""
    compiled = said(text)
    with in_python():
        return compiled, said(text)


def said(text: str) -> object:
    """Everything that is read in a text: structure, texts, places, errors, and notes; or the error."""
    try:
        module = parse_module(text)
    except HloError as error:
        return [(str(each), each.span, each.hint) for each in error.diagnostics]
    findings = [(str(each), each.span, each.hint) for each in (*module.errors, *module.notes)]
    return findings, module.is_part, module.is_truncated, _structure(module)


def _structure(module: Module) -> list[object]:
    number = {instruction: at for at, instruction in enumerate(module.instructions)}
    parts: list[object] = [module.name, module.entry.name]
    for computation in module.computations:
        root = computation.root
        parts.append((computation.name, computation.span, root and number[root], computation.execution_thread))
        parts.append([number[parameter] for parameter in computation.parameters])
        parts.append([(at, index) for at, index in computation.operand_indices.items()])
        for each in computation.instructions:
            operands = [number.get(operand, operand.name) for operand in each.operands]
            called = [other.name for other in each.called_computations]
            parts.append((each.name, str(each.shape), each.opcode, operands, called, each.index, each.span, each.raw))
            assert each.computation is computation
    return parts


def lines_read(text: str, start: int, end: int) -> tuple[object, object]:
    """Only the rows of a body, from both readers: without the builder, so that many lines are read in little time."""
    source, found = Source("", text), []
    for is_compiled_one in (True, False):
        builder = build.Builder(source)
        computation = Computation("c")
        reader: Callable[[], bool] = lambda b=builder, c=computation: b.from_body(c, start, end)  # type: ignore[misc] # noqa: E731
        try:
            if is_compiled_one:
                done = reader()
            else:
                with in_python():
                    done = reader()
        except NotLineStructured:
            done = False
        found.append(_rows_of(builder, computation) if done else None)
    return found[0], found[1]


def _rows_of(builder: build.Builder, computation: Computation) -> object:
    rows = [
        (i.name, i.shape, i.opcode, [o.index for o in i.operands], i.index, i.span, i.raw)
        for i in computation.instructions
    ]
    root = computation.root
    return (
        rows,
        root and root.index,
        [each.index for each in computation.parameters],
        [each.index for each in builder.suspects],
        [each.index for each in builder.callers],
        [(call.instruction.index, call.attribute, call.name) for call in builder.calls],
        [(d.message, d.span) for d in builder.diagnostics],
        builder.is_oversized,
    )


class LineFuzzer:
    """Damages single lines of dumps, a few in each body: `lines` counts those that both readers were given."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines = 0
        damager = Damager(seed)
        self._bodies = [
            part.split("\n")[1:-1]
            for text in damager.texts
            for part in text.split("\n\n")
            if part.startswith(("%", "ENTRY")) and part.rstrip().endswith("}") and len(part) < 100_000
        ]

    def step(self) -> str | None:
        """One body that both readers read; the text if they differ."""
        random = self.random
        body = random.choice(self._bodies)
        at = random.randrange(len(body) + 1)
        lines = body[: at + random.choice((1, 3, 20))] if random.random() < 0.5 else body[:]
        for _ in range(random.choice((0, 1, 1, 2))):
            if lines:
                at = random.randrange(len(lines))
                lines[at] = self._damaged(lines[at])
        text = "\n".join(("e {", *lines, "}", ""))
        end = text.find("\n}")
        self.lines += text.count("\n", 0, end)
        first, second = lines_read(text, 3, end) if end > 3 else (None, None)
        return None if first == second else text

    def _damaged(self, line: str) -> str:
        random = self.random
        at, other = random.randrange(len(line) + 1), random.randrange(len(line) + 1)
        match random.randrange(4):
            case 0:
                return line[:at] + random.choice(ODD) + line[at:]
            case 1:
                return line[: min(at, other)] + line[min(max(at, other), at + 8) :]
            case 2:
                return line[:at] + chr(random.randrange(32, 127)) + line[at + 1 :]
        return line[:at] + line[other : other + 12] + line[at:]


def texts_to_read(seed: int) -> Iterator[str]:
    """Damaged texts, without protos."""
    damager = Damager(seed)
    while True:
        text = damager.damaged()
        yield text

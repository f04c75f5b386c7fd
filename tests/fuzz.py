"""Feeds damaged dumps, text and protos, to the readers: nothing but HloError may come out, in time as their size.

    python tests/fuzz.py --seconds 60 --seed 1

What fails is made smaller and written to a folder that is named at the end; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from hlo_cli.analysis.footprint import data_values, orders_of
from hlo_cli.analysis.memory_of import memory_of
from hlo_cli.analysis.peak_advice import suggestions
from hlo_cli.analysis.shape_inference import inferred_shape
from hlo_cli.analysis.transfers import transfers_of
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.parser import parse_module
from hlo_cli.syntax.proto.read import read_proto
from hlo_cli.syntax.proto.write import module_to_bytes
from hlo_cli.syntax.shapes import parse_shape
from hlo_cli.transform.desugar import desugar
from protos import PROTOS
from strategies import dump_text, dumps

SLOW_SECONDS = 0.5
SLOW_FACTOR = 40
HANGS_SECONDS = 20
LONGEST = 40_000
MOST_FINDINGS = 20
PROTO_SHARE = 0.3
PROTO_MARK = "\ue000"
"""Stands before what is a proto, as no text of HLO begins so."""

_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[A-Za-z_][\w.\-]*|-?[0-9]+|\s+|.", re.DOTALL)
_SPICE = (
    '"', "'", "{", "}", "(", ")", "[", "]", "/*", "*/", "//", "\\", "\0", "\n", "\r\n", "\t", "%", "#1", "=", ",", ":", "->",
    "ROOT ", "ENTRY ", "HloModule ", "=5*/", "/*index=5*/", "\x1b[31m", "é", "\u2028", "\ud800", "nan", "-inf", "...", "<=", "?",
    "b(", "9" * 30, "9" * 5000, "-1", "0x1p-3", "1e999", "f32[", "]{1,0:T(8,128)", "constant({...})", ", calls=", "}\n\n", "\n}\n",
    "metadata={", "backend_config={", "control-predecessors={", "to_apply={", "sharding={devices=[2]<=[2]}", "literal=",
)  # fmt: skip


class Hangs(Exception):
    """The time that any input may take is over."""


@dataclass(slots=True)
class Finding:
    """An input that should not do what it does."""

    what: str
    text: str


@dataclass(slots=True)
class Fuzzer:
    """Damages texts and watches what becomes of them; the same seed makes the same inputs."""

    seed: int
    random: random.Random = field(init=False)
    texts: tuple[str, ...] = ()
    protos: tuple[bytes, ...] = ()
    findings: dict[str, Finding] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.texts = tuple(dump_text(path) for path in dumps())
        self.protos = tuple(path.read_bytes() for path in PROTOS)

    def step(self) -> None:
        """One input."""
        text = self.damaged_proto() if self.random.random() < PROTO_SHARE else self.damaged()
        self.count += 1
        started = time.process_time()
        what = failure(text)
        seconds = time.process_time() - started
        rate = seconds / (len(text) + 1000)
        if what is None and seconds > SLOW_SECONDS and len(self.rates) > 50 and rate > SLOW_FACTOR * median(self.rates):
            what = "slow"
        self.rates.append(rate)
        if what is not None and what not in self.findings and len(self.findings) < MOST_FINDINGS:
            smaller = text if what in ("slow", "hangs") else smallest(text, lambda t: failure(t) == what)
            self.findings[what] = Finding(what, smaller)

    def damaged(self) -> str:
        """A dump, or a part of one, with up to six things done to it."""
        text = self.window(self.random.choice(self.texts))
        for _ in range(self.random.choice((1, 1, 2, 3, 6))):
            text = self.random.choice(_DAMAGES)(self, text)
        return text[: 4 * LONGEST]

    def damaged_proto(self) -> str:
        """A proto with some bytes changed, left out or doubled, one character for each byte."""
        data = bytearray(self.random.choice(self.protos))
        for _ in range(self.random.choice((1, 1, 2, 3, 10))):
            at = self.random.randrange(len(data) + 1)
            part = data[at : at + self.random.choice((1, 1, 2, 20, 1000))]
            new = self.random.choice((b"", part * 2, self.random.randbytes(len(part)), b"\xff" * 9, bytes(len(part))))
            data[at : at + len(part)] = new
        return PROTO_MARK + bytes(data).decode("latin-1")

    def window(self, text: str) -> str:
        """The head of a dump and some of its computations."""
        if len(text) < LONGEST and self.random.random() < 0.3:
            return text
        parts = text.split("\n\n")
        at = self.random.randrange(len(parts))
        return "\n\n".join((parts[0], *parts[at : at + self.random.choice((1, 2, 5))]))[:LONGEST]

    def place(self, text: str) -> int:
        return self.random.randrange(len(text) + 1)

    def span(self, text: str, longest: int = 200) -> tuple[int, int]:
        start = self.place(text)
        return start, min(len(text), start + self.random.randrange(1, longest))

    def flip(self, text: str) -> str:
        at = self.place(text)
        return (
            text[:at]
            + chr(self.random.choice((self.random.randrange(128), self.random.randrange(0x3000))))
            + text[at + 1 :]
        )

    def delete(self, text: str) -> str:
        start, end = self.span(text)
        return text[:start] + text[end:]

    def duplicate(self, text: str) -> str:
        start, end = self.span(text)
        return text[:end] + text[start:end] * self.random.choice((1, 1, 2, 50)) + text[end:]

    def truncate(self, text: str) -> str:
        return text[: self.place(text)]

    def spice(self, text: str) -> str:
        at = self.place(text)
        return text[:at] + self.random.choice(_SPICE) + text[at:]

    def splice(self, text: str) -> str:
        """Some tokens become those of another dump."""
        tokens = _TOKEN.findall(text)
        others = _TOKEN.findall(self.window(self.random.choice(self.texts))[:4000])
        if not tokens or not others:
            return text
        for _ in range(self.random.choice((1, 3, 10))):
            tokens[self.random.randrange(len(tokens))] = self.random.choice(others)
        return "".join(tokens)

    def swap(self, text: str) -> str:
        """Two tokens change places."""
        tokens = _TOKEN.findall(text)
        if len(tokens) > 1:
            a, b = self.random.randrange(len(tokens)), self.random.randrange(len(tokens))
            tokens[a], tokens[b] = tokens[b], tokens[a]
        return "".join(tokens)

    def number(self, text: str) -> str:
        """A number becomes an odd one."""
        found = list(re.finditer(r"[0-9]+", text))
        if not found:
            return text
        match = self.random.choice(found)
        odd = self.random.choice(
            ("0", "-1", str(2**31), str(2**63 - 1), str(2**63), str(2**64), "9" * 400, "00000001", "1.5", "1e9")
        )
        return text[: match.start()] + odd + text[match.end() :]

    def nest(self, text: str) -> str:
        """A part ends up deep in brackets, closed or not."""
        start, end = self.span(text, 40)
        depth, opening = self.random.choice((10, 150, 5000)), self.random.choice("({[")
        closing = {"(": ")", "{": "}", "[": "]"}[opening] * self.random.choice((depth, depth, depth - 1, 0))
        return text[:start] + opening * depth + text[start:end] + closing + text[end:]

    def join(self, text: str) -> str:
        """Lines run together."""
        start, end = self.span(text, 3000)
        return text[:start] + text[start:end].replace("\n", self.random.choice((" ", "", "\r"))) + text[end:]

    def repeat_line(self, text: str) -> str:
        """One line many times: names that are taken, braces that are closed."""
        lines = text.split("\n")
        at = self.random.randrange(len(lines))
        lines[at:at] = [lines[at]] * self.random.choice((1, 20, 300))
        return "\n".join(lines)


_DAMAGES: tuple[Callable[[Fuzzer, str], str], ...] = (
    Fuzzer.flip, Fuzzer.delete, Fuzzer.duplicate, Fuzzer.truncate, Fuzzer.spice, Fuzzer.spice, Fuzzer.splice, Fuzzer.splice,
    Fuzzer.swap, Fuzzer.number, Fuzzer.nest, Fuzzer.join, Fuzzer.repeat_line,
)  # fmt: skip


def failure(text: str) -> str | None:
    """What goes wrong with a text, as one line that is the same for the same bug; None if nothing does."""
    try:
        with _alarm(HANGS_SECONDS):
            exercise(text)
    except Hangs:
        return "hangs"
    except Exception as error:  # noqa: BLE001 # finding these is what this is for
        frames = traceback.extract_tb(error.__traceback__)
        inside = [frame for frame in frames if "hlo_cli" in frame.filename] or frames
        return f"{type(error).__name__} in {Path(inside[-1].filename).name}:{inside[-1].name}"
    return None


def exercise(text: str) -> None:
    """Read a text in every way there is, or a proto, and look at all that was read."""
    if text.startswith(PROTO_MARK):
        exercise_proto(text.removeprefix(PROTO_MARK).encode("latin-1", "replace"))
        return
    for strict in (False, True):
        try:
            module = parse_module(text, strict=strict)
        except HloError as error:
            look_at(error.diagnostics, text)
            continue
        look_at((*module.errors, *module.notes), text)
        for instruction in module.instructions:
            assert instruction.span is not None
            _ = (
                instruction.metadata,
                instruction.parameter_number,
                instruction.shape.padded_bytes,
                instruction.shape.logical_bytes,
            )
            look_at_literal(instruction, text)
        analyse(module)
        printed = module.to_string()
        if not module.errors:
            again = parse_module(printed)
            assert again.instruction_count == module.instruction_count, "it prints something else than it read"
    for line in text.splitlines()[:20]:
        with suppress(HloError):
            parse_shape(line.partition(" = ")[2].partition(" ")[0])


def analyse(module: Module) -> None:
    """Ask every analysis and transform that takes a whole module; HloError is an answer."""
    memory = memory_of(module)
    transfers_of(memory.sequence)
    for space in memory.spaces:
        suggestions(space, orders_of(module, data_values(module)))
        assert sum(value.padded_bytes for value in space.alive_at(space.peak)) == space.peak_bytes
    with suppress(HloError):
        desugar(module)
    for instruction in module.instructions:
        with suppress(HloError):
            inferred_shape(instruction, module)


def exercise_proto(data: bytes) -> None:
    """Read a proto and all that it says, and write it again."""
    with suppress(HloError):
        module = read_proto(data, Source("fuzz.hlo.pb", ""))
        for instruction in module.instructions:
            with suppress(HloError):
                _ = instruction.metadata, instruction.text, instruction.shape.padded_bytes
                look_at_literal(instruction, "")
                for attribute in instruction.attributes:
                    instruction.value(attribute.name)
        _ = module.buffer_assignment
        assert parse_module(str(module)).instruction_count == module.instruction_count, "it prints something else"
        module_to_bytes(module)


def look_at_literal(instruction: Instruction, text: str) -> None:
    """The values of a constant can be read and printed, or an error says why not."""
    try:
        if instruction.literal is not None:
            instruction.literal.to_string()
    except HloError as error:
        look_at(error.diagnostics, text)


def look_at(diagnostics: Sequence[Diagnostic], text: str) -> None:
    """Every diagnostic can be shown, and lies in the text."""
    for diagnostic in diagnostics:
        assert str(diagnostic), "a diagnostic says nothing"
        span = diagnostic.span
        assert span is None or 0 <= span.start <= span.end <= len(text), "a diagnostic lies outside of the text"


@contextmanager
def _alarm(seconds: int) -> Iterator[None]:
    """Raises Hangs after some seconds, where the system can."""

    def ring(*_: object) -> None:
        raise Hangs

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def smallest(text: str, fails: Callable[[str], bool], seconds: float = 10) -> str:
    """The text with all parts left out that the failure does not need, as far as the time goes."""
    deadline = time.monotonic() + seconds
    size = len(text) // 2
    while size:
        at = 0
        while at < len(text) and time.monotonic() < deadline:
            shorter = text[:at] + text[at + size :]
            if fails(shorter):
                text = shorter
            else:
                at += size
        size //= 2
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz for some time; 1 if something was found."""
    parser = argparse.ArgumentParser(description="Feeds damaged dumps to the parser.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    fuzzer, end = Fuzzer(chosen.seed), time.monotonic() + chosen.seconds
    while time.monotonic() < end:
        fuzzer.step()
        if sys.stderr.isatty() and fuzzer.count % 20 == 0:
            print(f"\r{fuzzer.count} inputs, {len(fuzzer.findings)} findings ", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(f"{fuzzer.count} inputs with seed {chosen.seed}, {len(fuzzer.findings)} findings")
    if not fuzzer.findings:
        return 0
    folder = Path(tempfile.mkdtemp(prefix="hlo-fuzz-"))
    for number, finding in enumerate(fuzzer.findings.values()):
        path = folder / f"{number}.txt"
        path.write_bytes(
            finding.text[1:].encode("latin-1")
            if finding.text.startswith(PROTO_MARK)
            else finding.text.encode("utf-8", "surrogatepass")
        )
        print(f"{path}: {finding.what}")
    return 1


if __name__ == "__main__":
    sys.exit(main())

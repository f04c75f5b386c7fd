"""Feeds damaged dumps, text and protos, to the readers and to whole commands: nothing but clear answers may come out, in time.

    python tests/fuzz.py --seconds 60 --seed 1

What fails is made smaller and written to a folder that is named at the end; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from damaging import PROTO_MARK, Damager
from damaging_files import damaged_file
from damaging_traces import damaged_trace, look_at_all
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.analysis.memory.peak_advice import suggestions
from hlo_cli.analysis.schedule.async_overlap import transfers_of
from hlo_cli.analysis.shapes.inference import infer_shape
from hlo_cli.inputs.stablehlo import is_stablehlo
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import Diagnostic, HloError, Source
from hlo_cli.syntax.proto.read_module import read_proto
from hlo_cli.syntax.proto.write_module import module_to_bytes
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.stablehlo.read_stablehlo import read_stablehlo
from hlo_cli.syntax.text.parser import parse_module
from hlo_cli.transform.fusion.by_request import unfuse
from hlo_cli.transform.fusion.cpu_fusion import fuse
from hlo_cli.transform.normalize import normalize
from hlo_cli.transform.reorder import reorder
from hlo_cli.transform.sugar import desugar, sugar
from reading_twice import LineFuzzer, is_compiled
from whole_commands import Hangs, command_line, failure_of, place_of, time_limit

HANGS_SECONDS = 20
MAX_FINDINGS = 40
LIBRARY_SHARE = 0.1
TRACE_SHARE = 0.1
FILE_SHARE = 0.2
ANY_FILE = ("", "", "", "parse", "memspace", "lint", "profile")
"""Commands for a file of any kind: mostly none, as a user passes a file that they do not know."""
COMMANDS_EACH = 3
_NAME = re.compile(r"(?<=[ %])([A-Za-z_][A-Za-z0-9_.\-]*) = |\n[\x01-\x7f]([a-z_][A-Za-z0-9_.\-]+)\x12")


@dataclass(slots=True)
class Finding:
    """An input that should not do what it does, and the command that it does it in, if it is one."""

    what: str
    text: str
    line: tuple[str, ...] = ()


@dataclass(slots=True)
class Fuzzer:
    """Watches what becomes of damaged texts; the same seed makes the same inputs and the same commands."""

    seed: int
    folder: Path
    damager: Damager = field(init=False)
    random: Random = field(init=False)
    findings: dict[str, Finding] = field(default_factory=dict)
    inputs: int = 0
    commands: int = 0

    def __post_init__(self) -> None:
        self.damager = Damager(self.seed)
        self.random = Random(self.seed)

    def step(self) -> None:
        """One input, read by the library now and then, and asked about by commands."""
        if self.random.random() < TRACE_SHARE:
            self._trace()
            return
        if self.random.random() < FILE_SHARE:
            self.file()
            return
        text = self.damager.next()
        self.inputs += 1
        if self.random.random() < LIBRARY_SHARE and (what := failure(text)) is not None:
            self._found(what, text, ())
        path = self._write(text, "m")
        names = [match[1] or match[2] for match in _NAME.finditer(text)][:200]
        for _ in range(COMMANDS_EACH):
            line = command_line(self.random, path, self.folder / "before.txt", names)
            self.commands += 1
            if (what := failure_of(line)) is not None:
                self._found(what, text, tuple(line))
        if not text.startswith(PROTO_MARK):
            self._write(text, "before")

    def file(self) -> None:
        """One file of another kind than a module, such as a pasted text, a cache entry, or an archive."""
        name, data = damaged_file(self.random)
        path = self.folder / name
        path.write_bytes(data)
        command = self.random.choice(ANY_FILE)
        line = [command, str(path)] if command else [str(path)]
        self.inputs += 1
        self.commands += 1
        what = failure_of(line)
        if what is not None and "traceback" in what and b"Traceback" in data:
            what = None  # the text has one, and is quoted
        if what is not None and what not in self.findings:
            self.findings[what] = Finding(what, PROTO_MARK + data.decode("latin-1"), tuple(line))
        path.unlink()

    def _trace(self) -> None:
        """One trace of a profiler, for the command that reads them."""
        text = PROTO_MARK + damaged_trace(self.random).decode("latin-1")
        line = ["profile", str(self._write(text, "m"))]
        self.inputs += 1
        self.commands += 1
        if (what := failure(text, look_at_all)) is not None:
            self._found(what, text, ())
        elif (what := failure_of(line)) is not None:
            self._found(what, text, tuple(line))

    def _found(self, what: str, text: str, line: tuple[str, ...]) -> None:
        if what in self.findings or len(self.findings) >= MAX_FINDINGS:
            return
        self.findings[what] = Finding(what, text, line)
        if "slow" in what or "hangs" in what:
            return

        def fails(smaller: str) -> bool:
            if not line:
                return failure(smaller) == what
            self._write(smaller, "m")
            return failure_of(line) == what

        self.findings[what] = Finding(what, smallest(text, fails), line)

    def _write(self, text: str, name: str) -> Path:
        is_proto = text.startswith(PROTO_MARK)
        path = self.folder / (f"{name}.hlo.pb" if is_proto else f"{name}.txt")
        path.write_bytes(bytes_of(text))
        return path


def bytes_of(text: str) -> bytes:
    """An input as the bytes of a file."""
    if text.startswith(PROTO_MARK):
        return text.removeprefix(PROTO_MARK).encode("latin-1", "replace")
    return text.encode("utf-8", "surrogatepass")


def failure(text: str, look: Callable[[bytes], object] | None = None) -> str | None:
    """What goes wrong with a text in the library, as one line that is the same for the same bug; None if nothing does."""
    try:
        with time_limit(HANGS_SECONDS):
            exercise(text) if look is None else look(bytes_of(text))
    except Hangs as error:
        return f"library hangs in {place_of(error)}"
    except Exception as error:  # noqa: BLE001 # finding these is what this is for
        return f"library {type(error).__name__} in {place_of(error)}"
    return None


def exercise(text: str) -> None:
    """Read a text in every way there is, or a proto, and look at all that was read."""
    if text.startswith(PROTO_MARK):
        exercise_proto(text.removeprefix(PROTO_MARK).encode("latin-1", "replace"))
        return
    is_mlir = is_stablehlo(text)
    for strict in (False,) if is_mlir else (False, True):
        try:
            module = read_stablehlo(Source("m.mlir", text)) if is_mlir else parse_module(text, strict=strict)
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
    memory = memory_analysis(module)
    transfers_of(memory.sequence)
    suggestions(memory)
    for space in memory.spaces:
        assert sum(value.padded_bytes for value in space.live_at(space.peak_step)) == space.peak_bytes
    fusions = [instruction.name for instruction in module.instructions if instruction.opcode == "fusion"]
    rewrites: tuple[Callable[[], object], ...] = (
        lambda: desugar(module),
        lambda: sugar(module),
        lambda: fuse(module),
        lambda: unfuse(module),
        lambda: unfuse(module, fusions),
        lambda: normalize(module),
        lambda: reorder(module, "memory"),
        lambda: reorder(module, "dfs"),
        lambda: module_to_bytes(module),
    )
    for rewrite in rewrites:
        with suppress(HloError):
            rewrite()
    for instruction in module.instructions:
        with suppress(HloError):
            infer_shape(instruction, module)


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


def compare_readers(seed: int, seconds: float) -> int:
    """Let both readers of lines read damaged lines for some time; 1 if they differ in one, 2 without a compiled reader."""
    if not is_compiled():
        print("there is no compiled reader")
        return 2
    fuzzer, end = LineFuzzer(seed), time.monotonic() + seconds
    differing = 0
    while time.monotonic() < end and differing < MAX_FINDINGS:
        if (text := fuzzer.step()) is not None:
            differing += 1
            print(f"the readers differ: {text!r}")
    print(f"{fuzzer.lines} lines with seed {seed}, {differing} differences")
    return 1 if differing else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz for some time; 1 if something was found."""
    parser = argparse.ArgumentParser(description="Feeds damaged dumps to the readers and to whole commands.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--lines", action="store_true", help="only compare the compiled reader of lines with that in Python"
    )
    chosen = parser.parse_args(arguments)
    if chosen.lines:
        return compare_readers(chosen.seed, chosen.seconds)
    folder = Path(tempfile.mkdtemp(prefix="hlo-fuzz-"))
    (folder / "before.txt").write_text("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }")
    fuzzer, end = Fuzzer(chosen.seed, folder), time.monotonic() + chosen.seconds
    while time.monotonic() < end:
        fuzzer.step()
        if sys.stderr.isatty() and fuzzer.inputs % 20 == 0:
            print(f"\r{fuzzer.inputs} inputs, {len(fuzzer.findings)} findings ", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    found = len(fuzzer.findings)
    print(f"{fuzzer.inputs} inputs, {fuzzer.commands} commands with seed {chosen.seed}, {found} findings")
    for number, finding in enumerate(fuzzer.findings.values()):
        is_proto = finding.text.startswith(PROTO_MARK)
        path = folder / (f"{number}.hlo.pb" if is_proto else f"{number}.txt")
        path.write_bytes(bytes_of(finding.text))
        print(f"{path}: {finding.what}: {' '.join(finding.line)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

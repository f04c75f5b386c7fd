"""Texts and protos with random damage: what editors, terminals and broken disks make of dumps, and worse."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import compiler_messages
import oom_messages
from hlo_cli.ir.operations import OPCODE_ARITY
from hlo_cli.library import parse_module
from hlo_cli.syntax.proto.write_module import module_to_bytes
from hlo_cli.transform.extract import extract
from protos import PROTOS
from strategies import FIXTURES, dump_text, dumps
from wrapping import WRAPPINGS

STABLEHLO = FIXTURES / "stablehlo"
LONGEST = 20_000
PROTO_SHARE = 0.3
WRAPPED_SHARE = 0.25
MEANING_SHARE = 0.7
"""Of so many texts every line can still be read, and says something else."""
PROTO_MARK = "\ue000"
"""Stands before what is a proto, as no text of HLO begins so."""

_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[A-Za-z_][\w.\-]*|-?[0-9]+|\s+|.", re.DOTALL)
_SPICE = (
    '"', "'", "{", "}", "(", ")", "[", "]", "/*", "*/", "//", "\\", "\0", "\n", "\r\n", "\t", "%", "#1", "=", ",", ":", "->",
    "ROOT ", "ENTRY ", "HloModule ", "=5*/", "/*index=5*/", "\x1b[31m", "é", "\u2028", "\ud800", "nan", "-inf", "...", "<=", "?",
    "b(", "9" * 30, "9" * 5000, "-1", "0x1p-3", "1e999", "f32[", "]{1,0:T(8,128)", "constant({...})", ", calls=", "}\n\n", "\n}\n",
    "loc(#loc", "tensor<", "stablehlo.", "({", "^bb0(", "dense<", "#stablehlo.", "<{", "metadata={", "backend_config={", "control-predecessors={", "to_apply={", "sharding={devices=[2]<=[2]}", "literal=",
)  # fmt: skip
_OPERANDS = re.compile(r"(?<= )[a-z][a-z0-9\-]*\(([^()\n]*)\)")
_OPCODE = re.compile(r"(?<= )[a-z][a-z0-9\-]*(?=\()")
_SHAPE = re.compile(r"(?<= = )\S+(?= [a-z])")
_ATTRIBUTE = re.compile(r", [a-z_]+=(?:\{[^{}\n]*\}|[^,\s{}\"]+)")
SMALL = tuple(
    f"HloModule m{head}\n\n{body}"
    for head in ("", ", is_scheduled=true", ", is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }")
    for body in (
        (
            "f {\n  a = f32[8]{0} parameter(0)\n  b = f32[2,4]{1,0} bitcast(a)\n  ROOT s = f32[2,4]{1,0} add(b, b)\n}\n\n"
            "ENTRY e {\n  x = f32[8]{0} parameter(0)\n  ROOT r = f32[2,4]{1,0} fusion(x), kind=kLoop, calls=f\n}\n"
        ),
        (
            "ENTRY e {\n  a = f32[8]{0} parameter(0)\n  b = (f32[8]{0}, f32[8]{0}) tuple(a, a)\n"
            "  g = f32[8]{0} get-tuple-element(b), index=1\n  ROOT n = f32[8]{0} negate(g)\n}\n"
        ),
        (
            "c {\n  p = (s32[], f32[8]{0}) parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  n = s32[] constant(9)\n"
            "  ROOT l = pred[] compare(i, n), direction=LT\n}\n\nb {\n  p = (s32[], f32[8]{0}) parameter(0)\n"
            "  i = s32[] get-tuple-element(p), index=0\n  o = s32[] constant(1)\n  j = s32[] add(i, o)\n"
            "  x = f32[8]{0} get-tuple-element(p), index=1\n  y = f32[8]{0} negate(x)\n"
            "  ROOT t = (s32[], f32[8]{0}) tuple(j, y)\n}\n\nENTRY e {\n  x = f32[8]{0} parameter(0)\n  z = s32[] constant(0)\n"
            "  t = (s32[], f32[8]{0}) tuple(z, x)\n  w = (s32[], f32[8]{0}) while(t), condition=c, body=b\n"
            "  ROOT r = f32[8]{0} get-tuple-element(w), index=1\n}\n"
        ),
        (
            "ENTRY e {\n  x = f32[8,16]{1,0} parameter(0)\n  y = f32[16,4]{1,0} parameter(1)\n  z = s32[] parameter(2)\n"
            "  d = f32[8,4]{1,0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            "  u = f32[8,4]{1,0} dynamic-update-slice(d, d, z, z)\n  s = f32[8,2]{1,0} slice(u), slice={[0:8], [0:4:2]}\n"
            "  p = f32[8,4]{1,0} pad(s, z), padding=0_0x1_1\n  c = f32[16,4]{1,0} concatenate(p, u), dimensions={0}\n"
            "  t = f32[4,16]{0,1} transpose(c), dimensions={1,0}\n  g = (f32[4,16]{1,0}, u32[]) copy-start(t)\n"
            "  ROOT h = f32[4,16]{1,0} copy-done(g)\n}\n"
        ),
    )
)
"""Short modules in which every word matters."""
_ODD_NUMBERS = (
    "0",
    "-1",
    "1",
    "7",
    str(2**31),
    str(2**62),
    str(2**63 - 1),
    str(2**63),
    str(2**64),
    "9" * 400,
    "00000001",
    "1.5",
    "1e9",
)
_OPCODES = tuple(OPCODE_ARITY)
MESSAGES = tuple(
    text
    for messages in (oom_messages, compiler_messages)
    for name, text in vars(messages).items()
    if name.isupper() and isinstance(text, str)
)
"""Messages of compilers, allocators, and systems."""


@dataclass(slots=True)
class Damager:
    """Damages texts; the same seed makes the same inputs."""

    seed: int
    longest: int = LONGEST
    random: random.Random = field(init=False)
    texts: tuple[str, ...] = ()
    protos: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        lowered = (path.read_text() for path in sorted(STABLEHLO.glob("*.mlir")))
        self.texts = (*(dump_text(path) for path in dumps()), *SMALL, *self._parts(), *lowered)
        small = tuple(module_to_bytes(parse_module(text)) for text in self._parts(40))
        self.protos = (*(path.read_bytes() for path in PROTOS), *small)

    def _parts(self, count: int = 150) -> Iterator[str]:
        """Neighborhoods of instructions that are whole modules: what is damaged in them is what runs."""
        chosen = self.random.sample(dumps(), 20)
        for path in chosen:
            module = parse_module(dump_text(path))
            instructions = list(module.instructions)
            for _ in range(count // len(chosen)):
                text = str(extract(module, self.random.choice(instructions), operands=3, users=3))
                if len(text) < self.longest:
                    yield text

    def next(self) -> str:
        """A damaged text, or a damaged proto behind `PROTO_MARK`."""
        chance = self.random.random()
        if chance < PROTO_SHARE:
            return self.damaged_proto()
        return self.wrapped() if chance < PROTO_SHARE + WRAPPED_SHARE else self.damaged()

    def wrapped(self) -> str:
        """A damaged text or message as it is pasted, damaged once more or not."""
        text = self.damaged() if self.random.random() < 0.5 else self.random.choice(MESSAGES)
        for _ in range(self.random.choice((0, 1, 1, 2))):
            text = self.random.choice(tuple(WRAPPINGS.values()))(text)
        for _ in range(self.random.choice((0, 0, 1, 2, 6))):
            text = self.random.choice(_DAMAGES)(self, text)
        return text[: 4 * self.longest]

    def damaged(self) -> str:
        """A dump, or a part of one, with up to six things done to it."""
        text = self.window(self.random.choice(self.texts))
        damages = _MEANINGS if self.random.random() < MEANING_SHARE else _DAMAGES
        for _ in range(self.random.choice((1, 1, 2, 3, 6))):
            text = self.random.choice(damages)(self, text)
        return text[: 4 * self.longest]

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
        if len(text) < self.longest and self.random.random() < 0.8:
            return text
        parts = text.split("\n\n")
        at = self.random.randrange(len(parts))
        return "\n\n".join((parts[0], *parts[at : at + self.random.choice((1, 2, 5))]))[: self.longest]

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
        odd = self.random.choice(_ODD_NUMBERS)
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

    def swap_opcode(self, text: str) -> str:
        """An instruction does something else with the same operands and attributes."""
        return self._replace(_OPCODE, text, lambda _: self.random.choice(_OPCODES))

    def operands(self, text: str) -> str:
        """Operands are lost, doubled, or those of another instruction."""
        listed = [match[1] for match in _OPERANDS.finditer(text)] or [""]

        def changed(match: re.Match[str]) -> str:
            given = match[1]
            some = self.random.choice(
                (
                    "",
                    given.partition(", ")[0],
                    f"{given}, {given}",
                    given.rpartition(", ")[2],
                    self.random.choice(listed),
                )
            )
            return match[0].replace(f"({given})", f"({some})")

        return self._replace(_OPERANDS, text, changed)

    def swap_shape(self, text: str) -> str:
        """A result gets the shape of another, or loses it."""
        listed = _SHAPE.findall(text) or [""]
        return self._replace(
            _SHAPE, text, lambda _: self.random.choice((self.random.choice(listed), "", "f32[]", "()", "token[]"))
        )

    def swap_attribute(self, text: str) -> str:
        """An attribute is lost, doubled, or one of another instruction."""
        listed = _ATTRIBUTE.findall(text) or [""]
        return self._replace(_ATTRIBUTE, text, lambda m: self.random.choice(("", m[0] * 2, self.random.choice(listed))))

    def _replace(self, pattern: re.Pattern[str], text: str, by: Callable[[re.Match[str]], str]) -> str:
        found = list(pattern.finditer(text))
        for match in sorted(
            self.random.sample(found, min(len(found), self.random.choice((1, 1, 3)))), key=lambda m: -m.start()
        ):
            text = text[: match.start()] + by(match) + text[match.end() :]
        return text


_MEANINGS: tuple[Callable[[Damager, str], str], ...] = (
    Damager.number, Damager.swap_opcode, Damager.operands, Damager.operands, Damager.swap_shape, Damager.swap_attribute,
)  # fmt: skip
_DAMAGES = (
    *_MEANINGS, Damager.flip, Damager.delete, Damager.duplicate, Damager.truncate, Damager.spice, Damager.spice, Damager.splice,
    Damager.splice, Damager.swap, Damager.nest, Damager.join, Damager.repeat_line,
)  # fmt: skip

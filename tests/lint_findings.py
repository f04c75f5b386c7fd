"""What each case of `lint_cases.py` and `lint_cost_cases.py` is told, in `data/lint_findings.txt`; `--write` renews it.

    HLO001-0
    4:3 error HLO010 negate %y: expected 1 operand, found 0
      in: e/y
    4:28 error HLO001 undefined operand 'lost' in e

A place is a line and a column of the text that breaks the rule; what a finding costs and why is below it. The text that
keeps the rule is told something only where it breaks another one, and follows as `HLO001-0, kept`.

`data/lint_edits.txt` has the same of these texts with one word changed, such as a number one off or an attribute left out:

    HLO010.1 bad 4:7: 4 -> 5

`--write` renews what is said there, `--choose` also which edits there are: those that lint answers in words of which no
other has been answered, or for which its rules go ways that they go for no other.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from arcs import Arcs, arcs
from hlo_cli.library import parse_module
from hlo_cli.lint.run import lint_module
from hlo_cli.report.findings import Finding
from hlo_cli.source import HloError
from lint_cases import CASES, Case
from lint_cost_cases import COST_CASES

KEPT = Path(__file__).parent / "data" / "lint_findings.txt"
EDITED = Path(__file__).parent / "data" / "lint_edits.txt"
NAMED = {f"{case.code}-{number}": case for number, case in enumerate((*CASES, *COST_CASES))}


def told(name: str, case: Case) -> str:
    """All findings in the texts of a case, with everything that is said of them."""
    broken, kept = case.bad.replace("«", "").replace("»", ""), "".join(_lines(case.good, case))
    return f"{name}\n{''.join(_lines(broken, case))}" + (f"{name}, kept\n{kept}" if kept else "")


def _lines(text: str, case: Case) -> Iterator[str]:
    for found in lint_module(parse_module(text), case.settings):
        place = found.position
        at = f"{place.line}:{place.column}" if place else "-"
        yield f"{at} {found.severity} {found.code} {found.message}\n"
        for name, value in _facts(found).items():
            if value:
                yield f"  {name}: {value}\n".replace("\n", " / ", str(value).count("\n"))


def kept() -> dict[str, str]:
    """What the file holds for each case."""
    blocks = KEPT.read_text(encoding="utf-8").split("\n\n")
    return {block.partition("\n")[0]: f"{block.rstrip()}\n" for block in blocks}


def main() -> None:
    """Writes the files anew."""
    KEPT.write_text("\n".join(told(name, case) for name, case in NAMED.items()), encoding="utf-8")
    edits = _chosen() if "--choose" in sys.argv else list(kept_edits())
    EDITED.write_text("\n".join(f"{edit}\n{told_of(edit)}" for edit in edits), encoding="utf-8")


# --- one word changed ---


def _counted() -> Iterator[tuple[str, Case]]:
    count = Counter[str]()
    for case in NAMED.values():
        count[case.code] += 1
        yield f"{case.code}.{count[case.code]}", case


OF_RULES = dict(_counted())
"""The cases of each rule in their order, such as `HLO010.2`: a name that stays where other rules get cases."""


class Edit(NamedTuple):
    """A word of one of the texts of a case, and what is in its place."""

    name: str
    which: str
    line: int
    column: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name} {self.which} {self.line}:{self.column}: {self.old} -> {self.new}".rstrip()

    @property
    def text(self) -> str:
        """The text with the change."""
        lines = _text(self.name, self.which).splitlines(keepends=True)
        line, start = lines[self.line - 1], self.column - 1
        assert line.startswith(self.old, start), f"{self}: not in the text; choose edits anew"
        lines[self.line - 1] = line[:start] + self.new + line[start + len(self.old) :]
        return "".join(lines)


def told_of(edit: Edit) -> str:
    """All findings in a text that was changed, with everything that is said of them."""
    return "".join(_lines(edit.text, OF_RULES[edit.name]))


def kept_edits() -> dict[Edit, str]:
    """The edits in the file, each with what is said of it."""
    found = {}
    for block in EDITED.read_text(encoding="utf-8").split("\n\n"):
        head, _, lines = block.partition("\n")
        if (match := _HEAD.fullmatch(head)) is None:
            raise ValueError(f"{EDITED.name}: no edit: {head}")
        name, which, line, column, old, new = match.groups(default="")
        found[Edit(name, which, int(line), int(column), old, new)] = f"{lines.rstrip()}\n" if lines.strip() else ""
    return found


_HEAD = re.compile(r"(\S+) (bad|good) (\d+):(\d+): (.*) ->(?: (.*)|)")


def _text(name: str, which: str) -> str:
    case = OF_RULES[name]
    return case.good if which == "good" else case.bad.replace("«", "").replace("»", "")


_TYPES = {"f32": "bf16", "bf16": "f32", "s32": "f32", "u32": "s32", "f16": "f32", "pred": "s32"}
_OPPOSITES = {"true": "false", "false": "true"}
_OPCODES = {"negate": "copy", "copy": "negate", "add": "subtract", "call": "fusion", "dot": "add", "all-gather": "copy"}
_NUMBER = re.compile(r"(?<![\w.])\d{1,18}(?![\w.])")
_WORD = re.compile(rf"\b(?:{'|'.join((*_TYPES, *_OPPOSITES, *_OPCODES))})\b")
_ATTRIBUTE = re.compile(r", [a-z_]+=(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|[\w.%]+|\"[^\"]*\")")
_LAYOUT = re.compile(r"(?<=\{)1,0(?=[:}])|:T\(.*?\)(?:\(.*?\))?|S\(1\)")
_OPERAND = re.compile(r"(?<=[(])[\w.%]+, |, [\w.%]+(?=[)])")
_TRIED = 25
"""Edits of a text that may be chosen: more of them hardly make lint say anything else."""
_LONG = 2000
"""Characters of texts with whole kernels, which take a hundred times as long as others."""


def _edits(name: str, which: str) -> Iterator[Edit]:
    """A number more and one less, the opposite, another type, opcode, or layout, an attribute, an operand, or a line less."""
    for at, line in enumerate(_text(name, which).splitlines(), 1):
        for match in _NUMBER.finditer(line):
            for number in (int(match[0]) + 1, int(match[0]) - 1):
                if number >= 0:
                    yield Edit(name, which, at, match.start() + 1, match[0], str(number))
        for match in _WORD.finditer(line):
            other = {**_TYPES, **_OPPOSITES, **_OPCODES}[match[0]]
            yield Edit(name, which, at, match.start() + 1, match[0], other)
        for match in _LAYOUT.finditer(line):
            yield Edit(name, which, at, match.start() + 1, match[0], "0,1" if match[0] == "1,0" else "")
        if " = " in line and not line.rstrip().endswith("}"):
            yield Edit(name, which, at, 1, line, "")
        for pattern in (_ATTRIBUTE, _OPERAND):
            yield from (Edit(name, which, at, match.start() + 1, match[0], "") for match in pattern.finditer(line))


def _chosen() -> list[Edit]:
    """Edits with answers in words of which no other has been answered, or after ways that no other goes."""
    random = Random(36)
    said: set[str] = set()
    gone: Arcs = set()
    for name, case in OF_RULES.items():
        for which in ("bad", "good"):
            lines, ways = arcs(_FOLLOWED, partial(_all_lines, _text(name, which), case))
            said, gone = said | _answers(lines), gone | ways
    found = []
    for name, case in OF_RULES.items():
        for which in ("bad", "good"):
            edits = list(_edits(name, which)) if len(_text(name, which)) < _LONG else []
            for edit in random.sample(edits, min(len(edits), _TRIED)):
                try:
                    lines, ways = arcs(_FOLLOWED, partial(_all_lines, edit.text, case))
                except HloError:  # nothing is left
                    continue
                if (answers := _answers(lines) - said) or len(ways - gone) >= _NEW:
                    said, gone = said | answers, gone | ways
                    found.append(edit)
    return sorted(found)


_FOLLOWED = ("lint", "shapes")
"""Folders whose ways from line to line count: what rules say of shapes is in the other."""
_NEW = 2
"""Ways that an edit must be the first to go: into a branch and out of it."""


def _all_lines(text: str, case: Case) -> str:
    return "".join(_lines(text, case))


def _answers(lines: str) -> set[str]:
    """What findings say without names, types, and numbers."""
    said = re.sub(r"(?m)^\S+ (?=\w+ HLO)|^  (?:in|bytes|pattern|together|executions|seconds|value): .*\n", "", lines)
    return set(
        re.sub(
            r"'[^']*'|\b(?:[a-z]{1,4}\d+\w*|pred)?\[.*?\](?:\{.*?\})?|\d[\d,.]*|%?\b\w{1,2}\b", "#", said
        ).splitlines()
    )


def _facts(found: Finding) -> dict[str, object]:
    return {
        "in": found.name,
        "help": found.hint,
        "expectation": found.expectation,
        "bytes": found.cost_bytes,
        "executions": "unknown" if found.executions is None else found.executions if found.executions > 1 else None,
        "seconds": found.seconds and f"{found.seconds:.6g}",
        "op_name": found.op_name,
        "location": found.location,
        "scope": found.scope,
        "argument": found.argument,
        "pattern": found.cause and found.cause.pattern,
        "value": found.cause and found.cause.value,
        "together": found.cause and (found.cause.message, *found.cause.wider, found.cause.repeated),
    }


if __name__ == "__main__":
    if "--write" in sys.argv or "--choose" in sys.argv:
        main()

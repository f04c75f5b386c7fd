"""What each case of `lint_cases.py` and `lint_cost_cases.py` is told, in `data/lint_findings.txt`; `--write` renews it.

    HLO001-0
    4:3 error HLO010 negate %y: expected 1 operand, found 0
      in: e/y
    4:28 error HLO001 undefined operand 'lost' in e

A place is a line and a column of the text that breaks the rule; what a finding costs and why is below it. The text that
keeps the rule is told something only where it breaks another one, and follows as `HLO001-0, kept`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from hlo_cli.library import parse_module
from hlo_cli.lint.run import lint_module
from hlo_cli.report.findings import Finding
from lint_cases import CASES, Case
from lint_cost_cases import COST_CASES

KEPT = Path(__file__).parent / "data" / "lint_findings.txt"
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
    """Writes the file anew."""
    KEPT.write_text("\n".join(told(name, case) for name, case in NAMED.items()), encoding="utf-8")


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
    if "--write" in sys.argv:
        main()

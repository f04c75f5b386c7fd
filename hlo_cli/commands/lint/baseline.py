"""Baselines of `hlo lint`: known findings, which fail nothing, by fingerprints independent of names and numbers."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.report.finding import Finding
from hlo_cli.source import HloError

SCHEMA: Final = "hlo.lint-baseline/1"
NEVER_KNOWN: Final = frozenset(("HLO901",))
"""Rules that a baseline does not silence: a team can change its own expectations instead."""


def baseline_text(found: Iterable[Finding]) -> str:
    """A baseline with these findings: one line for each kind, ordered for small diffs.

    >>> print(baseline_text([]), end="")
    {"schema": "hlo.lint-baseline/1", "findings": [
    ]}
    """
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    for each in found:
        key = (each.code, each.fingerprint)
        counts[key] += 1
        examples.setdefault(key, each.message)
    lines = (
        json.dumps({"code": code, "fingerprint": print_, "count": count, "example": examples[code, print_]})
        for (code, print_), count in sorted(counts.items())
    )
    return f'{{"schema": "{SCHEMA}", "findings": [\n' + ",\n".join(lines) + ("\n" if counts else "") + "]}\n"


def read_baseline(path: str) -> Counter[tuple[str, str]]:
    """The number of known findings by code and fingerprint; HloError if the file is not a baseline."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError as error:
        hint = f"hlo lint DUMP --write-baseline {path}"
        raise HloError(f"there is no baseline {path}", hint=hint) from error
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise HloError(f"cannot read the baseline {os.fspath(path)}: {reason}") from error
    listed = content.get("findings") if isinstance(content, dict) and content.get("schema") == SCHEMA else None
    if not isinstance(listed, list):
        raise HloError(f"{path} is no baseline of hlo lint")
    known: Counter[tuple[str, str]] = Counter()
    for each in listed:
        match each:
            case {"code": str(code), "fingerprint": str(fingerprint), "count": int(count)}:
                known[code, fingerprint] += count
            case _:
                raise HloError(f"{path} holds what is no finding: {str(each)[:60]}")
    return known


def new_findings(found: Iterable[Finding], known: Counter[tuple[str, str]]) -> Iterator[Finding]:
    """The findings that are not in a baseline; of a kind with more findings than before, the last ones."""
    left = Counter(known)
    for each in found:
        key = (each.code, each.fingerprint)
        if left[key] > 0 and each.code not in NEVER_KNOWN:
            left[key] -= 1
        else:
            yield each

"""Baselines of `hlo lint`: accepted findings, identified by fingerprints that do not depend on names and numbers."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.inputs.files import read_utf8
from hlo_cli.report.findings import Finding
from hlo_cli.source import HloError

SCHEMA: Final = "hlo.lint-baseline/1"
NOT_IN_BASELINE: Final = frozenset(("HLO901",))
"""Rules that a baseline does not hide: assertions can be changed instead."""


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
        json.dumps({"code": code, "fingerprint": fingerprint, "count": count, "example": examples[code, fingerprint]})
        for (code, fingerprint), count in sorted(counts.items())
    )
    return f'{{"schema": "{SCHEMA}", "findings": [\n' + ",\n".join(lines) + ("\n" if counts else "") + "]}\n"


def read_baseline(path: str) -> Counter[tuple[str, str]]:
    """The number of accepted findings by code and fingerprint; HloError if the file is not a baseline."""
    hint = "create a baseline with `hlo lint DUMP --write-baseline FILE`"
    try:
        content = json.loads(read_utf8(path))
    except FileNotFoundError as error:
        create = f"create it with `hlo lint DUMP --write-baseline {path}`"
        raise HloError(f"baseline '{path}' not found", hint=create) from error
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not valid JSON"
        raise HloError(f"cannot read baseline {os.fspath(path)}: {reason}", hint=hint) from error
    listed = content.get("findings") if isinstance(content, dict) and content.get("schema") == SCHEMA else None
    if not isinstance(listed, list):
        raise HloError(f"{path} is not an hlo lint baseline", hint=hint)
    known: Counter[tuple[str, str]] = Counter()
    for each in listed:
        match each:
            case {"code": str(code), "fingerprint": str(fingerprint), "count": int(count)}:
                known[code, fingerprint] += count
            case _:
                raise HloError(f"invalid entry in {path}: {str(each)[:60]}")
    return known


def new_findings(found: Iterable[Finding], known: Counter[tuple[str, str]]) -> Iterator[Finding]:
    """The findings that are not in a baseline; of a kind with more findings than before, the last ones."""
    left = Counter(known)
    for each in found:
        key = (each.code, each.fingerprint)
        if left[key] > 0 and each.code not in NOT_IN_BASELINE:
            left[key] -= 1
        else:
            yield each

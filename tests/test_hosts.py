"""Hosts of a job: healthy ones are the same, and a planted divergence is named with its host, place, and effect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hlo_cli.analysis.statements.hosts import digest_of_text, digests_of_text
from in_process import run
from planted_hosts import HANGS, KINDS, random_program, text_of, write_hosts


def answer(folder: Path, *arguments: str) -> tuple[Mapping[str, Any], int]:
    """The JSON report of `hlo diff`, and the exit code."""
    out, err, code = run(["diff", *arguments, "--format", "json"], folder=folder, settings={})
    assert not err, err
    return json.loads(out), code


def rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = report["tables"]["divergences"]["rows"]
    return table


def check(folder: Path, seed: int, kind: str) -> None:
    """A planted divergence of a kind is found: the host, the module, the effect, and the layer that differs."""
    random = Random(f"{kind} {seed}")
    count = random.randint(3, 8)
    host, layer = write_hosts(folder, random, count, kind)
    report, code = answer(folder, *(f"host{n}/" for n in range(count)))
    [row] = rows(report)
    assert (row["hosts"], row["host_count"], row["other_host_count"], code) == (host, 1, count - 1, 1)
    if kind == "flag":
        assert (row["effect"], row["difference"]) == ("other flags", "--xla_cpu_enable_fast_math default → true")
        return
    assert row["effect"] == ("hang" if kind in HANGS else "other results")
    assert row["module"] == "jit_step"
    if kind == "module":
        assert row["mismatch"] == "module"
        return
    named = row["collective"] if kind in HANGS else row["instruction"]
    expected = "inner" if kind == "trips" else f"{'r' if kind in HANGS else 'c'}.{layer}"
    assert named.startswith(expected), (named, expected)
    reasons = {"trips": ("runs",), "groups": ("groups",), "shape": ("shape", "groups")}.get(kind, (kind,))
    assert kind not in HANGS or row["mismatch"] in reasons
    line = int(row["source"].rpartition(":")[2])
    assert kind in ("trips", "constant") or abs(line - (13 + 3 * layer)) <= 1, (line, layer)


@pytest.mark.parametrize("kind", KINDS)
def test_planted_divergences(tmp_path: Path, kind: str) -> None:
    check(tmp_path, 0, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", [range(1, 11), pytest.param(range(11, 101), marks=pytest.mark.long)], ids=len)
def test_many_planted_divergences(tmp_path: Path, kind: str, seeds: range) -> None:
    for seed in seeds:
        check(tmp_path / str(seed), seed, kind)


@pytest.mark.parametrize("seed", range(3))
def test_healthy_hosts(tmp_path: Path, seed: int) -> None:
    write_hosts(tmp_path, Random(seed), 4)
    report, code = answer(tmp_path, *(f"host{n}/" for n in range(4)))
    assert (report["answer"]["diverging_hosts"], rows(report), code) == (0, [], 0)


def test_each_digest_alone_is_the_one_of_both() -> None:
    text = text_of(random_program(Random(3)))
    both = tuple(digests_of_text(text))
    assert both == (digest_of_text(text, with_names=True), digest_of_text(text, with_names=False))


def write_modules(folder: Path, hosts: Mapping[str, str]) -> list[str]:
    """Dumps of hosts, each with small modules of the given letters; their directories."""
    for host, letters in hosts.items():
        (folder / host).mkdir()
        for number, letter in enumerate(letters):
            text = f"HloModule jit_{letter}\n\nENTRY e {{\n  ROOT c = f32[] constant({ord(letter)})\n}}\n"
            (folder / host / f"module_000{number}.jit_{letter}.after_optimizations.txt").write_text(text)
    return [f"{host}/" for host in hosts]


@pytest.mark.parametrize(
    ("hosts", "sentence", "code"),
    [
        ({"h0": "a", "h1": "b", "h2": "c"}, "Nothing in common: no module is on more than one host", 1),
        ({"h0": "ax", "h1": "ax", "h2": "b"}, "h2 has no module in common with h0 and h1", 1),
        ({"h0": "a", "h1": "b", "h2": "a", "h3": "b"}, "h1 and h3 have no module in common with h0 and h2", 1),
        ({"h0": "a", "h1": "ab", "h2": "b"}, "jit_a, which has no collectives, is not on h2", 1),
        ({"h0": "ax", "h1": "a", "h2": "a"}, "Same program on 3 hosts (1 module); 1 module without collectives", 0),
    ],
)
def test_hosts_that_run_other_programs(tmp_path: Path, hosts: Mapping[str, str], sentence: str, code: int) -> None:
    directories = write_modules(tmp_path, hosts)
    out, _, found = run(["diff", *directories, "--format", "screen"], folder=tmp_path, settings={})
    assert (found, out.startswith(sentence)) == (code, True), out
    report, _ = answer(tmp_path, *directories)
    lonely = any(row["effect"] == "other program" for row in rows(report))
    assert lonely == ("in common" in sentence)

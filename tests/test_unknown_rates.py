"""Unknown rates and costs are unknown everywhere, never 0, and totals with an unknown part are lower bounds."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.chips import find_chip, known_chips
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.kernel_times import compute_type, roofline
from hlo_cli.analysis.schedule.step_time import estimate_time
from hlo_cli.cli import main

TEXT = """HloModule m, is_scheduled=true, replica_count=4
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[1024] parameter(0) q = f8e4m3fn[64,64] parameter(1) r = s4[64,64] parameter(2) t = token[] after-all()
  all = f32[1024] all-reduce(p), replica_groups={{0,1,2,3}}, to_apply=sum
  gs = (f32[1024], f32[4096]) all-gather-start(p), dimensions={0}, replica_groups={{0,1,2,3}}
  f8 = f32[64,64] dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s4 = s32[64,64] dot(r, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  gd = f32[4096] all-gather-done(gs)
  ss = (f32[1024], u32[], token[]) send(p, t), channel_id=1, is_host_transfer=true
  sd = token[] send-done(ss), channel_id=1, is_host_transfer=true
  h = f32[1024]{0:S(5)} copy(p)
  ROOT x = f32[1024] custom-call(all), custom_call_target="mystery"
}"""
CHIPS = sorted(chip.name for chip in known_chips())
each_chip = pytest.mark.parametrize("chip", [*CHIPS, "bare"])
BARE = "[chip.bare]\nmemory = 1e12\n"


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> tuple[Path, Path]:
    module, chips = tmp_path / "m.hlo", tmp_path / "chips.toml"
    module.write_text(TEXT)
    chips.write_text(BARE)
    return module, chips


def asked(files: tuple[Path, Path], chip: str, command: str, *words: str) -> str:
    own = ("--chip-file", str(files[1])) if chip == "bare" else ()
    with redirect_stdout(io.StringIO()) as out:
        assert main([command, str(files[0]), *words, "--chip", chip, *own], standalone=False) == 0
    return out.getvalue()


def answer(files: tuple[Path, Path], chip: str, command: str, *words: str) -> dict[str, Any]:
    document = json.loads(asked(files, chip, command, *words, "--format", "json"))
    assert isinstance(document, dict)
    return document


def seconds_of(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every number of seconds and every share in a document."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith(("seconds", "_share")):
                yield f"{path}.{name}", inner
            else:
                yield from seconds_of(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from seconds_of(inner, f"{path}[{at}]")


def throughput(chip: str) -> ChipSpec:
    return ChipSpec("bare", {}, find_chip("v5e").spec.memory) if chip == "bare" else find_chip(chip).spec


@each_chip
def test_sums_over_links_without_a_rate_are_unknown(chip: str, files: tuple[Path, Path]) -> None:
    found = answer(files, chip, "schedule")
    rates = throughput(chip)
    links = {"transfer_seconds", "exposed_seconds"}
    unknown = (set() if rates.links and rates.host else links) | (set() if rates.links else {"synchronous_seconds"})
    numbers = found["answer"]
    for name in (*links, "synchronous_seconds"):
        if name in unknown:
            assert numbers[name] is None
            assert (numbers[f"known_{name}"] or 0) >= 0
        else:
            assert numbers[name] > 0 or name == "exposed_seconds", (
                "the exposed time of fully overlapped transfers is 0, which is known"
            )
            assert f"known_{name}" not in numbers
    assert numbers["exposed_share"] is None, "the custom call of unknown cost makes the time a lower bound"
    assert numbers["lower_bounds"] == ["execution_seconds", "compute_seconds"]


@each_chip
@pytest.mark.parametrize("words", [("schedule",), ("schedule", "--critical-path", "time"), ("fuse", "--cost")])
def test_no_number_is_zero_where_a_rate_is_unknown(chip: str, words: tuple[str, ...], files: tuple[Path, Path]) -> None:
    found = answer(files, chip, *words)
    rates = throughput(chip)
    blind = {
        *(() if rates.links else ("all", "gs")),
        *(() if rates.host else ("ss",)),
        *(() if rates.flops else ("f8", "s4")),
        "x",
    }
    rows = [row for table in found["tables"].values() for row in table["rows"] if row.get("instruction") in blind]
    assert rows or len(blind) == 1 or words[-1] == "time", "instructions without weight are on no path"
    own = ".compute_seconds" if words == ("schedule",) else ""  # of other kernels, between start and done
    for row in rows:
        assert all(value is None for name, value in seconds_of(row) if name != own), row


@each_chip
def test_unknown_parts_are_named_in_the_answer(chip: str, files: tuple[Path, Path]) -> None:
    sentence = asked(files, chip, "schedule", "--format", "md").splitlines()[0]
    assert "at least" in sentence or "unknown" in sentence, "a part of unknown time makes the total a lower bound"
    assert ("(unknown time)" in sentence) is (throughput(chip).links is None)
    assert " 0 s" not in sentence


@each_chip
def test_compute_at_an_unknown_rate_is_unknown(chip: str) -> None:
    rates = throughput(chip)
    module = parse_module(TEXT)
    for kernel, cost in costs_of_kernels(module.entry.instructions).items():
        found = roofline(cost, rates, compute_type(kernel))
        assert (found.bound == "unknown") is bool(cost.unknown or (cost.flops and not rates.flops))
        assert (found.compute_seconds is None) is bool(cost.flops and not rates.flops)
    step = estimate_time(analyze_overlap(module), rates)
    assert not step.is_known
    assert {each.name for each in step.unknown} >= {"x"}
    for each, seconds in step.synchronous_seconds.items():
        assert (seconds is None) is (step.synchronous[each].seconds is None)


def test_unknown_trip_counts_make_a_lower_bound() -> None:
    text = """HloModule m, is_scheduled=true
body { x = f32[25] parameter(0) ROOT n = f32[25] negate(x) }
condition { y = f32[25] parameter(0) ROOT is = pred[] custom-call(y), custom_call_target="f" }
ENTRY e { p = f32[25] parameter(0) ROOT w = f32[25] while(p), condition=condition, body=body }"""
    step = estimate_time(analyze_overlap(parse_module(text)), find_chip("v5e").spec)
    assert step.unknown_trip_counts == 2
    assert not step.is_compute_known


def test_an_execution_without_known_parts_has_no_duration() -> None:
    text = """HloModule m, is_scheduled=true, replica_count=2
ENTRY e { p = f32[25] parameter(0) ROOT g = f32[50] all-gather(p), dimensions={0}, replica_groups={{0,1}} }"""
    step = estimate_time(analyze_overlap(parse_module(text)), find_chip("t4").spec)
    assert step.least_seconds is None
    assert list(step.synchronous_seconds.values()) == [None]

"""Totals are the sums of the rows below them, shares are parts of totals, and `--where` takes the rows that it says."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from math import isclose, prod
from typing import Any

import pytest

import golden
import in_process

pytestmark = pytest.mark.usefixtures("modules_kept")

Row = dict[str, Any]

OVERLAPPED = ("gpu/h100_transformer", "tpu/v5p_scan", "tpu/v5e_offload", "golden/schedule/late.hlo")
FUSED = ("cpu/sorting", "gpu/h100_scan", "gpu/h100_normalization", "tpu/v5p_scan")
PEAKS = ("tpu/v5p_scan", "tpu/v5e_branches", "cpu/sorting", "gpu/h100_scan")
EXCHANGED = ("tpu/v4_collectives", "gpu/h100_collectives", "tpu/7x_transformer")


def answered(line: str) -> tuple[Row, dict[str, list[Row]]]:
    """The numbers and the tables of a command line."""
    words = shlex.split(line)
    out, error, code = in_process.run([*words, "--json"], folder=golden.FIXTURES, settings=golden.ENVIRONMENT)
    assert code == 0, error
    found = json.loads(out)
    return found["answer"], {name: table["rows"] for name, table in found["tables"].items()}


def total(rows: list[Row], column: str, times: str = "") -> float:
    """The sum of what is known in a column, each so many times."""
    found: float = sum(row[column] * (row[times] if times else 1) for row in rows if row[column] is not None)
    return found


@pytest.mark.parametrize("dump", OVERLAPPED)
def test_async_operations_are_counted(dump: str) -> None:
    numbers, tables = answered(f"schedule {dump}")
    rows, operations = tables["pairs"], tables["operations"]
    exposed = [row for row in rows if row["unoverlapped"]]
    assert all(row["total_bytes"] == row["bytes"] * row["execution_count"] for row in rows)
    assert numbers["pairs"] == len(rows) == total(operations, "pairs")
    assert numbers["bytes"] == total(rows, "total_bytes") == total(operations, "bytes")
    assert numbers["unoverlapped"] == len(exposed) == total(operations, "unoverlapped")
    assert numbers["unoverlapped_bytes"] == total(exposed, "total_bytes") == total(operations, "unoverlapped_bytes")
    assert numbers["synchronous"] == total(operations, "synchronous")
    assert numbers["synchronous_bytes"] == total(operations, "synchronous_bytes")


@pytest.mark.parametrize("dump", FUSED)
def test_kernels_are_counted(dump: str) -> None:
    numbers, tables = answered(f"fuse {dump}")
    kernels, kinds = tables["kernels"], tables["kernel_kinds"]
    assert numbers["kernels"] == total(kinds, "kernels")
    assert numbers["transfers"] == total(kinds, "transfers")
    assert numbers["launches"] == total(kinds, "launches")
    assert total(kernels, "flops", "execution_count") == total(kinds, "flops")
    assert total(kernels, "bytes", "execution_count") == total(kinds, "bytes")
    assert all(row["bytes"] == row["read_bytes"] + row["written_bytes"] for row in kernels if row["opcode"] == "fusion")
    fusions = tables["fusions"]
    assert numbers["fusions"] == len(fusions)
    for column in ("saved_bytes", "read_bytes", "written_bytes"):
        assert numbers[column] == total(fusions, column), "of one execution"
    for column in ("saved_bytes", "read_bytes", "written_bytes", "flops"):
        assert total(fusions, f"total_{column}") == total(fusions, column, "execution_count"), "of all executions"
    assert numbers["total_saved_bytes"] == total(fusions, "total_saved_bytes")
    ranked = [row["total_saved_bytes"] for row in fusions]
    assert ranked == sorted(ranked, reverse=True), "in the order of a column that is shown"


@pytest.mark.parametrize("dump", ["tpu/v5p_scan", "tpu/v5e_offload"])
def test_instructions_take_the_time_of_kernels(dump: str) -> None:
    """Loops take that of what they run; transfers, tuples, and dones take none."""
    kinds, kernels = (answered(f"fuse {dump} --chip v5p")[1][name] for name in ("kernel_kinds", "kernels"))
    rows = answered(f"fuse {dump} --chip v5p --cost")[1]["costs"]
    assert total(rows, "estimated_seconds") == pytest.approx(total(kinds, "estimated_seconds"))
    launched = {row["instruction"] for row in kernels if row["kernel_kind"] != "transfer"}
    timed = {row["instruction"] for row in rows if row["estimated_seconds"] is not None and row["opcode"] != "while"}
    assert timed <= launched


@pytest.mark.parametrize("dump", PEAKS)
def test_what_is_live_at_a_peak_is_the_peak(dump: str) -> None:
    numbers, tables = answered(f"memspace {dump} --space all")
    for space, peak in numbers["peak_bytes"].items():
        live = [row for row in tables["live_values"] if row["space"] == space]
        assert peak == total(live, "bytes")
        for grouping in ("by_scope", "by_source"):
            groups = [row for row in tables[grouping] if row["space"] == space]
            assert total(groups, "bytes") in (0, peak)
            assert total(groups, "values") in (0, len(live))
            assert total(groups, "padding_bytes") == total(groups, "bytes") - total(groups, "logical_bytes")
    for row in tables["live_values"]:
        assert isclose(row["share"], row["bytes"] / sum(numbers["peak_bytes"].values())), "of all that is listed"
        assert isclose(row["padding"], 1 - row["logical_bytes"] / row["bytes"], abs_tol=1e-12)


@pytest.mark.parametrize("dump", EXCHANGED)
def test_transfers_of_collectives_are_summed_up(dump: str) -> None:
    numbers, tables = answered(f"shard {dump} --comms")
    (rows,) = tables.values()
    assert numbers["collectives"] == total(rows, "sites")
    assert numbers["runs"] == total(rows, "runs")
    assert numbers["payload_bytes"] == total(rows, "payload_bytes")
    assert numbers["wire_bytes"] == numbers["known_wire_bytes"] == total(rows, "wire_bytes")


def test_padding_is_summed_up() -> None:
    numbers, tables = answered("layout tpu/v5e_conv")
    rows = tables["shapes"]
    assert numbers["shapes"] == len(rows)
    assert numbers["values"] == total(rows, "count")
    for column in ("logical_bytes", "padded_bytes", "padding_bytes", "saving_bytes"):
        assert numbers[column] == total(rows, column)
    assert all(row["padding_bytes"] == row["padded_bytes"] - row["logical_bytes"] for row in rows)


@pytest.mark.parametrize("dump", ["tpu/v5e_conv", "tpu/v5p_scan", "gpu/h100_transformer"])
def test_products_are_summed_up(dump: str) -> None:
    numbers, tables = answered(f"fuse {dump} --dots")
    rows = tables["dots"]
    assert numbers["matmuls"] == len(rows)
    assert (
        numbers["flops"]
        == numbers["known_flops"]
        == total(rows, "total_flops")
        == total(rows, "flops", "execution_count")
    )
    plain = [row for row in rows if row["kind"] == "dot"]
    assert all(row["flops"] == 2 * prod(row[size] for size in ("batch", "m", "n", "k")) for row in plain)


def test_times_are_summed_up() -> None:
    numbers, tables = answered("profile traces/cpu_steps")
    rows = tables["operations"]
    assert numbers["operations"] == numbers["selected_operations"] == len(rows)
    assert numbers["events"] == total(rows, "events")
    assert isclose(numbers["self_seconds"], total(rows, "self_seconds"))
    assert isclose(numbers["seconds"], numbers["busy_seconds"] + numbers["idle_seconds"])
    assert all(isclose(row["share"], row["self_seconds"] / numbers["seconds"]) for row in rows)
    assert all(isclose(row["mean_seconds"], row["total_seconds"] / row["calls"]) for row in rows)


@pytest.mark.parametrize(
    ("line", "table", "column"),
    [
        ("memspace tpu/v5p_scan", "live_values", "bytes"),
        ("schedule gpu/h100_transformer", "pairs", "bytes"),
        ("fuse cpu/sorting", "fusions", "read_bytes"),
        ("fuse gpu/h100_transformer --custom-calls", "custom_calls", "read_bytes"),
        ("shard gpu/h100_transformer", "parameters", "shard_bytes"),
        ("profile traces/cpu_steps", "operations", "calls"),
        ("layout tpu/v5e_conv", "shapes", "padded_bytes"),
    ],
)
def test_rows_are_chosen_sorted_and_limited(line: str, table: str, column: str) -> None:
    def rows(*options: str) -> list[Row]:
        return answered(" ".join((line, *options)))[1][table]

    everything = rows()
    sizes_in_order = sorted((row[column] for row in everything), reverse=True)  # the largest first
    sizes = sorted(set(sizes_in_order))
    middle = sizes[len(sizes) // 2]
    assert sizes[0] < middle, "rows differ"
    assert [row[column] for row in rows("--sort", column)] == sizes_in_order
    assert [row[column] for row in rows("--sort", f"-{column}")] == sizes_in_order[::-1]
    assert rows("--top", "2") == everything[:2]
    if not line.startswith(("layout", "shard")):  # whose filters choose values, of which a row has several
        for operator in (">", ">=", "<", "==", "!="):
            wanted = [row for row in everything if _compared(row[column], operator, middle)]
            assert _names(rows(f"--where '{column} {operator} {middle}'")) == _names(wanted)


def _compared(one: float, operator: str, other: float) -> bool:
    return {
        ">": one > other,
        ">=": one >= other,
        "<": one < other,
        "==": one == other,
        "!=": one != other,
    }[operator]


def _names(rows: list[Row]) -> list[tuple[object, ...]]:
    """What tells the rows of a table apart: texts, which do not depend on what else is shown."""
    return [tuple(value for value in row.values() if isinstance(value, str)) for row in rows]


def test_groups_share_what_is_summed_up() -> None:
    """Each `--by` parts the same total."""
    found = defaultdict(set)
    for grouping in ("source", "scope", "argument"):
        numbers, tables = answered(f"layout tpu/7x_transformer --by {grouping}")
        (rows,) = tables.values()
        found["padded_bytes"].add(total(rows, "padded_bytes"))
        found["padded_bytes"].add(numbers["padded_bytes"])
    assert {name: len(totals) for name, totals in found.items()} == {"padded_bytes": 1}


def test_lines_of_an_overview_take_an_execution() -> None:
    """The time of kernels and the exposed time of transfers, of which a line may have the most."""
    numbers, tables = answered("tpu/v5e_offload --chip v5e")
    rows = tables["lines"]
    assert total(rows, "seconds") + total(rows, "exposed_seconds") == pytest.approx(numbers["execution_seconds"])
    assert total(rows, "share") == pytest.approx(1)
    assert [row["share"] for row in rows] == sorted((row["share"] for row in rows), reverse=True)

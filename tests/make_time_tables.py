"""Makes the tables of measured times in the package from figures of XLA's source tree.

    python tests/make_time_tables.py FOLDER

FOLDER has `matmul.csv` (device, lhs, rhs, result, batch, m, n, k, flop_per_s) and `collectives.csv` (device, opcode,
type, result_bytes, groups, devices_per_group, network_bytes_per_s), one row for each entry of XLA's
`default_matmul_perf_table` and `default_collective_perf_table` (xla/service/gpu/model). The tables are facts: times of
shapes on devices. Several entries of one shape and type become their median.

XLA computes a rate as the bytes of its `tensor_size_bytes` over the measured time (`collective_perf_table_gen.cc`).
That size is the result, but of a reduce-scatter the operand, which is larger by the number of devices in a group.

On H100 and B200, all products of 8-bit floats take about the same time, so they are one column. On MI350X (gfx950) some
take twice as long as others of the same shape, so every combination of types has a column of its own, named as in the
table. A collective of bf16 takes the time of one of f32 with the same bytes (within 3% from 1 MiB on), so they are one.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

HARDWARE = Path(__file__).parent.parent / "hlo_cli" / "analysis" / "hardware"
MATMULS, COLLECTIVES = HARDWARE / "matmul_times.csv", HARDWARE / "collective_times.csv"
CHIPS = {"sm_90": "h100", "sm_100_B200": "b200", "sm_100_GB200": "gb200", "sm_103": "gb300", "gfx950": "mi350x"}
TYPES = ("bf16", "f32", "f8")


def written(seconds: float) -> str:
    """Microseconds with four digits."""
    return f"{seconds * 1e6:.4g}" if seconds < 1e-2 else f"{seconds * 1e6:.0f}"


def types_of(chip: str, row: dict[str, str]) -> str:
    """The types of a product as the name of a column."""
    if chip == "mi350x":
        return f"{row['lhs']}x{row['rhs']}->{row['result']}"
    return row["lhs"] if row["lhs"] in TYPES else row["lhs"][:2]


def matmul_lines(path: Path) -> list[str]:
    """One line a shape, one column a chip and type."""
    found: dict[tuple[int, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            batch, m, n, k = (int(row[name]) for name in ("batch", "m", "n", "k"))
            chip = CHIPS[row["device"]]
            seconds = 2 * batch * m * n * k / float(row["flop_per_s"])
            found[batch, m, n, k][f"{chip} {types_of(chip, row)}"].append(seconds)
    columns = [f"{chip} {kind}" for chip in ("h100", "b200") for kind in TYPES]
    columns += sorted({column for times in found.values() for column in times} - set(columns))
    lines = [",".join(("batch", "m", "n", "k", *columns))]
    for shape, times in sorted(found.items()):
        cells = (written(median(times[column])) if column in times else "" for column in columns)
        lines.append(",".join((*map(str, shape), *cells)))
    return lines


def collective_lines(path: Path) -> list[str]:
    """One line a chip, kind, number of groups, and size of a group: pairs of payload bytes and microseconds."""
    found: dict[tuple[str, str, str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            devices, size = int(row["devices_per_group"]), int(row["result_bytes"])
            payload = size * devices if row["opcode"] == "reduce-scatter" else size
            key = (CHIPS[row["device"]], row["opcode"], row["groups"], devices)
            found[key][payload].append(payload / float(row["network_bytes_per_s"]))
    lines = ["chip,opcode,groups,devices,payload_bytes:microseconds"]
    for key, times in sorted(found.items()):
        pairs = " ".join(f"{size}:{written(median(each))}" for size, each in sorted(times.items()))
        lines.append(",".join((*map(str, key), pairs)))
    return lines


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    MATMULS.write_text("\n".join(matmul_lines(folder / "matmul.csv")) + "\n", encoding="utf-8")
    COLLECTIVES.write_text("\n".join(collective_lines(folder / "collectives.csv")) + "\n", encoding="utf-8")

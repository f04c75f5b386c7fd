"""Asks XProf about the traces of TPUs and GPUs that the tests write, and keeps its answers in tests/data/xprof.json.gz.

Of some it keeps what it writes as trace.json, in tests/data/xprof.NAME.trace.json.gz.

In an environment with xprof 2.24.2 and numpy:
PYTHONPATH=.:tests python tests/asking_xprof.py
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from traces_of_xprof import ANSWERS, JSON_FILES, makers

HLO_STATS = (
    "program_id category hlo_op_name occurrences total_time total_self_time total_self_time_percent model_flop_rate "
    "normalized_flop_rate measured_memory_bw hbm_bw cmem_read_bw cmem_write_bw operational_intensity bound_by core_type "
    "parent_op_name"
).split()
ROOFLINE = (
    "category operation occurrences total_time measured_flop_rate hbm_bw vmem_read_bw vmem_write_bw bound_by "
    "optimal_flop_rate roofline_efficiency compute_efficiency max_mem_bw_utilization hlo_module_id"
).split()
OVERALL = "Total"


def main() -> int:
    answers: dict[str, object] = {"columns": {"hlo_stats": HLO_STATS, "roofline": ROOFLINE}}
    answers |= {name: answer(make()) for name, make in makers().items()}
    for name, path in JSON_FILES.items():
        path.write_bytes(gzip.compress(trace_json(makers()[name]()), 9, mtime=0))
    text = json.dumps(answers, separators=(",", ":"))
    ANSWERS.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{ANSWERS}: {len(answers) - 1} files, {ANSWERS.stat().st_size} bytes")
    return 0


def answer(data: bytes) -> dict[str, object]:
    """The tables that XProf makes of one file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "host.xplane.pb"
        path.write_bytes(data)
        stats = next(tables(path, "hlo_stats"))
        roofline = next(tables(path, "roofline_model"))
        overview = list(tables(path, "overview_page"))
    steps = [row["stepnum"] for row in rows_of(overview[1])] if len(overview) > 1 else []
    return {
        "hlo_stats": [[rounded(row.get(name)) for name in HLO_STATS] for row in rows_of(stats)],
        "roofline": [
            [rounded(row.get(name)) for name in ROOFLINE]
            for row in rows_of(roofline)
            if row.get("step") == OVERALL and row.get("include_infeed_outfeed")
        ],
        "peaks": roofline.get("p"),
        "steps": steps,
    }


def trace_json(data: bytes) -> bytes:
    """The trace as the trace viewer has it."""
    from xprof.convert import raw_to_tool_data

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "host.xplane.pb"
        path.write_bytes(data)
        text, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], "trace_viewer", {"use_saved_result": False})
    return text.encode() if isinstance(text, str) else bytes(text)


def tables(path: Path, tool: str) -> Iterator[Mapping[str, object]]:
    from xprof.convert import raw_to_tool_data

    text, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], tool, {"use_saved_result": False})
    found = json.loads(text)
    yield from found if isinstance(found, list) else [found]


def rows_of(table: Mapping[str, object]) -> Iterator[dict[str, object]]:
    names = [column["id"] for column in table["cols"]]  # type: ignore[attr-defined]
    for row in table["rows"]:  # type: ignore[attr-defined]
        yield {name: cell.get("v") if cell else None for name, cell in zip(names, row["c"], strict=False)}


def rounded(value: object) -> object:
    return float(f"{value:.11g}") if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())

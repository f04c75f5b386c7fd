"""Texts of the kinds that people paste, each with the words of the right answer; `data/wild` was written for us."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_cli import cli

WILD = Path(__file__).parent / "data" / "wild"

ANSWERS: dict[str, tuple[str, ...]] = {
    "report_new_gpu.txt": (
        "default memory is 852.0 MiB (893,419,520 bytes) in 2 allocations",
        "the larger 640 MiB (400 MiB shared by 3 values, 240 MiB",
        "collective memory 1 MiB",
    ),
    "report_new_cpu.txt": (
        "default memory is 5.0 MiB (5,242,948 bytes) in 3 allocations",
        "the largest 3 MiB",
        "f32[768,1024]",
    ),
    "report_old.txt": ("Memory usage report: 217.4 MiB", "205.0 MiB temporaries", "8.5 MiB arguments", "3.8 MiB results"),
    "assignment_alone.txt": (
        "320,864,256 bytes",
        "temporaries 251,658,240",
        "arguments 69,206,016",
        "gelu.3 167,772,160, dot.5 83,886,080",
        "w.1 is updated in place by fusion.7 (aliased",
    ),
    "live_range_alone.txt": ("peaks at step 3 of 5 with 314,572,800 bytes: gelu.3, dot.5, w.1",),
    "assignment_values.txt": ("4 buffer values (part of a buffer assignment), 14,556 bytes in total",),
    "memory_stats.txt": ("5,637,145,088 bytes", "256 MiB arguments + 128 MiB results − 128 MiB aliased + 5.0 GiB temporaries"),
    "allocator_stats.txt": ("3.1 GiB of 31.2 GiB in arrays", "25.0 GiB reserved for programs", "free block 1.2 GiB"),
    "unknown_context.txt": ("RET_CHECK failure (xla/service/x.cc:12)",),
    "shapes_three.txt": ("3 shapes", "134,217,728", "8,192"),
    "hlo_then_stablehlo.md": ("jit_g", "lines 16 to 21 are StableHLO (MLIR)"),
    "hlo_then_cpp.txt": ("jit_g", "line 7 is C++"),
    "readme_with_python.md": ("exponential.1", "2 instructions", "lines 11 to 13 are Python"),
    "colors.txt": ("3 instructions",),
    "no_break_spaces.txt": ("3 instructions",),
    "julia_box.txt": ("3 instructions",),
}
"""Words of the answer to each text, from the table of the texts; white space does not count."""
NEVER: dict[str, tuple[str, ...]] = {
    "report_new_gpu.txt": ("Needs", "elements"),
    "report_new_cpu.txt": ("Needs", "elements"),
    "report_old.txt": ("buffer assignment",),
    "assignment_values.txt": ("Part of a module", "duplicate"),
    "unknown_context.txt": ("check Unknown", "Unknown]"),
    "hlo_then_stablehlo.md": ("unmatched",),
    "readme_with_python.md": ("jax.random",),
}
"""Words that an answer must not have."""


def answer(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a command line, and what it writes to both streams, on one line."""
    code = cli.main([*arguments, "--format", "screen"], standalone=False)
    written = capsys.readouterr()
    return code, " ".join(f"{written.out} {written.err}".split())


@pytest.mark.parametrize("name", ANSWERS)
def test_a_text_is_answered_rightly(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = answer([str(WILD / name)], capsys)
    assert [words for words in ANSWERS[name] if words not in text] == [], text
    assert [words for words in NEVER.get(name, ()) if words in text] == []
    assert code == 0

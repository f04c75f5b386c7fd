"""Why JAX compiled again: every reason that jax_explain_cache_misses gives, from a log of `data/cache_misses.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hlo_cli.commands.modules.recompilations import Cause, causes_of
from hlo_cli.commands.pasted.recompilations import functions_in
from in_process import run

DATA = Path(__file__).parent / "data"
EXPECTED = {
    ("step", "shape"): "dimension 0 of batch varies: 32 to 35",
    ("step", "type"): "the type of batch varies: f32[32,8], i32[32,8]",
    ("step", "structure"): (
        "the structure of argument 0 differs: <class 'dict'> with 1 child, <class 'dict'> with 2 children, "
        "<class 'dict'>, <class 'list'>"
    ),
    ("step", "context"): "jax_default_matmul_precision differs: None, float32",
    ("scaled", "static value"): "the static value of argument 1 varies: 2, 3, 4",
    ("named", "static value"): "the static value of mode varies: 'a', 'bb'",
    ("plus", "weak type"): "the weak type of y varies: f32[]{weak_type=False}, f32[]{weak_type=True}",
    ("inner", "new function"): "the function is defined again for each call",
    ("donated", "shape"): "dimension 0 of x varies: 4 and 5",
}
COMPILED = {"step": 8, "plus": 6, "scaled": 3, "named": 2, "inner": 2, "donated": 2}


def check(text: str) -> None:
    functions = functions_in(text)
    found: dict[tuple[str, str], list[Cause]] = {}
    for cause in causes_of(functions.values()):
        found.setdefault((cause.function.name, cause.reason), []).append(cause)
    assert {key: found[key][0].words for key in EXPECTED} == EXPECTED
    assert "the sharding of x varies: f32[4@d,4]({Explicit: ('d',)})" in found["plus", "sharding"][0].words
    assert {name: functions[name].compiled for name in COMPILED} == COMPILED
    assert all(set(functions[name].seconds) == {"tracing", "lowering", "XLA"} for name in COMPILED)


def test_every_reason_of_a_real_log() -> None:
    check((DATA / "cache_misses.log").read_text())


@pytest.mark.oracle
def test_every_reason_of_jax() -> None:
    settings = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    script = DATA / "cache_misses.py"
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    check(done.stderr)


def test_without_explanations_types_are_compared() -> None:
    log = (DATA / "cache_misses.log").read_text()
    kept = "\n".join(line for line in log.split("\n") if line.startswith(("Finished", "Compiling")))
    [worst, *_] = causes_of(functions_in(kept).values())
    assert (worst.function.name, worst.words) == ("step", "dimension 0 of array 1 varies: 32 to 35")


@pytest.mark.parametrize(
    ("sizes", "advice"),
    [
        ((32, 33, 34), "Pad dimension 0 of x to 40, and mask the rest: one program for all."),
        ((100, 300, 900), "Pad dimension 0 of x to powers of two (128, 256, 512, 1,024), and mask the rest."),
        ((1, 2, 3), "Pad dimension 0 of x to powers of two (1, 2, 4), and mask the rest."),
    ],
)
def test_padding(sizes: tuple[int, ...], advice: str) -> None:
    types = "\n".join(
        f"Compiling jit(f) with global shapes and types (ShapedArray(float32[{size}]),). Argument mapping: (x,)."
        for size in sizes
    )
    [cause] = causes_of(functions_in(types.replace("(x,)", "(UnspecifiedValue,)")).values())
    assert cause.advice == advice.replace("of x", "of array 0")


def test_screen(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text((DATA / "persistent_cache.log").read_text())
    out, _, code = run(["a.log", "--format", "screen"], folder=tmp_path, settings={"COLUMNS": "100"})
    assert code == 0
    assert out.startswith("f was compiled 3 times (")
    for words in ("0 hits, 3 misses", "jax_persistent_cache_min_compile_time_secs to 0", "min_entry_size_bytes to 0"):
        assert words in " ".join(out.split())


@pytest.mark.parametrize("cut", range(0, 18000, 997))
def test_a_truncated_log_is_answered(tmp_path: Path, cut: int) -> None:
    text = (DATA / "cache_misses.log").read_text()
    functions_in(text[:cut])
    functions_in(text[cut:])


def test_a_directory_of_dumps(tmp_path: Path) -> None:
    for number, size in enumerate((32, 33, 34), start=1):
        shape, name = f"f32[{size},8]{{1,0}}", f"module_{number:04}.jit_step.cpu_after_optimizations.txt"
        body = (
            f"ENTRY %main (x: {shape}) -> {shape} {{\n  %x = {shape} parameter(0)\n  ROOT %r = {shape} negate(%x)\n}}\n"
        )
        (tmp_path / name).write_text(f"HloModule jit_step, is_scheduled=true\n\n{body}")
    out, err, code = run([".", "--format", "screen"], folder=tmp_path, settings={"COLUMNS": "100"})
    assert (err, code) == ("", 0)
    assert "compiled   jit_step 3 times: dimension 0 of argument 0 varies: 32 to 34" in out

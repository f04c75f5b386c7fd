"""Block shapes that fit: what is computed for others is what kernels written with them hold and move."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hlo_cli import load, pallas_kernels_of, parse_module
from hlo_cli.analysis.kernels.fitting import block_choices, own_sizes
from hlo_cli.analysis.kernels.pallas_kernels import PallasKernel
from hlo_cli.cli import main
from lint_pallas_cases import IN_VMEM, call

FIXTURES = Path(__file__).parent.parent / "fixtures"
KERNELS = {kernel.name: kernel for kernel in pallas_kernels_of(load(FIXTURES / "tpu" / "v5e_kernels"))}


@pytest.mark.parametrize("name", ["matmul", "attention"])
def test_the_sizes_of_the_author_are_among_the_choices(name: str) -> None:
    kernel = KERNELS[name]
    [own] = [each for each in block_choices(kernel, limit_bytes=1 << 24) if each.sizes == own_sizes(kernel)]
    assert own.blocks == tuple(window.block for window in kernel.windows)
    assert (own.vmem_bytes, own.moved_bytes, own.steps) == (kernel.vmem_bytes, kernel.bytes_accessed, kernel.steps)


def test_choices_fit_and_the_first_moves_the_fewest_bytes() -> None:
    kernel = KERNELS["matmul"]
    found = {limit: block_choices(kernel, limit_bytes=limit) for limit in (1 << 19, 1 << 21, 1 << 24)}
    for limit, choices in found.items():
        assert choices
        assert all(each.vmem_bytes <= limit for each in choices)
        assert [each.moved_bytes for each in choices] == sorted(each.moved_bytes for each in choices)
    least = [choices[0].moved_bytes for choices in found.values()]
    assert least == sorted(least, reverse=True)
    # everything in one step: each array is moved once
    assert least[-1] == 2 * (1024 * 512 + 512 * 1536 + 1024 * 1536)
    for choice in found[1 << 24]:
        assert all(size % 8 == 0 for size in choice.sizes.values())
        assert choice.sizes["k"] % 128 == 0
        assert choice.sizes["j"] % 128 == 0


@pytest.mark.parametrize("name", ["gather", "copied", "maps"])
def test_other_kernels_have_no_choices(name: str) -> None:
    """Their blocks are chosen by scalars, by copies of their own, or by more than one index."""
    assert block_choices(KERNELS[name], limit_bytes=1 << 24) == ()
    assert not own_sizes(KERNELS[name])


def test_the_screen_of_a_kernel_that_is_too_large(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (FIXTURES / "tpu" / "v5e_kernels" / "before_optimizations.txt").read_text()
    path = tmp_path / "m.hlo"
    path.write_text(text.replace('"size":25165824', '"size":524288'))
    assert main(["kernel", str(path), "attention", "--chip", "v5e", "--format", "json"], standalone=False) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answer"]["limit_bytes"] == 524288 < found["answer"]["vmem_bytes"]
    assert found["tables"]["block_choices"]["rows"]
    assert all(row["reserved_bytes"] <= 524288 for row in found["tables"]["block_choices"]["rows"])
    main(["kernel", str(path), "attention", "--chip", "v5e", "--format", "screen"], standalone=False)
    screen = capsys.readouterr().out
    assert screen.startswith("attention: grid 4×4×4, does not fit: 896 KiB of 512 KiB of VMEM")
    assert "block sizes that do" in screen


def test_a_kernel_whose_arrays_are_in_vmem_is_not_told_to_move_less(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(call("matmul", *IN_VMEM).replace("«", "").replace("»", ""))
    assert main(["kernel", str(path), "matmul", "--chip", "v5e", "--format", "json"], standalone=False) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["answer"]["read_bytes"], found["answer"]["written_bytes"]) == (0, 0)
    assert "block_choices" not in found["tables"]


@pytest.mark.oracle
@pytest.mark.parametrize("make", ["matmul", "rows"])
def test_a_kernel_written_with_another_choice_is_that_choice(make: str) -> None:
    pytest.importorskip("jax")
    first = lowered(make, {"i": 256, "j": 512, "k": 128})
    choices = block_choices(first, limit_bytes=4 << 20)
    assert len(choices) > 20
    for choice in choices[:: len(choices) // 12]:
        other = lowered(make, {"j": 512, "k": 128, **choice.sizes})
        assert other.vmem_bytes == choice.vmem_bytes, choice
        assert (other.bytes_accessed, other.steps) == (choice.moved_bytes, choice.steps), choice
        assert tuple(window.block for window in other.windows) == choice.blocks


def lowered(make: str, sizes: Any) -> PallasKernel:
    """A matmul with a sum in scratch, or the sums of rows; as JAX lowers it with these block sizes."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    m, n, k = (sizes[letter] for letter in "ijk")

    def body(x_ref: Any, y_ref: Any, o_ref: Any, sum_ref: Any) -> None:
        sum_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = sum_ref[...].astype(o_ref.dtype)

    def add(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + 1

    def matmul(x: Any, y: Any) -> Any:
        return pl.pallas_call(
            body, jax.ShapeDtypeStruct((1024, 2048), jnp.bfloat16), grid=(1024 // m, 2048 // n, 512 // k),
            in_specs=[pl.BlockSpec((m, k), lambda i, j, k: (i, k)), pl.BlockSpec((k, n), lambda i, j, k: (k, j))],
            out_specs=pl.BlockSpec((m, n), lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((m, n), jnp.float32)],
        )(x, y)  # fmt: skip

    def rows(x: Any) -> Any:
        block = pl.BlockSpec((m, n), lambda i, j: (i, j))
        return pl.pallas_call(
            add, jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(4096 // m, 4096 // n), in_specs=[block], out_specs=block
        )(x)

    arrays = {"matmul": [(1024, 512), (512, 2048)], "rows": [(4096, 4096)]}[make]
    kind = jnp.bfloat16 if make == "matmul" else jnp.float32
    traced = jax.jit({"matmul": matmul, "rows": rows}[make]).trace(
        *[jax.ShapeDtypeStruct(each, kind) for each in arrays]
    )
    text = traced.lower(lowering_platforms=("tpu",)).as_text(dialect="hlo")
    [kernel] = pallas_kernels_of(parse_module(text))
    return kernel

"""Who makes a fusion's kernel, in every spelling that dumps have had for it."""

from __future__ import annotations

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.fusion.kernels import KernelBackend, backend_of
from hlo_cli.analysis.hardware.target import target_of

GEMM = (
    '"triton_gemm_config":{"block_m":"64","block_n":"32","block_k":"16","split_k":"1","num_stages":"2","num_warps":"4"}'
)
BLOCK = '"block_level_fusion_config":{"output_tiles":[{"sizes":["64","32"]}],"num_warps":"4","num_stages":2}'


def made(config: str) -> tuple[str | None, KernelBackend]:
    module = parse_module(
        f"""HloModule m, is_scheduled=true
f {{ a = f32[64,64] parameter(0) ROOT n = f32[64,64] negate(a) }}
ENTRY e {{ p = f32[64,64] parameter(0)
  ROOT r = f32[64,64] fusion(p), kind=kCustom, calls=f, backend_config={config} }}"""
    )
    assert module.entry.root is not None
    target = target_of(module)
    return target, backend_of(module.entry.root, target)


@pytest.mark.parametrize(
    ("kind", "rest", "details"),
    [
        ("__triton_gemm", GEMM, "m×n×k 64×32×16, 4 warps, 2 stages"),
        ("__triton_nested_gemm_fusion", BLOCK, "tiles 64×32, 4 warps, 2 stages"),
        ("__triton_softmax", BLOCK, "tiles 64×32, 4 warps, 2 stages"),
        ("__triton", BLOCK, "tiles 64×32, 4 warps, 2 stages"),
        ("__triton_softmax", "", ""),
    ],
)
def test_triton_is_known_in_every_spelling(kind: str, rest: str, details: str) -> None:
    inner = f'"kind":"{kind}"' + (f",{rest}" if rest else "")
    nested, flat = f'{{"fusion_backend_config":{{{inner}}}}}', f"{{{inner}}}"
    for config in (nested, flat, *(each.replace('"kind":', "kind: ") for each in (nested, flat))):
        assert made(config) == ("gpu", KernelBackend("Triton", "Triton", details)), config


@pytest.mark.parametrize("around", ['{{"fusion_backend_config":{}}}', "{}"])
def test_libraries_are_known_in_both_spellings(around: str) -> None:
    assert made(around.format('{"kind":"__cudnn$fusion"}'))[1] == KernelBackend("library", "cuDNN")
    custom = '{"kind":"__custom_fusion","custom_fusion_config":{"name":"cutlass_gemm"}}'
    assert made(around.format(custom))[1] == KernelBackend("library", "CUTLASS")

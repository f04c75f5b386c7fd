"""Formats details of a kernel from its backend configuration: tiles, warps, threads, and estimated cycles.

Mirrors `BlockLevelFusionConfig` and `TritonGemmConfig` of xla/service/gpu/backend_configs.proto, the partitions of
xla/backends/cpu, and the `window_config` of TPU compilers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hlo_cli.ir.attributes.metadata import BackendConfig, Json
from hlo_cli.ir.instruction import Instruction

_NESTED: Final = "fusion_backend_config"
_NO_ESTIMATE: Final = (1 << 63) - 1


def gpu_fusion_path(config: BackendConfig) -> tuple[str, ...]:
    """Path of the fusion configuration in a GPU backend configuration; empty in older dumps, which have no outer
    message.

    >>> gpu_fusion_path(BackendConfig('{"kind":"__triton_gemm"}'))
    ()
    """
    return (_NESTED,) if config.get(_NESTED) is not None or config.get("kind") is None else ()


def format_tiles(config: BackendConfig) -> str:
    """Formats output tiles, warps, and stages, or the partitions of a parallel CPU loop.

    >>> block = '{"num_warps":"2","output_tiles":[{"sizes":["16","8"]}],"num_ctas":1,"num_stages":1}'
    >>> format_tiles(BackendConfig('{"fusion_backend_config":{"block_level_fusion_config":' + block + '}}'))
    'tiles 16×8, 2 warps, 1 stage'
    >>> format_tiles(BackendConfig('{"outer_dimension_partitions":["4"]}'))
    '4 partitions'
    """
    block = (*gpu_fusion_path(config), "block_level_fusion_config")
    tiles = config.get(*block, "output_tiles")
    if isinstance(tiles, tuple):
        shown = " ".join(_sizes(tile.get("sizes")) for tile in tiles if isinstance(tile, Mapping))
        words = [f"tiles {shown}" if shown else "", *_launch(config, block)]
        return ", ".join(word for word in words if word)
    partitions = config.get("outer_dimension_partitions")
    return f"{_sizes(partitions)} partitions" if isinstance(partitions, tuple) and partitions else ""


def format_triton_gemm(config: BackendConfig) -> str:
    """Formats the tile sizes, split, warps, and stages of a Triton matmul.

    >>> gemm = '{"block_m":"64","block_n":"32","block_k":"128","split_k":"2","num_stages":"3","num_warps":"4"}'
    >>> format_triton_gemm(BackendConfig('{"fusion_backend_config":{"triton_gemm_config":' + gemm + '}}'))
    'm×n×k 64×32×128, split k 2, 4 warps, 3 stages'
    """
    path = (*gpu_fusion_path(config), "triton_gemm_config")
    if config.get(*path) is None:
        return ""
    blocks = tuple(config.get(*path, f"block_{letter}") for letter in "mnk")
    split = str(config.get(*path, "split_k") or 1)
    words = [f"m×n×k {_sizes(blocks)}", f"split k {split}" if split != "1" else "", *_launch(config, path)]
    return ", ".join(word for word in words if word)


def format_cycles(instruction: Instruction) -> str:
    """Formats the cycles and windows that a TPU compiler estimates; empty if there is no estimate.

    >>> from hlo_cli import parse_module
    >>> window = '{"window_config":{"estimated_cycles":"820","iteration_bounds":["4","1"]}}'
    >>> format_cycles(parse_module("r = f32[2] negate(f32[2] a), backend_config=" + window).entry.root)
    '820 cycles, 4×1 windows'
    """
    cycles = estimated_cycles(instruction)
    config = instruction.backend_config if cycles is not None else None
    if cycles is None or config is None:
        return ""
    windows = _sizes(config.get("window_config", "iteration_bounds"))
    return f"{cycles:,} cycles" + (f", {windows} windows" if windows else "")


def estimated_cycles(instruction: Instruction) -> int | None:
    """Cycles that the TPU compiler estimates for an operation; None if there is no estimate."""
    if '"estimated_cycles"' not in instruction.raw[1] or (config := instruction.backend_config) is None:
        return None
    text = str(config.get("window_config", "estimated_cycles") or "")
    cycles = int(text) if text.isdecimal() and len(text) < 20 else _NO_ESTIMATE
    return cycles if cycles < _NO_ESTIMATE else None


def _launch(config: BackendConfig, path: tuple[str, ...]) -> list[str]:
    named = ((str(config.get(*path, f"num_{noun}s") or ""), noun) for noun in ("warp", "stage"))
    return [f"{number} {noun}{'' if number == '1' else 's'}" for number, noun in named if number]


def _sizes(listed: Json) -> str:
    return "×".join(map(str, listed)) if isinstance(listed, tuple) else ""

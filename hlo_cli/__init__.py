"""Reads XLA HLO dumps: text becomes a module of typed, frozen values that print exactly as XLA prints them.

>>> import hlo_cli
>>> shape = hlo_cli.parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}")
>>> [str(tile) for tile in shape.layout.tiles]
['(8,128)', '(2,1)']
>>> module = hlo_cli.parse_module('''
... HloModule twice
... ENTRY main {
...   x = f32[4]{0} parameter(0)
...   ROOT y = f32[4]{0} add(x, x)
... }''')
>>> [operand.name for operand in module.entry.root.operands]
['x', 'x']

`load` reads a file or a directory of dumps. What cannot be read raises `HloError`, which carries the places. Nothing
is imported before the name that needs it is used.
"""

from hlo_cli._version import __version__

TYPE_CHECKING = False  # importing typing would cost as much as starting Python
if TYPE_CHECKING:
    from hlo_cli.analysis.cost.cost import Cost, CostOptions
    from hlo_cli.analysis.cost.cost_analysis import cost_analysis, module_cost
    from hlo_cli.analysis.cost.matmuls import Matmul, matmuls_of
    from hlo_cli.analysis.custom_calls.call import DecodedCall, custom_calls_of
    from hlo_cli.analysis.custom_calls.calling_convention import CustomCallBuffer
    from hlo_cli.analysis.fusion.fusion_verifier import verify_fusions
    from hlo_cli.analysis.fusion.fusions import Fusion, fusions_of
    from hlo_cli.analysis.fusion.kernels import Kernel, kernels_of
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec, chip_spec
    from hlo_cli.analysis.layout.address_map import address_map
    from hlo_cli.analysis.layout.addresses import (
        element_at,
        linear_index,
        linear_index_to_multidimensional_index,
        multidimensional_index_to_linear_index,
    )
    from hlo_cli.analysis.layout.inverse_map import inverse_map, padding_mask
    from hlo_cli.analysis.matching.module_diff import ModuleDiff, diff
    from hlo_cli.analysis.memory.memory_analysis import memory_analysis
    from hlo_cli.analysis.memory.memory_model import Allocation, LiveValue, MemoryAnalysis, SpaceUsage
    from hlo_cli.analysis.schedule.async_overlap import AsyncInterval, OverlapAnalysis, analyze_overlap
    from hlo_cli.analysis.schedule.async_pairs import AsyncPair
    from hlo_cli.analysis.schedule.async_verifier import verify_async
    from hlo_cli.analysis.schedule.step_time import TimeEstimate, estimate_time
    from hlo_cli.analysis.shapes.inference import infer_shape
    from hlo_cli.ir.computation import Computation
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.layout import Layout, Tile
    from hlo_cli.ir.module import Module
    from hlo_cli.ir.shape import ArrayShape, BufferShape, OpaqueShape, Shape, TokenShape, TupleShape, UnknownShape
    from hlo_cli.library import load, module_from_bytes, module_to_bytes, parse_module
    from hlo_cli.lint.run import lint_module
    from hlo_cli.lint.settings import LintSettings
    from hlo_cli.scan_modules import ScanRecord, scan
    from hlo_cli.source import Diagnostic, HloError, Source, Span
    from hlo_cli.syntax.scanning.shapes import parse_shape
    from hlo_cli.transform.desugar import desugar
    from hlo_cli.transform.extract import extract
    from hlo_cli.transform.fuse import FusionResult, fuse
    from hlo_cli.transform.fuse_pair import fuse_pair
    from hlo_cli.transform.normalize import normalize
    from hlo_cli.transform.reorder import reorder
    from hlo_cli.transform.sugar import sugar
    from hlo_cli.transform.unfuse import unfuse

__all__ = [
    "Allocation",
    "ArrayShape",
    "AsyncInterval",
    "AsyncPair",
    "BufferShape",
    "ChipSpec",
    "Computation",
    "Cost",
    "CostOptions",
    "CustomCallBuffer",
    "DecodedCall",
    "Diagnostic",
    "Fusion",
    "FusionResult",
    "HloError",
    "Instruction",
    "Kernel",
    "Layout",
    "LintSettings",
    "LiveValue",
    "Matmul",
    "MemoryAnalysis",
    "Module",
    "ModuleDiff",
    "OpaqueShape",
    "OverlapAnalysis",
    "ScanRecord",
    "Shape",
    "Source",
    "SpaceUsage",
    "Span",
    "Tile",
    "TimeEstimate",
    "TokenShape",
    "TupleShape",
    "UnknownShape",
    "__version__",
    "address_map",
    "analyze_overlap",
    "chip_spec",
    "cost_analysis",
    "custom_calls_of",
    "desugar",
    "diff",
    "element_at",
    "estimate_time",
    "extract",
    "fuse",
    "fuse_pair",
    "fusions_of",
    "infer_shape",
    "inverse_map",
    "kernels_of",
    "linear_index",
    "linear_index_to_multidimensional_index",
    "lint_module",
    "load",
    "matmuls_of",
    "memory_analysis",
    "module_cost",
    "module_from_bytes",
    "module_to_bytes",
    "multidimensional_index_to_linear_index",
    "normalize",
    "padding_mask",
    "parse_module",
    "parse_shape",
    "reorder",
    "scan",
    "sugar",
    "unfuse",
    "verify_async",
    "verify_fusions",
]

_HOMES = {
    "hlo_cli.analysis.layout.address_map": ("address_map",),
    "hlo_cli.analysis.layout.addresses": (
        "element_at",
        "linear_index",
        "linear_index_to_multidimensional_index",
        "multidimensional_index_to_linear_index",
    ),
    "hlo_cli.analysis.schedule.async_overlap": ("AsyncInterval", "OverlapAnalysis", "analyze_overlap"),
    "hlo_cli.analysis.schedule.async_pairs": ("AsyncPair",),
    "hlo_cli.analysis.schedule.async_verifier": ("verify_async",),
    "hlo_cli.analysis.cost.cost_analysis": ("cost_analysis", "module_cost"),
    "hlo_cli.analysis.cost.cost": ("Cost", "CostOptions"),
    "hlo_cli.analysis.custom_calls.call": ("DecodedCall", "custom_calls_of"),
    "hlo_cli.analysis.custom_calls.calling_convention": ("CustomCallBuffer",),
    "hlo_cli.analysis.fusion.fusion_verifier": ("verify_fusions",),
    "hlo_cli.analysis.fusion.fusions": ("Fusion", "fusions_of"),
    "hlo_cli.analysis.layout.inverse_map": ("inverse_map", "padding_mask"),
    "hlo_cli.analysis.fusion.kernels": ("Kernel", "kernels_of"),
    "hlo_cli.analysis.matching.module_diff": ("ModuleDiff", "diff"),
    "hlo_cli.analysis.cost.matmuls": ("Matmul", "matmuls_of"),
    "hlo_cli.analysis.memory.memory_model": ("Allocation", "LiveValue", "MemoryAnalysis", "SpaceUsage"),
    "hlo_cli.analysis.memory.memory_analysis": ("memory_analysis",),
    "hlo_cli.analysis.shapes.inference": ("infer_shape",),
    "hlo_cli.analysis.schedule.step_time": ("TimeEstimate", "estimate_time"),
    "hlo_cli.analysis.hardware.chip_specs": ("ChipSpec", "chip_spec"),
    "hlo_cli.scan_modules": ("ScanRecord", "scan"),
    "hlo_cli.ir.computation": ("Computation",),
    "hlo_cli.ir.instruction": ("Instruction",),
    "hlo_cli.ir.layout": ("Layout", "Tile"),
    "hlo_cli.ir.module": ("Module",),
    "hlo_cli.ir.shape": (
        "ArrayShape",
        "BufferShape",
        "OpaqueShape",
        "Shape",
        "TokenShape",
        "TupleShape",
        "UnknownShape",
    ),
    "hlo_cli.library": ("load", "module_from_bytes", "module_to_bytes", "parse_module"),
    "hlo_cli.lint.run": ("lint_module",),
    "hlo_cli.lint.settings": ("LintSettings",),
    "hlo_cli.source": ("Diagnostic", "HloError", "Source", "Span"),
    "hlo_cli.syntax.scanning.shapes": ("parse_shape",),
    "hlo_cli.transform.desugar": ("desugar",),
    "hlo_cli.transform.extract": ("extract",),
    "hlo_cli.transform.reorder": ("reorder",),
    "hlo_cli.transform.fuse": ("FusionResult", "fuse"),
    "hlo_cli.transform.fuse_pair": ("fuse_pair",),
    "hlo_cli.transform.normalize": ("normalize",),
    "hlo_cli.transform.sugar": ("sugar",),
    "hlo_cli.transform.unfuse": ("unfuse",),
}

if not TYPE_CHECKING:

    def __getattr__(name):
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(home), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})

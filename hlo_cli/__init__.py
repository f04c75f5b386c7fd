"""Reads XLA HLO dumps: text becomes a module of typed, frozen values that print exactly as XLA prints them.

>>> import hlo_cli as hlo
>>> shape = hlo.parse_shape("bf16[300,70]{1,0:T(8,128)(2,1)}")
>>> [str(tile) for tile in shape.layout.tiles]
['(8,128)', '(2,1)']
>>> module = hlo.parse_module('''
... HloModule twice
... ENTRY main {
...   x = f32[4]{0} parameter(0)
...   ROOT y = f32[4]{0} add(x, x)
... }''')
>>> module["y"].operands, module["x"].users, module.where("opcode == add")
((<parameter x>, <parameter x>), (<add y>,), (<add y>,))

`load` reads a file or a directory of dumps, `from_jax` the program of a jitted function. Input that cannot be read
raises `HloError` with its places. `hlo help python` has recipes. Modules are imported on first use of a name.
"""

from hlo_cli._version import __version__

TYPE_CHECKING = False  # importing typing would cost as much as starting Python

_HOMES = {
    "Allocation": "analysis.memory.memory_analysis",
    "ArrayShape": "ir.shape",
    "AsyncInterval": "analysis.schedule.async_overlap",
    "AsyncPair": "analysis.schedule.async_overlap",
    "BufferShape": "ir.shape",
    "ChipSpec": "analysis.hardware.chip_specs",
    "Computation": "ir.instruction",
    "Cost": "analysis.cost.counting",
    "CostOptions": "analysis.cost.counting",
    "CustomCallBuffer": "analysis.custom_calls.call",
    "DecodedCall": "analysis.custom_calls.call",
    "Diagnostic": "source",
    "Finding": "report.findings",
    "FindingList": "lint.run",
    "Fusion": "analysis.fusion.kernels",
    "FusionList": "analysis.fusion.kernels",
    "FusionResult": "transform.fusion.cpu_fusion",
    "HloError": "source",
    "Instruction": "ir.instruction",
    "Kernel": "analysis.fusion.kernels",
    "KernelList": "analysis.fusion.kernels",
    "KernelScratch": "analysis.kernels.pallas_kernels",
    "KernelWindow": "analysis.kernels.pallas_kernels",
    "KernelWork": "analysis.kernels.kernel_work",
    "Layout": "ir.layout",
    "LintSettings": "lint.settings",
    "LiveValue": "analysis.memory.memory_analysis",
    "Matmul": "analysis.cost.matmuls",
    "Measure": "analysis.profile.measure",
    "MemoryAnalysis": "analysis.memory.memory_analysis",
    "MemorySpaceUsage": "analysis.memory.memory_analysis",
    "Module": "ir.module",
    "ModuleDiff": "analysis.matching.module_diff",
    "OpaqueShape": "ir.shape",
    "OverlapAnalysis": "analysis.schedule.async_overlap",
    "PallasKernel": "analysis.kernels.pallas_kernels",
    "Profile": "analysis.profile.profile",
    "ProfileComparison": "analysis.profile.profile_diff",
    "ReshardStep": "analysis.sharding.reshard",
    "Resharding": "analysis.sharding.reshard",
    "Run": "analysis.evaluate.run",
    "RunComparison": "analysis.comparison.two_runs",
    "ScanRecord": "scan_modules",
    "Shape": "ir.shape",
    "Shard": "analysis.sharding.placement",
    "Source": "source",
    "Span": "source",
    "Tile": "ir.layout",
    "TimeEstimate": "analysis.schedule.step_time",
    "TokenShape": "ir.shape",
    "Trace": "ir.traces.trace",
    "TupleShape": "ir.shape",
    "UnknownShape": "ir.shape",
    "address_map": "analysis.layout.address_map",
    "analyze_overlap": "analysis.schedule.async_overlap",
    "chip_spec": "analysis.hardware.chip_specs",
    "collectives_of": "analysis.sharding.collectives",
    "compare_profiles": "analysis.profile.profile_diff",
    "compare_runs": "analysis.comparison.two_runs",
    "cost_analysis": "analysis.cost.cost_analysis",
    "custom_calls_of": "analysis.custom_calls.call",
    "desugar": "transform.sugar",
    "diff": "analysis.matching.module_diff",
    "element_at": "analysis.layout.addresses",
    "estimate_time": "analysis.schedule.step_time",
    "extract": "transform.extract",
    "from_jax": "frameworks",
    "fuse": "transform.fusion.cpu_fusion",
    "fuse_pair": "transform.fusion.by_request",
    "fusions_of": "analysis.fusion.kernels",
    "infer_shape": "analysis.shapes.inference",
    "inverse_map": "analysis.layout.address_map",
    "kernels_of": "analysis.fusion.kernels",
    "linear_index": "analysis.layout.addresses",
    "linear_index_to_multidimensional_index": "analysis.layout.addresses",
    "lint": "lint",
    "lint_module": "lint.run",
    "load": "library",
    "matmuls_of": "analysis.cost.matmuls",
    "memory_analysis": "analysis.memory.memory_analysis",
    "module_cost": "analysis.cost.cost_analysis",
    "module_from_bytes": "library",
    "module_to_bytes": "library",
    "multidimensional_index_to_linear_index": "analysis.layout.addresses",
    "normalize": "transform.normalize",
    "operation_measures": "analysis.profile.measure",
    "padding_mask": "analysis.layout.address_map",
    "pallas_kernels_of": "analysis.kernels.pallas_kernels",
    "parse_module": "library",
    "parse_shape": "syntax.scanning.shape_reader",
    "profile": "library",
    "read_trace": "read_traces",
    "reorder": "transform.reorder",
    "report": "report",
    "reshard": "analysis.sharding.reshard",
    "run": "analysis.evaluate.run",
    "scan": "scan_modules",
    "sharding_of": "library",
    "shards": "analysis.sharding.placement",
    "sugar": "transform.sugar",
    "unfuse": "transform.fusion.by_request",
    "untiled_element_at": "analysis.layout.addresses",
    "untiled_index": "analysis.layout.addresses",
    "verify_async": "analysis.schedule.async_verifier",
    "verify_fusions": "analysis.fusion.fusion_bodies",
}
"""The public names, one per row, and the module below `hlo_cli` that each is imported from on first use.

`lint` and `report` are packages, which can be called.
"""

__all__ = ["__version__", *_HOMES]

if TYPE_CHECKING:  # the same for type checkers, which need imports; a test compares both
    from hlo_cli.analysis.cost.counting import Cost as Cost, CostOptions as CostOptions
    from hlo_cli.analysis.cost.cost_analysis import cost_analysis as cost_analysis, module_cost as module_cost
    from hlo_cli.analysis.sharding.collectives import collectives_of as collectives_of
    from hlo_cli.analysis.cost.matmuls import Matmul as Matmul, matmuls_of as matmuls_of
    from hlo_cli.analysis.custom_calls.call import DecodedCall as DecodedCall, custom_calls_of as custom_calls_of
    from hlo_cli.analysis.custom_calls.call import CustomCallBuffer as CustomCallBuffer
    from hlo_cli.analysis.comparison.two_runs import RunComparison as RunComparison, compare_runs as compare_runs
    from hlo_cli.analysis.evaluate.run import Run as Run, run as run
    from hlo_cli.analysis.fusion.fusion_bodies import verify_fusions as verify_fusions
    from hlo_cli.analysis.fusion.kernels import Fusion as Fusion, FusionList as FusionList, fusions_of as fusions_of
    from hlo_cli.analysis.fusion.kernels import Kernel as Kernel, KernelList as KernelList, kernels_of as kernels_of
    from hlo_cli.analysis.kernels.kernel_work import KernelWork as KernelWork
    from hlo_cli.analysis.kernels.pallas_kernels import (
        KernelScratch as KernelScratch,
        KernelWindow as KernelWindow,
        PallasKernel as PallasKernel,
        pallas_kernels_of as pallas_kernels_of,
    )
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec as ChipSpec, chip_spec as chip_spec
    from hlo_cli.analysis.layout.address_map import address_map as address_map
    from hlo_cli.analysis.layout.addresses import (
        element_at as element_at,
        linear_index as linear_index,
        linear_index_to_multidimensional_index as linear_index_to_multidimensional_index,
        multidimensional_index_to_linear_index as multidimensional_index_to_linear_index,
        untiled_element_at as untiled_element_at,
        untiled_index as untiled_index,
    )
    from hlo_cli.analysis.layout.address_map import inverse_map as inverse_map, padding_mask as padding_mask
    from hlo_cli.analysis.matching.module_diff import ModuleDiff as ModuleDiff, diff as diff
    from hlo_cli.analysis.memory.memory_analysis import memory_analysis as memory_analysis
    from hlo_cli.analysis.memory.memory_analysis import (
        Allocation as Allocation,
        LiveValue as LiveValue,
        MemoryAnalysis as MemoryAnalysis,
        MemorySpaceUsage as MemorySpaceUsage,
    )
    from hlo_cli.analysis.profile.profile_diff import (
        ProfileComparison as ProfileComparison,
        compare_profiles as compare_profiles,
    )
    from hlo_cli.analysis.profile.measure import Measure as Measure, operation_measures as operation_measures
    from hlo_cli.analysis.profile.profile import Profile as Profile
    from hlo_cli.analysis.schedule.async_overlap import (
        AsyncInterval as AsyncInterval,
        OverlapAnalysis as OverlapAnalysis,
        analyze_overlap as analyze_overlap,
    )
    from hlo_cli.analysis.schedule.async_overlap import AsyncPair as AsyncPair
    from hlo_cli.analysis.schedule.async_verifier import verify_async as verify_async
    from hlo_cli.analysis.schedule.step_time import TimeEstimate as TimeEstimate, estimate_time as estimate_time
    from hlo_cli.analysis.shapes.inference import infer_shape as infer_shape
    from hlo_cli.analysis.sharding.reshard import (
        Resharding as Resharding,
        ReshardStep as ReshardStep,
        reshard as reshard,
    )
    from hlo_cli.analysis.sharding.placement import Shard as Shard, shards as shards
    from hlo_cli.frameworks import from_jax as from_jax
    from hlo_cli.ir.instruction import Computation as Computation
    from hlo_cli.ir.instruction import Instruction as Instruction
    from hlo_cli.ir.layout import Layout as Layout, Tile as Tile
    from hlo_cli.ir.module import Module as Module
    from hlo_cli.ir.traces.trace import Trace as Trace
    from hlo_cli.ir.shape import (
        ArrayShape as ArrayShape,
        BufferShape as BufferShape,
        OpaqueShape as OpaqueShape,
        Shape as Shape,
        TokenShape as TokenShape,
        TupleShape as TupleShape,
        UnknownShape as UnknownShape,
    )
    from hlo_cli.library import (
        load as load,
        module_from_bytes as module_from_bytes,
        module_to_bytes as module_to_bytes,
        parse_module as parse_module,
        profile as profile,
        report as report,
        sharding_of as sharding_of,
    )
    from hlo_cli.lint.run import FindingList as FindingList, lint_module as lint_module
    from hlo_cli.lint.settings import LintSettings as LintSettings
    from hlo_cli.read_traces import read_trace as read_trace
    from hlo_cli.report.findings import Finding as Finding
    from hlo_cli.scan_modules import ScanRecord as ScanRecord, scan as scan
    from hlo_cli.source import Diagnostic as Diagnostic, HloError as HloError, Source as Source, Span as Span
    from hlo_cli.syntax.scanning.shape_reader import parse_shape as parse_shape
    from hlo_cli.transform.sugar import desugar as desugar
    from hlo_cli.transform.extract import extract as extract
    from hlo_cli.transform.fusion.cpu_fusion import FusionResult as FusionResult, fuse as fuse
    from hlo_cli.transform.fusion.by_request import fuse_pair as fuse_pair
    from hlo_cli.transform.normalize import normalize as normalize
    from hlo_cli.transform.reorder import reorder as reorder
    from hlo_cli.transform.sugar import sugar as sugar
    from hlo_cli.transform.fusion.by_request import unfuse as unfuse

    lint = lint_module  # what the package calls

if not TYPE_CHECKING:

    def __getattr__(name):
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = import_module(f"{__name__}.{home}")
        value = globals()[name] = module if home == name else getattr(module, name)
        return value

    def __dir__():
        # As in NumPy: names of the language, and what is public.
        return sorted({*(name for name in globals() if name.startswith("__")), *__all__})

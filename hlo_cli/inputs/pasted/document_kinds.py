"""Which files, tables, and prints are recognized? Rows of the table of kinds, the most specific first."""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.inputs.pasted.kinds import FROM_TORCH, Envelope, words
from hlo_cli.lazy_regex import lazy_regex

EMITTER_MLIR: Final = lazy_regex(
    r"^ *(?:xtile\.entry_func|tt\.func|llvm\.func) |#xla\.indexing_map|\bxla\.(?:cpu_memory_region_name|slice_index)\b"
    r"|\bdlti\.dl_spec\b|\bxla_(?:cpu|gpu)\.[a-z]|^// -----// IR Dump |\"xtile\.entry_func\"",
    re.MULTILINE,
)
"""What is in the MLIR of XLA's emitters and in no program: dialects of loops, tiles, and machines."""

DOCUMENTS: Final[tuple[Envelope, ...]] = (
    # --- files that XLA writes next to a dump ---
    Envelope(
        "memory-report",
        "a memory usage report",
        "pasted.memory.usage_report",
        ("cumulative_size;", "Memory Space: ", "Allocations sorted by size"),
        words(r"^[ \t]*cumulative_size;|^Memory Space: \S+ \(color=\d+\)|^Allocations sorted by size"),
        is_document=True,
    ),
    Envelope(
        "live-range",
        "a table of live ranges",
        "pasted.memory.live_range_report",
        ("HloLiveRange", "BufferLiveRange:", "Live ranges at"),
        words(r"^[ \t]*(?:HloLiveRange \(max \d|BufferLiveRange:|Live ranges at \d)"),
        is_document=True,
    ),
    Envelope(
        "buffer-assignment",
        "a buffer assignment",
        "pasted.memory.assignment_report",
        ("BufferAssignment", "allocation "),
        words(
            r"^[ \t\"']*BufferAssignment:|^[ \t\"']*allocation \d+: (?:0x\w+, )?size \d+"
            r"|^[ \t]*BufferAssignment stats:[ \t]*\n[ \t]*parameter allocation: +\d"
        ),
        is_document=True,
    ),
    Envelope(
        "buffer-values",
        "a list of buffer values (part of a buffer assignment)",
        "pasted.memory.values_report",
        ("Used values:", " positions:"),
        words(r"^Used values:|^<\d+ [^\s@]+ @\d+>\n positions:"),
        is_document=True,
    ),
    # --- tables and prints ---
    Envelope(
        "allocator-stats",
        "memory statistics of a device",
        "pasted.memory.allocator_statistics_report",
        ("AllocatorStats", "In Use:", "InUse:", "bytes_in_use", "InUse at ", "Allocator memory summary", "Bin ("),
        words(
            r"^ *AllocatorStats|\bInUse at [0-9a-fx]+ of size \d|Allocator memory summary: rounded request"
            r"|Bin \(\d+\):\s{1,4}Total Chunks: \d|^(?:Num ?Allocs|Peak ?In ?Use|In ?Use|Reservable Limit|Largest Free "
            r"Block): +[\d.]|['\"]?bytes_in_use['\"]?\s*[:=]"
        ),
        is_document=True,
    ),
    Envelope(
        "memory-stats",
        "memory statistics of a program",
        "pasted.memory.program_statistics_report",
        ("CompiledMemoryStats(", "_size_in_bytes"),
        words(r"CompiledMemoryStats\(|\b(?:temp|argument|output)_size_in_bytes['\"]?\s*[=:]"),
        is_document=True,
    ),
    Envelope(
        "cost-analysis",
        "a cost analysis",
        "prints.printed_tables.cost_analysis_report",
        ("bytes accessed", "transcendentals", "utilization"),
        words(r"['\"](?:bytes accessed[^'\"\n]{0,40}|transcendentals|utilization ?\w{0,20}\{[\d,]*\})['\"]\s*:\s*-?\d"),
        is_document=True,
    ),
    Envelope(
        "autotune-results",
        "autotuning results",
        "prints.printed_tables.autotuning_report",
        ("run_time", "results {", "results:", "version: 3"),
        words(r"\brun_time:? \{|^results:? \{|^version: 3\s*\Z"),
        is_document=True,
    ),
    Envelope(
        "thunks",
        "a thunk sequence",
        "prints.printed_tables.thunk_report",
        (": k",),
        words(r"^ *\d{3,}: k[A-Z]\w+[ \t]"),
        is_document=True,
    ),
    Envelope(
        "thunk-names",
        "a list of thunks with their instructions",
        "prints.dump_files.thunk_names_report",
        ("thunk_metadata",),
        words(r"\A\s*thunk_metadata:? \{"),
        is_document=True,
    ),
    Envelope(
        "pass-times",
        "a list of compiler passes",
        "prints.dump_files.pass_times_report",
        ("pass_metadata",),
        words(r"^[ \t]*pass_metadata:? \{"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "pass-log",
        "a log of compiler passes",
        "prints.dump_files.logged_passes_report",
        ("HLO pass: ",),
        words(r"HLO pass: [^\n:(]{1,120}? time: \d"),
        is_beside_hlo=True,
        has_times=True,
    ),
    Envelope(
        "target",
        "a description of a target",
        "prints.dump_files.target_report",
        ("tpu_topology_args", "gpu_device_info", "platform_specific_topology"),
        words(
            r"^tpu_topology_args:? \{|^platform_specific_topology:? \{"
            r"|\A(?!fusion_steps:? \{)(?s:.*?)^[ \t]*gpu_device_info:? \{"
        ),
        is_document=True,
    ),
    Envelope(
        "fusion-process",
        "a dump of priority fusion",
        "prints.dump_files.fusion_process_report",
        ("fusion_steps",),
        words(r"^fusion_steps:? \{"),
        is_document=True,
    ),
    Envelope(
        "transfer-stats",
        "a list of transfers with the host",
        "prints.dump_files.transfers_report",
        ("host_transfer_sizes",),
        words(r"^host_transfer_sizes:? \{"),
        is_document=True,
    ),
    Envelope(
        "environment",
        "a description of an environment",
        "prints.device_tables.environment_report",
        ("jaxlib:",),
        words(r"^jax: +\d[\w.+\-]*\s+jaxlib: +\d"),
        is_document=True,
    ),
    Envelope(
        "compile-options",
        "a list of compiler flags",
        "prints.dump_files.compile_options_report",
        ("xla_", "debug_options"),
        words(
            r"\A\s*(?:executable_build_options:? \{|debug_options:? \{|entry_computation_layout:? \{"
            r"|xla_\w+: [^\n]+\n?(?:\w+:? |\s*\Z)"
            r"|--\w+(?:=[^\n]*)?\n--\w+)"
            r"|^[ \t]*(?:\$ )?(?:(?:export|ENV|env|declare -x) )?(?:XLA_FLAGS|LIBTPU_INIT_ARGS)=[^\n]*--(?:xla|libtpu)_"
            r"|[{,] ?['\"](?:XLA_FLAGS|LIBTPU_INIT_ARGS)['\"]: ?['\"]--(?:xla|libtpu)_"
            r"|^[ \t]*(?:- )?name: ['\"]?(?:XLA_FLAGS|LIBTPU_INIT_ARGS)['\"]?[ \t]*\n[ \t]*value: "
            r"['\"]?--(?:xla|libtpu)_"
        ),
        is_document=True,
    ),
    Envelope(
        "program-facts",
        "a description of a compiled program",
        "prints.dump_files.program_facts_report",
        ("num_replicas:", "optimized_hlo_instruction_count:"),
        words(r"\A\s*num_replicas: \d+[ \t]*\n\s*device_assignment:? \{|^optimized_hlo_instruction_count: \d"),
        is_document=True,
    ),
    # --- code that backends generate ---
    Envelope(
        "ptx",
        "PTX",
        "prints.code_files.ptx_report",
        (".target ",),
        lazy_regex(r"^\.version \d[^\n]*\n\.target ", re.MULTILINE),
        is_document=True,
    ),
    Envelope(
        "emitter-mlir",
        "MLIR of an emitter",
        "prints.code_files.emitter_report",
        ("xtile.", "xla.", "llvm.func", "tt.func", "// -----// IR Dump "),
        EMITTER_MLIR,
        is_document=True,
    ),
    Envelope(
        "llvm-ir",
        "LLVM IR",
        "prints.code_files.llvm_report",
        ("; ModuleID", "target triple", "target datalayout"),
        lazy_regex(r"\A\s*; ModuleID|^target (?:datalayout|triple) = ", re.MULTILINE),
        is_document=True,
    ),
    Envelope(
        "drawing",
        "a drawing of a computation",
        "prints.code_files.drawing_report",
        ("digraph G", "<title>Fusion Explorer: "),
        lazy_regex(r"^label = <[^\n]*Computation |<title>Fusion Explorer: ", re.MULTILINE),
        is_document=True,
    ),
    Envelope(
        "torch-graphs",
        "an analysis of graphs by PyTorch/XLA",
        "prints.torch_xla.graphs_report",
        ("Compilation Analysis: ", "Execution Analysis: "),
        words(r"(?:Compilation|Execution) Analysis: (?:Graph|Compilation|Execution) \w+"),
        is_document=True,
    ),
    Envelope(
        "torch-metrics",
        "a PyTorch/XLA metrics report",
        "prints.torch_xla.metrics_report",
        ("Metric: ", "Counter: "),
        words(r"^(?:Metric|Counter): \w[^\n]*\n *(?:TotalSamples|Value): "),
        is_document=True,
    ),
    Envelope(
        "torch-times",
        "a table of torch.profiler",
        "prints.torch_xla.times_report",
        ("Self CPU time total:", "Self CPU %"),
        words(r"^ *Name +Self CPU %"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "memory-top",
        "a table of pprof",
        "pasted.memory.pprof_report",
        ("Showing nodes accounting for",),
        words(r"^Showing nodes accounting for [\d.]+[kMGTP]?B"),
        is_document=True,
    ),
    Envelope(
        "execution-profile",
        "an execution profile of XLA",
        "prints.printed_tables.execution_profile_report",
        ("cycles",),
        words(r"\d cycles \( *[\d.]+%[^\n]{0,400}?:: *[\d.]+ usec"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "kernel-times",
        "a table of kernel times",
        "prints.printed_tables.kernel_times_report",
        (
            "Total Time (ns)",
            "Total Time",
            "cuda_gpu_kern_sum",
            "gpukernsum",
            "Kernel Summary",
            "TotalDurationNs",
            "DURATION (nsec)",
        ),
        words(
            r"^[ \t]*\"?Time ?\(%\)\"?[ ,|]+\"?Total Time|cuda_gpu_kern_sum|CUDA (?:GPU )?Kernel "
            r"(?:Summary|Statistics)|^\"?Name\"?,\"?Calls\"?,\"?TotalDurationNs"
            r"|KERNEL_DISPATCH[\s\S]{0,4000}?DURATION \(nsec\)"
            r"|DURATION \(nsec\)[\s\S]{0,4000}?KERNEL_DISPATCH"
        ),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "op-profile",
        "an operation profile of XProf",
        "prints.printed_tables.op_profile_report",
        ("byCategory", "byProgram"),
        words(r"\"by(?:Category|Program|Provenance)(?:ExcludeIdle)?\": *\{"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "operation-times",
        "a table of operation times",
        "prints.printed_tables.operation_times_report",
        ("hlo_op_name", "hlo_op_expression", "HLO op name", "HLO Op", "Self time", "self_time", "total_time_us"),
        words(
            r"^(?=[^\n]{0,2000}?(?:hlo_op_name|hlo_op_expression|HLO [Oo]p [Nn]ame|HLO [Oo]p [Ee]xpression))"
            r"(?=[^\n]{0,2000}?[Tt]ime)[^\n]{0,2000}?[,\t|;]"
        ),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "copy-times",
        "a table of copies",
        "prints.device_tables.copies_report",
        ("[CUDA mem",),
        words(r"^[ \t|]*+(?:[\d.]++[ \t|]++)?\d[\d,.]*+[ \t|]++\d[\d,]*+[ \t|][^\n\[]{0,300}\[CUDA mem"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "kernel-metrics",
        "a print of Nsight Compute",
        "prints.device_tables.kernel_metrics_report",
        ("Section: ",),
        words(r"\)x\([\d, ]+\), Context \d"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "device-usage",
        "a table of devices",
        "prints.device_tables.device_usage_report",
        ("MiB /", "MiB/", "GiB /", "memory.used", "Using (GB)", "NVIDIA-SMI ", "VRAM%", "PyTorch CUDA memory"),
        words(
            r"^[^\n]{0,120}\d MiB?/ ?\d+MiB|^\| NVIDIA-SMI [\d.]+|^(?=[^\n]{0,200}VRAM%)[^\n]{0,200}GPU%"
            r"|PyTorch CUDA memory summary|\dMiB */ *\d+MiB"
            r"|^\W{0,4}\d{1,6}\W{1,12}[\d.]{1,12} ?GiB ?/ ?[\d.]{1,12} ?GiB"
            r"|^[^\n]{0,200}memory\.used[^\n]{0,200}memory\.total|Using \(GB\) [\d.]+ / [\d.]+"
        ),
        is_document=True,
        has_times=True,  # how busy devices are is measured, and a table with commas is given to `hlo profile`
    ),
    Envelope(
        "device-metrics",
        "a table of device metrics",
        "prints.runtime_prints.device_metrics_report",
        ("Entity",),
        words(r"^#\s*Entity[ \t]+\w{2,8}"),
        is_document=True,
        has_times=True,
    ),
    Envelope(
        "stacks",
        "a dump of stacks",
        "prints.runtime_prints.stacks_report",
        ("Thread ", "most recent call first", ";"),
        lazy_regex(
            r"^Thread \S{1,20} \((?:idle|active)[\w+]{0,12}\)(?:: \"[^\"\n]{0,80}\")?[ \t]*\n[ \t]+[\w<>]"
            r"|^(?:Current thread|Thread) 0x[0-9a-f]{6,16}[^\n]{0,40}\(most recent call first\):"
            r"|\A(?=[^\n]{0,600}? \([\w./<>\-]{1,200}:\d{1,7}\))[^\n;]{1,300}(?:;[^\n;]{1,300}){1,200} \d{1,9}$",
            re.MULTILINE,
        ),
        is_document=True,
    ),
    Envelope(
        "shards",
        "a print of shards",
        "prints.runtime_prints.shards_report",
        ("Shard(device=",),
        is_document=True,
    ),
    Envelope(
        "format",
        "a layout of JAX",
        "prints.runtime_prints.format_report",
        ("major_to_minor=",),
        words(r"\A\s*(?:>>> [^\n]*\s*)?(?:\w{1,40} ?[=:] ?)?(?:Format|Layout|DeviceLocalLayout)\("),
        is_document=True,
    ),
    Envelope(
        "schedule-statistics",
        "statistics of a schedule",
        "prints.device_tables.schedule_statistics_report",
        ("Total wasted cycles: ",),
        is_document=True,
    ),
    Envelope(
        "torch-graph",
        "an IR graph of PyTorch/XLA",
        "prints.program_prints.torch_graph_report",
        ("xla::", "aten::", "prim::"),
        lazy_regex(r"^ *%\d+ = \(?[a-z]\w*\[[^\n]{0,2000}? (?:xla|aten|prim)::\w+\(", re.MULTILINE),
        is_document=True,
        to_hlo=FROM_TORCH,
    ),
    Envelope(
        "devices",
        "a list of devices",
        "prints.model_prints.devices_report",
        ("Device(id=",),
        lazy_regex(r"^[ \t]*\[[\[ \t]*+\w{2,30}Device\(id=\d", re.MULTILINE),
        is_document=True,
    ),
    Envelope(
        "model-summary",
        "a summary of a model",
        "prints.model_prints.model_summary_report",
        ("Total Parameters: ", "Total params: ", "( # Param: "),
        words(r"Total (?:Parameters|params): \d|^\w{1,80}\( # Param: \d"),
        is_document=True,
    ),
    Envelope(
        "sharding-drawing",
        "a drawing of a sharding",
        "prints.program_prints.sharding_drawing_report",
        ("\u2502", "|", "\u2524"),
        lazy_regex(
            r"^[ \t\u2502|]*+(?:CPU|GPU|TPU|CUDA|ROCM|METAL) \d[\d,]*+[ \t]*+(?:[\u2502|][ \t]*+"
            r"(?:CPU|GPU|TPU|CUDA|ROCM|METAL) \d[\d,]*+[ \t]*+)*+(?:[\u2502|][ \t]*+)?+$",
            re.MULTILINE,
        ),
        is_document=True,
    ),
    Envelope(
        "pallas-kernel",
        "a Pallas kernel",
        "prints.printed_tables.pallas_report",
        ("pallas_call", "Mosaic module", "Triton module", "kernel jaxpr"),
        words(
            r"(?:The )?(?:kernel jaxpr|Mosaic module|Mosaic GPU module|Triton module|block mappings|grid "
            r"mapping)[^\n]{0,40} for (?:pallas_call )?"
        ),
        is_document=True,
    ),
    Envelope(
        "residuals",
        "a list of saved residuals",
        "prints.printed_tables.residuals_report",
        ("from the argument", "output of", "from a literal", "from a constant", "saved"),
        words(
            r"^[ \t]*[a-z]\w*(?:<\w+>)?\[[\d,]*\]\S* (?:from the argument|from a (?:literal|constant)|named '[^'\n]+' "
            r"from|output of (?:jitted function )?\S+ from)"
        ),
        is_document=True,
    ),
    Envelope(
        "arrays",
        "a print of arrays",
        "prints.runtime_prints.arrays_report",
        ("Array(", "array("),
        lazy_regex(
            # a tree of sizes has tuples of numbers as its leaves, and some arrays that are empty
            r"\A(?![\s\S]{0,20000}?: ?\(\d{1,12},(?: ?\d{1,12},?){0,8}\))"
            r"(?:\A\s*(?:>>> [^\n]*\s+)?(?:\w{1,40} ?= ?)?(?:[\[({]|[A-Z]\w{0,60}\()"
            r"(?=[\s\S]{0,100000}?\b(?:Device)?Array\((?:\[|shape=|-?[\d.]|True|False|nan|inf))"
            r"(?=[\s\S]{0,100000}?dtype=\w)|\A\s*(?:Device)?Array\((?:\[|-?[\d.])(?=[\s\S]{0,100000}?dtype=\w))"
        ),
        is_document=True,
    ),
)
"""Texts that are about themselves."""

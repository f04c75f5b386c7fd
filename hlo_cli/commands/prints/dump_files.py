"""What do the files say that XLA writes beside a dump, other than those on memory? Passes, flags, thunks, the target.

Mirrors HloModuleMetadataProto of xla/service/hlo.proto (`--xla_dump_module_metadata`), DebugOptions of xla/xla.proto,
CompileOptionsProto of xla/pjrt/proto, ThunkMetadataListProto of xla/backends/gpu, and the files of libtpu.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from shlex import quote
from typing import Final

from hlo_cli.analysis.hardware.chip_specs import chip_in
from hlo_cli.analysis.profile.compile_times import CompileTimes, PassTime, times_of_passes
from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.commands.profile.compiling import compile_answer
from hlo_cli.inputs.pasted.binary_messages import topology_text
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.inputs.stablehlo import AS_PROGRAM, Artifact, artifact_in
from hlo_cli.ir.compiler_messages import FusedStep, IneligibleStep, PassRun, PriorityStep
from hlo_cli.ir.layout import PRIMITIVE_TYPES
from hlo_cli.ir.notation import text_bytes
from hlo_cli.ir.shape import Shape, TupleShape, UnknownShape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from_tuples
from hlo_cli.source import HloError, Source, nearest
from hlo_cli.syntax.compiler_files.flags import (
    FLAG_IN_LINE,
    FLAG_VARIABLE,
    Settings,
    changed_settings,
    compiler_flags,
    layout_in_config,
    settings_in_config,
    settings_in_environment,
    settings_in_options,
    settings_of,
)
from hlo_cli.syntax.compiler_files.fusion_process import parse_fusion_process
from hlo_cli.syntax.compiler_files.text_format import TextMessage, read_text_message, whole_number
from hlo_cli.syntax.proto.messages import Message
from hlo_cli.syntax.proto.read_values import ShapeReader
from hlo_cli.syntax.scanning.shape_reader import parse_shape

# --- passes ---


def pass_times_report(pasted: PastedText) -> Report | None:
    """The report on the passes of a compilation; None if it has none of its numbers."""
    message = read_text_message(pasted.text)
    runs = tuple(_run(each) for each in message.messages("pass_metadata"))
    times = times_of_passes(runs)
    if not times.passes:
        return None
    name = _module_name(pasted.name, message.number("canonical_module_id"))
    found = compile_answer(times, f"Compiling {name}")
    folder = os.path.dirname(pasted.name) or "."
    return text_report(
        pasted,
        found.sentence,
        means=found.means,
        tables=(found.table,),
        numbers=found.numbers,
        next=(f"hlo diff {quote(folder)} --passes",) if any(each.dumps for each in times.passes) else (),
    )


def _run(message: TextMessage) -> PassRun:
    return PassRun(
        message.text("pass_name"),
        message.text("pipeline_name"),
        message.number("start_timestamp_usec"),
        message.number("end_timestamp_usec"),
        message.text("module_changed") == "true",
        len(message.texts("dump_filenames")),
    )


_LOGGED_PASS: Final = lazy_regex(
    r"(?:\b[IWE](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d{2,10}\.\d{6}) {1,8}(?P<thread>\d{1,12})"
    r"|\b\d{4}-(?P<month2>\d\d)-(?P<day2>\d\d) (?P<clock2>\d\d:\d\d:\d\d\.\d{6}): I)"
    r" [^\n]{1,200}?\] HLO pass: (?P<name>[^\n:(]{1,120}?) time: (?P<time>\d{1,9}(?:\.\d{1,6})?) "
    r"(?P<unit>[num]?s|min|h)\b(?: \((?P<microseconds>\d{1,15}) us\))?"
)
"""A line of XLA's timer of passes (TF_CPP_VMODULE=hlo_pass_pipeline=1), which is written when a pass has ended; the
number in parentheses, which newer releases write, is exact (xla/hlo/pass/hlo_pass_pipeline.cc). Before logs
are set up, their times are seconds since 1970, as in I0000 00:00:1786848746.938784."""
_LOGGED_MODULE: Final = lazy_regex(r"Running HLO pass pipeline on module (?P<module>[^\s:]{1,300}):")
_MICROSECONDS: Final = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "min": 60e6, "h": 3600e6}
_DAY: Final = 86_400_000_000  # microseconds


def logged_passes_report(pasted: PastedText) -> Report | None:
    """The report on the passes in a log of XLA's timers, of all modules and threads together."""
    text = pasted.given or pasted.text  # with the times of the log
    runs: dict[str, list[PassRun]] = {}
    for match in _LOGGED_PASS.finditer(text):
        runs.setdefault(match["thread"] or "", []).append(_logged_run(match))
    merged: dict[str, PassTime] = {}
    for thread in runs.values():  # threads overlap, and one nests its passes
        for each in times_of_passes(thread).passes:
            old = merged.get(each.name, PassTime(each.name, 0, 0.0))
            merged[each.name] = PassTime(each.name, old.runs + each.runs, old.seconds + each.seconds)
    if not merged:
        return None
    passes = tuple(sorted(merged.values(), key=lambda each: (-each.seconds, each.name)))
    times = CompileTimes(passes, sum(each.seconds for each in passes))
    modules = list(dict.fromkeys(match["module"] for match in _LOGGED_MODULE.finditer(text)))
    subject = modules[0] if len(modules) == 1 else format_count(len(modules), "modules") if modules else "this log"
    found = compile_answer(times, f"Passes of {subject}")
    return text_report(pasted, found.sentence, means=found.means, tables=(found.table,), numbers=found.numbers)


def _logged_run(match: re.Match[str]) -> PassRun:
    """The run of a pass in a line of a log, in microseconds since the begin of the year.

    >>> line = "I0102 00:00:01.000009   7 a.cc:1] HLO pass: dce time: 1.2 ms (1204 us) (cumulative: 2 ms)"
    >>> run = _logged_run(_LOGGED_PASS.search(line))
    >>> run.name, run.end_us - run.begin_us
    ('dce', 1204)
    """
    hours, minutes, seconds = (match["clock"] or match["clock2"]).split(":")
    day = 31 * int(match["month"] or match["month2"]) + int(match["day"] or match["day2"])  # only differences count
    end = day * _DAY + round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1e6)
    exact = match["microseconds"]
    duration = int(exact) if exact else round(float(match["time"]) * _MICROSECONDS[match["unit"]])
    return PassRun(match["name"], "", end - duration, end)


def _module_name(path: str, number: int) -> str:
    """The name of a module, which only the names of the dumps next to the file have; else its number."""
    with suppress(OSError):
        for name in sorted(os.listdir(os.path.dirname(path) or ".")):
            if (
                found := re.search(rf"\bmodule_0*{number}\.([\w\-]+)\.(?:cl_\d+\.)?\w*before_optimizations", name)
            ) is not None:
                return found[1]
    return f"module {number}"


# --- flags ---


_MOST_NAMED: Final = 3  # flags that a sentence names; the table has all


def compile_options_report(pasted: PastedText) -> Report | None:
    """The report on the flags of a compilation; None if it has none of its numbers."""
    settings = _settings_in_bytes(pasted) if pasted.data else settings_of(pasted.text)
    if not settings:
        return None
    changed = changed_settings(settings)
    names = [f"--{name}" for name in changed]
    if changed:
        more = [f"{len(names) - _MOST_NAMED:,} more"] if len(names) > _MOST_NAMED else []
        some = ", ".join([*names[:_MOST_NAMED], *more])
        count, all_ = len(changed), format_count(len(settings), "flags")
        answer = f"{count:,} of {all_} {verb(count, 'is', 'are')} not the default: {some}"
    else:
        answer = f"{format_count(len(settings), 'flags')}, all with their default"
    rows = [(name, *changed.get(name, (value, value)), name in changed) for name, value in settings.items()]
    rows.sort(key=lambda row: not row[3])
    columns: tuple[Column[str, str, str, bool], ...] = (
        Column("flag", "flag", "name", role="name", of=lambda name, default, value, is_changed: f"--{name}"),
        Column("value", "value", of=lambda name, default, value, is_changed: value),
        Column("default", "default", of=lambda name, default, value, is_changed: default if is_changed else None),
        Column("is_default", "is default", person=False, of=lambda name, default, value, is_changed: not is_changed),
    )
    table = Table("flags", columns, rows_from_tuples(columns, rows), noun="flags")
    unknown = sum(name not in compiler_flags() for name in settings)
    return text_report(
        pasted,
        answer,
        means=(
            *_partitions(read_text_message(pasted.text)),
            *_entry_layout(pasted),
            *_unknown_flags(settings),
            *_other_variable(pasted.text),
            "Defaults are those of jaxlib 0.10.2 and 0.12.0.1, as JAX sets them, and of libtpu 0.0.52.",
        ),
        tables=(replace(table, limit=len(changed), person=bool(changed)),),
        numbers={"flags": len(settings), "changed": len(changed), "unknown": unknown},
    )


def _unknown_flags(settings: Settings) -> Iterator[str]:
    """A sentence on the flags that no table has: XLA ends the process at the first of them."""
    unknown = (name for name in settings if name not in compiler_flags() and " " not in name)  # a number is no name
    for name in islice(unknown, _MOST_NAMED):
        near = nearest(name, compiler_flags())
        yield f"--{name} is not a flag of XLA or libtpu{f'; the nearest is --{near}' if near else ''}."


def _other_variable(text: str) -> Iterator[str]:
    """A sentence on each flag in a variable that is not read for it: XLA or libtpu ends the process at the first."""
    for line in FLAG_VARIABLE.finditer(text):
        is_libtpu = "LIBTPU_INIT_ARGS" in line[0]
        for name, _ in FLAG_IN_LINE.findall(line[0]):
            flag = compiler_flags().get(name)
            if flag is None or flag.status in ("removed", "field"):
                continue
            if is_libtpu and not flag.status.startswith("tpu"):
                yield f"--{name} is a flag of XLA: it belongs in XLA_FLAGS, not in LIBTPU_INIT_ARGS."
            elif not is_libtpu and flag.status.startswith("tpu"):
                yield f"--{name} is a flag of libtpu: it belongs in LIBTPU_INIT_ARGS, not in XLA_FLAGS."


def _settings_in_bytes(pasted: PastedText) -> Settings:
    """The flags in a protobuf, which its file's name tells from another."""
    if pasted.name.endswith("tpu_comp_env.pb"):
        return settings_in_environment(pasted.data)
    in_config = pasted.name.endswith(_CONFIG_FILE)
    return settings_in_config(pasted.data) if in_config else settings_in_options(pasted.data)


_CONFIG_FILE: Final = "hlo_module_config.pb"


def _entry_layout(pasted: PastedText) -> Iterator[str]:
    """The arguments and results of the program of a `HloModuleConfigProto`, with their layouts, in one sentence."""
    try:
        if pasted.name.endswith(_CONFIG_FILE):
            layout = Message("ProgramShapeProto", layout_in_config(pasted.data))
            read = ShapeReader()
            arguments, result = tuple(read[each] for each in layout.all_data("parameters")), read[layout.data("result")]
        else:
            text = read_text_message(pasted.text).message("entry_computation_layout")
            arguments = tuple(map(_shape_in_text, text.messages("parameters")))
            result = _shape_in_text(text.message("result"))
    except HloError:
        return
    if isinstance(result, UnknownShape):
        return
    shown = [str(each) for each in arguments[:_MOST_SHAPES]]
    shown += [f"and {len(arguments) - _MOST_SHAPES:,} more"] if len(arguments) > _MOST_SHAPES else []
    words = f"{format_count(len(arguments), 'arguments')} ({', '.join(shown)})" if arguments else "No arguments"
    total = f" of {format_bytes(sum(each.padded_bytes for each in arguments))}" if arguments else ""
    yield f"{words}{total}, result {result}."


_MOST_SHAPES: Final = 4  # a training step has thousands of arguments; a sentence names the first


def _shape_in_text(message: TextMessage) -> Shape:
    """The shape of a `ShapeProto` as text: arrays, and tuples of arrays."""
    kind = message.text("element_type").lower()
    if kind == "tuple":
        return TupleShape(tuple(map(_shape_in_text, message.messages("tuple_shapes"))))
    if kind not in PRIMITIVE_TYPES:
        return UnknownShape()
    dimensions = tuple(map(whole_number, message.texts("dimensions")))
    layout = message.message("layout")
    order = ",".join(layout.texts("minor_to_major"))
    tiles = "".join(f"({','.join(tile.texts('dimensions'))})" for tile in layout.messages("tiles"))
    space = f"S({layout.text('memory_space')})" if layout.text("memory_space") else ""
    suffix = f":{f'T{tiles}' if tiles else ''}{space}" if tiles or space else ""
    return parse_shape(f"{kind}[{','.join(map(str, dimensions))}]{{{order}{suffix}}}")


def _partitions(message: TextMessage) -> Iterator[str]:
    """The replicas and partitions of a `HloModuleConfigProto` or of execution options, in words."""
    replicas = message.number("replica_count") or message.number("num_replicas")
    partitions = message.number("num_partitions")
    if replicas and partitions:
        shardy = ", partitioned by Shardy" if message.text("use_shardy_partitioner") == "true" else ""
        yield f"{format_count(replicas, 'replicas')}, {format_count(partitions, 'partitions')}{shardy}."


def program_facts_report(pasted: PastedText) -> Report | None:
    """The report on the facts of a compiled program; None if it has none of its numbers."""
    message = read_text_message(pasted.text)
    facts = tuple(message.values())
    if not facts:
        return None
    columns: tuple[Column[str, str], ...] = (
        Column("property", "property", of=lambda name, value: name),
        Column("value", "value", of=lambda name, value: value),
    )
    module, count = message.text("module_name"), message.number("optimized_hlo_instruction_count")
    compiled = f"{module} has {format_count(count, 'instructions')} after optimizations" if module else ""
    answer = compiled or next(_partitions(message), "Options of an execution").removesuffix(".")
    table = Table("target", columns, rows_from_tuples(columns, facts), noun="properties")
    return text_report(pasted, answer, tables=(table,), numbers={"instructions": count or None})


# --- exported programs ---


def exported_report(pasted: PastedText) -> Report | None:
    """What a program of `jax.export` or MLIR bytecode says of itself, without the program."""
    artifact = artifact_in(pasted.data)
    if artifact is None:
        return None
    values = [("argument", shape) for shape in artifact.arguments]
    values += [("result", shape) for shape in artifact.results]
    columns: tuple[Column[str, str], ...] = (
        Column("kind", "kind", of=lambda kind, shape: kind),
        Column("shape", "shape", "shape", of=lambda kind, shape: shape),
    )
    table = Table("exported_values", columns, rows_from_tuples(columns, values), noun="values")
    counts = f"{format_count(len(artifact.arguments), 'arguments')}, {format_count(len(artifact.results), 'results')}"
    name = f"{artifact.name} for {' and '.join(artifact.platforms)}: {counts}"
    return text_report(
        pasted,
        f"Program of jax.export: {name}" if artifact.name else f"MLIR bytecode of {artifact.producer}",
        means=tuple(_of_export(artifact)) if artifact.name else (),
        tables=(table,) if values else (),
        advice=(f"{AS_PROGRAM[:1].upper()}{AS_PROGRAM[1:]}.",),
        numbers={
            "producer": artifact.producer,
            "devices": artifact.devices or None,
            "version": artifact.version or None,
            "calling_convention": artifact.calling_convention or None,
            "gradient": artifact.has_gradient,
        },
    )


def _of_export(artifact: Artifact) -> Iterator[str]:
    made_by = f"jax {artifact.jax}, {artifact.producer}" if artifact.jax else artifact.producer
    yield f"Written by {made_by}; serialization {artifact.version}, calling convention {artifact.calling_convention}."
    if artifact.devices:
        yield f"Compiles for {format_count(artifact.devices, 'devices')}."
    if artifact.kept and artifact.kept < len(artifact.arguments):
        yield f"The program uses {artifact.kept:,} of the arguments."
    yield "Has its gradient." if artifact.has_gradient else "Has no gradient."
    if artifact.disabled_checks:
        yield f"Disabled checks: {', '.join(artifact.disabled_checks)}."


# --- thunks ---


_UNNAMED: Final = "-"


def thunk_names_report(pasted: PastedText) -> Report | None:
    """The report on the instructions of thunks; None if it has none of its numbers."""
    thunks = read_text_message(pasted.text).messages("thunk_metadata")
    if not thunks:
        return None
    rows = [
        (each.message("thunk_info").number("thunk_id"), each.text("thunk_kind").removeprefix("k"), _annotation(each))
        for each in thunks
    ]
    columns: tuple[Column[int, str, str], ...] = (
        Column("thunk", "thunk", "count", of=lambda number, kind, name: number),
        Column("kind", "kind", of=lambda number, kind, name: kind),
        Column("instruction", "instruction", "name", role="name", of=lambda number, kind, name: name or None),
    )
    kinds = Counter(kind for _, kind, _ in rows).most_common()
    return text_report(
        pasted,
        f"{format_count(len(rows), 'thunks')}: {', '.join(f'{count} {kind}' for kind, count in kinds)}",
        means=("A thunk is one step that the runtime executes; its annotation is the name of the instruction.",),
        tables=(Table("thunk_names", columns, rows_from_tuples(columns, rows), noun="thunks"),),
        numbers={"thunks": len(rows)},
    )


def _annotation(thunk: TextMessage) -> str:
    return thunk.message("thunk_info").text("profile_annotation")


# --- the target ---


def target_report(pasted: PastedText) -> Report | None:
    """The report on the target of a compilation; None if it has none of its numbers."""
    message = read_text_message(pasted.text)
    specific = _specific_topology(message)
    facts = {**dict(_facts(message)), **dict(_facts(read_text_message(specific)))}
    chip = chip_in([pasted.text, specific])
    if not facts:
        return None
    columns: tuple[Column[str, str], ...] = (
        Column("property", "property", of=lambda name, value: name),
        Column("value", "value", of=lambda name, value: value),
    )
    where = f"{chip}" if chip is not None else facts.get("device", facts.get("version", facts.get("platform", "")))
    size = f", {_counted(facts, 'chips')} on {_counted(facts, 'hosts')}" if "chips" in facts else ""
    return text_report(
        pasted,
        f"Target: {where}{size}",
        tables=(Table("target", columns, rows_from_tuples(columns, facts.items()), noun="properties"),),
        numbers={"chip": chip},
    )


def _counted(facts: Mapping[str, str], noun: str) -> str:
    return format_count(int(facts[noun]), noun)


def _specific_topology(message: TextMessage) -> str:
    """The topology that a description of PJRT holds as bytes, as text; empty without one."""
    specific = message.message("platform_specific_topology")
    return topology_text(specific.text("type_url"), text_bytes(specific.text("value")))


def _facts(message: TextMessage) -> Iterator[tuple[str, str]]:
    """What a description of a TPU or a GPU says, by the words of people."""
    if platform := message.text("platform_name"):
        yield "platform", platform
        yield "runtime", " ".join(message.text("platform_version").split())
    cpu = message.message("cpu_topology")
    if name := cpu.text("cpu"):
        yield "device", f"{name} ({cpu.text('triple')})"
        yield "features", f"{len(cpu.text('features').split(',')):,}"
    topology = message.message("tpu_topology_args")
    if version := topology.text("version"):
        yield "version", " ".join([version.removeprefix("TPU_VERSION_"), topology.text("variant")]).strip()
        chips, hosts = (_count(topology.message(f"{name}_bounds")) for name in ("chips_per_host", "host"))
        yield "chips", str(chips * hosts)
        yield "hosts", str(hosts)
        if replicas := message.number("replica_count"):
            yield "replicas", str(replicas)
            yield "reserved HBM", format_bytes(message.number("reserved_hbm_usage_bytes"))
    gpu = message.message("gpu_device_info")
    if device := message.text("device_description_str"):
        yield "device", device
    for field, name in _GPU_FACTS.items():
        if number := gpu.number(field):
            yield name, format_bytes(number) if field in _BYTES else f"{number:,}"


_GPU_FACTS: Final = {
    "core_count": "cores",
    "device_memory_size": "memory",
    "l2_cache_size": "L2 cache",
    "memory_bandwidth": "bytes per second",
    "shared_memory_per_core": "shared memory per core",
    "registers_per_core_limit": "registers per core",
    "threads_per_core_limit": "threads per core",
}
_BYTES: Final = frozenset(("device_memory_size", "l2_cache_size", "shared_memory_per_core"))


def _count(bounds: TextMessage) -> int:
    """The places in a box; a bound that is not written is 1."""
    return (bounds.number("x") or 1) * (bounds.number("y") or 1) * (bounds.number("z") or 1)


# --- decisions of priority fusion ---

_REASONS: Final = (
    Column("producers", "producers", "count", of=lambda count, reason: count),
    Column("reason", "reason", of=lambda count, reason: reason),
)


def fusion_process_report(pasted: PastedText) -> Report | None:
    """The report on what priority fusion decided; None if it decided nothing, HloError for damaged text."""
    process = parse_fusion_process(Source(pasted.name, pasted.text))
    fused = [step for step in process.steps if isinstance(step, FusedStep)]
    refused = {step.producer: step.reason for step in process.steps if isinstance(step, IneligibleStep)}
    if not process.steps:
        return None
    reasons = Counter(refused.values()).most_common()
    rows = rows_from_tuples(_REASONS, ((count, why) for why, count in reasons))
    gained = {step.producer: step for step in process.steps if isinstance(step, PriorityStep)}
    first = {step.producer: gained[step.producer] for step in fused if step.producer in gained}
    saved = sum(max(0.0, step.unfused_us - step.fused_us) for step in first.values())
    device = f" for {process.device}" if process.device else ""
    kernels = len({step.fusion for step in fused})
    words = f", which saves about {format_seconds(saved * 1e-6)} by its estimates" if saved else ""
    most = f"; {format_count(len(refused), 'producers')} cannot be fused, mostly as {reasons[0][0]}" if reasons else ""
    return text_report(
        pasted,
        f"Priority fusion{device}: {format_count(len(fused), 'fusions')} into {format_count(kernels, 'kernels')}"
        f"{words}{most}",
        means=(
            "XLA:GPU fuses the producer with the largest estimated gain first; the order of the file is its order.",
        ),
        tables=(Table("fusion_reasons", _REASONS, rows, noun="reasons"),) if reasons else (),
        advice=("With the dump that it is next to, `hlo fuse DUMP --why-not A B` explains a pair of instructions.",),
        numbers={"fused": len(fused), "kernels": kernels, "ineligible": len(refused), "saved_seconds": saved * 1e-6},
        notes=("the file is cut",) if process.is_truncated else (),
        next=("hlo help fusion",),
    )


# --- transfers of libtpu ---


_TRANSFERS: Final = {
    "host_dma_sizes": "DMA with the host",
    "host_transfer_sizes": "transfers with the host",
    "host_execution_transfer_sizes": "transfers of an execution",
}


def transfers_report(pasted: PastedText) -> Report | None:
    """The report on transfers with the host; None if it has none of its numbers."""
    message = read_text_message(pasted.text)
    rows = list(_buckets(message))
    columns: tuple[Column[str, str, str, str], ...] = (
        Column("transfer", "transfer", of=lambda kind, where, name, value: kind),
        Column("place", "where", of=lambda kind, where, name, value: where),
        Column("field", "field", of=lambda kind, where, name, value: name),
        Column("value", "value", of=lambda kind, where, name, value: value),
    )
    answer = "The program has no transfers with the host" if not rows else "Transfers of the program with the host"
    tables = (Table("host_transfers", columns, rows_from_tuples(columns, rows), noun="transfers"),) if rows else ()
    return text_report(pasted, answer, tables=tables, numbers={"transfers": len(rows)})


def _buckets(message: TextMessage) -> Iterator[tuple[str, str, str, str]]:
    for field, kind in _TRANSFERS.items():
        for group, where in (("non_loop_buckets", "outside loops"), ("loop_buckets", "in loops")):
            for bucket in message.message(field).messages(group):
                yield from ((kind, where, name, value) for name, value in bucket.values())

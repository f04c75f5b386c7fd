"""What do Python programs call first: a path, text, or proto read in one call, and questions to a module by method.

`displayed.py` finds the latter by name, as they need parts above the module.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.displayed import Items
from hlo_cli.inputs.input import read_content, read_inputs
from hlo_cli.ir.attributes.sharding import AnySharding, Mesh, MeshAxis, TupleSharding
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module, of_module
from hlo_cli.read_input import read_input, read_module
from hlo_cli.scan_modules import main_input
from hlo_cli.source import HloError, Source, Span, expect, wrong_type
from hlo_cli.syntax.scanning.shape_reader import parse_shape as parse_shape
from hlo_cli.syntax.text import parser

if TYPE_CHECKING:
    from networkx import DiGraph

    from hlo_cli.analysis.profile.profile import Profile
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.ir.traces.trace import Trace
    from hlo_cli.report.report import Report


def load(path: object, *, stage: str | None = None, module: str | None = None) -> Module:
    """The module in a file, in a directory that `--xla_dump_to` wrote, or on standard input, which is `-`.

    By default, the latest of several stages and, as commands do, the main one of several modules, the likely costliest;
    `stage` and `module` select by name, or by a part of it. Raises HloError if the input cannot be read. Of a text with
    errors, the module has what could be read: its `errors` say what is wrong, and `is_truncated` whether it is cut off.

    Instead of a path, it takes a module, the HLO text of modules, the bytes of a text or a proto, and what `from_jax`
    takes without arguments, such as a `Compiled`; for these, `stage` is "optimized" or "lowered".

    >>> load("/no/such/dump")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: directory '/no/such' not found
    >>> load("HloModule m\\n\\nENTRY e { ROOT p = f32[2] parameter(0) }\\n").name
    'm'
    >>> load("HloModule m\\n\\nENTRY e {\\n  p = f32[2] parameter(0)\\n  q = f32[2")
    <Module m: 1 computation, 1 instruction, truncated>
    """
    expect(str | None, "the name of a stage", stage, 'such as "before_optimizations"')
    expect(str | None, "the name of a module", module, 'such as "jit_step"')
    if isinstance(path, Module):
        return path
    if isinstance(path, bytes) or (isinstance(path, str) and _is_text(path)):
        return read_input(read_content(path, stage=stage, module=module))
    if isinstance(path, str | os.PathLike):
        return read_input(main_input(read_inputs([os.fsdecode(path)], stage=stage, module=module)))
    return _of_object(path, stage, module)


def _is_text(given: str) -> bool:
    """Whether a string is HLO rather than a path: several lines, a module, or an instruction; a file is a path."""
    is_hlo = "\n" in given or "HloModule " in given or "ENTRY " in given or (" = " in given and "(" in given)
    return is_hlo and not os.path.lexists(given)


def _of_object(x: object, stage: str | None, module: str | None) -> Module:
    """The module of an object of a framework."""
    from hlo_cli.frameworks import from_jax

    if module is not None:
        hint = "pass one of compiled.runtime_executable().hlo_modules()"
        raise HloError(f"module= selects a module of a dump, not of a value of type {type(x).__qualname__}", hint=hint)
    if x is None or isinstance(x, int | float | complex):  # nothing that a framework would make a program of
        raise wrong_type("a path, HLO text, or a program", x, 'such as "dump/", or jax.jit(f).lower(x).compile()')
    if isinstance(x, list | tuple | set | frozenset | dict):
        raise HloError("one input is expected", hint="use hlo_cli.scan(paths) for several, or load each")
    match stage:
        case None | "optimized":
            return from_jax(x)
        case "lowered":
            return from_jax(x, stage="lowered")
    raise HloError(f"unknown stage '{stage}'", hint="available for a program: optimized, lowered")


def profile(trace: str | os.PathLike[str] | Trace, dump: object = None, *, skip_steps: int | None = None) -> Profile:
    """The measured times of a profiler's trace, each operation joined to its instruction.

    `trace` is a path or a trace that was read. Programs that it does not contain are those of `dump`: a path, all of
    whose modules are used, or anything else that `load` takes. As in `hlo profile`, first steps that are warm-up are
    omitted, which `notes` then says, or the first `skip_steps` steps: 0 for none. Raises HloError if the trace cannot
    be read or has no timed operations.

    >>> from hlo_cli import operation_measures
    >>> found = profile("fixtures/traces/cpu/trace.xplane.pb")
    >>> [each.instruction for each in found.operations]
    [<fusion multiply_reduce_fusion>, <fusion ynn_fusion>, <fusion wrapped_tanh>]
    >>> [each.calls for each in operation_measures(found)], found.to_records()[0]["instruction"]
    ([1, 1, 1], 'ynn_fusion')
    """
    from hlo_cli.analysis.profile.measure import measure
    from hlo_cli.analysis.profile.profile import GivenModule
    from hlo_cli.commands.options.io_options import InputOptions
    from hlo_cli.commands.profile.measured import given_modules, read_program, without_warm_up
    from hlo_cli.ir.traces.trace import Trace
    from hlo_cli.read_traces import read_traces

    expect(str | os.PathLike | Trace, "a trace or its path", trace)
    expect(int | None, "the number of steps to omit", skip_steps)
    if skip_steps is not None and skip_steps < 0:
        raise HloError(f"skip_steps must be at least 0, found {skip_steps}")
    read = trace if isinstance(trace, Trace) else read_traces([os.fsdecode(trace)])
    if isinstance(dump, str | os.PathLike) and not (isinstance(dump, str) and _is_text(dump)):
        modules = given_modules([os.fsdecode(dump)], InputOptions())
    else:
        modules = () if dump is None else (GivenModule(None, load(dump)),)
    found, warm_up = without_warm_up(measure(read, read_program, modules), skip_steps, "skip_steps=0")
    return replace(found, notes=(warm_up, *found.notes)) if warm_up else found


def parse_module(text: str | Source, *, strict: bool = False) -> Module:
    """The module in an HLO text, or a single instruction as a module of its own.

    Lenient by default: unreadable text is skipped and listed in `module.errors`, unknown attributes are kept as text
    and listed in `module.notes`. With `strict`, text that XLA's own parser rejects raises HloError. Omitted shapes are
    inferred.

    >>> module = parse_module("ENTRY e { x = f32[2]{0} parameter(0)  ROOT y = compare(x, x), direction=LT }")
    >>> print(module.entry.root.shape)
    pred[2]{0}
    """
    expect(str | Source, "an HLO text", text, "hlo_cli.load takes paths, bytes, and programs of frameworks")
    return parser.parse_module(text, strict=strict, infer=omitted_shape)


def sharding_of(text: str, *, mesh: Mapping[str, int] | None = None, rank: int | None = None) -> AnySharding:
    """The sharding in a text, as HLO, Shardy, or JAX prints it; one for each leaf of a tuple is a `TupleSharding`.

    `mesh` has the sizes of the axes, major first, for a PartitionSpec; with the `rank` of the array, a spec gets the
    dimensions that it omits. Raises HloError, with its span, if the sharding cannot be read or names an unknown axis.

    >>> print(sharding_of("{devices=[2,1,4]<=[8] last_tile_dim_replicate}"))
    {devices=[2,1,4]<=[8] last_tile_dim_replicate}
    >>> print(sharding_of("P('model')", mesh={"data": 2, "model": 4}, rank=2))
    {mesh['data'=2,'model'=4], [{'model'}, {}]}
    """
    from hlo_cli.syntax.values.sharding_forms import read_sharding_text

    expect(str, "the text of a sharding", text, 'such as "{devices=[2,4]<=[8]}" or "P(\'data\')"')
    expect(Mapping | None, "the sizes of the axes of a mesh", mesh, 'such as {"data": 2, "model": 4}')
    expect(int | None, "a rank", rank)
    axes = tuple(MeshAxis(name, size) for name, size in mesh.items()) if mesh is not None else None
    sharding = read_sharding_text(text, mesh=Mesh(axes) if axes else None, rank=rank).sharding
    _check_devices(sharding, text)
    return sharding


def _check_devices(sharding: AnySharding, text: str) -> None:
    """Raises HloError, with the span of the text, if a sharding has another number of tiles than of devices."""
    from hlo_cli.analysis.sharding.placement import placement_of

    for each in sharding.elements if isinstance(sharding, TupleSharding) else (sharding,):
        try:
            placement_of(each)
        except HloError as error:
            source, found = Source("", text), error.diagnostic
            raise HloError(found.message, Span(0, len(text)), source=source, hint=found.hint) from error


def module_from_bytes(data: bytes) -> Module:
    """The module in a `HloModuleProto`, `HloProto` or snapshot, as compilers pass it on; `load` reads such files too.

    >>> from hlo_cli import module_to_bytes
    >>> module = parse_module("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0), sharding={replicated} }")
    >>> print(module_from_bytes(module_to_bytes(module)).entry.root.sharding)
    {replicated}
    """
    expect(bytes, "the bytes of a proto", data)
    return read_module(Source("", ""), data)


@of_module
def module_to_bytes(module: Module) -> bytes:
    """The `HloModuleProto` of a module, which XLA reads as the same module; HloError if a proto cannot represent it.

    Short forms, which protos do not have, are expanded: slice-start becomes async-start.

    >>> text = "HloModule m  ENTRY e { p = (f32[2], s8[]) parameter(0)  ROOT n = f32[2] negate(p#0) }"
    >>> print(module_from_bytes(module_to_bytes(parse_module(text))).entry.root.operands[0])
    <get-tuple-element p_0>
    """
    from hlo_cli.syntax.proto.write_module import module_to_bytes
    from hlo_cli.transform.sugar import desugar

    return module_to_bytes(desugar(module))


# --- the report of a module ---


@of_module
def report(module: Module, *, chip: str | None = None) -> Report:
    """What `hlo report` says of a module: `hlo_cli.report`, which is this function and the package of reports."""
    from hlo_cli.commands.report.options import ReportOptions
    from hlo_cli.commands.report.page import report_of_module

    options = ReportOptions(chip=chip)
    options.check_chip()
    return report_of_module(loaded(module), options, "")


def loaded(module: Module) -> Loaded:
    """A module as if a command had read it; its stage is that in the name of its file."""
    from hlo_cli.commands.modules.loading import Loaded
    from hlo_cli.inputs.dumps import parse_dump_name
    from hlo_cli.inputs.input import Input

    dump = parse_dump_name(os.path.basename(module.source.name))
    return Loaded(module, Input(module.source, module.source.name or None, module=module.name, dump=dump))


# --- answers to methods, and texts in place of values ---
# `displayed.library` finds `where`, `to_networkx`, `parse_shape`, and `sharding_of` by name.


def where(module: Module, expression: str) -> Sequence[Instruction]:
    """The instructions that match an expression: the answer of `Module.where`."""
    from hlo_cli.commands.modules.instruction_tables import instructions_where

    expect(str, "an expression", expression, 'such as "opcode == dot and flops > 1e9"')
    matches = instructions_where(expression, module)
    return Items(instruction for instruction in module if matches(instruction))


def to_networkx(module: Module, computation: str | Computation | None) -> DiGraph[str]:
    """The dataflow as a graph of NetworkX: the answer of `Module.to_networkx`."""
    try:
        from networkx import DiGraph
    except ImportError as error:
        raise ImportError("to_networkx() requires NetworkX: pip install networkx") from error

    instructions = list(module if computation is None else module.computation(computation))
    count = Counter(instruction.name for instruction in instructions)
    names = {i: i.name if count[i.name] == 1 else f"{i.computation.name}/{i.name}" for i in instructions}
    graph: DiGraph[str] = DiGraph(name=module.name)
    for instruction, name in names.items():
        graph.add_node(
            name,
            opcode=instruction.opcode,
            shape=str(instruction.shape),
            computation=instruction.computation.name,
            op_name=instruction.metadata.op_name,
            source=str(instruction.source or ""),
        )
    for instruction, name in names.items():
        results = [called.root for called in instruction.called_computations]
        graph.add_edges_from((names[root], name, {"kind": "call"}) for root in results if root in names)
        graph.add_edges_from((names[operand], name, {"kind": "operand"}) for operand in instruction.operands)
    return graph

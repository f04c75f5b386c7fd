"""What `hlo fuse` reports: XLA's own names and figures as witnesses, laws of sums, and every rule broken once."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from math import prod
from pathlib import Path

import pytest

from dumps import FIXTURES, Dump, compiled_dumps
from hlo_cli import parse_module
from hlo_cli.analysis.cost.cost_analysis import computation_cost, cost_analysis, cost_of
from hlo_cli.analysis.cost.counting import EXACT
from hlo_cli.analysis.cost.matmuls import matmuls_of
from hlo_cli.analysis.dataflow.executions import executions_of, trip_count
from hlo_cli.analysis.fusion.fusion_bodies import all_fused, heroes_of, verify_fusions
from hlo_cli.analysis.fusion.kernels import Fusion, execution_cost, fusion_of, fusions_of, kernels_of, xla_totals
from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.hardware.time_model import TPU_FLOOR_SECONDS, TPU_MATMUL_FACTOR
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.analysis.query.fields import instruction_fields
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.kernel_times import vmem_bytes
from hlo_cli.commands.fuse.costs import report_of_costs, report_of_dots
from hlo_cli.commands.fuse.fusion_table import report_of_fusion, report_of_fusions
from hlo_cli.commands.fuse.kernel_kinds import TimingColumns, other_totals
from hlo_cli.commands.layout.dump import report_of_dump
from hlo_cli.commands.modules.loading import Loaded, load_one
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.parse.instruction_list import report_of_instructions
from hlo_cli.commands.schedule.sequence import report_of_steps
from hlo_cli.ir.instruction import Computation
from hlo_cli.ir.module import Module
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Cell, Table, number_of
from judge import ask_xla
from versions import IS_NEWER_XLA

DUMPS = compiled_dumps()
dumps = pytest.mark.parametrize("dump", DUMPS, ids=str)
GPU = [dump for dump in DUMPS if dump.platform == "gpu"]
COSTS = ("flops", "transcendentals", "bytes", "intensity")

_OPERANDS = re.compile(r"(?<=[a-z])\((?:%[^()]*)\)")
_RENAMED = re.compile(r"(?:loop|input|output)_(.*)_fusion(?:\.|$)")
_LIBRARY = re.compile(r'custom_call_target="__(cublas|cudnn)\$')


@cache
def loaded(dump: Dump) -> Loaded:
    return load_one([str(dump.path)], InputOptions())


def module(dump: Dump) -> Module:
    return loaded(dump).module


@cache
def fusions(dump: Dump) -> tuple[Fusion, ...]:
    return fusions_of(module(dump))


@cache
def listed(dump: Dump) -> Report:
    return report_of_fusions(loaded(dump), within=None, where=None, timing=None, argument="")


def column(table: Table, name: str) -> list[Cell]:
    return [row[table.column_index(name)] for row in table.rows]


def test_heroes_are_those_that_xla_names_fusions_after() -> None:
    """Witness: names given by the GPU compiler, which hold the opcodes of all heroes in the order of letters."""
    renamed = [(found[1], each) for dump in GPU for each in fusions(dump) if (found := _RENAMED.match(each.name))]
    for name, fusion in renamed:
        assert name == "_".join(sorted({hero.opcode.replace("-", "_") for hero in fusion.heroes})), fusion.name
    assert len(renamed) > 50


@dumps
def test_every_fusion_is_listed_once_and_its_bytes_add_up(dump: Dump) -> None:
    found = fusions(dump)
    outer = [each.instruction for each in found]
    inner = [i for each in found for body in bodies_in(each) for i in body.instructions if i.opcode == "fusion"]
    assert Counter([*outer, *inner]) == Counter(i for i in module(dump).instructions if i.opcode == "fusion")
    for each in found:
        assert each.cost.bytes_accessed == cost_of(each.instruction).bytes_accessed
        assert each.read_bytes + each.written_bytes == each.traffic.bytes_accessed <= each.cost.bytes_accessed
        if "gather" not in {operation.opcode for operation in each.operations}:
            assert each.traffic == each.cost
        assert each.saved_bytes + each.read_bytes + each.written_bytes == each.unfused_bytes
        assert fusion_of(each.instruction) == each


def bodies_in(fusion: Fusion) -> list[Computation]:
    """The body of a fusion, and those of fusions inside it."""
    found = [fusion.body]
    for body in found:
        found += [called for i in body.instructions if i.opcode == "fusion" for called in i.called_computations]
    return found


@dumps
def test_what_operations_cost_by_themselves_is_what_their_body_costs_but_for_bytes(dump: Dump) -> None:
    """The flops of a fusion are those of the operations in it, wherever they are nested.

    XLA counts a custom fusion that gathers or scatters by that alone.
    """
    costs = cost_analysis(module(dump))
    for each in fusions(dump):
        moves = {"gather", "scatter"} & {operation.opcode for operation in each.operations}
        assert (each.kind == "kCustom" and moves) or each.cost.flops == sum(costs[i].flops for i in each.operations)
        assert set(each.heroes) <= set(all_fused(each.body))


@dumps
def test_kernels_cost_what_the_module_costs(dump: Dump) -> None:
    """Each computation counts once for a loop and once for each call of it: so every flop is some kernel's."""
    found = kernels_of(module(dump))
    if any(kernel.times != 1 for kernel in found) or " conditional(" in dump.text:
        return
    costs = cost_analysis(module(dump))
    assert sum(costs[kernel.instruction].flops for kernel in found) == computation_cost(module(dump).entry).flops
    assert listed(dump).numbers["flops"] == computation_cost(module(dump).entry).flops


@dumps
def test_computations_run_as_often_as_the_schedule_says(dump: Dump) -> None:
    """Witness: the flattened schedule, where no computation has two callers."""
    calls = Counter(c for i in module(dump).instructions for c in i.called_computations if i.opcode != "async-done")
    conditions = {i.called_computations[1] for i in module(dump).instructions if i.opcode == "while"}
    ours = executions_of(module(dump))
    flat: dict[Computation, int | None] = {}
    for run in memory_analysis(module(dump)).runs:
        around = 1 if run.caller is None else flat[run.caller.computation]
        trips = trip_count(run.caller) if run.caller is not None and run.caller.opcode == "while" else 1
        runs = None if trips is None else trips + (run.computation in conditions)
        flat[run.computation] = None if around is None or runs is None else around * runs
    for computation, often in flat.items():
        if calls[computation] <= 1:
            assert ours[computation].known == often


@dumps
def test_kernel_kinds_add_up_to_kernels(dump: Dump) -> None:
    report = listed(dump)
    table = next(table for table in report.tables if table.name == "kernel_kinds")
    rows = zip(column(table, "kernel_kind"), column(table, "kernels"), strict=True)
    kernels = sum(number for kind, number in rows if kind != "transfer" and isinstance(number, int))
    assert kernels == report.numbers["kernels"]
    assert not {"unknown", "?"} & set(column(table, "kernel_kind"))


@pytest.mark.parametrize("dump", GPU, ids=str)
def test_library_calls_are_told_by_their_targets(dump: Dump) -> None:
    wanted = Counter({"cublas": "cuBLAS", "cudnn": "cuDNN"}[name] for name in _LIBRARY.findall(dump.text))
    found = Counter(
        k.backend.provider
        for k in kernels_of(module(dump))
        if k.backend.kind == "library" and k.backend.provider.startswith("cu")
    )
    assert {name.removesuffix("Lt"): number for name, number in found.items()} == wanted


@dumps
def test_rules_hold_for_what_compilers_write(dump: Dump) -> None:
    assert list(verify_fusions(module(dump))) == []


@dumps
def test_a_body_is_drawn_whole_and_every_operation_once(dump: Dump) -> None:
    for each in fusions(dump)[:20]:
        table = report_of_fusion(loaded(dump), each.name, timing=None).main_table
        rows = zip(column(table, "instruction"), column(table, "note"), strict=True)
        drawn = Counter(name for name, note in rows if note != "(shown above)")
        short = {i.name for i in each.body.instructions if i.opcode in ("constant", "parameter")}
        wanted = {i.name for i in each.body.instructions} - short
        assert wanted <= set(drawn)
        repeated = {name for name, number in drawn.items() if number > 1} - short
        assert all(is_of_constants(each, str(name)) for name in repeated)


def is_of_constants(fusion: Fusion, name: str) -> bool:
    """Whether an operation takes nothing but short constants: it is drawn in one line wherever it is used."""
    instruction = fusion.body.instruction(name)
    return instruction is not None and all(operand.opcode == "constant" for operand in instruction.operands)


@dumps
def test_what_is_read_of_parameters_and_constants_is_what_the_fusion_reads(dump: Dump) -> None:
    for each in fusions(dump)[:20]:
        if each.kind == "kCustom":
            continue
        table = report_of_fusion(loaded(dump), each.name, timing=None).main_table
        rows = zip(column(table, "instruction"), column(table, "outside"), column(table, "bytes"), strict=True)
        read = {name: size for name, outside, size in rows if outside is not None and isinstance(size, int)}
        constants = sum(
            i.shape.logical_bytes for i in each.body.instructions if i.opcode == "constant" and "[]" not in str(i.shape)
        )
        assert each.read_bytes - constants <= sum(read.values()) <= each.read_bytes


@dumps
def test_costs_are_listed_as_they_are_counted(dump: Dump) -> None:
    report = report_of_costs(loaded(dump), as_xla=False, within=None, where=None, timing=None, argument="")
    total = computation_cost(module(dump).entry, rules=EXACT)
    assert report.numbers["properties"] == dict(total.properties)
    table = report.main_table
    assert len(table.rows) == len(module(dump).entry.instructions)
    sums = dict(zip([c.name for c in table.columns], table.total_of(table.rows), strict=True))
    has_unknown = UNKNOWN in column(table, "flops")
    assert sums["flops"] == (UNKNOWN if has_unknown else total.flops)
    assert sums["bytes"] == (UNKNOWN if has_unknown else total.bytes_accessed)
    assert sums["unknown_costs"] == total.unknown
    assert report.numbers["flops"] == total.flops


@pytest.mark.oracle
def test_costs_as_xla_counts_are_what_xla_says() -> None:
    prelude = """
from jaxlib import _jax, xla_client
client = xla_client.make_cpu_client()
"""
    question = "dict(_jax.hlo_module_cost_analysis(client, module))"
    compared = 0
    for dump, said in zip(DUMPS, ask_xla([dump.text for dump in DUMPS], question, prelude=prelude), strict=True):
        if isinstance(said, dict):
            compared += 1
            report = report_of_costs(loaded(dump), as_xla=True, within=None, where=None, timing=None, argument="")
            shown = report.numbers["properties"]
            assert isinstance(shown, dict)
            # since jaxlib 0.11, the client for CPUs counts 4 bytes for each element of a tuple, and padding of tiles
            unlike = ("bytes accessed",) if IS_NEWER_XLA else ()
            theirs = {name: value for name, value in said.items() if value and not name.startswith(unlike)}
            assert theirs == {name: value for name, value in shown.items() if not name.startswith(unlike)}
    assert compared >= len(DUMPS) // 2


@dumps
def test_costs_are_columns_and_fields_where_they_are_asked_for(dump: Dump) -> None:
    costs = cost_analysis(module(dump))
    fields = instruction_fields(module(dump)).readers
    table = report_of_instructions(loaded(dump), columns=("bytes",)).main_table
    assert "flops" not in [each.name for each in report_of_instructions(loaded(dump)).main_table.columns]
    rows = zip(module(dump).instructions, *(column(table, name) for name in COSTS), strict=True)
    for instruction, *cells in rows:
        cost = costs[instruction]
        if cost.unknown:
            assert cells == [UNKNOWN] * len(COSTS)
            continue
        assert cells == [cost.flops, cost.transcendentals, cost.bytes_accessed, cost.intensity]
        assert cells == [fields[name].read(instruction) for name in COSTS]


@dumps
def test_other_commands_have_costs_of_their_instructions_too(dump: Dump) -> None:
    found = cost_analysis(module(dump)).items()
    costs = {instruction.name: UNKNOWN if cost.unknown else cost.flops for instruction, cost in found}
    values = report_of_dump(loaded(dump), grouping="instruction", columns=("flops",)).main_table
    assert column(values, "flops") == [costs[str(name).partition("{")[0]] for name in column(values, "instruction")]
    overlap = analyze_overlap(module(dump))
    steps = report_of_steps(loaded(dump), overlap, space=None, within=None, where=None, columns=("flops",)).main_table
    assert column(steps, "flops") == [costs[str(name)] for name in column(steps, "instruction")]
    dear = report_of_steps(loaded(dump), overlap, space=None, within=None, where="flops > 100").main_table
    assert len(dear.rows) == sum(isinstance(flops, int) and flops > 100 for flops in column(steps, "flops"))


@dumps
def test_products_are_listed_with_their_flops(dump: Dump) -> None:
    found = matmuls_of(module(dump))
    table = report_of_dots(loaded(dump), within=None, where=None, timing=None).main_table
    assert Counter(column(table, "instruction")) == Counter(each.instruction.name for each in found)
    for row in table.rows:
        flops, *sizes = (number_of(row[table.column_index(name)]) or 0 for name in ("flops", "batch", "m", "n", "k"))
        product = 2 * prod(sizes)
        assert flops == product if row[table.column_index("kind")] in ("dot", "cuBLAS") else flops <= product


@dumps
def test_times_are_the_longer_of_both_bounds(dump: Dump) -> None:
    timing = TimingColumns(chip_spec("v5e"))
    table = report_of_fusions(loaded(dump), within=None, where=None, timing=timing, argument="").main_table
    memory, module = timing.throughput.memory.per_second, loaded(dump).module
    for row in table.rows:
        seconds, read, written = (
            number_of(row[table.column_index(n)]) for n in ("estimated_seconds", "read_bytes", "written_bytes")
        )
        if seconds is not None and read is not None and written is not None:
            bound = row[table.column_index("bottleneck")]
            name = str(row[table.column_index("fusion")])
            kernel = next(each for each in module.instructions if each.name == name)
            in_vmem = vmem_bytes(kernel, cost_of(kernel)) if target_of(module) == "tpu" else 0
            moved = (read + written - in_vmem) / memory
            assert seconds >= moved * (1 - 1e-9)
            if bound == "memory" and seconds > TPU_FLOOR_SECONDS:
                assert seconds <= (read + written) / memory * TPU_MATMUL_FACTOR * (1 + 1e-9)


BODY = "f { a = f32[8,4] parameter(0)  ROOT n = f32[8,4] negate(a) }"
BROKEN = {
    "fusion-callers": f"{BODY} ENTRY e {{ p = f32[8,4] parameter(0)  x = f32[8,4] fusion(p), kind=kLoop, calls=f"
    "  ROOT y = f32[8,4] fusion(x), kind=kLoop, calls=f }",
    "fusion-parameters": f"{BODY} ENTRY e {{ p = f32[4,8] parameter(0)  ROOT x = f32[8,4] fusion(p), kind=kLoop, calls=f }}",
    "fusion-result": f"{BODY} ENTRY e {{ p = f32[8,4] parameter(0)  ROOT x = f32[32] fusion(p), kind=kLoop, calls=f }}",
    "fusion-root": "f { a = f32[8] parameter(0)  ROOT n = f32[8] negate(a)"
    '  t = f32[] custom-call(n), custom_call_target="taker" }'
    " ENTRY e { p = f32[8] parameter(0)  ROOT x = f32[8] fusion(p), kind=kLoop, calls=f }",
    "fusion-unused": "f { a = f32[8] parameter(0)  t = f32[8] tanh(a)  ROOT n = f32[8] negate(a) }"
    " ENTRY e { p = f32[8] parameter(0)  ROOT x = f32[8] fusion(p), kind=kLoop, calls=f }",
    "fusion-inside": "f { a = f32[8] parameter(0)  t = token[] after-all()  o = token[] outfeed(a, t)"
    "  ROOT n = f32[8] negate(a) } ENTRY e { p = f32[8] parameter(0)  ROOT x = f32[8] fusion(p), kind=kLoop, calls=f }",
    "fusion-control": "f { a = f32[8] parameter(0)  t = f32[8] tanh(a)"
    "  ROOT n = f32[8] add(a, t), control-predecessors={t} }"
    " ENTRY e { p = f32[8] parameter(0)  ROOT x = f32[8] fusion(p), kind=kLoop, calls=f }",
    "fusion-kernels": "f { a = f32[8,8] parameter(0)  c = f32[8,8] cholesky(a), lower=true"
    "  ROOT d = f32[8,8] cholesky(c), lower=true }"
    " ENTRY e { p = f32[8,8] parameter(0)  ROOT x = f32[8,8] fusion(p), kind=kCustom, calls=f }",
    "fusion-aliasing": f"{BODY} ENTRY e {{ p = f32[8,4] parameter(0)  ROOT x = f32[8,4] fusion(p), kind=kLoop, calls=f,"
    " output_to_operand_aliasing={{}: (1, {})} }",
}
ODD = {
    "fusion-kind": f"{BODY} ENTRY e {{ p = f32[8,4] parameter(0)  ROOT x = f32[8,4] fusion(p), kind=kOutput, calls=f }}",
    "fusion-parameters": f"{BODY} ENTRY e {{ p = f32[8,4] parameter(0)  ROOT x = f32[8,4] fusion(p, p), kind=kLoop, calls=f }}",
    "fusion-outputs": "f { a = f32[8] parameter(0)  n = f32[8] negate(a)  ROOT t = (f32[8], f32[8]) tuple(a, n) }"
    " ENTRY e { p = f32[8] parameter(0)  x = (f32[8], f32[8]) fusion(p), kind=kLoop, calls=f"
    '  ROOT c = f32[] custom-call(x), custom_call_target="taker" }',
}


@pytest.mark.parametrize(("code", "text"), BROKEN.items(), ids=BROKEN)
def test_every_rule_is_noticed_when_broken_and_nothing_else(code: str, text: str) -> None:
    found = list(verify_fusions(parse_module(f"HloModule m  {text}")))
    assert {(each.code, each.severity) for each in found} == {(code, "error")}
    assert all(each.span is not None for each in found)


@pytest.mark.parametrize(("code", "text"), ODD.items(), ids=ODD)
def test_what_is_odd_is_a_warning(code: str, text: str) -> None:
    found = list(verify_fusions(parse_module(f"HloModule m  {text}")))
    assert {(each.code, each.severity) for each in found} == {(code, "warning")}


def test_a_text_without_operands_is_not_judged() -> None:
    text = BROKEN["fusion-result"].replace("negate(a)", "negate()").replace("fusion(p)", "fusion()")
    assert list(verify_fusions(parse_module(f"HloModule m  {text}"))) == []


@dumps
def test_texts_that_leave_out_operands_are_listed_all_the_same(dump: Dump, tmp_path: Path) -> None:
    path = tmp_path / "cut.hlo"
    path.write_text(_OPERANDS.sub("()", dump.text), encoding="utf-8")
    cut = load_one([str(path)], InputOptions())
    report = report_of_fusions(cut, within=None, where=None, timing=None, argument="")
    assert report.numbers["fusions"] == len(fusions(dump))
    for name in column(report.main_table, "fusion")[:20]:
        assert report_of_fusion(cut, str(name), timing=None).main_table.rows


def test_copies_into_buffers_of_their_own_are_no_heroes() -> None:
    text = "ENTRY f { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT c = f32[9] copy(n) }"
    assert [hero.opcode for hero in heroes_of(parse_module(text).entry)] == ["negate"]


def test_a_body_that_fuses_itself_is_an_error_and_no_endless_tale() -> None:
    text = "HloModule m  f { a = f32[2] parameter(0)  ROOT x = f32[2] fusion(a), kind=kLoop, calls=f }"
    found = parse_module(
        f"{text} ENTRY e {{ p = f32[2] parameter(0)  ROOT r = f32[2] fusion(p), kind=kLoop, calls=f }}"
    )
    assert [error.message for error in found.errors] == ["x: recursive call of f"]
    assert [each.name for each in fusions_of(found)] == ["r"]


GATHERS = """HloModule m, is_scheduled=true
f { t = f32[1000,128]{1,0} parameter(0)  i = s32[4]{0} parameter(1)  one = s32[] constant(1)
  ones = s32[4]{0} broadcast(one), dimensions={}  j = s32[4]{0} add(i, ones)
  ROOT g = f32[4,128]{1,0} gather(t, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,128} }
ENTRY e { t = f32[1000,128]{1,0} parameter(0)  i = s32[4]{0} parameter(1)
  ROOT r = f32[4,128]{1,0} fusion(t, i), kind=kLoop, calls=f }"""


def test_a_fused_gather_reads_the_rows_that_it_takes() -> None:
    """XLA counts the whole table, which would make a lookup the most expensive line, and fusion add traffic."""
    gathers = parse_module(GATHERS)
    rows, indices = 4 * 128 * 4, 4 * 4
    assert execution_cost(gathers).bytes == 2 * rows + indices
    assert computation_cost(gathers.entry).bytes_accessed == 1000 * 128 * 4 + rows + indices
    (fusion,) = fusions_of(gathers)
    assert (fusion.read_bytes, fusion.written_bytes) == (rows + indices, rows)
    # The indices are computed, written, and read again without fusion.
    assert fusion.saved_bytes == 4 + 3 * indices + indices
    by_many = GATHERS.replace("s32[4]", "s32[4000]").replace("[4,128]", "[4000,128]")
    assert execution_cost(parse_module(by_many)).bytes == 1000 * 128 * 4 + 4000 * (128 + 1) * 4


def test_what_xla_counts_is_before_padding_and_without_kernels() -> None:
    """libtpu's own totals have padding; XLA counts -1 for a Pallas kernel, of which one execution has the body."""
    kernels = load_one([str(FIXTURES / "tpu/v5e_kernels")], InputOptions()).module
    words = other_totals(kernels)
    assert re.match(r"XLA counts .*[0-9.,]+ [KMG]?i?B without padding: ", words)
    assert "custom calls" in words
    truth = json.loads((FIXTURES / "tpu/v5e_kernels/truth.json").read_text())["cost_analysis"]
    flops, accessed = xla_totals(kernels)
    # libtpu adds padding to the bytes; the estimate of the kernel's author is in both.
    assert flops == truth["flops"] != execution_cost(kernels).flops
    assert 0 < accessed <= truth["bytes accessed"]

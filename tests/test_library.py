"""The library as Python programs meet it: brief `repr`s, items, names in place of values, and errors that help."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import hlo_cli as hlo
from dumps import FIXTURES
from hlo_cli.dataclass import MAX_REPR

LIBRARY: Any = hlo
"""The library without its types, for arguments of wrong ones."""
CONV, COLLECTIVES, MLP, SCAN = (
    FIXTURES / name for name in ("tpu/v5e_conv", "tpu/v5e_collectives", "gpu/h100_mlp", "tpu/v5p_scan")
)
KERNELS = FIXTURES / "tpu/v6e_kernels"
TRACE = FIXTURES / "traces/cpu/trace.xplane.pb"
ALIKE = 40
"""Items of a container that are visited: the rest are of the same types."""
DEEPEST = 7
"""Steps from a result to a value that is visited; no type was found further away that is not nearer too."""

OF_MODULE = (
    hlo.analyze_overlap,
    hlo.collectives_of,
    hlo.cost_analysis,
    hlo.custom_calls_of,
    hlo.fuse,
    hlo.fusions_of,
    hlo.kernels_of,
    hlo.lint,
    hlo.matmuls_of,
    hlo.memory_analysis,
    hlo.module_cost,
    hlo.normalize,
    hlo.report,
    hlo.sugar,
    hlo.unfuse,
)


@cache
def module_of(path: Path) -> Any:
    return hlo.load(path)


def results() -> Iterator[object]:
    """What public functions return on real dumps."""
    for path in (CONV, COLLECTIVES, MLP, SCAN):
        module = module_of(path)
        yield module
        yield from (function(module) for function in OF_MODULE)
        yield hlo.estimate_time(module, "h100")
        yield hlo.diff(module, module_of(CONV))
        yield from (*hlo.verify_async(module), *hlo.verify_fusions(module))
        yield hlo.reorder(module, "dfs") if module is not module_of(SCAN) else None
    yield from hlo.scan([MLP])
    yield hlo.run(module_of(MLP))
    sine = hlo.parse_module("ENTRY e { p = f32[9] parameter(0)  ROOT n = f32[9] sine(p) }")
    yield hlo.compare_runs(sine, sine)
    yield hlo.shards("f32[8,128]{1,0:T(8,128)}", "{devices=[2,4]<=[8]}")
    yield hlo.reshard("f32[8,128]", "{devices=[2,4]<=[8]}", "{devices=[4,2]<=[8]}")
    yield from map(hlo.parse_shape, ("b(f32[3])", "token[]", "opaque[]", "(f32[8], (s8[2], token[]))"))
    yield from (hlo.chip_spec("h100"), hlo.LintSettings(), hlo.CostOptions(), hlo.HloError("no"))
    profile = hlo.profile(TRACE)
    yield from hlo.pallas_kernels_of(module_of(KERNELS))
    yield from (hlo.read_trace(TRACE), profile, hlo.compare_profiles(profile, profile), hlo.operation_measures(profile))


def reachable(values: Iterable[object]) -> Iterator[object]:
    """The values of the package that public attributes and items lead to, each once."""
    seen: dict[int, object] = {}
    waiting = [(value, 0) for value in values]
    while waiting:
        value, depth = waiting.pop()
        if id(value) in seen or depth > DEEPEST or isinstance(value, str | bytes | int | float | type | None):
            continue
        seen[id(value)] = value  # kept, so that no other value gets its id
        inner: list[object] = []
        if isinstance(value, Mapping):
            inner = [each for pair in [*value.items()][:ALIKE] for each in pair]
        elif isinstance(value, list | tuple | set | frozenset):
            inner = [*value][:ALIKE]
        kind: type = type(value)
        if kind.__module__.startswith("hlo_cli"):
            yield value
            inner += [getattr(value, name) for name in public_attributes(kind)]
        waiting += [(each, depth + 1) for each in inner]


@cache
def public_attributes(kind: type) -> tuple[str, ...]:
    """The names of fields and properties, without methods, and without what reads files or costs a whole analysis."""
    slow = {"statistics", "kinds", "events", "begins_ps", "programs"} if kind.__module__.endswith("trace") else set()
    names = {*getattr(kind, "__dataclass_fields__", ()), *(name for name in dir(kind) if is_value(kind, name))}
    return tuple(sorted(name for name in names if not name.startswith("_") and name not in slow))


def is_value(kind: type, name: str) -> bool:
    found = inspect.getattr_static(kind, name)
    return not name.startswith("_") and not isinstance(found, staticmethod | classmethod) and not callable(found)


@cache
def visited() -> dict[type, list[object]]:
    """The values of each type."""
    found: dict[type, list[object]] = {}
    for value in reachable(results()):
        found.setdefault(type(value), []).append(value)
    return found


def public_types() -> list[type]:
    return [value for name in hlo.__all__ if isinstance(value := getattr(hlo, name), type)]


def test_the_walk_meets_every_public_type() -> None:
    unmet = set(public_types()) - {kind for found in visited() for kind in found.__mro__}
    assert {kind.__name__ for kind in unmet} == {"UnknownShape"}, "of a damaged text alone"
    assert len(visited()) > 120, "the types of the package that lead to others were met too"


def test_every_repr_is_brief() -> None:
    long = {
        f"{kind.__module__}.{kind.__name__}": text
        for kind, values in visited().items()
        for value in values
        if len(text := repr(value)) > MAX_REPR
    }
    assert long == {}


PYTHONS = {
    "Instruction",  # made by the hundred thousand, so their operands and attributes are plain tuples
    "TupleShape",  # as are the shapes of tuples
    "Computation.by_id",
    "Computation.operand_indices",
    "ScanRecord.numbers",
    "Run.result",  # arrays
    "Run.ran",
    "OverlapAnalysis.members",
    "Cost.properties",
    "ChipSpec.flops",
    "Report.numbers",
}
"""Containers of Python's own in public attributes: few items, or none that a person would look at."""


def test_the_containers_in_public_attributes_are_brief() -> None:
    long = {
        f"{kind.__name__}.{name}": len(text)
        for kind in public_types()
        for value in visited().get(kind, ())
        for name in public_attributes(kind)
        if {kind.__name__, f"{kind.__name__}.{name}"}.isdisjoint(PYTHONS)
        and isinstance(inner := getattr(value, name), tuple | list | Mapping | set | frozenset)
        and len(text := repr(inner)) > MAX_REPR
    }
    assert long == {}


@pytest.mark.parametrize("kind", [each for each in public_types() if each not in (hlo.Instruction, hlo.HloError)])
def test_a_repr_names_its_type(kind: type) -> None:
    """Those of instructions name their opcode instead, which is what they are in HLO."""
    for value in visited().get(kind, ()):
        if not (isinstance(value, dict | tuple) and type(value).__name__ in ("ByInstruction", "Items")):
            assert kind.__name__ in repr(value)


def test_a_repr_is_brief_however_long_the_names() -> None:
    name = "n" * 5000
    module = hlo.parse_module(f"HloModule {name}  {name}x {{ ROOT {name}p = f32[2] negate(f32[2] q) }}")
    for value in (module, module.entry, module.entry.root, hlo.memory_analysis(module), hlo.kernels_of(module)):
        assert len(repr(value)) <= MAX_REPR
        assert "…" in repr(value)
    assert repr(module.source) == f"<Source text: {len(module.source.text):,} characters>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lambda: module_of(MLP), "<Module jit_step: 22 computations, 193 instructions>"),
        (lambda: module_of(MLP).entry, "<Computation main.16: 24 instructions>"),
        (lambda: module_of(MLP)["loop_add_fusion"], "<fusion loop_add_fusion>"),
        (lambda: hlo.parse_shape("f32[7]{0}"), "<ArrayShape f32[7]{0}>"),
        (lambda: hlo.kernels_of(module_of(MLP)), "KernelList(Kernel(instruction=<"),
        (lambda: hlo.cost_analysis(module_of(MLP))["loop_add_fusion"], "<Cost 1,080 flops, 3,240 bytes accessed>"),
        (lambda: hlo.chip_spec("h100"), "<ChipSpec h100: "),
        (lambda: hlo.lint(module_of(COLLECTIVES))[0], "<Finding HLO"),
        (lambda: module_of(MLP).computations, "(<Computation "),
    ],
)
def test_a_repr_says_what_it_is(value: Callable[[], object], text: str) -> None:
    assert repr(value()).startswith(text)


# --- items and names ---


def test_a_module_is_its_instructions() -> None:
    module = module_of(MLP)
    assert len(module) == module.instruction_count == len(list(module))
    assert list(module) == [each for computation in module.computations for each in computation]
    assert all(each in module and each in each.computation for each in module)
    assert module.entry in module
    assert module_of(CONV).entry.root not in module


def test_names_select_instructions_and_computations() -> None:
    module = module_of(MLP)
    entry = module.entry
    for instruction in entry:
        assert module[instruction.name] is module["%" + instruction.name] is entry[instruction.name] is instruction
        assert module[f"{entry.name}/{instruction.name}"] is instruction
        assert instruction.name in module
        assert instruction.name in entry
    assert module[entry.name] is entry
    assert entry[0] is entry.instructions[0]
    assert entry[-2:] == entry.instructions[-2:]


def test_a_name_of_several_computations_is_that_of_the_entry() -> None:
    text = "f { p = f32[] parameter(0)  ROOT q = f32[] negate(p) }  ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] map(p), to_apply=f }"
    module: Any = hlo.parse_module(f"HloModule m  {text}")
    assert module["p"].computation is module.entry
    assert module["f/p"].computation is module["f"]
    costs = hlo.cost_analysis(module)
    assert costs["p"] is costs[module.entry["p"]]


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (
            lambda m: m["loop_ad_fusion"],
            "no instruction or computation 'loop_ad_fusion'; did you mean 'loop_add_fusion'?",
        ),
        (
            lambda m: m.entry["loop_ad_fusion"],
            "no instruction of main.16 called 'loop_ad_fusion'; did you mean 'loop_add_fusion'?",
        ),
        (
            lambda m: hlo.kernels_of(m)["loop_ad_fusion"],
            "no result for the instruction 'loop_ad_fusion'; did you mean 'loop_add_fusion'?",
        ),
        (
            lambda m: hlo.cost_analysis(m)["loop_ad_fusion"],
            "no instruction 'loop_ad_fusion'; did you mean 'loop_add_fusion'?",
        ),
        (
            lambda m: m["x" * 900],
            (
                f"no instruction or computation '{'x' * 39}…{'x' * 18}'; module.instructions has all "
                f"{module_of(MLP).instruction_count}, and module.where(...) finds some"
            ),
        ),
    ],
)
def test_a_wrong_name_is_a_key_error_with_the_nearest(select: Callable[[hlo.Module], object], message: str) -> None:
    with pytest.raises(KeyError) as caught:
        select(module_of(MLP))
    assert caught.value.args == (message,)


def test_users_are_the_inverse_of_operands() -> None:
    for instruction in module_of(MLP):
        for user in instruction.users:
            assert instruction in user.operands
        for operand in instruction.operands:
            assert operand.users.count(instruction) == 1


def test_a_source_is_a_line_of_the_users_program() -> None:
    """The call stack of this fusion is models.py:42, then models.py:46; a frame of a library in front is skipped."""
    assert str(module_of(MLP)["loop_broadcast_fusion"].source) == "models.py:42"
    stack = "StackFrames\n1 {file_location_id=1 parent_frame_id=2}\n2 {file_location_id=2 parent_frame_id=1}"
    files = 'FileNames\n1 "/x/site-packages/jax/numpy.py"\n2 "model.py"\n\nFunctionNames\n1 "f"\n\nFileLocations\n'
    places = "".join(
        f"{n} {{file_name_id={n} function_name_id=1 line={n} end_line={n} column=1 end_column=2}}\n" for n in (1, 2)
    )
    text = "ENTRY e { ROOT p = f32[2] parameter(0), metadata={stack_frame_id=1} }"
    module: Any = hlo.parse_module(
        f"HloModule m\n\n{files}{places}\n{stack.replace('parent_frame_id=2', 'parent_frame_id=3')}\n\n{text}"
    )
    assert str(module["p"].source) == "model.py:2"
    assert str(module.location("p")) == "/x/site-packages/jax/numpy.py:1"
    module = hlo.parse_module(text.replace("stack_frame_id=1", ""))
    assert module["p"].source is None


def test_completion_offers_no_parts_of_readers() -> None:
    offered = dir(module_of(MLP))
    assert {"where", "entry", "computations", "to_html"} <= set(offered)
    assert [name for name in offered if name.startswith("read_")] == []


def test_where_is_the_filter_of_the_commands() -> None:
    module = module_of(MLP)
    costs = hlo.cost_analysis(module)
    assert module.where("opcode == fusion and flops > 1e3") == tuple(
        each for each in module if each.opcode == "fusion" and costs[each].flops > 1e3
    )
    assert module.where("opcode == sort") == ()
    with pytest.raises(hlo.HloError, match="did you mean 'opcode'"):
        module.where("opcod == dot")


def test_the_graph_has_every_operand_and_call() -> None:
    if find_spec("networkx") is None:
        pytest.skip("networkx is not installed")
    from networkx import is_directed_acyclic_graph

    module = module_of(MLP)
    graph = module.to_networkx()
    assert graph.number_of_nodes() == len(module)
    assert is_directed_acyclic_graph(graph)
    fusion = module["loop_add_fusion"]
    assert {name for name, _ in graph.in_edges(fusion.name)} == {
        *(operand.name for operand in fusion.operands),
        fusion.called_computations[0].root.name if fusion.called_computations[0].root else "",
    }
    assert graph.nodes[fusion.name]["shape"] == "f32[9,30]{1,0}"
    assert module.to_networkx(module.entry.name).number_of_nodes() == len(module.entry)


def test_the_graph_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match="pip install networkx"):
        module_of(MLP).to_networkx()


def test_pages_are_written(tmp_path: Path) -> None:
    module = module_of(MLP)
    for value, words in (
        (module, "HBM peaks"),
        (hlo.memory_analysis(module), "HBM"),
        (hlo.report(module), "HBM peaks"),
    ):
        value.to_html(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert page.startswith("<!DOCTYPE html>")
        assert words in page


# --- names and texts in place of values ---


def names_and_values() -> Iterator[tuple[str, object, object]]:
    """What a name or a text gives, and what the value that it stands for gives."""
    module = module_of(MLP)
    memory, fusion = hlo.memory_analysis(module), module["loop_add_fusion"]
    overlap, shape = hlo.analyze_overlap(module), hlo.parse_shape("f32[8,128]{1,0:T(8,128)}")
    sharding = hlo.sharding_of("{devices=[2,4]<=[8]}")
    step = memory.positions[fusion]
    yield "estimate_time", hlo.estimate_time(overlap, "H100"), hlo.estimate_time(overlap, hlo.chip_spec("h100"))
    yield (
        "estimate_time of a module",
        hlo.estimate_time(module, "h100").seconds,
        hlo.estimate_time(overlap, "h100").seconds,
    )
    yield "lint", hlo.lint(module, chip="h100"), hlo.lint(module, chip=hlo.chip_spec("h100"))
    yield "live_at", memory.live_at("loop_add_fusion"), memory.live_at(step)
    yield "live_at of an instruction", memory.live_at(fusion), memory.live_at(step)
    yield "live_at of a space", memory.spaces[0].live_at("loop_add_fusion"), memory.spaces[0].live_at(step)
    yield "positions", memory.positions["loop_add_fusion"], step
    yield "space", memory.space("HBM"), memory.space(0)
    yield "values_of", memory.values_of("loop_add_fusion"), memory.values_of(fusion)
    [value] = memory.values_of(fusion)
    yield "holders_of", memory.holders_of("loop_add_fusion"), memory.holders_of(value)
    yield "allocation_of", memory.allocation_of("%loop_add_fusion"), memory.allocation_of(value)
    yield "extract", str(hlo.extract(module, "loop_add_fusion")), str(hlo.extract(module, fusion))
    yield "infer_shape", hlo.infer_shape("loop_add_fusion", module), hlo.infer_shape(fusion, module)
    yield "location", module.location("loop_add_fusion"), module.location(fusion)
    yield "instruction", module.instruction(fusion), module.instruction("loop_add_fusion")
    yield "computation", module.computation(module.entry), module.computation("main.16")
    yield "unfuse", str(hlo.unfuse(module, "loop_add_fusion")), str(hlo.unfuse(module, [fusion]))
    yield "shards", hlo.shards(str(shape), str(sharding)), hlo.shards(shape, sharding)
    yield "shards of a spec", hlo.shards("f32[8]", "{devices=[2]<=[2]}")[1].starts, (4,)
    yield (
        "reshard",
        hlo.reshard(str(shape), str(sharding), "{replicated}").steps,
        hlo.reshard(shape, sharding, hlo.sharding_of("{replicated}")).steps,
    )
    yield "linear_index", hlo.linear_index(str(shape), (1, 2)), hlo.linear_index(shape, (1, 2))
    yield "element_at", hlo.element_at(str(shape), 130), hlo.element_at(shape, 130)
    yield "address_map", hlo.address_map(str(shape)).tolist(), hlo.address_map(shape).tolist()
    yield "untiled_index", hlo.untiled_index("f32[3,5]{0,1}", (2, 3)), 11
    yield "untiled_element_at", hlo.untiled_element_at("f32[3,5]{0,1}", 11), (2, 3)
    small: Any = hlo.parse_module("ENTRY e { p = f32[2] parameter(0)  t = f32[2] tanh(p)  ROOT n = f32[2] negate(t) }")
    by_name, by_value = (LIBRARY.run(small, [[1, 2]], watch=watch).watched for watch in ("t", [small["t"]]))
    yield "run", by_name[small["t"]][0].tolist(), by_value[small["t"]][0].tolist()
    yield "fuse_pair", str(hlo.fuse_pair(small, "t", "n")), str(hlo.fuse_pair(small, small["t"], small["n"]))
    yield "scan", [each.module for each in hlo.scan(str(MLP))], [each.module for each in hlo.scan([MLP])]


@cache
def given() -> dict[str, tuple[Any, Any]]:
    return {name: (by_name, by_value) for name, by_name, by_value in names_and_values()}


@pytest.mark.parametrize("name", [name for name, *_ in names_and_values()])
def test_a_name_stands_for_its_value(name: str) -> None:
    by_name, by_value = given()[name]
    assert by_name == by_value
    assert by_name is not None


# --- errors ---


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda m: LIBRARY.memory_analysis("dump/"),
            TypeError,
            "memory_analysis: expected a module, found the str 'dump/': use hlo_cli.load('dump/')",
        ),
        (lambda m: LIBRARY.kernels_of(None), TypeError, "kernels_of: expected a module, found None: see hlo_cli.load"),
        (
            lambda m: LIBRARY.verify_async(3),
            TypeError,
            "verify_async: expected a module, found the int 3: see hlo_cli.load",
        ),
        (
            lambda m: LIBRARY.lint("x"),
            TypeError,
            "lint_module: expected a module, found the str 'x': use hlo_cli.load('x')",
        ),
        (
            lambda m: LIBRARY.report("x"),
            TypeError,
            "report: expected a module, found the str 'x': use hlo_cli.load('x')",
        ),
        (
            lambda m: LIBRARY.diff(m, "x"),
            TypeError,
            "diff: expected a module, found the str 'x': use hlo_cli.load('x')",
        ),
        (
            lambda m: LIBRARY.compare_runs(m, 3),
            TypeError,
            "compare_runs: expected a module, found the int 3: see hlo_cli.load",
        ),
        (
            lambda m: LIBRARY.estimate_time(m, "h1000"),
            hlo.HloError,
            "error: unknown chip 'h1000'\n  help: did you mean 'h100'?",
        ),
        (
            lambda m: LIBRARY.estimate_time(m, 3),
            TypeError,
            'expected a chip or its name, found the int 3: such as "h100"',
        ),
        (
            lambda m: LIBRARY.estimate_time("x", "h100"),
            TypeError,
            "expected an overlap analysis or a module, found the str 'x': use hlo_cli.analyze_overlap(module)",
        ),
        (
            lambda m: LIBRARY.linear_index("f32[2", (0,)),
            hlo.HloError,
            "1:6: error: expected ']' after the sizes, found end of input",
        ),
        (
            lambda m: LIBRARY.linear_index(3, (0,)),
            TypeError,
            'expected a shape or its text, found the int 3: such as "f32[8,128]{1,0}"',
        ),
        (
            lambda m: LIBRARY.shards("f32[8]", 3),
            TypeError,
            'expected a sharding or its text, found the int 3: such as "{devices=[2,4]<=[8]}"',
        ),
        (
            lambda m: LIBRARY.shards("f32[8]", "{{replicated}, {replicated}}"),
            hlo.HloError,
            "error: a tuple of shardings is of a tuple, not of an array\n  help: pass the sharding of each element",
        ),
        (
            lambda m: m[0],
            TypeError,
            "expected the name of an instruction or a computation, found the int 0: module.entry[0] and list(module)[0] are instructions by number",
        ),
        (lambda m: m.instruction(3), TypeError, "expected an instruction or its name, found the int 3"),
        (lambda m: m.computation(3), TypeError, "expected a computation or its name, found the int 3"),
        (
            lambda m: m.where(3),
            TypeError,
            'expected an expression, found the int 3: such as "opcode == dot and flops > 1e9"',
        ),
        (
            lambda m: LIBRARY.infer_shape("x"),
            TypeError,
            "expected an instruction, found the str 'x': with a name, pass its module too",
        ),
        (
            lambda m: LIBRARY.extract(m, "loop_ad_fusion"),
            hlo.HloError,
            "error: instruction 'loop_ad_fusion' not found in jit_step\n  help: did you mean 'loop_add_fusion'?",
        ),
        (
            lambda m: LIBRARY.run(m, watch="loop_ad_fusion"),
            hlo.HloError,
            "error: instruction 'loop_ad_fusion' not found in jit_step\n  help: did you mean 'loop_add_fusion'?",
        ),
        (
            lambda m: LIBRARY.memory_analysis(m).live_at("fused_broadcast"),
            hlo.HloError,
            "error: instruction 'fused_broadcast' not found in jit_step\n  help: did you mean",
        ),
        (
            lambda m: LIBRARY.memory_analysis(m).live_at("parameter_0"),
            hlo.HloError,
            "which has no steps of its own\n  help: name the instruction that calls it",
        ),
        (
            lambda m: LIBRARY.memory_analysis(m).spaces[0].live_at("loop_ad_fusion"),
            hlo.HloError,
            "error: loop_ad_fusion has no value in HBM\n  help: did you mean 'loop_add_fusion'?",
        ),
        (
            lambda m: LIBRARY.memory_analysis(m).live_at(1.5),
            TypeError,
            "expected an instruction or its name, found the float 1.5",
        ),
        (lambda m: LIBRARY.memory_analysis(m, generation="v9"), hlo.HloError, "error: unknown TPU generation 'v9'"),
        (
            lambda m: LIBRARY.memory_analysis(m, target="x"),
            hlo.HloError,
            "error: unknown target 'x'\n  help: available: cpu, gpu, tpu",
        ),
        (
            lambda m: LIBRARY.reorder(m, "memroy"),
            hlo.HloError,
            "error: unknown goal 'memroy'\n  help: did you mean 'memory'?",
        ),
        (lambda m: LIBRARY.lint(m, 3), TypeError, "expected LintSettings, found the int 3"),
        (lambda m: LIBRARY.lint(m, LIBRARY.LintSettings(select=("HLOX",))), hlo.HloError, "error: unknown rule 'HLOX'"),
        (lambda m: LIBRARY.fuse(m, 3), TypeError, "expected FusionRules, found the int 3"),
        (lambda m: LIBRARY.cost_analysis(m, rules=3), TypeError, "expected CostOptions, found the int 3"),
        (
            lambda m: LIBRARY.compare_profiles(m, m),
            TypeError,
            "expected a profile, found the Module <Module jit_step: ",
        ),
        (lambda m: LIBRARY.operation_measures(m), TypeError, "expected a profile, found the Module <Module jit_step: "),
        (lambda m: LIBRARY.parse_module(3), TypeError, "expected an HLO text, found the int 3"),
        (lambda m: LIBRARY.parse_shape(3), TypeError, "expected the text of a shape, found the int 3"),
        (lambda m: LIBRARY.sharding_of(3), TypeError, "expected the text of a sharding, found the int 3"),
        (lambda m: LIBRARY.profile(3), TypeError, "expected a trace or its path, found the int 3"),
        (lambda m: LIBRARY.run(m, 3), TypeError, "expected a sequence of arguments, found the int 3"),
    ],
)
def test_an_error_says_what_to_pass(call: Callable[[Any], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        call(module_of(MLP))
    assert message in str(caught.value)


def arguments_of(function: Callable[..., object]) -> dict[str, Any]:
    """Valid arguments for the parameters of a public function that have no default."""
    module = module_of(MLP)
    valid = {
        "module": module,
        "old": module,
        "new": module,
        "overlap": hlo.analyze_overlap(module),
        "shape": "f32[8,128]",
        "chip": "h100",
        "index": (0, 0),
        "linear": 0,
        "instruction": "loop_add_fusion",
        "sharding": "{replicated}",
        "source": "{replicated}",
        "target": "{devices=[8,1]<=[8]}",
        "paths": MLP,
        "path": MLP,
        "goal": "memory",
        "text": "f32[8]",
        "producer": "a",
        "consumer": "b",
        "trace": TRACE,
    }
    parameters = inspect.signature(function).parameters.values()
    return {each.name: valid[each.name] for each in parameters if each.default is each.empty and each.name in valid}


PARAMETERS = [
    (name, parameter.name)
    for name in hlo.__all__
    if inspect.isfunction(function := getattr(LIBRARY, name)) or name in ("lint", "report")
    for parameter in inspect.signature(function).parameters.values()
    if parameter.kind is not parameter.VAR_KEYWORD
    and parameter.kind is not parameter.VAR_POSITIONAL
    # Anything is a program of a framework, bytes are a text or a proto, and a command passes what reads lines.
    and (name, parameter.name) not in (("from_jax", "x"), ("load", "path"), ("lint_module", "line_of"))
]


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS, ids=map(".".join, PARAMETERS))
def test_every_wrong_argument_is_answered(name: str, parameter: str) -> None:
    """By a check of the library, which says what to pass, not by the line that could not use it."""
    function = getattr(LIBRARY, name)
    for wrong in (3.5, object()):
        try:
            found = function(**{**arguments_of(function), parameter: wrong})
            list(found) if inspect.isgenerator(found) else None
        except (hlo.HloError, KeyError):
            continue
        except TypeError as error:
            message = str(error)
        else:
            continue
        assert re.search(r"expected .*, found ", message) or "missing" in message, message


def test_a_missing_chip_is_asked_for() -> None:
    with pytest.raises(
        TypeError, match=r"estimate_time: expected a chip or its name, found None: such as estimate_time"
    ):
        LIBRARY.estimate_time(module_of(MLP))


def test_packages_with_names_of_functions_stay_packages() -> None:
    """Whatever is imported first, the package can be called, and its files can be imported."""
    for before in ("", "import hlo_cli.lint.run, hlo_cli.report.table; ", "from hlo_cli import lint, report; "):
        script = (
            f"{before}import hlo_cli; m = hlo_cli.parse_module('ENTRY e {{ ROOT p = f32[2] parameter(0) }}'); "
            "from hlo_cli.lint.run import RULES; from hlo_cli.report.table import Table; import hlo_cli.lint.rule; "
            "print(hlo_cli.lint(m), type(hlo_cli.report(m)).__name__, hlo_cli.lint.__name__)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("FindingList() Report hlo_cli.lint\n", "")


def test_every_recipe_of_the_help_page_runs(tmp_path: Path) -> None:
    """All blocks of `hlo help python` as one session, in a folder with a dump."""
    if find_spec("networkx") is None:
        pytest.skip("networkx is not installed")
    root = Path(hlo.__file__).parent.parent
    page = (root / "hlo_cli/commands/help/topics/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", page)
    assert len(re.findall(r"(?m)^## \d+\. ", page)) == 10
    assert len(blocks) >= 12
    assert all(block.startswith(">>> ") for block in blocks), "every block is a session"
    (tmp_path / "DUMP").symlink_to(CONV)
    (tmp_path / "page.txt").write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", "doctest", "page.txt"],
        timeout=300,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("flops", "hlo_cli.cost_analysis(module)[instruction].flops"),
        ("bytes", "instruction.shape.padded_bytes"),
        ("dtype", "instruction.shape.element_type"),
    ],
)
def test_what_an_instruction_does_not_have_is_answered_by_an_analysis(name: str, answer: str) -> None:
    module = hlo.load(CONV)
    instruction: Any = module.entry.instructions[0]
    with pytest.raises(AttributeError, match=re.escape(f"; use {answer}")):
        getattr(instruction, name)
    eval(answer, {"hlo_cli": hlo, "module": module, "instruction": instruction})
    with pytest.raises(AttributeError, match=r"has no attribute 'nosuch'$"):
        instruction.nosuch  # noqa: B018


def test_every_answer_of_a_module_can_be_asked() -> None:
    from hlo_cli.ir import instruction as instructions
    from hlo_cli.ir import module as modules

    module = hlo.load(CONV)
    kernel = next(iter(hlo.estimate_time(module, "v5e").predicted))
    for answer in {*modules._ANSWERS.values(), *instructions._ANSWERS.values()}:
        eval(answer, {"hlo_cli": hlo, "module": module, "instruction": kernel})


def test_the_instructions_of_a_module_are_a_sequence() -> None:
    module = hlo.load(CONV)
    found = module.instructions
    assert tuple(found) == tuple(each for part in module.computations for each in part.instructions)
    whole = tuple(found)
    assert (found[0], found[-1], found[1:3]) == (whole[0], whole[-1], whole[1:3])
    assert len(found) == module.instruction_count
    assert repr(found) == f"<{len(found)} instructions>"


def test_an_attribute_of_the_items_is_asked_of_one_of_them() -> None:
    module = hlo.parse_module("n = f32[4] negate(f32[4] a)")
    costs = hlo.cost_analysis(module)
    with pytest.raises(AttributeError, match=re.escape("each item has: use x['a'].flops")):
        _ = costs.flops  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no attribute 'flop'$"):
        _ = costs.flop  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=re.escape("each item has: use x[0].instruction")):
        _ = hlo.kernels_of(module).instruction  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=re.escape("each item has: use x[0].opcode")):
        _ = module.instructions.opcode  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=re.escape("each item has: use x[0].opcode")):
        _ = module.entry.parameters.opcode  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=re.escape("each item has: use x[0].opcode")):
        _ = hlo.analyze_overlap(module).sequence.opcode  # type: ignore[attr-defined]


def test_names_select_instructions_of_a_module_the_entry_first() -> None:
    text = "HloModule m  f { a = f32[] parameter(0)  ROOT x = f32[] negate(a) }  "
    module = hlo.parse_module(text + "ENTRY e { x = f32[] parameter(0)  ROOT r = f32[] call(x), to_apply=f }")
    assert module.instructions["x"] is module.instruction("x") is module.entry.parameters[0]
    assert module.instructions["%a"] is module.computations[0].instructions[0]
    with pytest.raises(KeyError, match="no instruction 'nosuch'"):
        _ = module.instructions["nosuch"]


def test_a_truncated_module_says_so() -> None:
    whole = "HloModule m\n\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT q = f32[2] negate(p)\n}\n"
    assert repr(hlo.load(whole)) == "<Module m: 1 computation, 2 instructions>"
    assert repr(hlo.load(whole[: whole.index("negate")])).endswith(", truncated>")
    assert repr(hlo.load(whole.replace("negate(p)", "negate(z)"))).endswith(", with errors>")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{devices=[2,2]<=[5]}", "4 tiles but 5 devices"),
        ("{devices=[2,2]0,1,1,2}", "device 1 is listed more than once"),
        ("{{replicated}, {devices=[2]<=[3]}}", "2 tiles but 3 devices"),
    ],
)
def test_a_sharding_has_a_device_for_each_tile(text: str, message: str) -> None:
    with pytest.raises(hlo.HloError, match=message):
        hlo.sharding_of(text)


def test_names_and_steps_that_do_not_exist_are_errors_in_memory() -> None:
    """As `hlo help python` promises; an empty answer would read as an empty memory."""
    memory = hlo.memory_analysis(module_of(MLP))
    [space, *_] = memory.spaces
    assert memory.space(space.name.lower()) is memory.space(f"S({space.number})") is space
    assert memory.space(97) is None, "a space may be empty"
    with pytest.raises(hlo.HloError, match="unknown memory space 'BOGUS'") as raised:
        memory.space("BOGUS")
    assert space.name in (raised.value.diagnostic.hint or "")
    last = len(memory.sequence) - 1
    assert memory.live_at(last) == memory.live_at(memory.sequence[last])
    end = len(space.timeline) - 1  # results are live after the last instruction
    for step in (-1, end + 1, 9999):
        with pytest.raises(hlo.HloError, match="no step") as raised:
            memory.live_at(step)
        assert raised.value.diagnostic.hint == f"steps are 0 to {end}"
        with pytest.raises(hlo.HloError, match="no step"):
            space.live_at(step)


def test_a_key_that_resembles_nothing_says_where_all_are() -> None:
    with pytest.raises(KeyError, match=r"no instruction or computation 'qqqqqqqqqq'; module\.instructions has all"):
        module_of(MLP)["qqqqqqqqqq"]

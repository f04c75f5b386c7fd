"""Statements about two modules: what an engineer changed is said first, every row is folded once, nothing is made up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from dumps import FIXTURES
from edited_programs import EDITS
from edits import Draft
from hlo_cli import parse_module
from hlo_cli.analysis.matching.module_diff import ModuleDiff, diff
from hlo_cli.analysis.statements.statement import (
    DimensionChange,
    Fold,
    LayerChange,
    RematerializationChange,
    Statement,
)
from hlo_cli.analysis.statements.statements import Statements, statements_of
from hlo_cli.cli import main
from hlo_cli.commands.diff.sentences import headline, kind_of, sentence_of
from hlo_cli.ir.module import Module
from strategies import dump_text, dumps, name_of
from versions import IS_NEWER_XLA, needs_older_xla

PROGRAMS = Path(__file__).parent / "changing_programs.py"


def told(before: Module, after: Module) -> list[str]:
    """The sentences, the most important first."""
    return [sentence_of(each) for each in statements_of(diff(before, after)).ordered]


def rows_of(fold: Fold) -> list[object]:
    """What a fold holds, in its order."""
    return [*(each.after for each in fold.changed), *fold.added, *fold.removed]


def check_partition(comparison: ModuleDiff, found: Statements) -> None:
    """Every row is in exactly one statement or left over."""
    folded = [row for each in (*(s.fold for s in found.ordered), found.unexplained) for row in rows_of(each)]
    everything = [*(each.after for each in comparison.changed), *comparison.added, *comparison.removed]
    assert len(folded) == len(set(folded))
    assert set(folded) == set(everything)


def metadata(op_name: str) -> str:
    return f'metadata={{op_name="{op_name}"}}'


def model(
    layers: int = 2,
    hidden: int = 64,
    batch: int = 8,
    element_type: str = "f32",
    *,
    function: str = "tanh",
    header: str = "",
    extra: str = "",
) -> Module:
    """A hand-written model: in each layer a product with a weight, a bias, and a function."""
    t, lines, last = element_type, [], "x"
    lines.append(f"x = {t}[{batch},{hidden}]{{1,0}} parameter(0), {metadata('data')}")
    for n in range(layers):
        scope = f"jit(f)/layers_{n}"
        weight, bias = (f"params['layers'][{n}]['{name}']" for name in "wb")
        dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        result = f"{t}[{batch},{hidden}]{{1,0}}"
        lines += [
            f"w{n} = {t}[{hidden},{hidden}]{{1,0}} parameter({2 * n + 1}), {metadata(weight)}",
            f"b{n} = {t}[{hidden}]{{0}} parameter({2 * n + 2}), {metadata(bias)}",
            f"d{n} = {result} dot({last}, w{n}), {dot}, {metadata(f'{scope}/dot_general')}",
            f"c{n} = {result} broadcast(b{n}), dimensions={{1}}, {metadata(f'{scope}/add')}",
            f"a{n} = {result} add(d{n}, c{n}), {metadata(f'{scope}/add')}",
            f"r{n} = {result} {function}(a{n}), {metadata(f'{scope}/{function}')}",
        ]
        last = f"r{n}"
    lines.append(extra.format(last=last))
    lines.append(f"ROOT out = ({t}[{batch},{hidden}]{{1,0}}) tuple({last})")
    return parse_module(f"HloModule m{header}\nENTRY e {{\n" + "\n".join(lines) + "\n}")


PAIRS = {
    "hidden": (model(), model(hidden=96), "hidden size 64 → 96 in 13 shapes"),
    "batch": (model(), model(batch=16), "batch size 8 → 16 in 9 shapes"),
    "type": (model(), model(element_type="bf16"), "f32 → bf16 in 13 shapes"),
    "layer": (model(), model(layers=3), "one layer added: layers_2 (6 instructions, like layers_1)"),
    "layers": (model(layers=4), model(), "2 layers removed: layers_2, layers_3 (12 instructions, like layers_1)"),
    "function": (model(layers=3), model(layers=3, function="sine"), "tanh → sine in 3 instructions"),
    "donation": (
        model(),
        model(header=", input_output_alias={ {0}: (0, {}, may-alias) }"),
        "1 argument donated: data (2 KiB)",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_first_sentence_of_a_model(name: str) -> None:
    before, after, sentence = PAIRS[name]
    comparison = diff(before, after)
    found = statements_of(comparison)
    check_partition(comparison, found)
    assert sentence_of(found.ordered[0]).startswith(sentence)
    assert found.unexplained.rows == 0


@pytest.mark.parametrize("name", PAIRS)
def test_the_other_way_round(name: str) -> None:
    """What was added is removed, and sizes and types change back; the rows are the same."""
    before, after, _ = PAIRS[name]
    one, two = statements_of(diff(before, after)), statements_of(diff(after, before))
    assert [_mirrored(each) for each in one.ordered] == [_facts(each) for each in two.ordered]


def _facts(statement: Statement) -> tuple[object, ...]:
    fold = statement.fold
    counts = len(fold.changed), len(fold.added), len(fold.removed)
    return kind_of(statement), counts, _arrow(sentence_of(statement))


def _mirrored(statement: Statement) -> tuple[object, ...]:
    kind, counts, words = _facts(statement)
    assert isinstance(counts, tuple)
    assert isinstance(words, tuple)
    return kind, (counts[0], counts[2], counts[1]), words[::-1]


def _arrow(sentence: str) -> tuple[str, str]:
    """The words around the first arrow, else a word for what was added and one for what was removed."""
    before, arrow, after = sentence.partition(" → ")
    if arrow:
        return before.split(" ")[-1], after.split(" ")[0]
    is_new = "added" in sentence or (" donated" in sentence and "no longer" not in sentence)
    return ("new", "old") if is_new else ("old", "new")


def test_statements_are_the_same_every_time() -> None:
    before, after = model(), model(layers=3, hidden=96)
    assert told(before, after) == told(before, after)


def test_two_causes_are_two_statements() -> None:
    found = statements_of(diff(model(), model(layers=3, hidden=96)))
    assert {type(each) for each in found.ordered} == {DimensionChange, LayerChange}
    assert found.unexplained.rows == 0


def test_names_need_labels() -> None:
    """Without labels of arguments a size has no name."""
    texts = [str(module.source.text) for module in (model(), model(hidden=96))]
    bare = [parse_module("".join(_without_labels(text))) for text in texts]
    assert told(*bare)[0].startswith("dimension 64 → 96")


def _without_labels(text: str) -> str:
    return "\n".join(line.partition(", metadata=")[0] if "parameter(" in line else line for line in text.splitlines())


def test_an_argument_in_the_middle() -> None:
    lines = ["a = f32[4]{0} parameter(0)", "b = f32[4]{0} parameter(1)", "ROOT s = f32[4]{0} add(a, b)"]
    more = [
        "a = f32[4]{0} parameter(0)",
        f"k = f32[8,2]{{1,0}} parameter(1), {metadata('scale')}",
        "b = f32[4]{0} parameter(2)",
        "ROOT s = f32[4]{0} add(a, b)",
    ]
    before, after = (parse_module(f"ENTRY e {{ {' '.join(each)} }}") for each in (lines, more))
    assert told(before, after) == ["argument added: scale f32[8,2] (64 B)"]


def test_source_lines_alone() -> None:
    text = str(model().source.text)
    places = [f'source_file="m.py" source_line={number}}}' for number in (3, 8)]
    before, after = (parse_module(text.replace('"}', f'" {place}')) for place in places)
    assert told(before, after)[0].startswith("same program: only source lines moved (")


def test_constants_that_follow_from_a_size() -> None:
    """A mean over 64 is one over 96; a rate is no size."""

    def module(size: int, mean: str, rate: str) -> Module:
        lines = [f"p = f32[{size}]{{0}} parameter(0)", f"m = f32[] constant({mean})", f"r = f32[] constant({rate})"]
        lines += [f"b = f32[{size}]{{0}} broadcast(m), dimensions={{}}", f"c = f32[{size}]{{0}} multiply(p, b)"]
        lines += [f"d = f32[{size}]{{0}} broadcast(r), dimensions={{}}", f"ROOT e = f32[{size}]{{0}} add(c, d)"]
        return parse_module(f"ENTRY e {{ {' '.join(lines)} }}")

    before = module(64, "0.015625", "0.1")
    found = statements_of(diff(before, module(96, "0.0104166670", "0.1")))
    assert (len(found.ordered), found.unexplained.rows) == (1, 0)
    found = statements_of(diff(before, module(96, "0.0104166670", "0.3")))
    assert [sentence_of(each) for each in found.ordered[1:]] == ["constant 0.1 → 0.3 in r"]


def test_collectives() -> None:
    one = "x.1 = f32[64]{0} all-reduce(p), replica_groups={{0,1}}, to_apply=add"
    two = (
        "s = f32[32]{0} reduce-scatter(p), replica_groups={{0,1}}, dimensions={0}, to_apply=add "
        "x.1 = f32[64]{0} all-gather(s), replica_groups={{0,1}}, dimensions={0}"
    )
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
    before, after = (
        parse_module(
            f"HloModule m {add} ENTRY e {{ p = f32[64]{{0}} parameter(0) {body} ROOT n = f32[64]{{0}} negate(x.1) }}"
        )
        for body in (one, two)
    )
    sentence = "all-reduce ×1 (256 B) became reduce-scatter ×1 (128 B) + all-gather ×1 (256 B)"
    assert told(before, after)[0] == sentence


def partitioned(width: int, batch: int) -> Module:
    """A program for one of eight devices, after partitioning: compilers for TPU drop the shardings of arguments."""
    labels = ("params['w']", "params['v']")
    lines = [
        f"w = f32[256,{width}]{{1,0}} parameter(0), {metadata(labels[0])}",
        f"v = f32[256,{width}]{{1,0}} parameter(1), {metadata(labels[1])}",
        f"x = f32[{batch},256]{{1,0}} parameter(2), {metadata('data')}",
        *(
            f"{root}d{n} = f32[{batch},{width}]{{1,0}} dot(x, {weight}), "
            f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
            for n, (root, weight) in enumerate((("", "w"), ("ROOT ", "v")))
        ),
    ]
    return parse_module("HloModule m, num_partitions=8\nENTRY e {\n" + "\n".join(lines) + "\n}")


def test_other_sizes_per_device_are_other_shardings() -> None:
    found = told(partitioned(256, 1), partitioned(128, 2))
    assert found[0].startswith("3 shardings changed; sizes per device ")


def compiled_by(kernel: str, count: int, wrapped: str) -> Module:
    """The same elementwise program as so many kernels of one kind, some steps in each."""
    lines, functions, last = ["p = f32[64]{0} parameter(0)"], [], "p"
    steps = 12 // count
    for n in range(count):
        inner, body = "q", ["q = f32[64]{0} parameter(0)"]
        for step in range(steps):
            root = "ROOT " if step == steps - 1 else ""
            body.append(f"{root}s{n}.{step} = f32[64]{{0}} tanh({inner}), {metadata(f'jit(f)/block_{n}/tanh')}")
            inner = f"s{n}.{step}"
        functions.append(f"f{n} {{ {' '.join(body)} }}")
        lines.append(f"k{n} = f32[64]{{0}} {kernel}({last}), {wrapped}=f{n}")
        last = f"k{n}"
    lines.append(f"ROOT out = f32[64]{{0}} negate({last}), {metadata('jit(f)/neg')}")
    return parse_module(f"HloModule m, is_scheduled=true {' '.join(functions)} ENTRY e {{ {' '.join(lines)} }}")


def test_another_compiler() -> None:
    """The operations are the same, and only what a compiler made of them differs."""
    before, after = compiled_by("call", 12, "to_apply"), compiled_by("fusion", 3, "kind=kLoop, calls")
    [sentence, *_] = told(before, after)
    assert sentence.startswith("same program, compiled differently: tanh 12 → 0, fusion 0 → 3")


@pytest.mark.parametrize("path", dumps()[::3], ids=name_of)
@pytest.mark.parametrize("edits", [1, 4])
def test_random_edits_are_not_made_into_causes(path: Path, edits: int) -> None:
    """A few edits are neither a size, a type, or a layer throughout, nor another compiler."""
    module, random = parse_module(dump_text(path)), Random(f"{name_of(path)} {edits}")
    draft = Draft(module)
    for _ in range(edits):
        draft.edit(random)
    comparison = diff(module, parse_module(draft.text(draft.names(random))))
    found = statements_of(comparison)
    check_partition(comparison, found)
    wrong = {"dimension", "type", "layers", "loops", "trip_count", "sharding", "rematerialization", "compilation"}
    if sum(change.kind == "sharding" for each in comparison.changed for change in each.changes) > 1:
        wrong.remove("sharding")  # the edits changed several
    assert not wrong & {kind_of(each) for each in found.ordered}


def write(folder: Path, *modules: Module) -> list[str]:
    paths = [folder / f"{number}.hlo" for number in range(len(modules))]
    for path, module in zip(paths, modules, strict=True):
        path.write_text(str(module.source.text))
    return list(map(str, paths))


def test_the_screen_and_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write(tmp_path, model(), model(hidden=96))
    assert main(["diff", *paths, "--format", "screen"], standalone=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Hidden size 64 → 96 in 13 shapes")
    assert len(lines) <= 12
    assert main(["diff", *paths, "--rows", "--format", "tsv"], standalone=False) == 0
    rows = capsys.readouterr().out.splitlines()
    comparison = diff(model(), model(hidden=96))
    assert len(rows) == 1 + len(comparison.changed)
    assert all(row.split("\t")[0] == "1" for row in rows[1:])


def test_json_has_statements_and_all_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write(tmp_path, model(), model(layers=3))
    assert main(["diff", *paths, "--format", "json"], standalone=False) == 0
    found = json.loads(capsys.readouterr().out)
    [statement] = found["answer"]["statements"]
    assert (statement["kind"], sorted(statement["added"])) == ("layers", ["a2", "b2", "c2", "d2", "r2", "w2"])
    assert found["tables"]["statements"]["rows"][0]["rows"] == statement["rows"]
    assert {row["name"] for row in found["tables"]["changes"]["rows"]} >= set(statement["added"])


@pytest.mark.parametrize(
    ("conditions", "code", "words"),
    [
        ("", 1, "5 of 22 conditions failed"),
        ("collectives", 0, "The condition holds"),
        ("memory>200%,layouts", 0, "All 2 conditions hold"),
        ("memory>2%,layouts", 1, "1 of 2 conditions failed"),
        ("flops>1%", 1, "flops 132,096 → 296,448 (× 2.2)"),
        ("flops>500%", 0, "The condition holds"),
        ("memory>1KiB", 1, "memory>1KiB: peak main memory"),
        ("memory.hbm>1KiB", 1, "memory.hbm>1KiB: peak main memory"),
        ("memory.vmem>1KiB", 0, "The condition holds"),
        ("memory>1GiB", 0, "The condition holds"),
        ("shapes", 1, "13 instructions have other shapes"),
    ],
)
def test_conditions(conditions: str, code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write(tmp_path, model(), model(hidden=96))
    given = ["--fail-on", conditions] if conditions else []
    assert main(["diff", *paths, "--against-golden", *given, "--format", "screen"], standalone=False) == code
    assert words in capsys.readouterr().out


def test_a_golden_dump_that_was_normalized(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no metadata and no schedule, and is no failure against itself."""
    [path] = write(tmp_path, model(header=", is_scheduled=true"))
    assert main(["diff", path, "--normalize", "-o", str(tmp_path / "golden.hlo")], standalone=False) == 0
    assert main(["diff", str(tmp_path / "golden.hlo"), path, "--against-golden"], standalone=False) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ("memmory", "unknown condition 'memmory' in --fail-on"),
        ("memory.hbn>2%", "unknown condition 'memory.hbn' in --fail-on"),
        ("flops.hbm>2%", "unknown condition 'flops.hbm' in --fail-on"),
        ("layouts>3", "'layouts' in --fail-on has no limit"),
        ("memory>2x", "unknown unit 'x' in --fail-on memory>2x"),
        ("memory<2", "expected KIND or KIND>LIMIT in --fail-on, got 'memory<2'"),
    ],
)
def test_errors_of_conditions(
    conditions: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write(tmp_path, model(), model())
    assert main(["diff", *paths, "--against-golden", "--fail-on", conditions], standalone=False) == 2
    assert f"error: {message}\n" in capsys.readouterr().err


def test_by_scope(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write(tmp_path, model(), model(layers=3))
    assert main(["diff", *paths, "--by", "scope", "--format", "json"], standalone=False) == 0
    rows = json.loads(capsys.readouterr().out)["tables"]["causes"]["rows"]
    [row] = [row for row in rows if row["scope"] == "layers_*"]
    assert (row["added"], row["removed"], row["before_kernels"], row["after_kernels"]) == (4, 0, 8, 12)
    assert row["after_bytes"] == row["before_bytes"] * 3 // 2


CHANGES = {
    ("base", "hidden"): "hidden size 256 → 320 in ",
    ("base", "batch"): "batch size 8 → 16 in ",
    ("base", "sequence"): "sequence length 64 → 128 in ",
    ("base", "layers"): "one layer added: layers_3 (",
    ("base", "heads"): "dimensions 4 → 8 and 64 → 32 in ",
    ("base", "bf16"): "f32 → bf16 in ",
    ("base", "sigmoid"): "layers_*/attention: ",
    ("base", "adam"): "52 arguments added: state['m'][…] ×26 and state['v'][…] ×26 (21.9 MiB), used by ",
    ("base", "rate"): "constant 0.01 → 0.02 in ",
    ("base", "remat"): "rematerialization added in layers_*/",
    ("base", "donate"): "26 arguments donated: state['params'",
    ("base", "mask"): "argument added: data['mask'] f32[8,64] (2 KiB), used by ",
    ("base", "shifted"): "same program: only source lines moved (",
    ("scan", "scan_layers"): "loop iterations 3 → 5 in ",
    ("base", "scan"): "2 loops of 3 iterations added (",
}
PARALLEL = {
    ("psum", "scatter"): "all-reduce ×",
    ("mesh8", "mesh4x2"): (
        f"mesh data=8 → data=4, model=2; {28 if IS_NEWER_XLA else 22} shardings",  # JAX 0.11 annotates more values
        "22 shardings changed; sizes per device ",
    ),
}


SAMPLE = (("base", "layers"),)


def pairs() -> Iterator[object]:
    """The pairs of programs with their sentences; those outside of the sample are long."""
    for (one, two), words in {**CHANGES, **PARALLEL}.items():
        marks = () if (one, two) in SAMPLE else pytest.mark.long
        yield pytest.param(one, two, words, marks=marks, id=f"{one}-{two}")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled programs are, so that each is compiled once."""
    return tmp_path_factory.mktemp("programs")


def compiled(folder: Path, name: str, stage: str, platform: str = "cpu") -> str:
    """The path of a program of `changing_programs.py`, compiled for a platform."""
    place = folder / platform
    if not (place / name).exists():
        subprocess.run([sys.executable, PROGRAMS, platform, place, name], check=True, timeout=600)
    [path] = [path for path in (place / name).iterdir() if path.name.endswith(f".{stage}.txt")]
    return str(path)


def check_real_change(paths: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first sentence is what an engineer would write; at most 12 lines, and 9 of 10 rows are folded."""
    comparison = diff(*(parse_module(Path(path).read_text()) for path in paths))
    found = statements_of(comparison)
    check_partition(comparison, found)
    assert sentence_of(found.ordered[0]).startswith(words), paths
    assert found.folded >= 0.9 * (found.folded + found.unexplained.rows), paths
    assert main(["diff", *paths, "--format", "screen"], standalone=False) == 0
    text = capsys.readouterr().out
    assert " ".join(text.split()).startswith(" ".join(headline(found).split())[:60])
    assert len(text.splitlines()) <= 12, paths


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(("one", "two", "words"), [*pairs()])
def test_real_changes(
    one: str, two: str, words: str | tuple[str, str], programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jaxlib")
    for at, stage in enumerate(("before_optimizations", "cpu_after_optimizations")):
        paths = [compiled(programs, name, stage) for name in (one, two)]
        check_real_change(paths, words if isinstance(words, str) else words[at], capsys)


ON_TPU = {
    ("base", "adam"): "52 arguments added: state[",  # the order of m and v follows from their use
    ("base", "mask"): "argument added: data['mask'] f32[8,64] (4 KiB), used by ",  # padded
    ("mesh8", "mesh4"): "devices 8 → 4; sizes per device ",
    ("mesh8", "mesh4x2"): "22 shardings changed; sizes per device ",
    ("base", "mesh8"): "devices 1 → 8; 29 shardings changed; sizes per device ",
}


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize(("one", "two"), sorted({*CHANGES, *PARALLEL, *ON_TPU}))
def test_real_changes_on_tpu(one: str, two: str, programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A TPU compiler partitions, fuses, and prefetches; the first sentence is the same."""
    pytest.importorskip("libtpu")
    words = ON_TPU.get((one, two)) or CHANGES.get((one, two)) or PARALLEL[one, two]
    assert isinstance(words, str)
    check_real_change([compiled(programs, name, "after_optimizations", "tpu") for name in (one, two)], words, capsys)


def test_names_of_layers_and_scopes_are_short() -> None:
    layers = LayerChange(True, tuple(f"layers_{n}" for n in range(4, 32)), "layers_3")
    assert sentence_of(layers) == "28 layers added: layers_4 to layers_31 (0 instructions, like layers_3)"
    again = RematerializationChange(True, 4, ("layers_*", "layers_*/mlp", "layers_*/attention"))
    assert sentence_of(again) == "rematerialization added in layers_* (4 instructions computed again)"


def test_a_pipe_without_differences_has_the_columns_of_one_with(capsys: pytest.CaptureFixture[str]) -> None:
    path, other = str(FIXTURES / "cpu/softmax"), str(FIXTURES / "cpu/wide")
    for view in ((), ("--rows",)):
        headers = []
        for two in (path, other):
            assert main(["diff", path, two, *view], standalone=False) == 0
            headers.append(capsys.readouterr().out.splitlines()[0])
        assert headers[0] == headers[1]


# --- one edit of a small program: the first sentence names it ---

SMALL = """HloModule m, entry_computation_layout={(f32[8,16]{1,0}, f32[16,4]{1,0})->(f32[8,4]{1,0}, f32[8]{0})}
top { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }
ENTRY main {
  x = f32[8,16]{1,0} parameter(0), metadata={op_name="x" source_file="m.py" source_line=3}
  w = f32[16,4]{1,0} parameter(1), metadata={op_name="w" source_file="m.py" source_line=3}
  scale = f32[] constant(0.125), metadata={source_file="m.py" source_line=4}
  scales = f32[8,4]{1,0} broadcast(scale), dimensions={}, metadata={source_file="m.py" source_line=4}
  dot.1 = f32[8,4]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot" source_file="m.py" source_line=4}
  mul.1 = f32[8,4]{1,0} multiply(dot.1, scales), metadata={op_name="jit(f)/mul" source_file="m.py" source_line=4}
  tanh.1 = f32[8,4]{1,0} tanh(mul.1), metadata={op_name="jit(f)/tanh" source_file="m.py" source_line=5}
  lowest = f32[] constant(-inf), metadata={source_file="m.py" source_line=6}
  max.1 = f32[8]{0} reduce(tanh.1, lowest), dimensions={1}, to_apply=top, metadata={op_name="jit(f)/max" source_file="m.py" source_line=6}
  ROOT out = (f32[8,4]{1,0}, f32[8]{0}) tuple(tanh.1, max.1)
}
"""
ROOT = "ROOT out = (f32[8,4]{1,0}, f32[8]{0}) tuple(tanh.1, max.1)"
TURNED = 't = f32[4,8]{1,0} transpose(tanh.1), dimensions={1,0}, metadata={op_name="jit(f)/transpose" source_line=9}'
ROUNDED = "xb = bf16[8,16]{1,0} convert(x)  wb = bf16[16,4]{1,0} convert(w)  dot.1 = f32[8,4]{1,0} dot(xb, wb)"
SMALL_EDITS = {
    "result added": (
        (ROOT, f"s = f32[8]{{0}} sine(max.1)  {ROOT[:-1]}, s)", "f32[8]{0}) tuple", "f32[8]{0}, f32[8]{0}) tuple"),
        "result 2 added: f32[8] (32 B), computed by sine",
    ),
    "result removed": ((ROOT, "ROOT out = (f32[8]{0}) tuple(max.1)"), "result 0 removed: f32[8,4] (128 B), computed by tanh"),
    "results reordered": (
        (ROOT, "ROOT out = (f32[8]{0}, f32[8,4]{1,0}) tuple(max.1, tanh.1)"),
        "results reordered: 0 → 1, 1 → 0",
    ),
    "result transposed": (
        (ROOT, f"{TURNED}\nROOT out = (f32[4,8]{{1,0}}, f32[8]{{0}}) tuple(t, max.1)"),
        "result 0 transposed f32[8,4] → f32[4,8]",
    ),
    "result reshaped": (
        (ROOT, "r = f32[32]{0} reshape(tanh.1)  ROOT out = (f32[32]{0}, f32[8]{0}) tuple(r, max.1)"),
        "result 0 reshaped f32[8,4] → f32[32]",
    ),
    "result of another type": (
        (ROOT, "c = bf16[8]{0} convert(max.1)  ROOT out = (f32[8,4]{1,0}, bf16[8]{0}) tuple(tanh.1, c)"),
        "result 1 element type f32 → bf16",
    ),
    "argument renamed": (('op_name="w"', 'op_name="kernel"'), "argument renamed: w → kernel"),
    "arguments reordered": (
        ("x = f32[8,16]{1,0} parameter(0)", "x = f32[8,16]{1,0} parameter(1)", "{1,0} parameter(1), metadata={op_name=\"w\"", "{1,0} parameter(0), metadata={op_name=\"w\""),
        "arguments reordered: x 0 → 1",
    ),
    "layout of an argument": (("f32[16,4]{1,0})->", "f32[16,4]{0,1})->"), "argument 1 (w) layout {1,0} → {0,1}"),
    "layout of a result": (("->(f32[8,4]{1,0}", "->(f32[8,4]{0,1}"), "result 0 layout {1,0} → {0,1}"),
    "product": (("dot.1 = f32[8,4]{1,0} dot(x, w)", ROUNDED), "dot dot.1: operands f32 → bf16; 2 conversions added"),
    "precision": (("dims={0}, metadata={op_name=\"jit(f)/dot\"", "dims={0}, operand_precision={highest,highest}, metadata={op_name=\"jit(f)/dot\""), "operand_precision none → {highest,highest} in dot.1"),
    "operation": (("tanh(mul.1)", "sine(mul.1)"), "tanh → sine in tanh.1"),
    "constant": (("0.125", "0.25"), "constant 0.125 → 0.25 in scale"),
    "axis": (("f32[8]{0} reduce(tanh.1, lowest), dimensions={1}", "f32[4]{0} reduce(tanh.1, lowest), dimensions={0}", "f32[8]{0}) tuple", "f32[4]{0}) tuple"), "dimensions {1} → {0} in max.1"),
    "reduction": (("maximum(a, b)", "minimum(a, b)"), "maximum → minimum in m"),
    "operation added": (("tanh(mul.1)", "tanh(n)", "tanh.1 = f32", "n = f32[8,4]{1,0} negate(mul.1)  tanh.1 = f32"), "negate f32[8,4] (n) added"),
    "partitions": (("HloModule m,", "HloModule m, num_partitions=4,"), "devices 1 → 4"),
    "donation": (("HloModule m,", "HloModule m, buffer_donor={ (0, {}) },"), "1 argument donated: x (512 B)"),
}  # fmt: skip
"""Texts and replacements by turns, and the first sentence."""


@pytest.mark.parametrize("lines_move", [False, True], ids=["", "lines"])
@pytest.mark.parametrize("name", SMALL_EDITS)
def test_the_largest_truth_comes_first(name: str, *, lines_move: bool) -> None:
    """An edit is named with names and numbers, also if all lines of source moved; no row is left without a sentence."""
    changes, sentence = SMALL_EDITS[name]
    text = SMALL
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    if lines_move:
        text = re.sub(r"source_line=(\d+)", lambda found: f"source_line={int(found[1]) + 7}", text)
    comparison = diff(parse_module(SMALL), parse_module(text))
    found = statements_of(comparison)
    check_partition(comparison, found)
    sentences = [sentence_of(each) for each in found.ordered]
    assert sentences[0].startswith(sentence), sentences
    assert found.unexplained.rows == 0
    assert lines_move == ("source lines moved" in sentences[-1])


def edited(folder: Path, platform: str, kinds: Sequence[str]) -> None:
    """Compiles kinds of edits of `edited_programs.py` in one process."""
    script = Path(__file__).parent / "edited_programs.py"
    subprocess.run(
        [sys.executable, script, platform, folder, *kinds], check=True, stderr=subprocess.DEVNULL, timeout=1800
    )


def _heading(path: Path) -> str:
    return path.read_text().partition("\n")[0]


def unnamed_edits(folder: Path, platform: str, kinds: Sequence[str]) -> list[str]:
    """The edits that the first sentence does not name, before or after optimizations."""
    missed = []
    for kind in kinds:
        for stage in ("before", "after"):
            wanted: str | None = EDITS[kind].first
            wanted = EDITS[kind].after.get(platform, wanted) if stage == "after" else wanted
            paths = [folder / kind / side / f"{stage}.txt" for side in ("old", "new")]
            if wanted is None or not all(path.exists() for path in paths):
                continue
            # libtpu chooses some layouts itself, in both programs: then the edit is not in the text.
            if kind == "argument_layout" and len({_heading(path) for path in paths}) == 1:
                continue
            comparison = diff(*(parse_module(path.read_text()) for path in paths))
            found = statements_of(comparison)
            check_partition(comparison, found)
            first = headline(found) or "no differences"
            if re.search(wanted, first, re.IGNORECASE) is None:
                missed.append(f"{kind}, {stage}: {first}")
    return missed


SAMPLED = ("result_transposed", "dot_bf16", "results_swapped")


@pytest.mark.slow
@pytest.mark.oracle
@needs_older_xla("JAX 0.11 traces gradients through eval_jaxpr, which is then the place of the first difference")
def test_some_edits_of_programs_are_named_first(tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    edited(tmp_path, "cpu", SAMPLED)
    assert unnamed_edits(tmp_path, "cpu", SAMPLED) == []


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("platform", ["cpu", "tpu", "gpu"])
@needs_older_xla("JAX 0.11 traces gradients through eval_jaxpr, which is then the place of the first difference")
def test_all_edits_of_programs_are_named_first(platform: str, tmp_path: Path) -> None:
    pytest.importorskip({"cpu": "jaxlib", "tpu": "libtpu", "gpu": "jax_cuda12_plugin"}[platform])
    edited(tmp_path, platform, list(EDITS))
    assert len(list(tmp_path.iterdir())) == len(EDITS)
    assert unnamed_edits(tmp_path, platform, list(EDITS)) == []


# --- when two programs are the same ---

CLIPPED = """HloModule jit_f
clip_0.1 { a = f32[8]{0} parameter(0)  ROOT n = f32[8]{0} negate(a) }
ENTRY main.5 {
  x = f32[8]{0} parameter(0), metadata={op_name="x" source_file="m.py" source_line=3}
  ROOT c = f32[8]{0} call(x), to_apply=clip_0.1
}
"""
OMITTED = CLIPPED.replace("ROOT c = f32[8]{0} call(x)", "k = f32[8]{0} constant({...})\n  ROOT c = f32[8]{0} call(k)")
LINES = ("source_line=3", "source_line=9")
SAME = {
    "equal": ((CLIPPED, "f32", "f32"), (), "No differences (4 instructions)", 0),
    "a function": (
        (CLIPPED, "clip_0.1", "clip_1.1"),
        (),
        "Same program, but not the same text: computation clip_0.1 → clip_1.1 (4 instructions)",
        1,
    ),
    "lines": ((CLIPPED, *LINES), (), "Same program: only source lines moved (1 instruction)", 1),
    "an argument": ((CLIPPED, 'op_name="x"', 'op_name="y"'), (), "Same program: argument renamed: x → y", 1),
    "omitted": ((OMITTED, "f32", "f32"), (), "No differences (5 instructions); 1 omitted constant not compared", 0),
    "omitted, and lines": (
        (OMITTED, *LINES),
        (),
        "No differences but names: only source lines moved (1 instruction); 1 omitted constant not compared",
        1,
    ),
    "ignored": (
        (CLIPPED, *LINES),
        ("--ignore", "shape"),
        "No differences but names: only source lines moved (1 instruction); ignoring shape",
        1,
    ),
}
"""The text and an edit, options, the answer, and the exit code of `--exact`."""


@pytest.mark.parametrize("name", SAME)
def test_the_same_program(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said only if all was compared; names alone are said, and are a difference of texts only."""
    (text, old, new), options, answer, exact = SAME[name]
    paths = write(tmp_path, parse_module(text), parse_module(text.replace(old, new)))
    assert main(["diff", *paths, *options, "--exit-code", "--format", "screen"], standalone=False) == 0
    out, err = capsys.readouterr()
    assert " ".join(out.split()).startswith(answer)
    assert ("cache key" in err) == (name == "a function")
    assert main(["diff", *paths, *options, "--exact"], standalone=False) == exact
    capsys.readouterr()


UNREAD = "ENTRY e { p = s32[] parameter(0)  ROOT r = s32[] mystery(p, 12), secret=3 }"
REDUCED = """
sub { a = f32[] parameter(0)  b = f32[] parameter(1)  c = f32[] add(a, b)  ROOT s = f32[] subtract(a, b) }
ENTRY e { p = f32[8] parameter(0)  z = f32[] constant(0)  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=sub }
"""
HIDDEN = {
    "another root": (REDUCED, (("c = f32[]", "ROOT c = f32[]"), ("ROOT s", "s"))),
    "other parameters": (REDUCED, (("parameter(0)  b", "parameter(2)  b"),)),
    "swapped parameters": (REDUCED, (("(0)  b", "(9)  b"), ("(1)  c", "(0)  c"), ("(9)", "(1)"))),
    "unknown operands": (UNREAD, (("12", "13"),)),
    "unknown attribute": (UNREAD, (("secret=3", "secret=4"),)),
    "unknown field": (f"HloModule m, mystery=1\n{UNREAD}", (("mystery=1", "mystery=2"),)),
    "frontend attributes": (UNREAD.replace("secret=3", 'frontend_attributes={a="1"}'), (('"1"', '"2"'),)),
    "configuration": (UNREAD.replace("secret=3", 'backend_config="{1}"'), (("{1}", "{2}"),)),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_no_difference_is_hidden(name: str) -> None:
    text, edits = HIDDEN[name]
    other = text
    for edit in edits:
        other = other.replace(*edit)
    comparison = diff(parse_module(text), parse_module(other))
    assert not comparison.is_same_program
    found = statements_of(comparison)
    assert found.ordered, name
    assert found.unexplained.rows == 0


def dump(folder: Path, modules: Mapping[str, str]) -> str:
    folder.mkdir()
    for number, (name, text) in enumerate(modules.items()):
        path = folder / f"module_{number:04}.{name}.cpu_after_optimizations.txt"
        path.write_text(text.replace("HloModule m", f"HloModule {name}"))
    return str(folder)


def test_a_directory_is_compared_as_its_files_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same counts, sentence, and exit code; the worst module first, small ones and equal ones counted."""
    helper = "HloModule m\nENTRY e { p = f32[8] parameter(0)  ROOT n = f32[8] negate(p) }"
    step = model(layers=4)
    olds = {f"jit_h{n}": helper for n in range(4)} | {"jit_lines": SMALL, "jit_step": str(step.source.text)}
    olds |= {"jit_other": str(step.source.text)}
    news = {f"jit_h{n}": helper.replace("negate", "sine") for n in range(4)}
    news |= {"jit_lines": SMALL.replace("source_line=3", "source_line=8")}
    news |= {"jit_step": str(model(layers=4, hidden=96).source.text)}
    news |= {"jit_other": str(step.source.text).replace("tanh(a0)", "cosine(a0)")}
    folders = dump(tmp_path / "old", olds), dump(tmp_path / "new", news)
    assert main(["diff", *folders, "--exit-code", "--format", "json"], standalone=False) == 1
    found = json.loads(capsys.readouterr().out)
    answer = found["answer"]
    assert (answer["modules"], answer["differing"], answer["same_program"]) == (7, 6, 1)
    rows = found["tables"]["modules"]["rows"]
    assert [row["module"] for row in rows] == ["jit_step", "jit_other", "jit_h0", "jit_h1", "jit_h2", "jit_h3"]
    paths = [next(str(path) for path in Path(folder).iterdir() if "jit_step" in path.name) for folder in folders]
    assert main(["diff", *paths, "--exit-code", "--format", "json"], standalone=False) == 1
    alone = json.loads(capsys.readouterr().out)
    counts = ("changed", "added", "removed", "moved")
    assert [rows[0][count] for count in counts] == [alone["answer"][count] for count in counts]
    assert rows[0]["summary"].lower() == alone["answer"]["statements"][0]["sentence"]
    assert main(["diff", *folders, "--format", "screen"], standalone=False) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("6 of 7 modules differ, most jit_step (")
    assert "~ 4 modules of fewer than 20 instructions (4 changes); = 1 module unchanged (1 with other names" in text
    assert f"next: hlo diff {paths[0]} {paths[1]}" in text
    lines = [dump(tmp_path / f"lines{n}", {"jit_lines": side["jit_lines"]}) for n, side in enumerate((olds, news))]
    assert main(["diff", *lines, "--exit-code"], standalone=False) == 0
    assert main(["diff", *lines, "--exact"], standalone=False) == 1
    assert main(["diff", *lines, "--each", "--exit-code"], standalone=False) == 0

"""Kernels of several results: those that the CPU compiler makes, and those made by hand."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from compiled_programs import SHARE, compiled
from dumps import FIXTURES
from fusion_values import fusions_of, kernels_of
from hlo_cli import parse_module
from hlo_cli.analysis.fusion.cpu_rules import FusionRules
from hlo_cli.analysis.fusion.fusion_bodies import verify_fusions
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.transform.fusion.by_request import fuse_pair, unfuse
from hlo_cli.transform.fusion.cpu_fusion import fuse
from running import same_results
from share import parts
from versions import needs_older_xla

SEVERAL = FusionRules(may_duplicate=False, multi_output=True)
PAIRS = sorted(path.name for path in (FIXTURES / "fusion").iterdir())
LINES = (
    "p = f32[9] parameter(0)",
    "q = f32[9] parameter(1)",
    "a = f32[9] tanh(p)",
    "b = f32[9] sine(p)",
    "f = f32[9] fusion(a, q), kind=kLoop, calls=f.body, output_to_operand_aliasing={{}: (1, {})}",
    "c = f32[9] add(a, b)",
    "w = f32[3] slice(p), slice={[0:3]}",
    "g = (f32[9], f32[9]) fusion(q, b), kind=kLoop, calls=g.body",
    "g0 = f32[9] get-tuple-element(g), index=0",
    "g1 = f32[9] get-tuple-element(g), index=1",
    "h = f32[9] ceil(q), control-predecessors={b}",
    "ROOT r = (f32[9], f32[9], f32[3], f32[9], f32[9], f32[9]) tuple(c, f, w, g0, g1, h)",
)
BODIES = """
f.body { x = f32[9] parameter(0)  y = f32[9] parameter(1)  ROOT z = f32[9] multiply(x, y) }
g.body { k = f32[9] parameter(0)  l = f32[9] parameter(1)  m = f32[9] add(k, l)  n = f32[9] negate(k)
  ROOT t = (f32[9], f32[9]) tuple(m, n) }
"""


def module(*, head: str = "HloModule m", lines: tuple[str, ...] = LINES) -> Module:
    text = "\n".join(lines)
    return parse_module(f"{head}\n{BODIES}\nENTRY e {{\n{text}\n}}\n")


def is_sound(made: Module) -> bool:
    read = parse_module(str(made))
    broken = [problem for problem in verify_fusions(read) if problem.severity == "error"]
    return not read.errors and not broken and str(read) == str(made)


def results(made: Module, name: str) -> list[str]:
    root = made.instruction(name).called_computations[0].root
    assert root is not None
    return [operand.opcode for operand in root.operands]


def taken(made: Module, name: str) -> list[tuple[str, int | None]]:
    """What an instruction takes: of what, and which element."""
    operands = made.instruction(name).operands
    return [(o.operands[0].name if o.opcode == "get-tuple-element" else o.name, o.integer("index")) for o in operands]


@pytest.mark.parametrize("name", PAIRS)
def test_kernels_of_several_results_are_those_that_the_compiler_made(name: str) -> None:
    given, after = (
        parse_module((FIXTURES / "fusion" / name / f"{stage}.txt").read_text())
        for stage in ("before_fusion", "after_multi_output_fusion")
    )
    made = fuse(given, SEVERAL).module
    assert fusions_of(made) == fusions_of(after)
    assert kernels_of(made) == kernels_of(after)
    assert fused_names(made) == fused_names(after)


def fused_names(made: Module) -> Counter[str]:
    """Names of fusions without numbers, which XLA's earlier passes decide about."""
    return Counter(i.name.split(".")[0] for i in made.instructions if i.opcode == "fusion")


def test_there_are_kernels_of_several_results_among_the_fixtures() -> None:
    texts = [(FIXTURES / "fusion" / name / "after_multi_output_fusion.txt").read_text() for name in PAIRS]
    assert sum(") fusion(" in text for text in texts) > 1


def test_siblings_by_hand() -> None:
    made = fuse_pair(module(), "a", "b")
    assert results(made, "tanh_sine_fusion") == ["sine", "tanh"]
    assert taken(made, "c") == [("tanh_sine_fusion", 1), ("tanh_sine_fusion", 0)]
    assert made.instruction("h").control_predecessors == ("tanh_sine_fusion",)
    assert is_sound(made)


def test_a_sibling_goes_into_a_fusion_of_several_results() -> None:
    made = fuse_pair(module(), "h", "g")
    assert results(made, "g") == ["add", "negate", "ceil"]
    assert taken(made, "r")[3:] == [("g", 0), ("g", 1), ("g", 2)]
    assert is_sound(made)
    again = fuse_pair(made, "g", "f")
    assert results(again, "f") == ["multiply", "ceil", "negate", "add"]  # the last first, as XLA merges
    assert again.instruction("f").attribute("output_to_operand_aliasing") == "{{0}: (1, {})}"
    assert is_sound(again)


def test_what_others_take_too_is_computed_twice_or_kept() -> None:
    twice, kept = (fuse_pair(module(), "a", "c", keep=keep) for keep in (False, True))
    assert "a" in {i.name for i in twice.entry.instructions}
    assert results(kept, "tanh_add_fusion") == ["add", "tanh"]
    assert taken(kept, "f")[0] == ("tanh_add_fusion", 1)
    assert "a" not in {i.name for i in kept.entry.instructions}
    assert is_sound(twice)
    assert is_sound(kept)


def test_what_nobody_else_takes_is_not_kept() -> None:
    lines = tuple("f = f32[9] negate(q)" if line.startswith("f = ") else line for line in LINES)
    made = fuse_pair(module(lines=lines), "a", "c", keep=True)
    assert str(made.instruction("tanh_add_fusion").shape) == "f32[9]{0}"


def test_operands_that_results_lie_over_keep_their_meaning() -> None:
    made = fuse_pair(module(), "a", "f")
    fusion = made.instruction("f")
    assert [operand.name for operand in fusion.operands] == ["q", "p"]
    assert fusion.attribute("output_to_operand_aliasing") == "{{}: (0, {})}"
    lines = tuple(line.replace("(1, {})", "(0, {})") for line in LINES)
    with pytest.raises(HloError, match="cannot fuse ") as refused:
        fuse_pair(module(lines=lines), "a", "f")
    assert "overwrites a in place" in str(refused.value.diagnostics[0].hint)
    left = {decision.rule.name for decision in fuse(module(lines=lines)).rejected if decision.producer.name == "a"}
    assert "overwritten-by-consumer" in left


def test_who_waited_for_what_is_fused_waits_for_the_fusion() -> None:
    lines = tuple(line.replace("add(a, b)", "add(a, q)").replace("fusion(q, b)", "fusion(b, q)") for line in LINES)
    made = fuse_pair(module(lines=lines), "b", "g")
    assert made.instruction("h").control_predecessors == ("g",)
    assert is_sound(made)
    lines = tuple(
        line.replace("fusion(b, q)", "fusion(b, h)") for line in (*lines[:7], lines[10], *lines[7:10], lines[11])
    )
    with pytest.raises(HloError, match="cannot fuse ") as refused:
        fuse_pair(module(lines=lines), "b", "g")
    assert "through other instructions" in str(refused.value.diagnostics[0].hint)


@pytest.mark.parametrize(("first", "second", "kind"), [("kInput", "kLoop", "kInput"), ("kLoop", "kOutput", "kOutput")])
def test_of_two_kinds_the_stronger_stays(first: str, second: str, kind: str) -> None:
    bodies = "f { x = f32[9] parameter(0)  ROOT y = f32[9] negate(x) }  d { x = f32[9] parameter(0)  ROOT y = f32[9] abs(x) }"
    text = f"""HloModule m  {bodies}  ENTRY e {{ p = f32[9] parameter(0)
    a = f32[9] fusion(p), kind={first}, calls=f  ROOT b = f32[9] fusion(a), kind={second}, calls=d }}"""
    assert fuse_pair(parse_module(text), "a", "b").instruction("b").attribute("kind") == kind


@pytest.mark.parametrize(
    ("one", "other", "keep", "says"),
    [
        ("a", "w", False, "shapes differ"),
        ("b", "f", False, "no common operand"),
        ("b", "c", True, "through other instructions|tuple|shapes|loop"),
        ("p", "q", False, "no common operand"),
        ("a", "a", False, "with itself"),
        ("f", "h", False, "updates an operand in place"),
    ],
)
def test_what_cannot_be_made_together_says_why(one: str, other: str, keep: bool, says: str) -> None:
    given = module(lines=(*LINES[:3], LINES[3], *LINES[4:]))
    if (one, other) == ("b", "c"):
        given = module(
            lines=tuple(
                line.replace("add(a, b)", "add(f, b)").replace("fusion(a, q)", "fusion(b, q)") for line in LINES
            )
        )
    with pytest.raises(HloError) as refused:
        fuse_pair(given, one, other, keep=keep)
    assert any(word in str(refused.value) + str(refused.value.diagnostics[0].hint) for word in says.split("|"))


def test_what_is_fused_inside_of_a_copied_fusion_is_copied_too() -> None:
    text = """HloModule m  inner { x = f32[9] parameter(0)  ROOT y = f32[9] negate(x) }
    outer { x = f32[9] parameter(0)  ROOT y = f32[9] fusion(x), kind=kLoop, calls=inner }
    ENTRY e { p = f32[9] parameter(0)  a = f32[9] fusion(p), kind=kLoop, calls=outer
    b = f32[9] abs(a)  c = f32[9] floor(a)  ROOT r = (f32[9], f32[9], f32[9]) tuple(a, b, c) }"""
    made = fuse_pair(parse_module(text), "a", "b")
    assert {computation.name for computation in made.computations} >= {"inner", "inner.clone"}
    again = fuse_pair(made, "a", "c")
    assert is_sound(made)
    assert is_sound(again)


@pytest.mark.parametrize("opcode", ["copy-start", "all-gather", "custom-call"])
def test_what_is_no_kernel_stays_alone(opcode: str) -> None:
    text = f"ENTRY e {{ p = f32[9] parameter(0)  a = f32[9] negate(p)  ROOT b = f32[9] {opcode}(a) }}"
    with pytest.raises(HloError, match="cannot fuse "):
        fuse_pair(parse_module(text), "a", "b")


def test_a_schedule_stays_one() -> None:
    made = fuse_pair(module(head="HloModule m, is_scheduled=true"), "h", "g")
    assert made.is_scheduled
    for instruction in made.entry.instructions:
        assert all(operand.index < instruction.index for operand in instruction.operands)


@pytest.mark.oracle
@pytest.mark.slow
@needs_older_xla("since jaxlib 0.11, XLA:CPU fuses by other rules, which are not modeled")
def test_random_programs_become_kernels_of_several_results_as_the_compiler_makes_them() -> None:
    found = 0
    for given, _, _, several, _ in compiled(20, several=True):
        made = fuse(parse_module(given), SEVERAL).module
        found += several.count(") fusion(")
        assert fusions_of(made) == fusions_of(parse_module(several))
        assert kernels_of(made) == kernels_of(parse_module(several))
    assert found > 10


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("part", parts(8))
def test_all_that_is_made_computes_the_same(part: int) -> None:
    """Compiled modules: taken apart, fused anew, with several results, and by hand."""
    groups = []
    by_hand = 0
    seeds = range(SHARE // 8 * part, SHARE // 8 * (part + 1))
    for seed, (*_, last) in zip(seeds, compiled(seeds.stop)[seeds.start :], strict=True):
        given = parse_module(last)
        apart = unfuse(given)
        made = list(fused_by_hand(given, Random(seed)))
        by_hand += len(made)
        groups.append([last, *map(str, (apart, fuse(apart).module, fuse(apart, SEVERAL).module, *made))])
    assert by_hand >= 5
    assert same_results(groups, exactly=False) == [[True] * (len(group) - 1) for group in groups]


def fused_by_hand(given: Module, random: Random) -> list[Module]:
    """The module with one pair fused, one kept, and two siblings together, as far as there are such."""
    into = [(o, i, k) for i in given.entry.instructions for o in dict.fromkeys(i.operands) for k in (False, True)]
    beside = [(a, b, False) for a in given.entry.instructions for b in given.entry.instructions if share(a, b)]
    made = []
    for pairs in (into, [pair for pair in into if pair[2]], beside):
        random.shuffle(pairs)
        for one, other, keep in pairs[:30]:
            try:
                made.append(fuse_pair(given, one.name, other.name, keep=keep))
            except HloError:
                continue
            break
    return made


def share(one: Instruction, other: Instruction) -> bool:
    are_apart = one is not other and one not in other.operands and other not in one.operands
    return are_apart and bool(set(one.operands) & set(other.operands))

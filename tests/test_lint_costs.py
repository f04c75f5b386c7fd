"""Rules about costs on real dumps: what thresholds do, and what they are told of work that could run meanwhile."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hlo_cli import load, memory_analysis, parse_module
from hlo_cli.analysis.dataflow.dependencies import reached, users_of
from hlo_cli.analysis.fusion.kernels import is_launched
from hlo_cli.analysis.hardware.chip_table import Capacity
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis
from hlo_cli.analysis.memory.peak_advice import Donate, suggestions
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.cli import main
from hlo_cli.commands.memspace.compiler_files import attach_compiler_assignment
from hlo_cli.inputs.input import read_inputs
from hlo_cli.ir.attributes.value_types import Alias
from hlo_cli.lint.advice import Donation, Donations, donation_hint, donations_of
from hlo_cli.lint.rule import LintContext
from hlo_cli.lint.rules.overlap import Pair, independent_kernels
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import MEANINGS, LintSettings
from hlo_cli.report.numbers import format_bytes
from strategies import dump_text, dumps, name_of

FIXTURES = Path(__file__).parent.parent / "fixtures"
ASSIGNED = sorted(FIXTURES.glob("*/*/after_optimizations-buffer-assignment.txt"))
ALLOCATION = re.compile(r"^allocation \d+: size (\d+)(?:, color (\d+))?(.*):$", re.MULTILINE)
COMPILED = [path for path in dumps() if "after_optimizations" in path.name]
ALIASES = re.compile(r", input_output_alias=\{.*?\) \}")
COSTS = LintSettings(("ALL",), ("HLO0", "HLO508"))
SIZES = [name for name, (kind, _) in MEANINGS.items() if kind == "bytes" and name != "max_peak_bytes"]

each_compiled = pytest.mark.parametrize("path", COMPILED, ids=name_of)


def sized(count: int) -> LintSettings:
    """All thresholds of sizes at once."""
    return replace(COSTS, **dict.fromkeys(SIZES, count))  # type: ignore[arg-type]


def missed(text: str) -> set[str]:
    """The arrays that could be donated; the rule reports one of each argument that they are part of."""
    module = parse_module(text)
    found = lint_module(module, LintSettings(("HLO203",), min_donation_bytes=1, min_donation_fraction=0))
    arrays = {each.argument.name for each in donations_of(LintContext(module, COSTS).analyses.memory, 1).arguments}
    reported = {each.instruction for each in found}
    assert reported <= arrays
    assert bool(reported) == bool(arrays)
    return arrays


def told(path: Path, settings: LintSettings) -> set[tuple[str, str]]:
    found = lint_module(parse_module(dump_text(path)), settings)
    return {(each.code, each.message) for each in found}


def test_a_chip_is_known_by_any_of_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--isolated", "--set", "chip=TPU v5 lite", "--show-settings"], standalone=False) == 0
    assert "chip\tv5e\t--set" in capsys.readouterr().out


@each_compiled
def test_smaller_thresholds_find_no_less(path: Path) -> None:
    """HLO508 is the exception: it is about what is smaller than a threshold."""
    assert told(path, sized(1 << 50)) <= told(path, COSTS) <= told(path, sized(1024))


def test_low_thresholds_find_much() -> None:
    codes = {code for path in COMPILED for code, _ in told(path, sized(1024))}
    assert len(codes) > 15


@pytest.mark.parametrize("path", [path for path in COMPILED if ALIASES.search(dump_text(path))], ids=name_of)
def test_donations_are_missed_where_they_are_taken_away(path: Path) -> None:
    """What the programmer donated and the compiler took is what the rule asks for; nothing is asked for twice."""
    text = dump_text(path)
    module = parse_module(text)
    donated = {module.entry.parameters[alias.parameter_number].name for alias in module.input_output_alias}
    assert not missed(text) & donated
    assert len(missed(ALIASES.sub("", text, count=1)) & donated) >= 0.5 * len(donated)


def messages(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is said of a limit that everything breaks."""
    given = ["--isolated", "--select", "HLO201", "--set", "max_peak_bytes=1", "--format", "jsonl"]
    assert main(["lint", str(folder), *given], standalone=False) == 1
    return [json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("path", ASSIGNED, ids=lambda path: path.parent.name)
def test_what_a_module_takes_is_what_the_compiler_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = ALLOCATION.findall(path.read_text())
    taken = sum(int(count) for count, color, more in found if color in ("", "0") and "thread-local" not in more)
    [message] = messages(path.parent, capsys)
    assert message.endswith(
        f" needs {format_bytes(taken)}, more than the limit of 1 B (from the compiler's buffer assignment)"
    )


def test_what_a_module_takes_is_computed_where_the_compiler_does_not_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(FIXTURES / "tpu" / "v5e_conv" / "after_optimizations.txt", tmp_path)
    assert messages(tmp_path, capsys) == ["HBM needs 199.9 MiB, more than the limit of 1 B (computed from the HLO)"]


STEP = """HloModule step, is_scheduled=true
{1}ENTRY e {{
  w = f32[64,64]{{1,0:T(8,128)}} parameter(0)
  x = f32[512,512]{{1,0:T(8,128)}} parameter(1)
  {0}
  d = f32[64,64]{{1,0:T(8,128)S(1)}} negate(v)
  n = f32[64,64]{{1,0:T(8,128)}} add(v, d)
  ROOT r = (f32[64,64]{{1,0:T(8,128)}}, f32[512,512]{{1,0:T(8,128)}}) tuple(n, x)
}}
"""
FETCHED = """s = ((f32[64,64]{1,0:T(8,128)}), f32[32,64]{1,0:T(8,128)S(1)}, s32[]{:S(2)}) async-start(w), calls=first
  t = ((f32[64,64]{1,0:T(8,128)}), f32[32,64]{1,0:T(8,128)S(1)}, s32[]{:S(2)}) async-start(OTHER), calls=second
  f = f32[32,64]{1,0:T(8,128)S(1)} async-done(s)
  g = f32[32,64]{1,0:T(8,128)S(1)} async-done(t)
  v = f32[64,64]{1,0:T(8,128)S(1)} custom-call(f, g), custom_call_target="ConcatBitcast\""""
HALVES = "".join(
    f"{name} {{ p = f32[64,64]{{1,0:T(8,128)}} parameter(0)  "
    f"ROOT s = f32[32,64]{{1,0:T(8,128)S(1)}} slice(p), slice={{[{start}:{start + 32}], [0:64]}} }}\n"
    for name, start in (("first", 0), ("second", 32))
)


def test_a_donation_is_missed_where_the_argument_is_fetched_in_pieces() -> None:
    """As TPU compilers write it: slices under way at once, and a call that joins them."""
    assert missed(STEP.format(FETCHED.replace("OTHER", "w"), HALVES)) == {"w"}
    other = "u = f32[64,64]{1,0:T(8,128)} negate(w)\n  "
    assert not missed(STEP.format(other + FETCHED.replace("OTHER", "u"), HALVES)), "half of it is of another array"


PADDED = "f32[40,40,40]{2,1,0:T(8,128)}"
MERGED = "with merged dimensions, such as f32[40,1600], which needs only 260 KiB"


@pytest.mark.parametrize(
    ("lines", "header", "hints"),
    [
        ('ROOT n = f32[] custom-call(p), custom_call_target="f"', "", [f"pass p {MERGED}"]),
        (f"ROOT n = {PADDED} negate(p)", "", [f"pass p {MERGED}", f"return it {MERGED}"]),
        (f"n = {PADDED} negate(p)  ROOT t = ({PADDED}) tuple(n)", "", [f"pass p {MERGED}", f"return it {MERGED}"]),
        (f'n = {PADDED} negate(p)  ROOT c = f32[] custom-call(n), custom_call_target="f"', "", [f"pass p {MERGED}", None]),
        (f"ROOT n = {PADDED} negate(p)", ", input_output_alias={ {}: (0, {}, may-alias) }", [None, None]),
    ],
)  # fmt: skip
def test_padding_is_avoided_where_arrays_come_in_and_go_out(lines: str, header: str, hints: list[str | None]) -> None:
    """Of values inside, the compiler chooses the shape; and what is donated has that of its result."""
    text = f"HloModule m, is_scheduled=true{header}  ENTRY e {{ p = {PADDED} parameter(0)  {lines} }}"
    assert [each.hint for each in lint_module(parse_module(text), LintSettings(select=("HLO101",)))] == hints


@pytest.mark.parametrize(("least", "names"), [(64, "p q"), (65, "p"), (4096, "p"), (4097, "")])
def test_each_donated_argument_has_as_many_bytes_as_asked_for(least: int, names: str) -> None:
    text = """HloModule m, is_scheduled=true  ENTRY e { p = f32[1024] parameter(0)  q = f32[16] parameter(1)
      n = f32[1024] negate(p)  m = f32[16] negate(q)  ROOT t = (f32[1024], f32[16]) tuple(n, m) }"""
    found = donations_of(LintContext(parse_module(text), LintSettings()).analyses.memory, least)
    assert [each.argument.name for each in found.arguments] == names.split()


def test_pieces_are_fetched_in_the_short_form_too() -> None:
    short = re.sub(r"async-start\((\w+)\), calls=first", r"slice-start(\1), slice={[0:32], [0:64]}", FETCHED)
    short = re.sub(r"async-start\((\w+)\), calls=second", r"slice-start(\1), slice={[32:64], [0:64]}", short)
    short = short.replace("async-done", "slice-done")
    assert missed(STEP.format(short.replace("OTHER", "w"), "")) == {"w"}


def test_a_donation_is_missed_where_a_copy_of_the_argument_is_updated() -> None:
    text = "HloModule m, is_scheduled=true\nENTRY e { c = f32[64,8]{1,0} parameter(0)  i = s32[] parameter(1)\n"
    text += "x = f32[1,8]{1,0} parameter(2)  k = f32[64,8]{1,0} copy(c)  z = s32[] constant(0)\n"
    assert missed(text + "ROOT n = f32[64,8]{1,0} dynamic-update-slice(k, x, i, z) }") == {"c"}


def test_a_donation_is_worth_a_share_of_what_the_module_takes() -> None:
    """All of them together: many small ones are as good as a large one."""
    line = "v = f32[64,64]{1,0:T(8,128)S(1)} copy(w)"
    text = STEP.format(line, "")
    taken = sum(each.size for each in memory_analysis(parse_module(text)).allocations if each.space == 0)
    for share, is_told in ((31 * 1024 / taken, True), (33 * 1024 / taken, False)):
        found = lint_module(
            parse_module(text), LintSettings(("HLO203",), min_donation_bytes=1, min_donation_fraction=share)
        )
        assert bool(found) is is_told


@each_compiled
def test_kernels_beside_a_wait_are_those_that_reach_neither_end(path: Path) -> None:
    overlap = analyze_overlap(parse_module(dump_text(path)))
    pairs = [(flight.pair.start, flight.pair.dones[0]) for flight in overlap.intervals if flight.pair.dones]
    pairs += [(each, each) for each in overlap.synchronous]
    assert independent_kernels(pairs) == {pair: beside(pair) for pair in pairs}


def beside(pair: Pair) -> int:
    """One pair by itself, by following operands and users."""
    start, done = pair
    users = users_of(start.computation)
    bound = reached([start], lambda each: each.operands)
    bound |= reached([done], lambda each: users[each]) if done in users else {}
    free = (each for each in start.computation.instructions if each not in bound)
    return sum(is_launched(each) and not each.opcode.endswith("-start") for each in free)


@pytest.mark.parametrize(("saved", "expected"), [(200, 100), (190, 100), (189, None), (0, None)])
def test_what_one_donation_saves_is_known_where_all_together_save_their_sum(saved: int, expected: int | None) -> None:
    """But for a twentieth, as offsets are rounded up."""
    argument = parse_module("ENTRY e { p = f32[25] parameter(0)  ROOT n = f32[25] negate(p) }").entry.parameters[0]
    each = Donation(argument, argument, 100, Alias((), 0, (), "may-alias"))
    assert Donations((each, each), saved).saved_by(each) == expected


def test_donations_are_computed_once_for_all_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(memory: MemoryAnalysis, min_bytes: int) -> Donations:
        calls.append(min_bytes)
        return donations_of(memory, min_bytes)

    monkeypatch.setattr("hlo_cli.lint.rules.memory.donations_of", counted)
    shape = "f32[64,128]{1,0:T(8,128)}"
    copies = "".join(f"  c{n} = {shape} copy({f'c{n - 1}' if n else 'p'})\n" for n in range(30))
    module = parse_module(f"HloModule m, is_scheduled=true\nENTRY e {{\n  p = {shape} parameter(0)\n{copies}}}\n")
    assert len(lint_module(module, LintSettings(("HLO204",), min_copy_bytes=1))) == 30
    assert calls == [1]


def test_a_donation_is_missed_where_lists_of_what_kernels_overwrite_leave_out_the_argument() -> None:
    """As TPU compilers write `x * 2`: without donation, the argument is in no list. Donated, the result overwrites it."""
    tiled = "f32[512,512]{1,0:T(8,128)}"
    text = f"""HloModule m, is_scheduled=true
f {{ p = {tiled} parameter(0)  ROOT d = {tiled} add(p, p) }}
ENTRY e {{
  x = {tiled} parameter(0)
  ROOT r = {tiled} fusion(x), kind=kLoop, calls=f, backend_config={{"aliasing_operands":{{"lists":[]}}}}
}}"""
    assert missed(text) == {"x"}


def test_the_hint_for_a_space_is_about_that_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Donating an argument lowers the peak of main memory, where arguments are, and no other."""
    chip = find_chip("v5e")
    small = replace(chip, usable=None, memories={0: Capacity(1 << 10, ""), 1: Capacity(1 << 10, "")})
    monkeypatch.setattr("hlo_cli.lint.rules.memory.find_chip", lambda _: small)
    folder = FIXTURES / "tpu" / "v5e_collectives"
    module = parse_module((folder / "after_optimizations.txt").read_text())
    attach_compiler_assignment(module, next(iter(read_inputs([str(folder)]))))
    found = lint_module(module, LintSettings(("HLO201",), chip="v5e"))
    hints = {each.message.split()[0]: each.hint or "" for each in found}
    assert hints.keys() == {"HBM", "VMEM"}
    assert hints["VMEM"] == "reduce the dot_general at operations.py:34, the largest value at the peak (272 KiB)"
    assert hints["HBM"].startswith("donate x to lower the peak to ")


@pytest.mark.parametrize(
    ("names", "saved", "start"),
    [
        (["a['w']", "b.x"], 2048, "donate a: "),  # each saves its own
        (["a['w']", "b.x"], 1024, "donate a and b: "),  # only together is it known what they save
        (["a['w']", "a['v']"], 1024, "donate a: "),  # JAX donates whole arguments
        (["a['w']"], 512, "donate a: "),
        (["a", "b", "c", "d"], 1024, "donate a, b, c, and 1 more: "),
    ],
)
def test_which_arguments_are_donated_for_what_is_saved(names: list[str], saved: int, start: str) -> None:
    given = "  ".join(f'p{n} = f32[256] parameter({n}), metadata={{op_name="{name}"}}' for n, name in enumerate(names))
    module = parse_module(f"ENTRY e {{ {given}  ROOT r = f32[256] negate(p0) }}")
    each = [
        Donation(parameter, parameter, 1024, Alias((), number, (), "may-alias"))
        for number, parameter in enumerate(module.entry.parameters)
    ]
    hint = donation_hint(LintContext(module, LintSettings()), Donations(tuple(each), saved), each[0])
    assert hint.startswith(start)
    assert hint.endswith(f" needs {format_bytes(1024 if saved == 1024 * len(names) else saved)} less")


def test_the_arrays_of_an_argument_count_together() -> None:
    """JAX donates whole arguments: eight arrays of a quarter of the least size are worth a finding, one of it is not."""

    def arrays(count: int) -> str:
        given = "  ".join(
            f"p{n} = f32[256,256]{{1,0}} parameter({n}), metadata={{op_name=\"params['{n}']\"}}" for n in range(count)
        )
        made = "  ".join(f"n{n} = f32[256,256]{{1,0}} negate(p{n})" for n in range(count))
        shapes = ", ".join(["f32[256,256]{1,0}"] * count)
        names = ", ".join(f"n{n}" for n in range(count))
        return f"HloModule m, is_scheduled=true  ENTRY e {{ {given}  {made}  ROOT t = ({shapes}) tuple({names}) }}"

    found = lint_module(parse_module(arrays(8)), LintSettings(("HLO203",)))
    assert [each.hint for each in found] == [
        "donate params: in JAX, donate_argnums of jax.jit; the module then needs 2 MiB less"
    ]
    assert [(each.cost_bytes, each.message.partition(":")[0]) for each in found] == [
        (2 << 20, "params (8 arrays, 2 MiB) could be donated")
    ]
    assert not lint_module(parse_module(arrays(1)), LintSettings(("HLO203",)))


@each_compiled
def test_what_findings_on_donations_cost_adds_up_to_what_donating_saves(path: Path) -> None:
    """The bytes of the arguments are more where temporaries had the memory of the results."""
    module = parse_module(dump_text(path))
    donations = donations_of(LintContext(module, COSTS).analyses.memory, 1)
    found = lint_module(module, LintSettings(("HLO203",), min_donation_bytes=1, min_donation_fraction=0))
    costs = [each.cost_bytes or 0 for each in found]
    assert not costs or sum(costs) >= donations.saved_bytes * 0.95 - len(costs)
    assert sum(costs) <= donations.saved_bytes / 0.95


def test_arguments_save_their_share_if_all_save_less_than_they_need() -> None:
    given = "  ".join(f'p{n} = f32[256] parameter({n}), metadata={{op_name="{n}"}}' for n in range(3))
    module = parse_module(f"ENTRY e {{ {given}  ROOT r = f32[256] negate(p0) }}")
    alias = Alias((), 0, (), "may-alias")
    every = tuple(Donation(parameter, parameter, 1024, alias) for parameter in module.entry.parameters)
    assert [Donations(every, saved).saving_of(every[:2]) for saved in (3072, 2950, 1536)] == [2048, 2048, 1024]


@pytest.mark.parametrize(
    ("made", "is_found"),
    [
        ("w = f32[512,512]{1,0} broadcast(z), dimensions={}", False),
        ("w = f32[512,512]{1,0} fusion(z), kind=kLoop, calls=filled", False),
        ("w = f32[512,512]{1,0} broadcast(r), dimensions={1}", True),  # a row is the user's own
        ("w = f32[512,512]{1,0} negate(x)", True),
    ],
)
def test_copies_of_an_array_of_one_value_are_the_compilers(made: str, is_found: bool) -> None:
    """Witness: the gradient of a scan of a transformer's layers (jax 0.10.2, CPU) has five copies of one such array."""
    module = parse_module(f"""HloModule m, is_scheduled=true
filled {{ s = f32[] parameter(0)  ROOT f = f32[512,512]{{1,0}} broadcast(s), dimensions={{}} }}
ENTRY e {{
  x = f32[512,512]{{1,0}} parameter(0)
  r = f32[512]{{0}} parameter(1)
  z = f32[] constant(0)
  {made}
  c = f32[512,512]{{1,0}} copy(w)
  ROOT a = f32[512,512]{{1,0}} add(c, x)
}}""")
    assert bool(lint_module(module, LintSettings(("HLO204",), min_copy_bytes=1))) is is_found


@pytest.mark.parametrize("dump", ["cpu/wide", "tpu/v5e_kernel", "tpu/v5e_spectrum"])
def test_a_donation_is_that_of_memspace(dump: str) -> None:
    """Each argument alone could save less, or more memory for temporaries would be needed: one search tries the sets."""
    memory = memory_analysis(load(str(FIXTURES / dump)))
    [suggestion] = [each for each in suggestions(memory) if isinstance(each.change, Donate)]
    found = donations_of(memory, 1)
    assert isinstance(suggestion.change, Donate)
    assert {each.alias for each in found.arguments} == {each.alias for each in suggestion.change.pairs}
    assert found.saved_bytes == suggestion.before_bytes - suggestion.peak_bytes
    later = {each.alias for each in found.arguments if each.is_read_later}
    assert later == {each.alias for each in suggestion.change.pairs if each.kind == "copied"}


ATTENTION = """HloModule m, is_scheduled=true
ENTRY e {
  q = bf16[64,65536]{1,0:T(8,128)(2,1)} parameter(0)
  s = bf16[65536,131072]{1,0:T(8,128)(2,1)} custom-call(q), custom_call_target="scores"
  r = bf16[65536]{0:T(1024)(128)(2,1)} custom-call(s), custom_call_target="rows"
  c = f32[65536,128]{1,0:T(8,128)} custom-call(r), custom_call_target="next"
  h = f32[65536,128]{0,1:T(8,128)} copy(c)
  ROOT y = f32[64]{0:T(128)} custom-call(h), custom_call_target="last"
}
"""


def test_the_fix_of_a_temporary_that_does_not_fit_is_with_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first finding names the change that makes the program fit, and bytes that take no time have no share of it."""
    path = tmp_path / "attention.txt"
    path.write_text(ATTENTION)
    assert main(["lint", str(path), "--chip", "v5e", "--format", "screen"], standalone=False) == 1
    screen = capsys.readouterr().out
    first, second = screen.index("error HLO201"), screen.index("warning HLO202")
    assert "help: compute s in chunks: in JAX, jax.lax.map with batch_size" in screen[first:second]
    assert "help: compute it in chunks" in screen[second:]
    assert "costs 16 GiB\n" in screen
    assert "(0%)" not in screen


def test_the_fix_of_a_converted_intermediate_is_not_about_arguments() -> None:
    """A report shows the first sentence of a rule's fix where no argument is involved."""
    from hlo_cli.lint.run import rule_of

    fix = rule_of("HLO302").page.fix
    assert "argument" not in fix.partition(". ")[0]


def test_each_result_of_an_all_reduce_is_sliced_or_not() -> None:
    """XLA's combiner makes one all-reduce of several: those that are sliced, here in fusions, and those that are not."""
    text = """HloModule m, is_scheduled=true, replica_count=4
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    part { p = f32[4096,64] parameter(0)  i = s32[] parameter(1)  z = s32[] constant(0)
      d = f32[1024,64] dynamic-slice(p, i, z), dynamic_slice_sizes={1024,64}  ROOT n = f32[1024,64] negate(d) }
    ENTRY e { x = f32[4096,64] parameter(0)  y = f32[4096,64] parameter(1)  i = s32[] parameter(2)
      s = (f32[4096,64], f32[4096,64]) all-reduce(x, y), replica_groups={{0,1,2,3}}, to_apply=add
      g = f32[4096,64] get-tuple-element(s), index=0  h = f32[4096,64] get-tuple-element(s), index=1
      u = f32[1024,64] fusion(g, i), kind=kLoop, calls=part  v = SECOND  ROOT t = (f32[1024,64], f32[1024,64]) tuple(u, v) }"""
    second = "f32[1024,64] fusion(h, i), kind=kLoop, calls=part"
    whole = "f32[4096,64] negate(h)"
    both, one = (
        [each.message for each in lint_module(parse_module(text.replace("SECOND", each)), LintSettings(("HLO502",)))]
        for each in (second, whole)
    )
    assert both == ["all-reduce of s reduces 2 MiB, but only 512 KiB of it are used"]
    assert one == ["all-reduce of s reduces 1 MiB in 1 of its 2 results, but only 256 KiB of it are used"]

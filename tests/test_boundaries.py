"""Rules and analyses at their bounds: what is just enough, and what is one less, or one more."""

from __future__ import annotations

import re
from dataclasses import replace
from io import BytesIO

import pytest

from hlo_cli import HloError, parse_module, parse_shape
from hlo_cli.analysis.shapes.inference import infer_shape
from hlo_cli.inputs.input import read_inputs
from hlo_cli.ir.instruction import users_among
from hlo_cli.lint.advice import argument_of
from hlo_cli.lint.finding_facts import cost_meaning
from hlo_cli.lint.rule import LintContext, _threads_of, structure_of
from hlo_cli.lint.rules.invalid_distribution import _offsets_fit
from hlo_cli.lint.run import lint_module
from hlo_cli.lint.settings import LintSettings
from hlo_cli.lint.value_flow import carry_index, loop_invariants, passes_through, producer_through, transitive_uses
from lint_cases import CASES, Case
from lint_cost_cases import COLLECTED, COST_CASES, ROUNDS


def codes(text: str, **settings: int) -> set[str]:
    """The rules that have something to say of the cost of a module."""
    chosen = LintSettings(select=("HLO1", "HLO2", "HLO3", "HLO4"), **settings)  # type: ignore[arg-type]
    return {found.code for found in lint_module(parse_module(text), chosen)}


@pytest.mark.parametrize(("inner", "is_found"), [("f32", True), ("f16", False), ("f8e5m2", False)])
def test_only_what_is_converted_to_more_bits_and_back_is_needless(inner: str, is_found: bool) -> None:
    """Between types of as many bits a conversion loses something, so that it is not one for nothing."""
    text = f"""HloModule m, is_scheduled=true
    ENTRY e {{ t = f32[8,128]{{1,0:T(8,128)}} parameter(1)  x = bf16[512,512] parameter(0)  a = {inner}[512,512] convert(x)
      b = {inner}[512,512] transpose(a), dimensions={{1,0}}  ROOT c = bf16[512,512] convert(b) }}"""
    assert ("HLO303" in codes(text)) == is_found


COPIED = "c = f32[512,512]{{0,1}} copy({0})"


def test_a_copy_inside_of_a_kernel_is_no_pass_over_memory() -> None:
    alone = "ENTRY e { p = f32[512,512]{1,0} parameter(0)  ROOT " + COPIED.format("p") + " }"
    assert "HLO102" in codes(f"HloModule m  {alone}")
    body = "f { a = f32[512,512]{1,0} parameter(0)  ROOT " + COPIED.format("a") + " }"
    entry = "ENTRY e { p = f32[512,512]{1,0} parameter(0)"
    fusion = "ROOT k = f32[512,512]{0,1} fusion(p), kind=kLoop, calls=f }"
    assert "HLO102" not in codes(f"HloModule m  {body}  {entry}  {fusion}")
    call = "ROOT k = f32[512,512]{0,1} call(p), to_apply=f }"
    assert "HLO102" in codes(f"HloModule m  {body}  {entry}  {call}")


def waited_for(operation: str, between: str) -> str:
    """A module that starts an operation on 4,096 bytes and waits for it, with or without something between."""
    shape = "f32[1024]{0}"
    start = {
        "copy": f"({shape}, {shape}, u32[]) copy-start(x)",
        "all-reduce": f"{shape} all-reduce-start(x), replica_groups={{}}, to_apply=add",
    }[operation]
    return f"""HloModule m, is_scheduled=true
    add {{ i = f32[] parameter(0)  j = f32[] parameter(1)  ROOT k = f32[] add(i, j) }}
    ENTRY e {{ x = {shape} parameter(0)  s = {start}  {between}  ROOT d = {shape} {operation}-done(s) }}"""


@pytest.mark.parametrize(("code", "between"), [("HLO402", ""), ("HLO401", "t = (f32[1024]{0}) tuple(x)")])
def test_a_transfer_is_told_of_from_its_bound_on(code: str, between: str) -> None:
    """Between devices that is min_transfer_bytes; within one the larger of that and min_prefetch_bytes."""
    reduced, copied = waited_for("all-reduce", between), waited_for("copy", between)
    assert code in codes(reduced, min_transfer_bytes=4096, min_prefetch_bytes=2**40)
    assert code not in codes(reduced, min_transfer_bytes=4097, min_prefetch_bytes=1)
    assert code in codes(copied, min_transfer_bytes=4096, min_prefetch_bytes=4096)
    assert code not in codes(copied, min_transfer_bytes=4096, min_prefetch_bytes=4097)
    assert code not in codes(copied, min_transfer_bytes=4097, min_prefetch_bytes=4096)


@pytest.mark.parametrize(
    ("given", "taken", "made", "groups", "message"),
    [
        (4, 2, 6, 2, None),
        (5, 2, 6, 2, "5 input features are not divisible"),
        (4, 2, 5, 2, "5 output features are not divisible"),
        (4, 1, 6, 2, "expected 2 input features in the kernel, found 1"),
        (4, 4, 6, 0, "group counts must be at least 1"),
    ],
)
def test_groups_of_features_divide_them(given: int, taken: int, made: int, groups: int, message: str | None) -> None:
    """As `InferConvolveShape` of xla/service/shape_inference.cc asks."""
    shapes = f"f32[1,9,{given}] x, f32[3,{taken},{made}] k"
    says = f"window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f, feature_group_count={groups}"
    root = parse_module(f"r = f32[1,9,{made}] convolution({shapes}), {says}").entry.root
    assert root is not None
    if message is None:
        assert str(infer_shape(root)).startswith(f"f32[1,9,{made}]")
        return
    with pytest.raises(HloError, match=message):
        infer_shape(root)


@pytest.mark.parametrize(("size", "is_fine"), [(2**63 - 1, True), (2**63, False), (2**64, False)])
def test_an_array_holds_less_than_2_to_the_63(size: int, is_fine: bool) -> None:
    for text in (f"s8[{size}]", f"pred[1,{size}]"):
        try:
            problem = parse_shape(text).problem  # type: ignore[union-attr]
        except HloError:
            problem = "not read"
        assert (problem is None) == is_fine
    halves = parse_shape(f"s8[{2**31},{2**32 - 1 if is_fine else 2**32}]")
    assert (halves.problem is None) == is_fine  # type: ignore[union-attr]


def test_the_size_of_a_tile_is_less_than_2_to_the_63() -> None:
    assert str(parse_shape(f"f32[4]{{0:T({2**63 - 1})}}")).endswith(f"T({2**63 - 1})}}")
    with pytest.raises(HloError, match="invalid dimension size"):
        parse_shape(f"f32[4]{{0:T({2**63})}}")


def test_standard_input_has_no_stage() -> None:
    """Its name does not tell any, so none can be chosen."""
    text = b"HloModule jit_f\n\nENTRY e {\n}\n"
    assert len(read_inputs(["-"], stdin=BytesIO(text))) == 1
    for arguments in (["-"], []):
        with pytest.raises(HloError, match="stage 'after_optimizations' not found in <stdin>"):
            read_inputs(arguments, stage="after_optimizations", stdin=BytesIO(text))


def test_a_small_value_beside_a_large_one_is_not_told_of() -> None:
    text = """HloModule m, is_scheduled=true
    ENTRY e { p = f32[16]{0} parameter(0)  a = f32[16]{0} negate(p)  b = f32[64,16]{1,0} broadcast(a), dimensions={1}
      c = f32[64,16]{1,0} negate(b)  ROOT r = f32[16]{0} custom-call(c), custom_call_target="f" }"""
    chosen = LintSettings(select=("HLO202",), min_value_bytes=4096)
    told = [found.message for found in lint_module(parse_module(text), chosen)]
    assert told
    assert not [message for message in told if message.startswith("a ")]


@pytest.mark.parametrize(
    ("target", "to", "is_found"),
    [("", "bf16", True), ("", "f32", False), ("cpu", "bf16", False)],
)
def test_what_is_stored_wide_and_read_narrow(target: str, to: str, is_found: bool) -> None:
    """On a CPU bf16 goes by way of f32; and what is the result of the program is as wide as it says."""
    config, tiles = ', custom_call_target="f"', "" if target == "cpu" else ":T(8,128)"
    text = f"""HloModule m, is_scheduled=true
    f {{ a = f32[512,512]{{1,0LAYOUT}} parameter(0)  ROOT b = f32[512,512]{{1,0LAYOUT}} negate(a) }}
    ENTRY e {{ p = f32[512,512]{{1,0LAYOUT}} parameter(0)  k = f32[512,512]{{1,0LAYOUT}} fusion(p), kind=kLoop, calls=f
      c = {to}[512,512]{{1,0}} convert(k)  ROOT r = {to}[512,512]{{1,0}} custom-call(c){config} }}""".replace(
        "LAYOUT", tiles
    )
    assert ("HLO304" in codes(text, min_kernel_bytes=1)) == is_found
    root = text.replace("c = ", "ROOT c = ").split("ROOT r")[0].replace("ROOT c", "c").replace("k = ", "ROOT k = ")
    assert "HLO304" not in codes(root + "}", min_kernel_bytes=1)


@pytest.mark.parametrize(
    ("header", "tiles", "is_found"),
    [
        (", is_scheduled=true", ":T(8,128)", True),
        ("", ":T(8,128)", False),  # later passes remove most of them
        (", is_scheduled=true", "", False),  # CPUs compute bf16 in f32
        ("", "", False),
    ],
)
@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("HLO302", "ROOT c = NARROW convert(x)"),
        ("HLO303", "b = NARROW CALL(x)  a = WIDE convert(b)  t = WIDE transpose(a)TURN  ROOT c = NARROW convert(t)"),
        ("HLO304", "n = WIDE negate(x)  c = NARROW convert(n)  ROOT r = NARROW CALL(c)"),
    ],
)
def test_conversions_are_told_of_in_final_programs(
    code: str, lines: str, header: str, tiles: str, is_found: bool
) -> None:
    lines = lines.replace("TURN", ", dimensions={1,0}").replace("WIDE", f"f32[512,512]{{1,0{tiles}}}")
    lines = lines.replace("NARROW", f"bf16[512,512]{{1,0{tiles}}}")
    lines = re.sub(r"CALL(\(.\))", r'custom-call\1, custom_call_target="f"', lines)
    text = f"HloModule m{header}  ENTRY e {{ x = f32[512,512]{{1,0{tiles}}} parameter(0)  {lines} }}"
    assert (code in codes(text, min_kernel_bytes=1)) is is_found


def test_a_buffer_may_be_made_of_nothing() -> None:
    text = """HloModule m  ENTRY e { b = b(f32[4]{0}) custom-call(), custom_call_target="CreateBuffer"
      ROOT a = f32[4]{0} custom-call(b), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})} }"""
    told = [found.message for found in lint_module(parse_module(text), LintSettings(select=("HLO0",)))]
    assert not [message for message in told if "CreateBuffer" in message]


BOUNDS = (
    ("HLO102", "min_copy_bytes", 512 * 512),
    ("HLO103", "min_copy_bytes", 512 * 1024),
    ("HLO104", "min_padding_bytes", 550 * 1024),
    ("HLO105", "min_copy_bytes", 512 * 1024),
    ("HLO106", "min_copy_bytes", 512 * 1024),
    ("HLO202", "min_value_bytes", 512 * 1024),
    ("HLO203", "min_donation_bytes", 1 << 20),
    ("HLO204", "min_copy_bytes", 512 * 1024),
    ("HLO205", "min_constant_bytes", 1 << 20),
    ("HLO206", "min_argument_bytes", 1 << 20),
    ("HLO207", "min_prefetch_bytes", 4096),
    ("HLO208", "min_prefetch_bytes", 4096),
    ("HLO209", "min_prefetch_bytes", 10 * 4096),
    ("HLO301", "min_kernel_bytes", 256 * 1024),
    ("HLO302", "min_kernel_bytes", 512 * 1024),
    ("HLO303", "min_kernel_bytes", 512 * 1024),
    ("HLO304", "min_kernel_bytes", 1 << 20),
    ("HLO305", "min_kernel_bytes", 512 * 1024),
    ("HLO403", "min_transfer_bytes", 256 * 1024),
    ("HLO501", "min_transfer_bytes", 1 << 20),
    ("HLO502", "min_transfer_bytes", 1 << 20),
    ("HLO503", "min_transfer_bytes", 256 * 1024),
    ("HLO504", "min_replicated_bytes", 64 << 20),
    ("HLO505", "min_transfer_bytes", 10 * 16 * 1024),
    ("HLO507", "min_transfer_bytes", 1 << 20),
    ("HLO508", "min_combinable_count", 2),
    ("HLO509", "min_transfer_bytes", 256 * 1024),
    ("HLO510", "min_replicated_bytes", 64 << 20),
    ("HLO703", "min_accumulated_elements", 256),
    ("HLO707", "min_kernel_bytes", 1 << 20),
)
"""Rules, the setting from which on each speaks, and how much there is of it in the first of its cases that says so."""


@pytest.mark.parametrize(("code", "setting", "bound"), BOUNDS)
def test_a_rule_speaks_from_its_bound_on(code: str, setting: str, bound: int) -> None:
    def speaks(case: Case, least: int) -> bool:
        module = parse_module(case.bad.replace("«", "").replace("»", ""))
        chosen = replace(case.settings, select=(code,), **{setting: least})  # type: ignore[arg-type]
        return code in {found.code for found in lint_module(module, chosen)}

    cases = [case for case in (*COST_CASES, *CASES) if case.code == code]
    case = next(case for case in cases if not speaks(case, 2**60))
    assert speaks(case, bound)
    assert not speaks(case, bound + 1)


def test_what_is_moved_out_and_back_counts_in_every_round() -> None:
    main, fast = ("f32[8,128]{1,0:T(8,128)}", "f32[8,128]{1,0:T(8,128)S(1)}")
    steps = f"n = {fast} negate(w)  a = {main} copy(n)  b = {fast} copy(a)  y = {main} add(b, x)"
    text = ROUNDS.format("", "", steps, "w, y", "")
    for least, number in ((10 * 4096, 1), (10 * 4096 + 1, 0)):
        found = lint_module(parse_module(text), LintSettings(select=("HLO207",), min_prefetch_bytes=least))
        assert len(found) == number


@pytest.mark.parametrize(
    ("sharding", "is_found"),
    [
        ("{replicated}", True),
        ("{{replicated}}", True),
        ("{devices=[1,1,4]<=[4] last_tile_dim_replicate}", True),
        ("{devices=[1,2,2]<=[4] last_tile_dim_replicate}", False),
        ("{{devices=[4,1]<=[4]}}", False),
        ("{maximal device=0}", False),
        ("{manual}", False),
    ],
)
def test_what_every_device_holds(sharding: str, is_found: bool) -> None:
    text = f"HloModule m, num_partitions=4  ENTRY e {{ ROOT p = f32[8,8] parameter(0), sharding={sharding} }}"
    found = lint_module(parse_module(text), LintSettings(select=("HLO504",), min_replicated_bytes=1))
    assert bool(found) == is_found


@pytest.mark.parametrize(
    ("sharding", "saved"),
    [
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 64),
        ("{devices=[1,2,2]<=[4] last_tile_dim_replicate}", 64),
        ("{mesh['x'=2,'y'=2], [{'y'}, {}]}", 64),
        ("{replicated}", 0),
        ("{devices=[2,2]<=[4]}", 0),
        ("{devices=[2,1,2]<=[4] last_tile_dims={manual}}", 0),
        ("{maximal device=0}", 0),
    ],
)
def test_what_several_devices_hold(sharding: str, saved: int) -> None:
    """f32[8,8] on four devices: of two halves, two copies each."""
    text = f"HloModule m, num_partitions=4  ENTRY e {{ ROOT p = f32[8,8] parameter(0), sharding={sharding} }}"
    found = lint_module(parse_module(text), LintSettings(select=("HLO510",), min_replicated_bytes=1))
    assert sum(each.cost_bytes or 0 for each in found) == saved


@pytest.mark.parametrize(("header", "is_found"), [(", is_scheduled=true", True), ("", False)])
def test_donations_are_missed_in_what_is_scheduled(header: str, is_found: bool) -> None:
    """Before, nobody knows which value is written where."""
    text = f"HloModule m{header}  ENTRY e {{ x = f32[8]{{0}} parameter(0)  ROOT y = f32[8]{{0}} negate(x) }}"
    found = lint_module(parse_module(text), LintSettings(select=("HLO203",), min_donation_bytes=1))
    assert bool(found) == is_found


@pytest.mark.parametrize(
    ("read", "written", "change"),
    [
        ("{1,0}", "{1,0:T(8,128)}", "the tiles from none to (8,128)"),
        ("{1,0:T(8,128)}", "{1,0:T(8,128)(2,1)}", "the tiles from (8,128) to (8,128)(2,1)"),
        ("{1,0:T(8,128)}", "{0,1}", "the dimension order from {1,0} to {0,1}"),
        ("{1,0:T(8,128)}", "{1,0:T(8,128)S(1)}", None),
    ],
)
def test_a_copy_changes_the_order_or_the_tiles(read: str, written: str, change: str | None) -> None:
    text = f"HloModule m  ENTRY e {{ x = bf16[8,128]{read} parameter(0)  ROOT y = bf16[8,128]{written} copy(x) }}"
    found = lint_module(parse_module(text), LintSettings(select=("HLO102",), min_copy_bytes=1))
    assert [each.message for each in found] == (
        [f"x (bf16[8,128], 2 KiB) is copied to change {change}"] if change else []
    )


ORDER = "in dimension order {{{}}}: in JAX, {}=Format(Layout(({})), sharding)"
PASSED = "pass x " + ORDER.format("0,1", "in_shardings", "1, 0")
RETURNED = "return it " + ORDER.format("1,0", "out_shardings", "0, 1")
DONATED = ", input_output_alias={ {}: (0, {}, may-alias) }"
READ = 'ROOT r = f32[256,512]{1,0} custom-call(c), custom_call_target="f"'
AGAIN = READ.replace("(c)", "(c, x)")
NEGATED = "n = f32[256,512]{1,0} negate(x)  "
COPY = "c = f32[256,512]{0,1} copy(x)  "
FETCHED = "s = (f32[256,512]{1,0:S(1)}, f32[256,512]{1,0}, u32[]) copy-start(x)  d = f32[256,512]{1,0:S(1)} copy-done(s)  n = f32[256,512]{1,0} negate(d)  "
TURNED = 'c = f32[512,256]{1,0} transpose(x), dimensions={1,0}, metadata={op_name="jit(f)/transpose"}  '
CONVERTED = "c = bf16[256,512]{1,0:T(8,128)(2,1)} convert(x)  "


@pytest.mark.parametrize(
    ("code", "lines", "header", "hint"),
    [
        ("HLO102", COPY + READ, "", PASSED),
        ("HLO102", COPY + READ, DONATED, None),  # has to keep the layout of the result
        ("HLO102", COPY + AGAIN, "", None),  # is read in its layout, too
        ("HLO102", COPY + FETCHED + READ, "", None),
        (
            "HLO102",
            COPY + FETCHED.replace("n = f32[256,512]{1,0} negate(d)  ", "") + READ,
            "",
            PASSED,
        ),  # nobody reads it
        ("HLO102", f"ROOT {COPY}", "", None),  # is an argument and a result: which one is not known
        ("HLO102", COPY + "ROOT t = (f32[256,512]{0,1}) tuple(c)", "", None),
        ("HLO102", NEGATED + "ROOT c = f32[256,512]{0,1} copy(n)", "", RETURNED),
        ("HLO102", NEGATED + "ROOT c = f32[256,512]{0,1} copy(n)", DONATED, None),
        ("HLO102", NEGATED + "c = f32[256,512]{0,1} copy(n)  ROOT t = (f32[256,512]{0,1}) tuple(c)", "", RETURNED),
        ("HLO102", NEGATED + "c = f32[256,512]{0,1} copy(n)  " + READ, "", None),  # is of the program alone
        ("HLO103", TURNED + READ, "", "pass x transposed, and remove the transpose"),
        ("HLO103", TURNED + READ, DONATED, None),
        ("HLO103", TURNED + AGAIN, "", None),
        ("HLO103", f"ROOT {TURNED}", "", None),
        ("HLO103", TURNED.replace("/transpose", "/dot") + READ, "", None),  # the compiler added it
        ("HLO103", NEGATED + TURNED.replace("(x)", "(n)") + READ, "", None),
        ("HLO106", "ROOT c = f32[256,512]{0,1} negate(x)", "", RETURNED),
        ("HLO106", "ROOT c = f32[256,512]{0,1} negate(x)", DONATED, None),
        ("HLO106", "c = f32[256,512]{0,1} negate(x)  " + READ, "", None),
        ("HLO302", CONVERTED + READ, "", "pass x as bf16"),
        ("HLO302", CONVERTED + READ, DONATED, None),
        ("HLO302", CONVERTED + AGAIN, "", None),
        (
            "HLO302",
            "c = bf16[512,256]{1,0:T(8,128)(2,1)} fusion(x), kind=kLoop, calls=f  " + READ,
            "",
            None,
        ),  # in other dimensions
        ("HLO302", f"ROOT {CONVERTED}", "", None),
        ("HLO302", NEGATED + CONVERTED.replace("(x)", "(n)") + READ, "", None),
    ],
)
def test_what_can_be_changed_of_arguments_and_results(code: str, lines: str, header: str, hint: str | None) -> None:
    """A layout or a type of an argument only if nothing else needs it, and none of what is donated."""
    body = (
        "p = f32[256,512]{1,0} parameter(0)  q = bf16[256,512]{1,0} convert(p)  ROOT r = bf16[512,256]{1,0} reshape(q)"
    )
    entry = f"ENTRY e {{ x = f32[256,512]{{1,0}} parameter(0)  {lines} }}"
    text = f"HloModule m, is_scheduled=true{header}  f {{ {body} }}  {entry}"
    found = lint_module(parse_module(text), LintSettings(select=(code,), min_copy_bytes=1, min_kernel_bytes=1))
    assert [each.hint for each in found] == [hint]


@pytest.mark.parametrize(
    ("read", "written", "is_told"), [("{1,0}", "{0,1}", True), ("{0,1}", "{1,0}", False)], ids=["less", "more"]
)
def test_no_layout_is_advised_that_pads_more(read: str, written: str, is_told: bool) -> None:
    """f32[4096,8] has 16 times the bytes with its short dimension in the tiles' long one."""
    before, after = (f"f32[4096,8]{order[:-1]}:T(8,128)}}" for order in (read, written))
    passed = f'x = {before} parameter(0)  c = {after} copy(x)  ROOT r = f32[] custom-call(c), custom_call_target="f"'
    returned = f"x = {after} parameter(0)  n = {after} negate(x)  ROOT c = {before} copy(n)"
    for lines in (passed, returned):
        [found] = lint_module(parse_module(f"HloModule m  ENTRY e {{ {lines} }}"), LintSettings(select=("HLO102",)))
        assert bool(found.hint) is is_told


LINE = "f32[65536]{0:T(1024)}"
REDUCED = f"y = {LINE} all-reduce(x), replica_groups={{{{0,1}}}}, to_apply=add"


def with_reduction(lines: str, *, header: str = ", is_scheduled=true", before: str = "") -> str:
    add = "add { i = f32[] parameter(0)  j = f32[] parameter(1)  ROOT k = f32[] add(i, j) }"
    entry = f"ENTRY e {{ x = {LINE} parameter(0)  {lines} }}"
    return f"HloModule m, replica_count=2{header}\n{add}\n{before}\n{entry}"


@pytest.mark.parametrize(
    ("space", "more", "transfer", "prefetch", "is_found"),
    [
        (1, "", 1 << 18, 1 << 18, True),
        (1, "", 1 << 18, (1 << 18) + 1, False),  # within a device both bounds count
        (1, "", (1 << 18) + 1, 1 << 18, False),
        (5, "", 1 << 18, 1 << 30, True),  # to the host only the first
        (5, "", (1 << 18) + 1, 1, False),
        (1, ", cross_program_prefetch_index=0", 1, 1, False),  # made once, for the next execution
    ],
)
def test_which_transfers_are_told_of(space: int, more: str, transfer: int, prefetch: int, is_found: bool) -> None:
    there = f"f32[65536]{{0:T(1024)S({space})}}"
    start = f"s = ({there}, {LINE}, u32[]{{:S(2)}}) copy-start(x){more}"
    text = with_reduction(f"{start}  d = {there} copy-done(s)  ROOT n = {LINE} negate(d)")
    settings = LintSettings(select=("HLO402",), min_transfer_bytes=transfer, min_prefetch_bytes=prefetch)
    assert bool(lint_module(parse_module(text), settings)) is is_found


@pytest.mark.parametrize(
    ("text", "kernels"),
    [
        (with_reduction(f"{REDUCED}  n = {LINE} negate(x)"), 1),
        (with_reduction(f"{REDUCED}  n = {LINE} negate(x)  m = {LINE} sine(n)  ROOT a = {LINE} add(m, y)"), 2),
        (with_reduction(f"{REDUCED}  ROOT n = {LINE} negate(y)"), 0),
        (with_reduction(f"n = {LINE} negate(x)  {REDUCED.replace('(x)', '(n)')}"), 0),
        (with_reduction(f"{REDUCED}  n = {LINE} negate(x)", header=""), 0),  # in no order yet
        (with_reduction(f"{REDUCED}  n = {LINE} negate(x)").replace(":T(1024)", ""), 0),  # CPUs have no others
    ],
)
def test_what_could_run_beside_a_synchronous_collective(text: str, kernels: int) -> None:
    found = lint_module(parse_module(text), LintSettings(select=("HLO403",), min_transfer_bytes=1 << 18))
    words = f"{kernels} independent kernel{'s' if kernels > 1 else ''} could run concurrently"
    assert [words in each.message for each in found] == [True] * bool(kernels)
    assert not lint_module(parse_module(text), LintSettings(select=("HLO403",), min_transfer_bytes=(1 << 18) + 1))


@pytest.mark.parametrize(("rounds", "moved"), [(0, 0), (10, 10 * 16 * 1024)])
def test_a_collective_costs_what_all_rounds_move(rounds: int, moved: int) -> None:
    """The gathered 16 KiB in each round, and nothing in a loop that ends before its first."""
    text = ROUNDS.format("", "", "\n  ".join(COLLECTED), "w, y", "").replace("constant(10)", f"constant({rounds})")
    found = lint_module(parse_module(text), LintSettings(select=("HLO403",), min_transfer_bytes=0))
    assert [(each.instruction, each.cost_bytes) for each in found] == [("g", moved)]


@pytest.mark.parametrize(
    ("line", "is_same"),
    [
        ("v = f32[2] negate(x)", True),
        ("v = f32[2] negate(y)", False),
        ("v = f32[2] add(x, y)", False),
        ("v = f32[2] add(x, x)", True),
        ("v = f32[2] constant({1, 2})", True),
        ("v = f32[2] get-tuple-element(p), index=2", False),  # carried at another place
        ('v = f32[2] custom-call(x), custom_call_target="f"', False),
        ("v = u32[2] rng-bit-generator(x), algorithm=rng_default", False),
        ("v = f32[2] call(x), to_apply=f", False),
        ("v = f32[2] fusion(x), kind=kLoop, calls=f", True),
        ("v = f32[2] all-reduce(x), to_apply=g", True),
        ("v = f32[2] all-reduce(y), to_apply=g", False),
    ],
)
def test_values_of_a_loop_that_are_the_same_in_every_iteration(line: str, is_same: bool) -> None:
    carried = "(f32[2], f32[2], f32[2])"
    body = parse_module(f"""HloModule m
    f {{ a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }}
    g {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT n = f32[] add(a, b) }}
    ENTRY e {{ p = {carried} parameter(0)  x = f32[2] get-tuple-element(p), index=0
      y = f32[2] get-tuple-element(p), index=1  {line}  ROOT r = {carried} tuple(x, x, y) }}""").entry
    assert passes_through(body) == {0}
    assert (body.instruction("v") in loop_invariants(body)) is is_same


@pytest.mark.parametrize(
    ("line", "index"),
    [
        ("get-tuple-element((f32[2], f32[2]) p), index=1", 1),
        ("get-tuple-element(), index=0", None),
        ("negate(f32[2] p)", None),
    ],
)
def test_what_is_an_element_of_the_parameter(line: str, index: int | None) -> None:
    root = parse_module(f"ROOT r = f32[2] {line}").entry.root
    assert root is not None
    assert carry_index(root) == index


FUSED = """HloModule m
f {{ a = f32[2] parameter(0)  b = f32[2] parameter(1)  n = f32[2] negate(b)  s = f32[2] sine(a)
  ROOT t = (f32[2], f32[2]) tuple(n, s) }}
g {{ c = f32[2] parameter(0)  ROOT d = f32[2] bitcast(c) }}
ENTRY e {{ p = f32[2] parameter(0)  q = f32[2] parameter(1)  two = (f32[2], f32[2]) fusion(p, q), kind=kLoop, calls=f
  x = f32[2] get-tuple-element(two), index=0  y = f32[2] get-tuple-element(two), index=1
  one = f32[2] fusion(y), kind=kLoop, calls=g  {0}ROOT r = f32[2] copy(one) }}"""


@pytest.mark.parametrize(
    ("name", "more", "producer"),
    [
        ("x", "", "n"),  # the first result of the fusion, and not the first parameter
        ("y", "", "s"),
        ("one", "", "s"),  # out of one fusion, and into another
        ("d", "", "s"),
        ("a", "", "p"),
        ("b", "", "q"),
        ("r", "", "r"),  # copies are no bitcasts
        ("two", "", "two"),  # of two results there is no producer
        ("d", "w = f32[2] fusion(p), kind=kLoop, calls=g  ", "c"),  # which of two operands is not known
    ],
)
def test_what_produces_a_value_through_fusions(name: str, more: str, producer: str) -> None:
    module = parse_module(FUSED.format(more))
    context = LintContext(module, LintSettings())
    [value] = [each for each in module.instructions if each.name == name]
    assert producer_through(context, value).name == producer


def test_what_else_a_kernel_takes_is_not_used_by_it() -> None:
    """Inside of a fusion a value is known by the parameter that it is handed over as."""
    module = parse_module("""HloModule m
    f { a = f32[2] parameter(0)  b = f32[2] parameter(1)  n = f32[2] negate(a)  ROOT t = (f32[2], f32[2]) tuple(n, b) }
    ENTRY e { p = f32[2] parameter(0)  q = f32[2] parameter(1)
      ROOT r = (f32[2], f32[2]) fusion(p, q), kind=kLoop, calls=f }""")
    first, second = module.entry.parameters
    users = users_among(list(module.instructions))
    assert [use.instruction.name for use in transitive_uses(first, users)] == ["n"]
    assert [use.instruction.name for use in transitive_uses(second, users)] == ["t"]


@pytest.mark.parametrize(("number", "is_found"), [("0", False), ("1", True), ("9" * 30, True)])
def test_numbers_of_parameters_are_those_of_their_places(number: str, is_found: bool) -> None:
    found = lint_module(
        parse_module(f"HloModule m  ENTRY e {{ ROOT p = f32[2] parameter({number}) }}"), LintSettings(("HLO0",))
    )
    assert bool(found) == is_found


@pytest.mark.parametrize(("terms", "is_found"), [(2, True), (1, False)])
def test_one_product_of_narrow_integers_is_no_sum(terms: int, is_found: bool) -> None:
    given = f"a = s8[8,{terms}] parameter(0)  b = s8[{terms},8] parameter(1)"
    product = "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    text = f"HloModule m  ENTRY e {{ {given}  ROOT y = s8[8,8] {product} }}"
    assert ("HLO704" in {found.code for found in lint_module(parse_module(text))}) == is_found


@pytest.mark.parametrize(("offset", "is_found"), [("s32[]", False), ("s32[1]", True), ("(s32[])", True)])
def test_offsets_into_a_buffer_are_scalars(offset: str, is_found: bool) -> None:
    at = f"n = {offset} parameter(2)  at = ({offset}, {offset}) tuple(n, n)"
    given = f"x = f32[8,8] parameter(0)  out = f32[8,8] parameter(1)  {at}"
    exchange = "collective-permute(x, out, at, at), source_target_pairs={{0,1}}, slice_sizes={{4,8}}"
    text = f"HloModule m, replica_count=2  ENTRY e {{ {given}  ROOT y = f32[8,8] {exchange} }}"
    assert ("HLO055" in {found.code for found in lint_module(parse_module(text))}) == is_found


@pytest.mark.parametrize(
    ("more", "is_found"),
    [
        ("", False),
        (', metadata={op_name="other"}', False),
        (', frontend_attributes={_xla_host_transfer_rendezvous="other"}', True),
    ],
)
def test_transfers_that_share_a_channel_say_the_same_but_for_where_they_come_from(more: str, is_found: bool) -> None:
    send = "= (f32[2], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true"
    text = f"HloModule m  ENTRY e {{ x = f32[2] parameter(0)  t = token[] after-all()  s {send}  u {send}{more} }}"
    assert (
        "HLO061" in {found.code for found in lint_module(parse_module(text), LintSettings(("HLO061",)))}
    ) == is_found


@pytest.mark.parametrize(
    "line",
    [
        "s = ((f32[2]), f32[2], u32[]) async-start(p)  ROOT d = f32[2] async-done(s)",
        "ROOT d = f32[2] async-done(p)",
        "u = ((f32[2]), f32[2], u32[]) async-update(p)  ROOT d = f32[2] async-done(u)",
    ],
)
def test_what_wraps_nothing_is_known_by_its_own_opcode(line: str) -> None:
    module = parse_module(f"HloModule m  ENTRY e {{ p = f32[2]{{0}} parameter(0)  {line} }}")
    root = module.entry.root
    assert root is not None
    assert list(structure_of(module, root))[1] == "async-done f32[2]{0}"


ALONE = "HloModule m, is_scheduled=true, replica_count=4  "
SUMS = "add { i = f32[] parameter(0)  j = f32[] parameter(1)  ROOT k = f32[] add(i, j) }  "
SWAP = "all-to-all({}), dimensions={{0}}, replica_groups={{{{0,1,2,3}}}}"
OFFSET = (
    "x = f32[8,8] parameter(0)  out = f32[8,8] parameter(1)  n = s32[] parameter(2)  at = (s32[], s32[]) tuple(n, n)  "
)
PERMUTED = "ROOT y = f32[8,8] collective-permute(x, out, at, at), slice_sizes={{{{4,8}}}}, source_target_pairs={{{}}}"
TILED = "f32[512,512]{{{}:T(8,128){}}}"


def copied_there_and_back(space: str) -> str:
    given, between = TILED.format("1,0", ""), TILED.format("0,1", "")
    ended = TILED.format("1,0", space)
    return f"ENTRY e {{ x = {given} parameter(0)  a = {between} copy(x)  ROOT b = {ended} copy(a) }}"


def speaks(code: str, text: str, **settings: object) -> bool:
    """Whether a rule has something to say of a module."""
    return bool(lint_module(parse_module(text), LintSettings(select=(code,), **settings)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("other", "is_found"), [("a", True), ("d", False)])
def test_an_exchange_is_undone_only_where_one_other_made_the_value(other: str, is_found: bool) -> None:
    exchanged = f"a = f32[4,4] {SWAP.format('x')}  d = f32[4,4] {SWAP.format('x')}  c = f32[4,4] add(a, {other})"
    body = f"ENTRY e {{ x = f32[4,4] parameter(0)  {exchanged}  ROOT b = f32[4,4] {SWAP.format('c')} }}"
    assert speaks("HLO509", f"{ALONE}{body}", min_transfer_bytes=1) is is_found


@pytest.mark.parametrize(("least", "is_found"), [(65, True), (64, False)])
def test_collectives_are_combined_below_the_size_of_others(least: int, is_found: bool) -> None:
    sums = [f"{name} = f32[16] all-reduce(x), replica_groups={{{{0,1,2,3}}}}, to_apply=add" for name in "abcd"]
    body = f"ENTRY e {{ x = f32[16] parameter(0)  {'  '.join(sums)} }}"
    assert speaks("HLO508", f"{ALONE}{SUMS}{body}", min_transfer_bytes=least) is is_found
    others = body.replace("to_apply=add", "to_apply=most", 2)
    most = "most { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] maximum(x, y) }"
    assert not speaks("HLO508", f"{ALONE}{SUMS}{most}  {others}", min_transfer_bytes=least), "of another reduction"


@pytest.mark.parametrize(("count", "is_found"), [(2, True), (1, False)])
def test_nothing_is_replicated_on_one_device(count: int, is_found: bool) -> None:
    text = f"HloModule m, num_partitions={count}  ENTRY e {{ ROOT w = f32[256] parameter(0), sharding={{replicated}} }}"
    assert speaks("HLO504", text, min_replicated_bytes=1) is is_found


@pytest.mark.parametrize(
    ("pairs", "is_in_place", "is_found"),
    [
        ("{0,1}", True, False),
        ("{0,1},{0,1}", True, False),  # once for each of two slices
        ("{0,1},{0,1},{0,1}", True, True),
        ("{0,1},{0,1}", False, True),
    ],
)
def test_a_device_takes_part_once_for_each_slice(pairs: str, is_in_place: bool, is_found: bool) -> None:
    permuted = PERMUTED.format(pairs)
    if not is_in_place:
        permuted = permuted.replace("x, out, at, at", "x").replace(", slice_sizes={{4,8}}", "")
    found = lint_module(parse_module(f"{ALONE}ENTRY e {{ {OFFSET}{permuted} }}"), LintSettings(select=("HLO0",)))
    assert any("is listed" in each.message for each in found) is is_found


def test_offsets_are_a_tuple() -> None:
    assert speaks("HLO055", f"{ALONE}ENTRY e {{ {OFFSET}{PERMUTED.format('{0,1}').replace('at, at', 'n, n')} }}")
    some, others = (("(s32[],s32[])", "f32[8,8]"), ("(s32[])", "f32[8]"), ("()", "f32[]")), ("s32[]", "(s32[2],s32[])")
    fit = [*some, *((f"({one},{one})", two) for one, two in some[:2]), ("((s32[]),(s32[]))", "(f32[8],f32[4])")]
    bad = [
        *((one, two) for one in others for _, two in some),
        ("((s32[],s32[]),s32[])", "f32[8,8]"),
        ("(s32[])", "token[]"),
    ]
    bad += [(each, "(f32[8],f32[4])") for each in ("s32[]", "((s32[]))", "((s32[]),s32[])", "(s32[],s32[])")]
    for offsets, buffer in (*fit, *bad):
        assert _offsets_fit(parse_shape(buffer), parse_shape(offsets)) == ((offsets, buffer) in fit), (offsets, buffer)


@pytest.mark.parametrize(
    ("sharding", "shape", "is_found"),
    [
        ("{devices=[2,2]<=[4]}", "f32[4]", True),
        ("{devices=[1,1]<=[1]}", "f32[4]", True),  # a single tile is not normalized
        ("{devices=[4]<=[4]}", "f32[4]", False),
        ("{devices=[1,1,2]0,1 last_tile_dim_replicate}", "f32[4]", False),  # replicated, which fits every rank
        ("{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}", "f32[4]", True),
    ],
)
def test_tiles_fit_the_rank_unless_the_array_is_whole(sharding: str, shape: str, is_found: bool) -> None:
    text = f"HloModule m, num_partitions=4  ENTRY e {{ ROOT x = {shape} parameter(0), sharding={sharding} }}"
    found = lint_module(parse_module(text), LintSettings(select=("HLO0",)))
    assert any("tile assignment has" in each.message for each in found) is is_found


@pytest.mark.parametrize(
    ("shape", "is_found"), [("u64[]", False), ("u64[2]", True), ("u32[]", True), ("(u64[])", True)]
)
def test_a_seed_is_a_scalar(shape: str, is_found: bool) -> None:
    text = f'HloModule m  ENTRY e {{ ROOT s = {shape} custom-call(), custom_call_target="GetRngSeed" }}'
    assert any("GetRngSeed" in found.message for found in lint_module(parse_module(text))) is is_found


@pytest.mark.parametrize(("rounds", "is_found"), [(1, False), (2, True), (3, True)])
def test_a_loop_of_one_round_reads_nothing_twice(rounds: int, is_found: bool) -> None:
    text = ROUNDS.format("", "", "y = f32[8,128]{1,0:T(8,128)} add(w, x)", "w, y", "")
    assert speaks("HLO209", text.replace("constant(10)", f"constant({rounds})"), min_prefetch_bytes=1) is is_found


@pytest.mark.parametrize(("chip", "is_found"), [("v5e", True), ("h100", False), (None, False)])
def test_only_tpus_multiply_in_fewer_bits(chip: str | None, is_found: bool) -> None:
    product = "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    text = (
        f"HloModule m  ENTRY e {{ a = f32[8,8] parameter(0)  b = f32[8,8] parameter(1)  ROOT y = f32[8,8] {product} }}"
    )
    assert speaks("HLO705", text, chip=chip) is is_found


@pytest.mark.parametrize(
    ("first", "second", "is_found"), [("bf16", "bf16", True), ("f32", "f32", False), ("bf16", "f32", False)]
)
def test_precision_has_an_effect_where_an_operand_has_more_bits(first: str, second: str, is_found: bool) -> None:
    product = "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}"
    given = f"a = {first}[8,8] parameter(0)  b = {second}[8,8] parameter(1)"
    text = f"HloModule m, is_scheduled=true  ENTRY e {{ {given}  ROOT y = f32[8,8] {product} }}"
    assert speaks("HLO706", text) is is_found


@pytest.mark.parametrize(("space", "is_found"), [("", True), ("S(1)", False)])
def test_what_is_copied_back_into_fast_memory_gets_there_in_any_layout(space: str, is_found: bool) -> None:
    assert speaks("HLO105", f"HloModule m  {copied_there_and_back(space)}") is is_found


@pytest.mark.parametrize(("tiles", "is_found"), [("{1,0}", False), ("{1,0:T(8,128)}", True)])
def test_cpus_convert_because_they_must(tiles: str, is_found: bool) -> None:
    lines = f"x = f32[512,512]{tiles} parameter(0)  ROOT y = bf16[512,512]{tiles} convert(x)"
    assert speaks("HLO302", f"HloModule m, is_scheduled=true  ENTRY e {{ {lines} }}") is is_found


def test_a_reduction_uses_its_operand_and_not_what_it_calls() -> None:
    module = parse_module(f"""HloModule m  {SUMS}ENTRY e {{ x = f32[4] parameter(0)  z = f32[] constant(0)
      ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=add }}""")
    [x] = module.entry.parameters
    assert [use.instruction.name for use in transitive_uses(x, users_among(list(module.instructions)))] == ["r"]


def test_elements_of_a_loop_are_not_results_of_its_body() -> None:
    text = ROUNDS.format("", "", "y = f32[8,128]{1,0:T(8,128)} add(w, x)", "w, y", "")
    module = parse_module(text)
    context = LintContext(module, LintSettings())
    [element] = [each for each in module.computation("body").instructions if each.name == "w"]
    assert producer_through(context, element) is element


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('f32[4]{0} custom-call(b), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}', None),
        ('b(f32[4]{0}) custom-call(b), custom_call_target="Unpin"', "Unpin cannot return b(f32[4]{0})"),
        ('b(f32[4]{0}) custom-call(b), custom_call_target="Pin"', "Pin cannot take b(f32[4]{0})"),
        (
            'f32[4]{0} custom-call(b), custom_call_target="Unpin"',
            "Unpin must alias its operand exactly once, got 0 aliases",
        ),
        ('b(f32[4]{0}) custom-call(x, x), custom_call_target="Pin"', "Pin takes 1 operand, got 2"),
    ],
)
def test_what_conversions_between_arrays_and_buffers_take_and_return(line: str, message: str | None) -> None:
    """As the verification of buffer types in xla/service/hlo_verifier.cc asks."""
    pinned = 'b = b(f32[4]{0}) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}'
    text = f"HloModule m  ENTRY e {{ x = f32[4]{{0}} parameter(0)  {pinned}  v = {line} }}"
    found = [each.message for each in lint_module(parse_module(text), LintSettings(select=("HLO042",)))]
    assert found == ([f"v: {message}"] if message else [])


def test_every_writer_but_the_first_overwrites_what_it_wrote() -> None:
    writer = '= b(f32[4]) custom-call(b), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}'
    pinned = 'b = b(f32[4]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}'
    text = f"HloModule m  ENTRY e {{ x = f32[4] parameter(0)  {pinned}  v {writer}  w {writer}  u {writer} }}"
    found = [each.message for each in lint_module(parse_module(text), LintSettings(select=("HLO041",)))]
    assert found == ["w and v both take the buffer b", "u and v both take the buffer b"]


def test_tuples_that_a_loop_only_carries_are_read_by_none_of_its_rounds() -> None:
    text = ROUNDS.format("", "", "y = f32[8,128]{1,0:T(8,128)} add(w, x)", "w, y", "")
    tiled = "f32[8,128]{1,0:T(8,128)}"
    carried = f"(s32[]{{:T(128)}}, {tiled}, {tiled})"
    nested = text.replace(carried, f"(s32[]{{:T(128)}}, ({tiled}), {tiled})")
    nested = nested.replace(f"w = {tiled} get-tuple-element(p)", f"v = ({tiled}) get-tuple-element(p)")
    nested = nested.replace("add(w, x)", "negate(x)").replace("tuple(j, w, y)", "tuple(j, v, y)")
    nested = nested.replace("tuple(zero, a, b)", "tuple(zero, s, b)").replace(
        "  t = (s32", f"  s = ({tiled}) tuple(a)\n  t = (s32"
    )
    assert not speaks("HLO209", nested, min_prefetch_bytes=0)


def test_a_donation_says_what_it_saves_by_itself() -> None:
    text = """HloModule m, is_scheduled=true  ENTRY e { p = f32[256] parameter(0)  q = f32[512] parameter(1)
      a = f32[256] negate(p)  b = f32[512] negate(q)  ROOT r = (f32[256], f32[512]) tuple(a, b) }"""
    found = lint_module(parse_module(text), LintSettings(select=("HLO203",), min_donation_bytes=1))
    assert sorted(str(each.hint).rpartition("the module then ")[2] for each in found) == [
        "needs 1 KiB less",
        "needs 2 KiB less",
    ]


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        ("HLO201", ""),
        ("HLO202", "wasted bytes of memory, or bytes copied needlessly"),
        ("HLO602", "bytes exchanged with the host"),
        ("HLO603", ""),
    ],
)
def test_limits_and_what_runs_where_have_no_cost(code: str, meaning: str) -> None:
    assert cost_meaning(code) == meaning


def messages_of(text: str, *codes: str) -> list[str]:
    return [each.message for each in lint_module(parse_module(text), LintSettings(select=codes))]


SUMMED = "f32[4] all-reduce(x), to_apply=add"
MANY = f"HloModule m, replica_count=2, num_partitions=3  {SUMS}"


@pytest.mark.parametrize(
    ("lines", "messages"),
    [
        # Both are checked, though they differ in one attribute only.
        (
            f"a = {SUMMED}, replica_groups={{{{0,1}}}}  b = {SUMMED}, replica_groups={{{{0,0}}}}",
            ["b: id 0 is listed more than once"],
        ),
        (
            f"a = {SUMMED}, replica_groups={{{{0,1}}}}  b = {SUMMED}, replica_groups={{{{0,1}}}}, channel_id=1, use_global_device_ids=true",
            ["b: its groups list 2 devices, but the module has 6"],
        ),
        (f"a = {SUMMED}, replica_groups={{{{0,1}},{{}}}}", ["a: a replica group is empty"]),
        (
            "a = f32[8] all-gather(x), dimensions={0}, replica_groups={{0},{1,2}}",
            ["a: all-gather needs groups of equal size, found 1 and 2"],
        ),
        (f"a = {SUMMED}, replica_groups={{{{0,2}}}}", ["a: id 1 is not in any group"]),
    ],
)
def test_each_group_of_devices_is_checked(lines: str, messages: list[str]) -> None:
    assert messages_of(f"{MANY}ENTRY e {{ x = f32[4] parameter(0)  {lines} }}", "HLO050") == messages


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        ("", "y: target 5 is out of range (the module has 2 replicas)"),
        (", channel_id=1", "y: target 5 is out of range (the module has 3 partitions)"),
    ],
)
def test_permutes_with_a_channel_are_between_partitions(channel: str, message: str) -> None:
    line = f"y = f32[4] collective-permute(x), source_target_pairs={{{{0,5}}}}{channel}"
    assert messages_of(f"{MANY}ENTRY e {{ x = f32[4] parameter(0)  {line} }}", "HLO0") == [message]


@pytest.mark.parametrize(("free", "names"), [(1, "b does"), (2, "b and others do"), (0, "")])
def test_all_reductions_keep_their_layouts_or_none(free: int, names: str) -> None:
    kept = f"a = {SUMMED}, replica_groups={{}}, constrain_layout=true"
    others = "  ".join(f"{name} = {SUMMED}, replica_groups={{}}" for name in "bc"[:free])
    found = messages_of(f"{MANY}ENTRY e {{ x = f32[4] parameter(0)  {kept}  {others} }}", "HLO054")
    assert found == ([f"a sets constrain_layout, but {names} not"] if free else [])


def test_each_sharding_is_checked() -> None:
    one, other = "{devices=[4]<=[4]}", "{devices=[2,2]<=[4]}"
    lines = f"a = f32[4] negate(x), sharding={one}  b = f32[4] negate(x), sharding={other}  c = f32[4,4] broadcast(x), dimensions={{0}}, sharding={one}"
    found = messages_of(f"HloModule m, num_partitions=4  ENTRY e {{ x = f32[4] parameter(0)  {lines} }}", "HLO080")
    assert [message.partition(":")[0] for message in found] == ["b", "c"]


@pytest.mark.parametrize("code", ["HLO501", "HLO502"])
def test_what_nobody_uses_is_not_only_sliced(code: str) -> None:
    kind = {"HLO501": "all-gather(x), dimensions={0}", "HLO502": "all-reduce(x), to_apply=add"}[code]
    root = f"ROOT g = f32[{16 if code == 'HLO501' else 4}] {kind}, replica_groups={{{{0,1,2,3}}}}"
    assert not speaks(code, f"{ALONE}{SUMS}ENTRY e {{ x = f32[4] parameter(0)  {root} }}", min_transfer_bytes=1)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0], None),
        ([1], "p0 has parameter number 1, expected 0 in e"),
        ([0, 2], "p1 has parameter number 2, expected 0 to 1 in e"),
        ([0, 0], "duplicate parameter number 0 in e: p1"),
    ],
)
def test_parameters_are_numbered_from_0(numbers: list[int], message: str | None) -> None:
    lines = "  ".join(f"p{at} = f32[] parameter({number})" for at, number in enumerate(numbers))
    found = messages_of(f"HloModule m  ENTRY e {{ {lines} }}", "HLO0")
    assert message in found if message else not found


@pytest.mark.parametrize(
    ("attributes", "messages"),
    [
        ('composite.name="n"', []),
        ('composite.name="n",composite.attributes="{}",composite.version="1"', []),
        ('composite.attributes="{}"', ["c is a composite call without composite.name"]),
        ('composite.name="n",composite.attributes=""', ["c has empty composite.attributes"]),
        ('composite.name="n",composite.version="x"', ["c has composite.version 'x', expected a non-negative integer"]),
    ],
)
def test_what_composites_say_of_themselves(attributes: str, messages: list[str]) -> None:
    """As `HandleCall` of xla/service/hlo_verifier.cc asks."""
    called = f"c = f32[2] call(x), to_apply=f, is_composite=true, frontend_attributes={{{attributes}}}"
    body = "f { a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }"
    assert messages_of(f"HloModule m  {body}  ENTRY e {{ x = f32[2] parameter(0)  {called} }}", "HLO0") == messages


@pytest.mark.parametrize(("fraction", "is_found"), [(0.68, True), (0.6875, False), (0.69, False)])
def test_padding_is_much_above_its_fraction(fraction: float, is_found: bool) -> None:
    """Of 128 elements in each row of tiles, 88 are padding: 0.6875 of all."""
    text = "HloModule m  ENTRY e { ROOT x = f32[40,40,40] parameter(0) }"
    assert speaks("HLO104", text, chip="v5e", max_padding_fraction=fraction) is is_found


@pytest.mark.parametrize(("count", "is_found"), [(1, False), (2, True)])
def test_a_group_of_one_device_is_odd_only_among_several(count: int, is_found: bool) -> None:
    line = "ROOT y = f32[4] all-reduce(x), replica_groups={{0}}, to_apply=add"
    line = line if count == 1 else line.replace("{{0}}", "{{0},{1}}")
    text = f"HloModule m, is_scheduled=true, replica_count={count}  {SUMS}ENTRY e {{ x = f32[4] parameter(0)  {line} }}"
    assert speaks("HLO506", text) is is_found


@pytest.mark.parametrize(("header", "is_found"), [(", is_scheduled=true", True), ("", False)])
def test_waits_are_those_of_a_schedule(header: str, is_found: bool) -> None:
    text = waited_for("copy", "").replace(", is_scheduled=true", header)
    assert ("HLO402" in codes(text, min_transfer_bytes=1, min_prefetch_bytes=1)) is is_found


@pytest.mark.parametrize(("thread", "expected"), [("", "main"), (', async_execution_thread="host"', "host")])
def test_all_that_an_async_start_calls_is_on_its_thread(thread: str, expected: str) -> None:
    """`HloAsyncInstruction` sets the thread of the computation and of its callees when XLA loads a module."""
    module = parse_module(f"""HloModule m  f {{ q = f32[] parameter(0)  ROOT r = f32[] negate(q) }}, execution_thread="own"
    w {{ q = f32[] parameter(0)  ROOT c = f32[] call(q), to_apply=f }}
    ENTRY e {{ p = f32[] parameter(0)  s = ((f32[]), f32[], u32[]) async-start(p), calls=w{thread}
    ROOT d = f32[] async-done(s) }}""")
    starts = [each for each in module.instructions if each.opcode == "async-start"]
    threads = {each.name: thread for each, thread in _threads_of(module, starts).items()}
    assert threads == {"f": expected, "w": expected, "e": "main"}


@pytest.mark.parametrize(
    ("value", "argument"),
    [
        ("p", "p"),
        ("t", None),  # a tuple
        ("q", None),  # of a fusion
        ("c", "p"),
        ("d", "p"),
        ("o", "p"),
        ("e", None),  # in another layout
        ("w", None),  # with other tiles
        ("n", None),
    ],
)
def test_what_is_an_argument_perhaps_in_another_memory_space(value: str, argument: str | None) -> None:
    module = parse_module("""HloModule m  f { q = f32[4,8]{1,0} parameter(0)  ROOT r = f32[4,8]{1,0} negate(q) }
    ENTRY main { p = f32[4,8]{1,0} parameter(0)  t = (f32[4,8]{1,0}) parameter(1)  c = f32[4,8]{1,0:S(1)} copy(p)
    s = (f32[4,8]{1,0:S(1)}, f32[4,8]{1,0}, u32[]) copy-start(p)  d = f32[4,8]{1,0:S(1)} copy-done(s)
    o = f32[4,8]{1,0} opt-barrier(p)  e = f32[4,8]{0,1} copy(p)  w = f32[4,8]{1,0:T(8,128)} copy(p)
    ROOT n = f32[4,8]{1,0} fusion(p), kind=kLoop, calls=f }""")
    [given] = [each for each in module.instructions if each.name == value]
    found = argument_of(given)
    assert (found and found.name) == argument


@pytest.mark.parametrize(
    ("is_fused", "share", "groups", "is_found"),
    [
        (False, 128, "{{0,1,2,3}}", True),
        (True, 128, "{{0,1,2,3}}", False),
        (False, 129, "{{0,1,2,3}}", False),
        (False, 512, "torus(2,2)", True),  # of unknown groups any slice is a share
    ],
)
def test_an_all_reduce_is_only_sliced_by_the_share_of_a_device(
    is_fused: bool, share: int, groups: str, is_found: bool
) -> None:
    """The TPU compiler represents a reduce-scatter as a fusion of both."""
    lines = f"""x = f32[512,512] parameter(0)  i = s32[] parameter(1)
    s = f32[512,512] all-reduce(x), replica_groups={groups}, to_apply=add
    ROOT y = f32[{share},512] dynamic-slice(s, i, i), dynamic_slice_sizes={{{share},512}}"""
    call = f"p = f32[512,512] parameter(0)  q = s32[] parameter(1)  ROOT r = f32[{share},512] fusion(p, q), kind=kCustom, calls=f"
    bodies = f"f {{ {lines} }}  ENTRY e {{ {call} }}" if is_fused else f"ENTRY e {{ {lines} }}"
    assert speaks("HLO502", ALONE + SUMS + bodies) == is_found


@pytest.mark.parametrize(
    ("before", "after", "is_found"), [("bf16", "f32", True), ("f32", "bf16", False), ("f16", "bf16", False)]
)
def test_only_what_was_converted_to_more_bits_is_sent_wide(before: str, after: str, is_found: bool) -> None:
    text = f"""{ALONE}ENTRY e {{ t = f32[8,128]{{1,0:T(8,128)}} parameter(1)  x = {before}[512,512] parameter(0)
    w = {after}[512,512] convert(x)
    ROOT y = {after}[2048,512] all-gather(w), dimensions={{0}}, replica_groups={{{{0,1,2,3}}}} }}"""
    assert speaks("HLO507", text) == is_found

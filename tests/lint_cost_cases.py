"""For every rule about costs a text that breaks it, with « » around the place that is meant, and one that does not."""

from __future__ import annotations

from hlo_cli.lint.settings import LintSettings
from lint_cases import ADD, SCHEDULED, Case, entry, module
from lint_pallas_cases import PALLAS

HALF_ADD = ADD.replace("f32", "bf16")
REPLICAS = ", replica_count=4"
GROUPS = "replica_groups={{0,1,2,3}}"
WIDE = "x = f32[256,512]{1,0} parameter(0)"
TILED = "{1,0:T(8,128)}"
FAST = "{1,0:T(8,128)S(1)}"
PARTS = "x = f32[1024,64] parameter(0)"
SUM = f"s = f32[4096,64] all-reduce(x), {GROUPS}, to_apply=add"
GATHER = f"g = f32[4096,64] all-gather(x), dimensions={{0}}, {GROUPS}"
EXCHANGE = f"= f32[256,256] all-to-all({{}}), dimensions={{{{0}}}}, {GROUPS.replace('{', '{{').replace('}', '}}')}"
DOT = "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
COPY_START = "s = (f32[262144]{0}, f32[262144]{0}, u32[]) copy-start(x)"
LINE = "x = f32[65536]{0} parameter(0)"
LONG = "x = f32[262144]{0} parameter(0)"
CALLBACK = 'custom_call_target="xla_ffi_python_cpu_callback"'
ROUNDS = """HloModule m, is_scheduled=true, replica_count=4
body {{
  p = (s32[]{{:T(128)}}, f32[8,128]{{1,0:T(8,128)}}, f32[8,128]{{1,0:T(8,128)}}) parameter(0)
  i = s32[]{{:T(128)}} get-tuple-element(p), index=0
  {0}w = f32[8,128]{{1,0:T(8,128)}} get-tuple-element(p), index=1{1}
  x = f32[8,128]{{1,0:T(8,128)}} get-tuple-element(p), index=2
  {2}
  one = s32[]{{:T(128)}} constant(1)
  j = s32[]{{:T(128)}} add(i, one)
  ROOT r = (s32[]{{:T(128)}}, f32[8,128]{{1,0:T(8,128)}}, f32[8,128]{{1,0:T(8,128)}}) tuple(j, {3})
}}
test {{
  q = (s32[]{{:T(128)}}, f32[8,128]{{1,0:T(8,128)}}, f32[8,128]{{1,0:T(8,128)}}) parameter(0)
  k = s32[]{{:T(128)}} get-tuple-element(q), index=0
  ten = s32[]{{:T(128)}} constant(10)
  ROOT less = pred[]{{:T(512)}} compare(k, ten), direction=LT
}}
ENTRY e {{
  zero = s32[]{{:T(128)}} constant(0)
  a = f32[8,128]{{1,0:T(8,128)}} parameter(0)
  b = f32[8,128]{{1,0:T(8,128)}} parameter(1)
  {4}
  t = (s32[]{{:T(128)}}, f32[8,128]{{1,0:T(8,128)}}, f32[8,128]{{1,0:T(8,128)}}) tuple(zero, a, b)
  ROOT l = (s32[]{{:T(128)}}, f32[8,128]{{1,0:T(8,128)}}, f32[8,128]{{1,0:T(8,128)}}) while(t), condition=test, body=body
}}
"""
UNENDING = ROUNDS.replace("constant(10)", "get-tuple-element(q), index=0")
"""ROUNDS whose number is not in the text."""
SUMMED = "y = f32[8,128]{1,0:T(8,128)} add(w, x)"
CALLED = f"y = f32[8,128]{TILED} custom-call(x), {CALLBACK}"
COLLECTED = (
    "g = f32[32,128]{1,0:T(8,128)} all-gather(w), dimensions={0}, replica_groups={{0,1,2,3}}",
    "y = f32[8,128]{1,0:T(8,128)} slice(g), slice={[8:16], [0:128]}",
)
SMALL = LintSettings(("ALL",), min_prefetch_bytes=4096, min_transfer_bytes=4096)


def marked(bad: str, good: str, *lines: str, header: str = "", before: str = "") -> tuple[str, str]:
    """Two modules that differ in their last instruction, where the place that is meant stands before that."""
    first, second = entry(bad, good, *lines, header=header, before=before)
    return first, second.replace("«", "").replace("»", "")


LAYOUTS = (
    Case(
        "HLO103",
        module(WIDE, "y = «f32[512,256]{1,0}» transpose(x), dimensions={1,0}", header=SCHEDULED),
        module(
            WIDE.replace("256,512", "127,128"), "y = f32[128,127]{1,0} transpose(x), dimensions={1,0}", header=SCHEDULED
        ),
    ),
    Case(
        "HLO104",
        module("x = «f32[40,40,40]» parameter(0)"),
        module("x = f32[40,1600] parameter(0)"),
        LintSettings(chip="v5e"),
    ),
    Case(
        "HLO105",
        *entry(
            "c = «f32[256,512]{1,0}» copy(b)",
            "c = f32[256,512]{0,1} copy(b)",
            WIDE,
            "b = f32[256,512]{0,1} copy(x)",
        ),
    ),
    Case(
        "HLO106",
        *entry("y = «f32[256,512]{0,1}» negate(x)", "y = f32[256,512]{1,0} negate(x)", WIDE, header=SCHEDULED),
    ),
)

MEMORY = (
    Case(
        "HLO201",
        module("«x = f32[512,512]{1,0} parameter(0)»", "ROOT y = f32[512,512]{1,0} negate(x)", header=SCHEDULED),
        module(WIDE, "ROOT y = f32[256,512]{1,0} negate(x)", header=SCHEDULED),
        LintSettings(max_peak_bytes=1024**2),
    ),
    Case(  # 32 GiB on a device of 16, and 8
        "HLO201",
        module(
            "«x = f32[4194304,1024]{1,0} parameter(0)»", "ROOT y = f32[4194304,1024]{1,0} negate(x)", header=SCHEDULED
        ),
        module(
            "x = f32[1048576,1024]{1,0} parameter(0)", "ROOT y = f32[1048576,1024]{1,0} negate(x)", header=SCHEDULED
        ),
        LintSettings(chip="v5e"),
    ),
    Case(
        "HLO202",
        module(
            WIDE,
            "y = «f32[256,512]{1,0}» negate(x)",
            "ROOT z = f32[1,512]{1,0} slice(y), slice={[0:1], [0:512]}",
            header=SCHEDULED,
        ),
        module(WIDE, "ROOT y = f32[256,512]{1,0} negate(x)", header=SCHEDULED),
        LintSettings(min_value_bytes=512 * 1024),
    ),
    Case(
        "HLO203",
        module("x = «f32[512,512]{1,0}» parameter(0)", "ROOT y = f32[512,512]{1,0} negate(x)", header=SCHEDULED),
        module(
            "x = f32[512,512]{1,0} parameter(0)",
            "ROOT y = f32[512,512]{1,0} negate(x)",
            header=f"{SCHEDULED}, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}",
        ),
    ),
    Case(
        "HLO204",
        *entry("y = «f32[256,512]{1,0}» copy(x)", "y = f32[256,512]{0,1} copy(x)", WIDE, header=SCHEDULED),
    ),
    Case(
        "HLO205",
        *entry("y = «f32[512,512]» constant({...})", "y = f32[512,511] constant({...})", WIDE),
    ),
    Case(
        "HLO206",
        *entry(
            "«lost = f32[512,512] parameter(1)»",
            "lost = f32[512,511] parameter(1)",
            WIDE,
            "ROOT n = f32[256,512]{1,0} negate(x)",
        ),
    ),
    Case(
        "HLO207",
        *marked(
            f"b = f32[8,128]{FAST} copy(a)",
            f"b = f32[8,128]{TILED} copy(a)",
            f"x = f32[8,128]{FAST} parameter(0)",
            f"«a = f32[8,128]{TILED} copy(x)»",
            header=SCHEDULED,
        ),
        SMALL,
    ),
    Case(
        "HLO208",
        *entry(
            f"«b = f32[8,128]{FAST} copy(x)»",
            f"b = f32[8,128]{FAST} copy(y)",
            f"x = f32[8,128]{TILED} parameter(0)",
            f"y = f32[8,128]{TILED} parameter(1)",
            f"a = f32[8,128]{FAST} copy(x)",
            header=SCHEDULED,
        ),
        SMALL,
    ),
    Case("HLO209", ROUNDS.format("«", "»", SUMMED, "w, y", ""), ROUNDS.format("", "", SUMMED, "y, w", ""), SMALL),
)

FUSION = (
    Case(
        "HLO301",
        *entry(
            "«ROOT b = f32[65536]{0} negate(a)»",
            "ROOT b = f32[65536]{0} reverse(a), dimensions={0}",
            LINE,
            "a = f32[65536]{0} exponential(x)",
            header=SCHEDULED,
        ),
    ),
    Case(
        "HLO301",
        module(LINE, "a = f32[65536]{0} exponential(x)", "«ROOT b = f32[65536]{0} negate(a)»", header=SCHEDULED),
        module(
            LINE, "a = f32[65536]{0} reverse(x), dimensions={0}", "ROOT b = f32[65536]{0} negate(a)", header=SCHEDULED
        ),
    ),
    Case(  # of other sizes, the user is another loop
        "HLO301",
        module(LINE, "a = f32[65536]{0} exponential(x)", "«ROOT b = f32[65536]{0} negate(a)»", header=SCHEDULED),
        module(
            LINE,
            "a = f32[65536]{0} exponential(x)",
            "ROOT b = (f32[65536]{0}, f32[2]{0}) tuple(a, a)",
            header=SCHEDULED,
        ),
    ),
    Case(
        "HLO302",
        *entry(
            "y = «bf16[512,512]{1,0:T(8,128)(2,1)}» convert(x)",
            "y = bf16[512,128]{1,0:T(8,128)(2,1)} convert(z)",
            f"x = f32[512,512]{TILED} parameter(0)",
            f"z = f32[512,128]{TILED} parameter(1)",
            header=SCHEDULED,
        ),
    ),
    Case(
        "HLO303",
        *entry(
            "«c = bf16[512,512] convert(b)»",
            "c = f16[512,512] convert(b)",
            "x = bf16[512,512] parameter(0)",
            "a = f32[512,512] convert(x)",
            "b = f32[512,512] transpose(a), dimensions={1,0}",
            f"t = f32[8,128]{TILED} parameter(1)",
            header=SCHEDULED,
        ),
    ),
    Case(
        "HLO304",
        *marked(
            "ROOT t = (bf16[512,512]{1,0:T(8,128)(2,1)}) tuple(b)",
            f"ROOT t = (f32[512,512]{TILED}) tuple(a)",
            f"x = f32[512,512]{TILED} parameter(0)",
            f"a = «f32[512,512]{TILED}» negate(x)",
            "b = bf16[512,512]{1,0:T(8,128)(2,1)} convert(a)",
            header=SCHEDULED,
        ),
    ),
    Case(
        "HLO305",
        *marked(
            "ROOT y = f32[256,512]{1,0} add(x, b)",
            "ROOT y = (f32[256,512]{1,0}) tuple(b)",
            WIDE,
            "v = f32[512]{0} parameter(1)",
            "b = «f32[256,512]{1,0}» broadcast(v), dimensions={1}",
            header=SCHEDULED,
        ),
    ),
    Case(  # `hlo fuse --why-not` says that a library call takes in no kernel
        "HLO305",
        *marked(
            "ROOT y = f32[256,512]{1,0} fusion(x, b), kind=kLoop, calls=sum",
            "ROOT y = f32[256,512]{1,0} fusion(x, b), kind=kCustom, calls=sum",
            WIDE,
            "v = f32[512]{0} parameter(1)",
            "b = «f32[256,512]{1,0}» broadcast(v), dimensions={1}",
            header=SCHEDULED,
            before=f"sum {{ {WIDE}  z = f32[256,512]{{1,0}} parameter(1)  ROOT a = f32[256,512]{{1,0}} add(x, z) }}",
        ),
    ),
)

SCHEDULES = (
    Case(
        "HLO401",
        module(
            LONG,
            f"«{COPY_START}»",
            "t = (f32[262144]{0}) tuple(x)",
            "d = f32[262144]{0} copy-done(s)",
            header=SCHEDULED,
        ),
        module(LONG, COPY_START, "n = f32[262144]{0} negate(x)", "d = f32[262144]{0} copy-done(s)", header=SCHEDULED),
    ),
    Case(
        "HLO402",
        module(LONG, f"«{COPY_START}»", "d = f32[262144]{0} copy-done(s)", header=SCHEDULED),
        module(LONG, COPY_START, "t = (f32[262144]{0}) tuple(x)", "d = f32[262144]{0} copy-done(s)", header=SCHEDULED),
    ),
    Case(
        "HLO403",
        *marked(
            "n = f32[65536]{0:T(1024)} negate(x)",
            "n = f32[65536]{0:T(1024)} negate(y)",
            "x = f32[65536]{0:T(1024)} parameter(0)",
            f"«y = f32[65536]{{0:T(1024)}} all-reduce(x), {GROUPS}, to_apply=add»",
            header=SCHEDULED + REPLICAS,
            before=ADD,
        ),
    ),
)

COLLECTIVES = (
    Case(
        "HLO501",
        *marked(
            "y = f32[1024,64] slice(g), slice={[0:1024], [0:64]}",
            "y = f32[1025,64] slice(g), slice={[0:1025], [0:64]}",
            PARTS,
            f"«{GATHER}»",
            header=REPLICAS,
        ),
    ),
    Case(
        "HLO502",
        *marked(
            "y = f32[1024,64] dynamic-slice(s, i, i), dynamic_slice_sizes={1024,64}",
            "y = f32[1025,64] dynamic-slice(s, i, i), dynamic_slice_sizes={1025,64}",
            PARTS.replace("1024", "4096"),
            "i = s32[] parameter(1)",
            f"«{SUM}»",
            header=REPLICAS,
            before=ADD,
        ),
    ),
    Case(
        "HLO503",
        *entry(
            f"«b {EXCHANGE.format('t')}»",
            f"b {EXCHANGE.format('n')}",
            "x = f32[256,256] parameter(0)",
            f"a {EXCHANGE.format('x')}",
            "t = f32[256,256] transpose(a), dimensions={1,0}",
            "n = f32[256,256] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            header=REPLICAS,
        ),
    ),
    Case(
        "HLO509",
        *entry(
            f"«b {EXCHANGE.format('t')}»",
            f"b {EXCHANGE.format('n')}",
            "x = f32[256,256] parameter(0)",
            f"a {EXCHANGE.format('x')}",
            "t = f32[256,256] tanh(a)",
            "n = f32[256,256] add(a, x)",
            header=REPLICAS,
        ),
    ),
    Case(
        "HLO504",
        *entry(
            "w = f32[4096,4096] parameter(1), sharding=«{replicated}»",
            "w = f32[4096,4096] parameter(1), sharding={devices=[4,1]<=[4]}",
            PARTS,
            header=", num_partitions=4",
        ),
    ),
    Case(
        "HLO510",
        *entry(
            "w = f32[8192,8192] parameter(1), sharding=«{devices=[2,1,2]<=[4] last_tile_dim_replicate}»",
            "w = f32[8192,8192] parameter(1), sharding={devices=[2,2]<=[4]}",
            PARTS,
            header=", num_partitions=4",
        ),
    ),
    Case(
        "HLO505",
        ROUNDS.format("", "", f"«{COLLECTED[0]}»\n  {COLLECTED[1]}", "w, y", ""),
        ROUNDS.format("", "", "\n  ".join(COLLECTED), "y, w", ""),
        SMALL,
    ),
    Case(  # an unknown number of iterations counts as one
        "HLO505",
        UNENDING.format("", "", f"«{COLLECTED[0]}»\n  {COLLECTED[1]}", "w, y", ""),
        UNENDING.format("", "", "\n  ".join(COLLECTED), "y, w", ""),
        SMALL,
    ),
    Case(
        "HLO506",
        *entry(
            "y = f32[1024,64] all-reduce(x), replica_groups=«{{0},{1}}», to_apply=add",
            "y = f32[1024,64] all-reduce(x), replica_groups={{0,1}}, to_apply=add",
            PARTS,
            header=f"{SCHEDULED}, replica_count=2",
            before=ADD,
        ),
    ),
    Case(
        "HLO507",
        *entry(
            f"«g = f32[4096,64] all-gather(a), dimensions={{0}}, {GROUPS}»",
            f"g = f32[4096,64] all-gather(n), dimensions={{0}}, {GROUPS}",
            "x = bf16[1024,64] parameter(0)",
            "a = f32[1024,64] convert(x)",
            "n = f32[1024,64] negate(a)",
            f"t = f32[8,128]{TILED} parameter(1)",
            header=f"{SCHEDULED}{REPLICAS}",
        ),
    ),
)

COMBINED = (
    Case(
        "HLO508",
        *marked(
            f"b = f32[8]{{0}} all-reduce(y), {GROUPS}, to_apply=add",
            f"b = f32[8]{{0}} all-reduce(a), {GROUPS}, to_apply=add",
            "x = f32[8]{0} parameter(0)",
            "y = f32[8]{0} parameter(1)",
            f"«a = f32[8]{{0}} all-reduce(x), {GROUPS}, to_apply=add»",
            header=SCHEDULED + REPLICAS,
            before=ADD,
        ),
        LintSettings(min_combinable_count=2),
    ),
)

CALLS = (
    Case(
        "HLO601",
        *entry(
            'y = f32[8] custom-call(x), custom_call_target=«"xla_ffi_python_cpu_callback"»',
            'y = f32[8] custom-call(x), custom_call_target="xla_ffi_other_callback"',
            "x = f32[8] parameter(0)",
        ),
    ),
    Case(
        "HLO602",
        ROUNDS.format("", "", f"«{CALLED}»", "w, y", ""),
        ROUNDS.format("", "", "y = f32[8,128]{1,0:T(8,128)} negate(x)", "w, y", CALLED.replace("(x)", "(a)")),
    ),
    Case(
        "HLO603",
        *entry(
            '«y = f32[8,8] custom-call(x), custom_call_target="lapack_spotrf_ffi"»',
            'y = f32[8,8] custom-call(x), custom_call_target="Sharding"',
            "x = f32[8,8] parameter(0)",
        ),
    ),
    Case(
        "HLO604",
        *entry(
            'y = f32[8]{0} custom-call(x), custom_call_target="f", api_version=«API_VERSION_STATUS_RETURNING»',
            'y = f32[8]{0} custom-call(x), custom_call_target="f", api_version=API_VERSION_TYPED_FFI',
            "x = f32[8]{0} parameter(0)",
            header=SCHEDULED,
        ),
    ),
)

NUMERICS = (
    Case(
        "HLO701",
        module(f"«x = f64[8,128]{TILED} parameter(0)»"),
        module(f"x = s64[8,128]{TILED} parameter(0)"),
    ),
    Case(
        "HLO702",
        *entry(
            "«y = f64[1024] convert(x)»", "y = f64[] convert(z)", "x = f32[1024] parameter(0)", "z = f32[] parameter(1)"
        ),
    ),
    Case(
        "HLO703",
        *entry(
            "«r = bf16[] reduce(x, c), dimensions={0}, to_apply=add»",
            "r = bf16[] reduce(z, c), dimensions={0}, to_apply=add",
            "x = bf16[256] parameter(0)",
            "z = bf16[255] parameter(1)",
            "c = bf16[] constant(0)",
            before=HALF_ADD,
            header=SCHEDULED,
        ),
    ),
    Case(
        "HLO704",
        *entry(f"y = «s8[8,8]» {DOT}", f"y = s32[8,8] {DOT}", "a = s8[8,8] parameter(0)", "b = s8[8,8] parameter(1)"),
    ),
    Case(
        "HLO705",
        *entry(
            f"«y = f32[8,8] {DOT}»",
            f"y = f32[8,8] {DOT}, operand_precision={{high,high}}",
            "a = f32[8,8] parameter(0)",
            "b = f32[8,8] parameter(1)",
        ),
        LintSettings(("HLO705",), chip="v5e"),
    ),
    Case(
        "HLO706",
        *entry(
            f"y = f32[8,8] {DOT}, operand_precision=«{{highest,highest}}»",
            f"y = f32[8,8] {DOT}, operand_precision={{default,default}}",
            "a = bf16[8,8] parameter(0)",
            "b = bf16[8,8] parameter(1)",
            header=SCHEDULED,
        ),
    ),
    Case(
        "HLO707",
        *entry(
            "«b = f32[512,512] convert(a)»",
            "b = bf16[512,512] negate(a)",
            "x = f32[512,512] parameter(0)",
            "a = bf16[512,512] convert(x)",
            header=SCHEDULED,
        ),
        LintSettings(("HLO707",)),
    ),
)

COST_CASES = (*LAYOUTS, *MEMORY, *FUSION, *SCHEDULES, *COLLECTIVES, *COMBINED, *CALLS, *NUMERICS, *PALLAS)

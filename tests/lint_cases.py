"""For every rule a text that breaks it, with « » around the place that is meant, and one that narrowly does not."""

from __future__ import annotations

from dataclasses import dataclass, field

from hlo_cli.lint.settings import LintSettings

ADD = "add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }\n"
NEGATE = "f { p = f32[4,8] parameter(0)  ROOT n = f32[4,8] negate(p) }\n"
FUSED = "f {{\n  p = f32[4,8] parameter(0)\n  {0}\n  ROOT n = f32[4,8] negate({1}) }}\n"
FUSION = "ROOT y = f32[4,8] fusion(x), kind=kLoop, calls=f"
ZERO = "c = f32[] constant(0)"
SCHEDULED = ", is_scheduled=true"


@dataclass(frozen=True, slots=True)
class Case:
    """A rule, the text that breaks it and the one that does not, and the settings that it takes."""

    code: str
    bad: str
    good: str
    settings: LintSettings = field(default_factory=LintSettings)


def module(*lines: str, header: str = "", before: str = "") -> str:
    """A module whose entry holds these lines."""
    return f"HloModule m{header}\n{before}ENTRY e {{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"


def entry(bad: str, good: str, *lines: str, header: str = "", before: str = "") -> tuple[str, str]:
    """Two modules that differ in their last instruction."""
    first, second = (module(*lines, last, header=header, before=before) for last in (bad, good))
    return first, second


def aliased(entries: str, orders: str) -> str:
    """TWO with these aliases, and the dimension orders of its parameter and its result in the header."""
    (given, returned) = (f"f32[4,8]{{{','.join(order)}}}" for order in orders.split("->"))
    return TWO.format(f", input_output_alias={entries}, entry_computation_layout={{({given})->{returned}}}", "")


X = "x = f32[4,8] parameter(0)"
V = "v = f32[8] parameter(1)"
Z = "z = f32[4,8] parameter(2)"
PAIR = "ROOT y = (f32[4,8], f32[4,8]) tuple(x, z)"
SCALED = """HloModule m
ENTRY e {{
  a = bf16[128,64]{{1,0}} parameter(0)
  b = bf16[64,32]{{1,0}} parameter(1)
  s = {1} parameter(2)
  {0}ROOT r = bf16[128,32]{{1,0}} scaled-dot(a, b, s, s), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{2}
}}
"""
"""XLA takes scales of any size, but not two of rank 0."""
TWO = "HloModule m{}\nENTRY e {{\n  x = f32[4,8]{{1,0}} parameter(0)\n  ROOT y = f32[4,8]{{1,0}} negate(x){}\n}}\n"
LOOP = """HloModule m
body {{ p = s32[] parameter(0){1}  one = s32[] constant(1)  ROOT n = s32[] add(p, one) }}{0}
test {{ p = s32[] parameter(0){2}  ten = s32[] constant(10)  ROOT n = pred[] compare(p, ten), direction=LT }}
ENTRY e {{
  z = s32[] constant(0)
  {3}
}}
"""
HOST = ', execution_thread="host"\n'
REDUCED = "r = f32[] reduce(v, c), dimensions={0}, to_apply=add"
PAIRS = "frontend_attributes={{_xla_send_recv_source_target_pairs={0}}}"
DEVICE_SEND = "s = (f32[4], u32[], token[]) send(u, t), channel_id=1, " + PAIRS
CHAIN, CIRCLE = "{{0,1},{1,2}}", "{{0,1},{1,0}}"
RECEIVE = "r = (f32[4], u32[], token[]) recv(t), channel_id=2, " + PAIRS.format(CHAIN)
SENDS = ("u = f32[4] parameter(0)", "w = f32[2] parameter(1)", "t = token[] after-all()")
EXCHANGE = (
    "x = f32[8,8] parameter(0)",
    "out = f32[8,8] parameter(1)",
    "i = s32[] constant(0)",
    "at = (s32[], s32[]) tuple(i, i)",
    "short = (s32[]) tuple(i)",
)
MESHED = """HloModule m, num_partitions=4, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["x"=2, "y"=2]>}}}}
add {{ x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }}
ENTRY e {{
  x = f32[8] parameter(0)
  ROOT y = f32[8] all-reduce(x), channel_id=1, replica_groups={}, use_global_device_ids=true, to_apply=add
}}
"""
FOUR = "f32[4,8], f32[4,8], f32[4,8], f32[4,8]"
CONTEXT = "(f32[4], u32[], token[])"
ALIASED = """HloModule m{}
ENTRY e {{
  x = f32[4,8]{{1,0}} parameter(0)
  ROOT y = f32[4,8]{{0,1}} custom-call(x), custom_call_target="f", output_to_operand_aliasing={}{{{{}}: (0, {{}})}}{}
}}
"""
GROUP = f"""HloModule m
w {{{{
  a = f32[4] parameter(0)
  t = token[] parameter(1)
  s = {CONTEXT} send(a, t), channel_id=1
  r = {CONTEXT} recv(t), channel_id=1
  ROOT p = ({CONTEXT}, {CONTEXT}) tuple(s, r)
}}}}
ENTRY e {{{{
  x = f32[4] parameter(0)
  t = token[] after-all()
  {{0}}s = ((f32[4], token[]), ({CONTEXT}, {CONTEXT}), u32[]) async-start(x, t), calls=w{{2}}{{1}}
  ROOT d = ({CONTEXT}, {CONTEXT}) async-done(s)
}}}}
"""
PERMUTE = (
    "ROOT y = f32[8,8] collective-permute(x, out, at, {0}), source_target_pairs={{{{0,1}}}}, slice_sizes={{{{4,8}}}}"
)

PASSED_ON = """HloModule m
body {{
  p = (s32[], b(f32[4])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  b = b(f32[4]) get-tuple-element(p), index=1
  c = b(f32[4]) custom-call(b), custom_call_target="f", output_to_operand_aliasing={{{{}}: (0, {{}})}}
  {0}ROOT t = (s32[], b(f32[4])) tuple(i, {1}){2}
}}
test {{ p = (s32[], b(f32[4])) parameter(0)  ROOT n = pred[] constant(false) }}
ENTRY e {{
  x = f32[4] parameter(0)
  z = s32[] constant(0)
  b = b(f32[4]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{{{}}: (0, {{}})}}
  t = (s32[], b(f32[4])) tuple(z, b)
  ROOT w = (s32[], b(f32[4])) while(t), condition=test, body=body
}}
"""
HEADER = ", entry_computation_layout={}{{(f32[4,8]{})->f32[4,8]{{1,0}}}}{}"
STARTS = "s = ((f32[4,8]{1,0}), f32[4,8]{0,1}, u32[]) async-start(x), calls=f"
UNSETTLED = (
    ("y = «f32[4,9]» bitcast(x)", "y = f32[8,4] bitcast(x)", ""),
    ("y = «f32[4,8]{0,1}» opt-barrier(x)", "y = f32[4,8]{1,0} opt-barrier(x)", ""),
    ("«y = f32[4,8]{0,1} fusion(x), kind=kLoop, calls=f»", "y = f32[4,8] fusion(x), kind=kLoop, calls=f", NEGATE),
    (
        '«b = b(f32[4,8]{0,1}) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}»',
        'b = b(f32[4,8]{1,0}) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}',
        "",
    ),
    (
        STARTS + ", output_to_operand_aliasing=«{{1}: (0, {})}»\n  d = f32[4,8]{0,1} async-done(s)",
        STARTS + "\n  d = f32[4,8]{0,1} async-done(s)",
        NEGATE.replace("ROOT n = f32[4,8] negate(p)", "ROOT n = f32[4,8]{0,1} negate(p)"),
    ),
)

CASES = (
    Case("HLO001", *entry("ROOT y = f32[4,8] negate(«lost»)", "ROOT y = f32[4,8] negate(x)", X)),
    Case("HLO010", *entry("ROOT y = «f32[5,8]» negate(x)", "ROOT y = f32[4,8] negate(x)", X)),
    Case(
        "HLO003",
        *entry("y = f32[8,4] «transpose»(x)", "y = f32[8,4] transpose(x), dimensions={1,0}", X),
    ),
    Case(
        "HLO010",
        *entry(
            "«ROOT y = f32[8,4] transpose(x), dimensions={0,0}»", "ROOT y = f32[8,4] transpose(x), dimensions={1,0}", X
        ),
    ),
    Case("HLO010", *entry("«ROOT y = f32[4,8] add(x, v)»", "ROOT y = f32[4,8] add(x, x)", X, V)),
    Case(
        "HLO004",
        *entry("«ROOT y = f32[4,8] frobnicate(x), to_apply=f»", "ROOT y = f32[4,8] negate(x)", X, before=NEGATE),
    ),
    Case(
        "HLO010",
        *entry(
            "«y = (f32[4,8], f32[8]) scan(x, v), dimensions={0}, num_carries=1, to_apply=row»",
            "y = (f32[4,8], f32[8]) scan(x, v), dimensions={0}, num_carries=1, to_apply=row, is_associative=true",
            X,
            V,
            before="row { a = f32[8] parameter(0)  c = f32[8] parameter(1)  ROOT t = (f32[8], f32[8]) tuple(a, c) }\n",
        ),
        LintSettings(layout_sensitive="always"),
    ),
    Case("HLO011", *entry("ROOT y = «bf16[4,8]» negate(x)", "ROOT y = bf16[4,8] convert(x)", X)),
    Case(
        "HLO012",
        *entry(
            "«ROOT y = f32[8] add(v, h)»",
            "ROOT y = f32[8] add(v, w)",
            X,
            V,
            "h = bf16[8] parameter(2)",
            "w = f32[8] convert(h)",
        ),
    ),
    Case("HLO010", SCALED.format("«", "bf16[]", "»"), SCALED.format("", "bf16[1,1]{1,0}", "")),
    Case("HLO013", *entry("y = «f32[4,8]{0,0}» negate(x)", "y = f32[4,8]{0,1} negate(x)", X)),
    Case("HLO013", *entry("y = «u8[2,5]{1,0:E(8)}» parameter(1)", "y = u8[2,5]{1,0} parameter(1)", X)),
    Case("HLO013", *entry("y = «(pred[8]{0:E(1)})» parameter(1)", "y = (s4[8]{0:E(4)}) parameter(1)", X)),
    Case("HLO013", *entry("y = «u8[8]{0:E(8)}» parameter(1)", "y = u8[8]{0:T(8)E(8)} parameter(1)", X)),
    Case("HLO014", *entry("y = «f32[?]» negate(x)", "y = f32[<=8] negate(x)", "x = f32[<=8] parameter(0)")),
    Case(
        "HLO015",
        *entry("y = f32[8,4] broadcast(x), dimensions=«{1,0}»", "y = f32[4,8] broadcast(x), dimensions={0,1}", X),
        LintSettings(("HLO015",)),
    ),
    Case(
        "HLO016",
        *entry(
            "y = f32[4,8] negate(x), result_accuracy=«{mode=highest}»",
            "y = f32[4,8] tanh(x), result_accuracy={mode=highest}",
            X,
        ),
    ),
    Case("HLO020", *entry("«y = f32[4,8] parameter(2)»", "y = f32[4,8] parameter(1)", X)),
    Case(
        "HLO021", *entry("y = f32[4,8] negate(x), to_apply=«f»", "y = f32[4,8] call(x), to_apply=f", X, before=NEGATE)
    ),
    Case(
        "HLO022",
        *entry(
            "«y = f32[4,8]{1,0} call(z), to_apply=f»",
            "y = f32[4,8]{1,0} call(x), to_apply=f",
            X,
            "z = f32[4,8]{1,0:S(1)} copy(x)",
            header=SCHEDULED,
            before=NEGATE,
        ),
    ),
    Case(
        "HLO023",
        LOOP.format(', execution_thread="host"', "", "", "«ROOT w = s32[] while(z), condition=test, body=body»"),
        LOOP.format("", "", "", "ROOT w = s32[] while(z), condition=test, body=body"),
    ),
    Case(
        "HLO024",
        module(X, V, ZERO, f"«{REDUCED}»", before=ADD.rstrip() + HOST),
        module(X, V, ZERO, REDUCED, before=ADD),
        LintSettings(("HLO024",)),
    ),
    Case(
        "HLO025",
        *entry(
            "y = f32[4,8] call(x), to_apply=f, is_composite=«true»",
            'y = f32[4,8] call(x), to_apply=f, is_composite=true, frontend_attributes={composite.name="a.b",composite.version="1"}',
            X,
            before=NEGATE,
        ),
    ),
    Case(
        "HLO025",
        *entry(
            'y = f32[4,8] call(x), to_apply=f, is_composite=true, frontend_attributes=«{composite.name="a.b",composite.version="-1"}»',
            'y = f32[4,8] call(x), to_apply=f, frontend_attributes={composite.version="-1"}',
            X,
            before=NEGATE,
        ),
    ),
    Case(
        "HLO030",
        *entry(
            "«y = f32[4,8] fusion(x), kind=kLoop, calls=f»",
            "y = f32[4,8] negate(x)",
            X,
            "z = f32[4,8] fusion(x), kind=kLoop, calls=f",
            before=NEGATE,
        ),
    ),
    Case(
        "HLO030",
        module(X, FUSION, before=FUSED.format("«lost = f32[4,8] exponential(p)»", "p")),
        module(X, FUSION, before=FUSED.format("kept = f32[4,8] exponential(p)", "kept")),
    ),
    Case(
        "HLO031",
        *entry(
            "«y = f32[4,8] fusion(x), kind=kInput, calls=f»",
            "y = f32[4,8] fusion(x), kind=kLoop, calls=f",
            X,
            before=NEGATE,
        ),
        LintSettings(("HLO031",)),
    ),
    Case(
        "HLO032",
        *entry(
            'y = f32[8] custom-call(v), custom_call_target="f", output_to_operand_aliasing=«{{}: (1, {})}»',
            'y = f32[8] custom-call(v), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}',
            X,
            V,
        ),
    ),
    Case(
        "HLO032",
        *entry(
            'y = f32[8] custom-call(x), custom_call_target="f", output_to_operand_aliasing=«{{}: (0, {})}»',
            'y = f32[4,8] custom-call(x), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}',
            X,
            V,
        ),
    ),
    Case(  # layouts are compared once the module is scheduled
        "HLO032",
        ALIASED.format(", is_scheduled=true", "«", "»"),
        ALIASED.format("", "", ""),
    ),
    Case(
        "HLO033",
        *entry(
            'y = f32[8] custom-call(v), custom_call_target="f", operand_layout_constraints=«{f32[8]{0}, f32[8]{0}}»',
            'y = f32[8] custom-call(v), custom_call_target="f", operand_layout_constraints={f32[8]{0}}',
            X,
            V,
        ),
    ),
    Case(
        "HLO034",
        *entry(
            '«y = u32[] custom-call(), custom_call_target="GetRngSeed"»',
            'y = u64[] custom-call(), custom_call_target="GetRngSeed"',
            X,
        ),
    ),
    Case(
        "HLO040",
        *entry(
            "«y = b(f32[4,8]) negate(b)»",
            "y = (b(f32[4,8])) tuple(b)",
            X,
            'b = b(f32[4,8]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}',
        ),
    ),
    Case(
        "HLO041",
        *entry(
            '«d = b(f32[4,8]) custom-call(b), custom_call_target="g", output_to_operand_aliasing={{}: (0, {})}»',
            'd = b(f32[4,8]) custom-call(c), custom_call_target="g", output_to_operand_aliasing={{}: (0, {})}',
            X,
            'b = b(f32[4,8]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}',
            'c = b(f32[4,8]) custom-call(b), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}',
        ),
    ),
    Case("HLO041", PASSED_ON.format("«", "b", "»"), PASSED_ON.format("", "c", "")),
    Case(
        "HLO042",
        *entry(
            '«s = ((b(f32[4,8])), b(f32[4,8]), u32[]) custom-call-start(b), custom_call_target="f"»\n'
            "  d = b(f32[4,8]) custom-call-done(s)",
            's = ((b(f32[4,8])), b(f32[4,8]), u32[]) custom-call-start(b), custom_call_target="f", '
            "output_to_operand_aliasing={{}: (0, {})}\n  d = b(f32[4,8]) custom-call-done(s)",
            X,
            'b = b(f32[4,8]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}',
        ),
    ),
    Case(
        "HLO042",
        *entry(
            '«c = b(f32[4,8]) custom-call(b), custom_call_target="f"»',
            'c = b(f32[4,8]) custom-call(b), custom_call_target="f", output_to_operand_aliasing={{}: (0, {})}',
            X,
            'b = b(f32[4,8]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}',
        ),
    ),
    Case(
        "HLO042",
        *entry(
            '«a = b(f32[4,8]) custom-call(b), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}»',
            'a = f32[4,8] custom-call(b), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}',
            X,
            'b = b(f32[4,8]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}',
        ),
    ),
    Case(
        "HLO050",
        *entry(
            "y = f32[4,8] all-reduce(x), replica_groups=«{{0,1},{1,2}}», to_apply=add",
            "y = f32[4,8] all-reduce(x), replica_groups={{0,1},{3,2}}, to_apply=add",
            X,
            before=ADD,
        ),
    ),
    Case(
        "HLO050",
        *entry(
            "y = f32[4,8] all-reduce(x), replica_groups=«{{0,1},{3,4}}», to_apply=add",
            "y = f32[4,8] all-reduce(x), replica_groups={{0,1},{2}}, to_apply=add",
            X,
            before=ADD,
        ),
    ),
    Case(
        "HLO050",
        *entry(
            "y = f32[4,8] all-reduce(x), replica_groups=«{{0,1}}», to_apply=add",
            "y = f32[4,8] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add",
            X,
            before=ADD,
            header=", replica_count=4",
        ),
    ),
    Case(
        "HLO051",
        *entry(
            "y = f32[4,8] all-reduce(x), replica_groups={}, channel_id=1, use_global_device_ids=«true», to_apply=add",
            "y = f32[4,8] all-reduce(x), replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true, to_apply=add",
            X,
            before=ADD,
        ),
    ),
    Case(
        "HLO052",
        *entry(
            "y = f32[4,8] collective-permute(x), source_target_pairs=«{{0,1},{0,2}}»",
            "y = f32[4,8] collective-permute(x), source_target_pairs={{0,1},{1,2}}",
            X,
        ),
    ),
    Case(
        "HLO052",
        *entry(
            "y = f32[4,8] collective-permute(x), channel_id=1, source_target_pairs=«{{0,1},{1,2}}»",
            "y = f32[4,8] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}",
            X,
            header=", num_partitions=2",
        ),
    ),
    Case(
        "HLO053",
        *entry(
            "y = f32[4,8] all-reduce(x), channel_id=«0», replica_groups={}, to_apply=add",
            "y = f32[4,8] all-reduce(x), channel_id=1, replica_groups={}, to_apply=add",
            X,
            before=ADD,
        ),
    ),
    Case(
        "HLO054",
        *entry(
            "z = f32[4,8] all-reduce(x), replica_groups={}, constrain_layout=«true», to_apply=add",
            "z = f32[4,8] all-reduce(x), replica_groups={}, to_apply=add",
            X,
            "y = f32[4,8] all-reduce(x), replica_groups={}, to_apply=add",
            before=ADD,
        ),
    ),
    Case("HLO055", *entry(f"«{PERMUTE.format('short')}»", PERMUTE.format("at"), *EXCHANGE)),
    Case(  # without slice_sizes, four operands are four transfers
        "HLO055",
        *entry(
            f"«{PERMUTE.format('short')}»",
            f"ROOT y = ({FOUR}) collective-permute(z, z, z, z), source_target_pairs={{{{0,1}}}}",
            *EXCHANGE,
            Z,
        ),
    ),
    Case(
        "HLO060",
        module(X, "«s = (f32[4,8], f32[4,8], u32[]) copy-start(x)»", "ROOT y = f32[4,8] negate(x)"),
        module(X, "s = (f32[4,8], f32[4,8], u32[]) copy-start(x)", "ROOT y = f32[4,8] copy-done(s)"),
    ),
    Case(
        "HLO061",
        *entry(
            "s = (f32[4], u32[], token[]) send(u, t), channel_id=«1», is_host_transfer=true",
            "s = (f32[4], u32[], token[]) send(u, t), channel_id=2, is_host_transfer=true",
            *SENDS,
            "r = (f32[2], u32[], token[]) send(w, t), channel_id=1, is_host_transfer=true",
        ),
    ),
    Case(
        "HLO062",
        module(*SENDS, f"«{DEVICE_SEND.format(CIRCLE)}»", RECEIVE, header=SCHEDULED),
        module(*SENDS, DEVICE_SEND.format(CHAIN), RECEIVE, header=SCHEDULED),
        LintSettings(("HLO062",)),
    ),
    Case(
        "HLO062",
        *entry(f"«{DEVICE_SEND.format(CHAIN)}»", "y = f32[4] negate(u)", *SENDS, header=SCHEDULED),
        LintSettings(("HLO062",)),
    ),
    Case("HLO063", GROUP.format("«", "»", ""), GROUP.format("", "", ', frontend_attributes={_collectives_group=""}')),
    Case(
        "HLO064",
        *entry(
            "«t = ((f32[4,8]), f32[4,8], u32[]) async-start(x), calls=f»",
            "t = ((f32[4,8]), f32[4,8], u32[]) async-start(x), calls=g\n  w = f32[4,8] async-done(t)",
            X,
            "s = ((f32[4,8]), f32[4,8], u32[]) async-start(x), calls=f",
            "d = f32[4,8] async-done(s)",
            before=NEGATE + NEGATE.replace("f {", "g {"),
        ),
    ),
    Case(
        "HLO070",
        TWO.format(", entry_computation_layout=«{(f32[4,8]{1,0})->f32[5,8]{1,0}}»", ""),
        TWO.format(", entry_computation_layout={(f32[4,8]{0,1})->f32[4,8]{1,0}}", ""),
    ),
    Case(
        "HLO070",
        TWO.format(", is_scheduled=true, entry_computation_layout=«{(f32[4,8]{0,1})->f32[4,8]{1,0}}»", ""),
        TWO.format(", is_scheduled=true, entry_computation_layout={(f32[4,8]{1,0:T(4,128)S(1)})->f32[4,8]{1,0}}", ""),
    ),
    Case(
        "HLO071",
        TWO.format(", input_output_alias=«{ {}: (1, {}, may-alias) }»", ""),
        TWO.format(", input_output_alias={ {}: (0, {}, may-alias) }", ""),
    ),
    Case(
        "HLO071",
        TWO.format(", input_output_alias=«{ {0}: (0, {}, may-alias) }»", ""),
        TWO.format(", input_output_alias={ {}: (0, {}, must-alias) }", ""),
    ),
    *(
        Case("HLO071", aliased(f"«{{ {bad} }}»", orders), aliased(f"{{ {good} }}", well))
        for bad, orders, good, well in (
            ("{}: (0, {}, must-alias)", "01->10", "{}: (0, {}, must-alias)", "01->01"),
            ("{}: (0, {}, must-alias)", "10->01", "{}: (0, {}, may-alias)", "10->01"),
            ("{}: (0, {}, may-alias), {}: (0, {}, may-alias)", "10->10", "{}: (0, {}, may-alias)", "10->10"),
        )
    ),
    Case(
        "HLO071",
        module(X, V, Z, PAIR, header=", input_output_alias=«{ {0}: (0, {}, may-alias), {1}: (0, {}, may-alias) }»"),
        module(X, V, Z, PAIR, header=", input_output_alias={ {0}: (0, {}, may-alias), {1}: (2, {}, may-alias) }"),
    ),
    Case("HLO072", TWO.format(", buffer_donor=«{ (0, {1}) }»", ""), TWO.format(", buffer_donor={ (0, {}) }", "")),
    Case(
        "HLO073",
        *entry(
            "y = f32[4,8] negate(x), control-predecessors=«{q}»", "y = f32[4,8] negate(x), control-predecessors={x}", X
        ),
    ),
    Case(
        "HLO074",
        *entry(
            'y = (f32[4,8], f32[8]) tuple(x, v), origin=«{{"a"}}»',
            'y = (f32[4,8], f32[8]) tuple(x, v), origin={({"a"}, {})}',
            X,
            V,
        ),
    ),
    Case(  # XLA reads `{}` as an empty tuple, and `{{}}` as an array without an original value
        "HLO074", *entry("y = f32[8] negate(v), origin=«{}»", "y = f32[8] negate(v), origin={{}}", X, V)
    ),
    Case("HLO074", *entry("y = f32[8] negate(v), origin=«{ }»", "y = () tuple(), origin={ }", X, V)),
    Case(
        "HLO075",
        *entry(
            'y = f32[8] negate(v), metadata=«{scheduling_name="z"}»',
            'y = f32[8] negate(v), metadata={scheduling_name="y"}',
            X,
            V,
        ),
        LintSettings(("HLO075",)),
    ),
    Case(
        "HLO080",
        *entry(
            "y = f32[8] negate(v), sharding=«{devices=[2,2]0,1,2,3}»",
            "y = f32[8] negate(v), sharding={devices=[2,2]0,1,2,3 last_tile_dim_replicate}",
            X,
            V,
        ),
    ),
    Case(
        "HLO080",
        *entry(
            "y = f32[8] negate(v), sharding=«{devices=[2]0,2}»",
            "y = f32[8] negate(v), sharding={devices=[2]1,0}",
            X,
            V,
            header=", num_partitions=2",
        ),
    ),
    Case(
        "HLO080",
        *entry(
            "y = (f32[8], f32[4,8]) tuple(v, x), sharding=«{devices=[2]0,1}»",
            "y = (f32[8], f32[4,8]) tuple(v, x), sharding={devices=[1,2]<=[2] last_tile_dim_replicate}",
            X,
            V,
        ),
    ),
    Case(
        "HLO080",
        *entry(
            "y = f32[8] negate(v), sharding=«{mesh['a'=2], [{'a'}, {}]}»",
            "y = f32[8] negate(v), sharding={mesh['a'=2], [{}, {}]}",
            X,
            V,
        ),
    ),
    Case(
        "HLO080",
        *entry(
            "y = (f32[8], f32[8]) tuple(v, v), sharding=«{{replicated}}»",
            "y = (f32[8], f32[8]) tuple(v, v), sharding={{replicated}, {replicated}}",
            X,
            V,
        ),
    ),
    Case(
        "HLO080",
        *entry(
            "y = f32[8] negate(v), sharding=«{devices=[2]1,1}»",
            "y = f32[8] negate(v), sharding={devices=[2]1,0}",
            X,
            V,
        ),
    ),
    Case(  # what is of one type in all groups, and in one tile, has no rank
        "HLO080",
        *entry(
            "y = f32[8] negate(v), sharding=«{devices=[1,1,2,2]<=[4] last_tile_dims={manual,replicated}}»",
            "y = f32[8] negate(v), sharding={devices=[1,1,2]<=[2] last_tile_dims={manual}}",
            X,
            V,
        ),
    ),
    Case(  # nor has a tuple of nothing
        "HLO080",
        *entry(
            "y = f32[4,8] negate(x), sharding=«{mesh['a'=2], [{'a'}]}»",
            "y = () tuple(), sharding={mesh['a'=2], [{'a'}]}",
            X,
        ),
    ),
    Case("HLO082", MESHED.format("«{{0,3},{1,2}}»"), MESHED.format("{{0,2},{1,3}}")),
    Case("HLO082", MESHED.format("«{{0,1,2},{3}}»"), MESHED.format("[1,4]<=[2,2]T(1,0)")),
    Case(
        "HLO083",
        *entry(
            "y = f32[4,8] all-reduce(x), replica_groups=«torus(2,4)», to_apply=add",
            "y = f32[4,8] all-reduce(x), replica_groups={}, to_apply=add",
            X,
            before=ADD,
        ),
    ),
    Case(
        "HLO083",
        *entry(
            "y = f32[4,8] negate(x), sharding=«{cube=[2,4]}»",
            "y = f32[4,8] negate(x), sharding={replicated}",
            X,
        ),
    ),
    Case(
        "HLO081",
        LOOP.format(
            "",
            ", sharding={replicated}",
            ", sharding=«{maximal device=0}»",
            "ROOT w = s32[] while(z), condition=test, body=body",
        ),
        LOOP.format(
            "",
            ", sharding={replicated}",
            ", sharding={replicated}",
            "ROOT w = s32[] while(z), condition=test, body=body",
        ),
    ),
    Case("HLO090", *entry("«y = f32[4,8]{0,1} negate(x)»", "y = f32[4,8]{0,1} copy(x)", X), LintSettings(("HLO090",))),
    *(
        Case(
            "HLO090",
            module(f"x = {kind}[8]{{0:{bad}}} parameter(0)", f"«y = {kind}[8] negate(x)»"),
            module(f"x = {kind}[8]{{0:{good}}} parameter(0)", f"y = {to}[8] {opcode}(x)"),
            LintSettings(("HLO090",)),
        )
        for bad, good, kind, to, opcode in (
            ("E(4)", "T(128)", "s4", "s4", "negate"),
            ("E(4)", "E(4)", "s4", "s8", "convert"),
            ("L(128)", "S(1)", "f32", "f32", "negate"),
            ("SC(0:4)", "T(8)S(1)", "f32", "f32", "negate"),
        )
    ),
    Case(
        "HLO091",
        *entry(
            "y = «f32[2]{0}» dynamic-slice(z, i), dynamic_slice_sizes={2}",
            "y = f32[2]{0:S(1)} dynamic-slice(z, i), dynamic_slice_sizes={2}",
            "z = f32[8]{0:S(1)} parameter(0)",
            "i = s32[] constant(0)",
        ),
        LintSettings(("HLO091",)),
    ),
    Case(
        "HLO092",
        *entry("y = «f32[2,2,8]{0,1,2}» reshape(x)", "y = f32[2,2,8]{2,1,0} reshape(x)", X),
        LintSettings(("HLO092",)),
    ),
    Case(
        "HLO093",
        *entry("y = «f32[4,8]{1,0:S(5)}» copy(x)", "y = f32[4,8]{1,0:S(1)} copy(x)", X),
        LintSettings(("HLO093",)),
    ),
    *(
        Case("HLO094", *entry(bad, good, "x = f32[4,8]{1,0} parameter(0)", before=before), LintSettings(("HLO094",)))
        for bad, good, before in UNSETTLED
    ),
    Case(
        "HLO094",
        TWO.format(HEADER.format("«", "{0,1}", "»"), ""),
        TWO.format(HEADER.format("", "{1,0}", ""), ""),
        LintSettings(("HLO094",)),
    ),
    Case(
        "HLO101",
        *entry(
            "y = «f32[8192,2]{1,0:T(8,128)}» negate(x)",
            "y = f32[8192,2]{0,1:T(2,128)} negate(x)",
            "x = f32[8192,2]{0,1:T(2,128)} parameter(0)",
        ),
    ),
    Case(
        "HLO101",
        *entry(
            "y = «f32[128,64]{1,0:T(8,128)}» negate(x)",
            "y = f32[128,65]{1,0:T(8,128)} negate(x)",
            "x = f32[128,64] parameter(0)",
        ),
        LintSettings(max_padding_fraction=0.499, min_padding_bytes=32 * 1024),
    ),
    Case(
        "HLO102",
        *entry("y = «f32[256,256]{0,1}» copy(x)", "y = f32[256,256]{1,0} copy(x)", "x = f32[256,256] parameter(0)"),
    ),
    Case(
        "HLO102",
        *entry(
            "s = «(f32[256,256]{0,1}, f32[256,256]{1,0}, u32[])» copy-start(x)\n  d = f32[256,256]{0,1} copy-done(s)",
            "s = (f32[256,256]{1,0}, f32[256,256]{1,0}, u32[]) copy-start(x)\n  d = f32[256,256]{1,0} copy-done(s)",
            "x = f32[256,256]{1,0} parameter(0)",
        ),
    ),
)

"""Origins: metadata is hidden and recovered, arguments are known through what moves them, in linear time."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import pytest

from dumps import compiled_dumps
from hiding import Score, of_opcodes, recover, sample, unsourced
from hlo_cli import parse_module
from hlo_cli.analysis.origin.origins import first_dumps, origins_of
from hlo_cli.analysis.origin.scopes_and_moves import Origin, scope_of
from large_modules import computations, elements, nested, users

PARAMETER = """parameter(0), metadata={op_name="params['layers'][3]['w']"}"""
USE = 'metadata={op_name="jit(f)/layers_3/mlp/dot_general" source_file="model.py" source_line=92}'


def origin(text: str, name: str, index: tuple[int, ...] = ()) -> Origin:
    """The origin of an instruction of a text, or of an element of it."""
    module = parse_module(text)
    assert not module.errors
    return origins_of(module).of_value(module.instruction(name), index)


def entry(*lines: str, before: str = "") -> str:
    """A module with an argument `w` that has a label."""
    body = "\n".join((f"w = f32[8,8]{{1,0}} {PARAMETER}", *lines))
    return f"HloModule m, is_scheduled=true\n{before}\nENTRY e {{\n{body}\n}}"


def recovered(platform: str, choose: Callable[[int], Callable[..., object]], seeds: int = 1) -> Score:
    """The score over all fixtures of a platform, but for calls of kernels: each has a line of its own, which is lost."""
    score = Score()
    for dump in compiled_dumps():
        if dump.platform == platform and not dump.name.endswith("_kernels"):
            for seed in range(seeds):
                recover(dump.text, choose(seed), score)  # type: ignore[arg-type]
    return score


@pytest.mark.parametrize(("platform", "lines", "scopes"), [("tpu", 0.93, 0.98), ("gpu", 0.92, 0.96), ("cpu", 0.95, 1)])
def test_hidden_metadata_is_recovered(platform: str, lines: float, scopes: float) -> None:
    """Fixtures are small: many of their lines made one instruction, of which no other tells.

    On large programs more is told; see `test_large_programs`.
    """
    score = recovered(platform, lambda seed: sample(0.07, seed), seeds=2)
    assert score.hidden > 60
    assert score.share(score.lines) >= lines, score
    assert score.share(score.scopes) >= scopes, score


@pytest.mark.parametrize(
    ("kinds", "lines"), [(("copy",), 0.95), (("fusion",), 0.98), (("get-tuple-element", "bitcast"), 0.9)]
)
def test_all_of_a_kind_are_recovered(kinds: tuple[str, ...], lines: float) -> None:
    score = recovered("tpu", lambda _: of_opcodes(*kinds))
    assert score.hidden > 20
    assert score.share(score.lines) >= lines, score


def test_bytes_without_a_source_line_are_few() -> None:
    modules = [parse_module(dump.text) for dump in compiled_dumps() if dump.platform == "tpu"]
    assert median(unsourced(each, own=True) for each in modules) > 0.4
    assert median(unsourced(each, own=False) for each in modules) < 0.05


def test_own_metadata_stay() -> None:
    for dump in compiled_dumps():
        module = parse_module(dump.text)
        origins = origins_of(module)
        for each in module.instructions:
            own, found = origins.own(each), origins.of(each)
            assert not own.stack or (
                own.stack == found.stack and own.op_name == found.op_name and not found.is_inferred
            )


START = "s = (f32[8,8]{1,0:S(1)}, f32[8,8]{1,0}, u32[]) copy-start(w)"
SLICE_START = "s = ((f32[8,8]{1,0}), f32[4,8]{1,0:S(1)}, u32[]) slice-start(w), slice={[0:4], [0:8]}"
GATHER_START = "s = (f32[8,8]{1,0}, f32[16,8]{1,0}) all-gather-start(w), dimensions={0}, replica_groups={{0,1}}"
MOVED = {
    "copy": ("c = f32[8,8]{0,1} copy(w)", "copy of"),
    "prefetch": (f"{START}\nc = f32[8,8]{{1,0:S(1)}} copy-done(s)", "prefetch of"),
    "slice": ("c = f32[4,8]{1,0} slice(w), slice={[0:4], [0:8]}", "slice of"),
    "async slice": (f"{SLICE_START}\nc = f32[4,8]{{1,0:S(1)}} slice-done(s)", "prefetch of"),
    "gather": ("c = f32[16,8]{1,0} all-gather(w), dimensions={0}, replica_groups={{0,1}}", "all-gather of"),
    "async gather": (f"{GATHER_START}\nc = f32[16,8]{{1,0}} all-gather-done(s)", "all-gather of"),
    "cast": ("b = bf16[8,8]{1,0} convert(w)\nc = bf16[64]{0} bitcast(b)", "bitcast of"),
    "fusion": ("c = f32[8,8]{0,1} fusion(w), kind=kLoop, calls=moving", "transpose of"),
}


@pytest.mark.parametrize(("lines", "relation"), MOVED.values(), ids=list(MOVED))
def test_an_argument_is_known_through_moves(lines: str, relation: str) -> None:
    moving = "moving { p = f32[8,8]{1,0} parameter(0)  ROOT t = f32[8,8]{0,1} transpose(p), dimensions={1,0} }"
    text = entry(lines, f'ROOT r = f32[2] custom-call(c), custom_call_target="x", {USE}', before=moving)
    found = origin(text, "c")
    assert (found.argument_name, found.source, found.scope) == (
        "params['layers'][3]['w']",
        "model.py:92",
        "layers_3/mlp",
    )
    assert (found.is_inferred, found.relation) == (True, "used by")
    module = parse_module(text)
    assert relation in [step.relation for step in origins_of(module).moves_of(module.instruction("c"))]


def test_an_argument_ends_where_a_value_is_computed() -> None:
    assert origin(entry("ROOT n = f32[8,8] negate(w)"), "n").argument is None
    fused = "f { p = f32[8,8] parameter(0)  ROOT n = f32[8,8] negate(p) }"
    assert origin(entry("ROOT n = f32[8,8] fusion(w), kind=kLoop, calls=f", before=fused), "n").argument is None
    assert origin(entry("ROOT n = f32[8,8] all-reduce(w), to_apply=a", before=ADD), "n").argument is None


ADD = "a { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }"
LOOP = f"""
body {{
  t = (f32[8,8], f32[8,8]) parameter(0)
  g = f32[8,8] get-tuple-element(t), index=0
  h = f32[8,8] get-tuple-element(t), index=1
  n = f32[8,8] add(g, h), {USE}
  k = f32[8,8] copy(g)
  ROOT u = (f32[8,8], f32[8,8]) tuple(k, n)
}}
cond {{ t = (f32[8,8], f32[8,8]) parameter(0)  ROOT c = pred[] constant(true) }}"""


def test_a_loop_carries_an_argument_that_it_keeps() -> None:
    text = entry(
        "i = (f32[8,8], f32[8,8]) tuple(w, w)",
        "l = (f32[8,8], f32[8,8]) while(i), condition=cond, body=body",
        "ROOT o = f32[8,8] get-tuple-element(l), index=0",
        before=LOOP,
    )
    assert origin(text, "g").argument_name == "params['layers'][3]['w']"
    assert origin(text, "o").argument_name == "params['layers'][3]['w']"
    assert origin(text, "l", (0,)).argument_name == "params['layers'][3]['w']"
    assert origin(text, "h").argument is None
    assert origin(text, "l", (1,)).argument is None
    assert origin(text, "l", (1,)).source == "model.py:92"


def test_an_argument_is_unknown_where_several_callers_pass_one() -> None:
    shared = "f { q = f32[8,8] parameter(0)  ROOT c = f32[8,8] copy(q) }"
    other = "v = f32[8,8] parameter(1)"
    once = "ROOT x = f32[8,8] call(w), to_apply=f"
    assert origin(entry(other, once, before=shared), "c").argument_name == "params['layers'][3]['w']"
    twice = entry(other, "x = f32[8,8] call(w), to_apply=f", "ROOT y = f32[8,8] call(v), to_apply=f", before=shared)
    assert [origin(twice, name).argument for name in ("c", "x", "y")] == [None, None, None]
    module = parse_module(twice)
    assert module.entry.root is not None
    assert [step.relation for step in origins_of(module).moves_of(module.entry.root)] == ["result of", "copy of"]


def test_a_reducer_is_part_of_what_applies_it() -> None:
    zero = "z = f32[] constant(0)"
    text = entry(zero, f"ROOT r = f32[8] reduce(w, z), dimensions={{1}}, to_apply=a, {USE}", before=ADD)
    assert origin(text, "z").relation == "used by"
    found = origin(text, "x")
    assert (found.source, found.relation) == ("model.py:92", "part of")


def test_a_reducer_of_an_async_collective_does_not_get_its_operand() -> None:
    start = "s = ((f32[8,8]), f32[4,8]) reduce-scatter-start(w), dimensions={0}, replica_groups={{0,1}}, to_apply=a"
    module = parse_module(entry(start, "ROOT d = f32[4,8] reduce-scatter-done(s)", before=ADD))
    origins = origins_of(module)
    assert origins.argument(module.instruction("x")) is None
    assert [origins.argument(module.instruction("s"), (0, 0)), origins.argument(module.instruction("s"), (1,))] == [
        module.instruction("w"),
        None,
    ]


def test_what_nothing_tells_is_unknown() -> None:
    found = origin("HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }", "n")
    assert (found.source, found.scope, found.argument, found.is_inferred) == ("", "", None, False)


def test_original_values_tell() -> None:
    text = entry(
        f"d = f32[8,8] negate(w), {USE}", 'ROOT x = f32[8,8] custom-call(), custom_call_target="y", origin={{"d"}}'
    )
    found = origin(text, "x")
    assert (found.source, found.relation) == ("model.py:92", "original value")


def decoder(hidden: str) -> str:
    """Three layers of a decoder with two products each, all from one line; one instruction is without metadata."""
    lines, before = ["x = f32[8] parameter(0)"], "x"
    for layer, name in ((layer, name) for layer in range(3) for name in ("up", "down")):
        at = f"{layer}{name == 'down':d}"
        label = f"params['layer_{layer}']['{name}']"
        scope = f'metadata={{op_name="jit(f)/jvp(decoder)/layer_{layer}/mlp/{name}/op" source_file="m.py" source_line='
        lines += [
            f'w.{at} = f32[8] parameter({len(lines)}), metadata={{op_name="{label}"}}',
            f"mul.{at} = f32[8] multiply({before}, w.{at}), {scope}7}}",
            f"tanh.{at} = f32[8] tanh(mul.{at}), {scope}8}}",
            f"neg.{at} = f32[8] negate(tanh.{at}), {scope}9}}",
        ]
        before = f"neg.{at}"
    body = "\n".join(line.partition(", metadata=")[0] if line.startswith(f"{hidden} ") else line for line in lines)
    return f"HloModule m  ENTRY e {{\n{body}\nROOT r = f32[8] copy({before}) }}"


@pytest.mark.parametrize("hidden", ["mul.10", "mul.11", "mul.21", "tanh.00", "tanh.20"])
def test_neighbors_tell_the_layer(hidden: str) -> None:
    found = origin(decoder(hidden), hidden)
    opcode, _, place = hidden.partition(".")
    layer, is_down = list(place)
    assert found.scope == f"decoder/layer_{layer}/mlp/{'down' if is_down == '1' else 'up'}"
    assert (found.source, found.relation) == ("m.py:7" if opcode == "mul" else "m.py:8", "like")


def test_layers_that_do_not_exist_are_not_told() -> None:
    """The residual connection is in the scope of the next layer, except after the last."""
    scope = 'metadata={op_name="jit(f)/SCOPE/add" source_file="m.py" source_line=3}'
    known = [f"a{at} = f32[8] add(d{at}, d{at}), {scope.replace('SCOPE', f'layers_{at + 1}')}" for at in range(2)]
    dots = [f"d{at} = f32[8] negate(x), {scope.replace('SCOPE', f'layers_{at}').replace('3', '4')}" for at in range(3)]
    text = entry("x = f32[8] parameter(1)", *dots, *known, "a2 = f32[8] add(d2, d2)", "ROOT r = f32[8] copy(a2)")
    assert origin(text, "a2").scope in {"layers_1", "layers_2", "layers_*"}


def test_layers_that_nothing_distinguishes_are_not_guessed() -> None:
    scope = 'metadata={op_name="jit(f)/block/layers_NUMBER/mlp/neg" source_file="m.py" source_line=3}'
    alike = [
        f'n{at} = f32[8] custom-call(), custom_call_target="x", {scope}'.replace("NUMBER", str(at)) for at in (1, 2)
    ]
    uses = [
        f"u{at} = f32[8] tanh(n{at}), {scope}".replace("=3", "=4").replace("layers_NUMBER/", "") for at in (1, 2, 3)
    ]
    text = entry(*alike, 'n3 = f32[8] custom-call(), custom_call_target="x"', *uses, "ROOT r = f32[8] copy(u3)")
    found = origin(text, "n3")
    assert (found.source, found.scope, found.relation) == ("m.py:3", "block/layers_*/mlp", "like")


def test_a_collective_is_what_its_clones_are() -> None:
    gather = "all-gather(w), dimensions={0}, replica_groups={{0,1}}, channel_id="
    other = 'metadata={op_name="jit(f)/layers_4/dot" source_file="model.py" source_line=9}'
    lines = (f"a = f32[16,8] {gather}7, {USE}", f"b = f32[16,8] {gather}7", f"c = f32[16,8] {gather}8, {other}")
    use = f"d = f32[16,8] add(b, c), {other}"
    found = origin(entry(*lines, use, "ROOT r = f32[16,8] copy(d)"), "b")
    assert (found.source, found.scope, found.relation) == ("model.py:92", "layers_3/mlp", "like")


def test_a_reducer_is_told_by_what_is_next_to_it() -> None:
    own = 'metadata={op_name="gt" source_file="model.py" source_line=9}'
    before = f"a {{ x = f32[] parameter(0)  y = f32[] parameter(1)  g = pred[] compare(x, y), direction=GT, {own}  ROOT z = f32[] select(g, x, y) }}"
    text = entry(
        "o = f32[] constant(0)", f"ROOT r = f32[8] reduce(w, o), dimensions={{1}}, to_apply=a, {USE}", before=before
    )
    found = origin(text, "z")
    assert (found.source, found.relation) == ("model.py:9", "next to")


CALLS_ITSELF = """HloModule m  a { p = f32[2] parameter(0)  ROOT c = f32[2] call(p), to_apply=a }
  ENTRY e { q = f32[2] parameter(0)  ROOT d = f32[2] call(q), to_apply=a }"""
LOOPS_IN_ITSELF = """HloModule m  b { t = (f32[2]) parameter(0)  ROOT w = (f32[2]) while(t), condition=b, body=b }
  ENTRY e { q = (f32[2]) parameter(0)  ROOT d = (f32[2]) while(q), condition=b, body=b }"""
NO_ELEMENT = "HloModule m  ENTRY e { q = (f32[2]) parameter(0)  ROOT d = f32[2] get-tuple-element(q), index=7 }"
NO_OPERAND = "HloModule m  ENTRY e { ROOT d = f32[2] copy-done() }"


@pytest.mark.parametrize("text", [CALLS_ITSELF, LOOPS_IN_ITSELF, NO_ELEMENT, NO_OPERAND])
def test_malformed_modules_have_origins(text: str) -> None:
    module = parse_module(text)
    origins = origins_of(module)
    for each in module.instructions:
        origins.of(each)
        origins.moves_of(each)


@pytest.mark.parametrize("make", [computations, elements, nested, users])
def test_work_grows_with_the_module(make: Callable[[int], str]) -> None:
    """Steps are counted, not seconds: four times the module takes about four times the steps."""
    counts = []
    for size in (50, 200):
        module = parse_module(make(size))
        origins = origins_of(module)
        moves = origins._inference.moves
        calls = 0
        step = moves.step

        def counted(value: object, step: Callable[..., object] = step) -> object:
            nonlocal calls
            calls += 1
            return step(value)

        origins._inference.moves = type(
            "Counting", (), {"step": staticmethod(counted), "first_caller": moves.first_caller}
        )()
        for each in module.instructions:
            origins.of(each)
        counts.append(calls)
    assert counts[1] <= 6 * counts[0] + 50


def test_a_scope_is_what_the_user_named() -> None:
    assert (
        scope_of("jit(f)/jit(main)/transpose(jvp(layers_3))/while/body/closed_call/mlp/dot_general") == "layers_3/mlp"
    )
    assert scope_of("jit(f)/cond/branch_1_fun/tail/add") == "tail"
    assert scope_of("mul;jit(step)/head/add") == ""


def test_an_instruction_is_made_after_the_last_dump_without_it() -> None:
    named = 'metadata={op_name="jit(f)/neg"}'
    texts = (f"n = f32[2] negate(p), {named}", f"m = f32[2] negate(p), {named}", "c = f32[2] copy(p)")
    last, *older = [parse_module(f"HloModule m  ENTRY e {{ p = f32[2] parameter(0)  ROOT {line} }}") for line in texts]
    assert {each.name: back for each, back in first_dumps(last, older).items()} == {"p": 2, "n": 1}


@pytest.mark.long
def test_large_programs() -> None:
    """Twenty draws of the largest fixtures."""
    score = Score()
    for dump in sorted(compiled_dumps(), key=lambda dump: -len(dump.text))[:6]:
        for seed in range(20):
            recover(dump.text, sample(0.07, seed), score)
    assert score.share(score.lines) >= 0.93, score
    assert score.share(score.scopes) >= 0.95, score

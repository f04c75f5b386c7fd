"""The main module of several, and the helpers that JAX compiles next to it: by cost, and by whose function it is."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.query.main_module import (
    EXECUTIONS,
    HELPER_SHARE,
    STEPS,
    ModuleCost,
    cost_of_module,
    is_from_user,
    rank_modules,
    reason_of_main,
)
from hlo_cli.commands.modules.loading import load_main
from hlo_cli.commands.options.io_options import InputOptions
from share import every

FRAMES = """

FileNames
1 "/home/ada/train.py"
2 "/usr/lib/python3/site-packages/jax/_src/random.py"

FunctionNames
1 "{function}"
2 "main.<locals>.{function}"

FileLocations
1 {{file_name_id={file} function_name_id=2 line=3 end_line=3 column=1 end_column=2}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}

"""


def framed(name: str, function: str, file: int = 1) -> str:
    body = 'ROOT r = f32[8]{0} iota(), iota_dimension=0, metadata={op_name="x" stack_frame_id=1}'
    return f"HloModule {name}{FRAMES.format(function=function, file=file)}ENTRY e {{\n  {body}\n}}\n"


def lined(name: str, *lines: tuple[str, int]) -> str:
    body = "\n".join(
        f'  r{n} = f32[8]{{0}} iota(), iota_dimension=0, metadata={{source_file="{file}" source_line={line}}}'
        for n, (file, line) in enumerate(lines)
    )
    return f"HloModule {name}\n\nENTRY e {{\n{body}\n  ROOT t = f32[] constant(0)\n}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (framed("jit_step", "step"), True),  # the stack has the function that the module is named after
        (framed("pmap_step", "step"), True),
        (framed("jit__lambda_", "<lambda>"), True),
        (framed("jit__normal", "main"), False),  # one line of the user's called a function of JAX
        (framed("jit__normal", "_normal", file=2), False),  # full tracebacks: the function is in JAX's file
        (lined("jit_step", ("a.py", 3), ("a.py", 4)), True),  # several lines of the user's
        (lined("jit_multiply", ("a.py", 3), ("a.py", 3)), False),
        (lined("jit_f", ("/x/site-packages/a.py", 3), ("/x/site-packages/a.py", 4)), None),
        (lined("jit__uniform"), False),  # no lines, a private function
        (lined("jit__lambda"), None),
        (lined("jit_step"), None),
        (lined("main.17", ("a.py", 3)), None),  # not JAX's name
    ],
)
def test_whose_function_a_module_is(text: str, expected: bool | None) -> None:
    assert is_from_user(parse_module(text)) is expected


def test_loops_count_as_often_as_they_run() -> None:
    text = """HloModule m
body { p = f32[8] parameter(0)  ROOT n = f32[8] negate(p) }
cond { q = f32[8] parameter(0)  ROOT c = pred[] constant(true) }
ENTRY e {
  p = f32[8] parameter(0)
  ROOT w = f32[8] while(p), condition=cond, body=body, backend_config={"known_trip_count":{"n":"7"}}
}
"""
    cost = cost_of_module(parse_module(text))
    assert (cost.bytes, cost.flops, cost.steps) == (7 * 64, 7 * 8, 7)


def test_a_function_of_the_user_counts_as_run_many_times() -> None:
    helper = ModuleCost(EXECUTIONS - 1, 0, 0, is_users=False)
    step = ModuleCost(1, 0, 0, is_users=True)
    ranking = rank_modules([helper, step])
    assert ranking.main == 1
    assert ranking.shares == pytest.approx(((EXECUTIONS - 1) / (2 * EXECUTIONS - 1), EXECUTIONS / (2 * EXECUTIONS - 1)))


def test_no_helper_costs_more_than_a_function_of_the_user() -> None:
    """A step on eight floats comes before the random numbers of its data, which are made once."""
    helper, step = ModuleCost(1_000_000, 9, 9, is_users=False), ModuleCost(1, 0, 0, is_users=True)
    assert rank_modules([helper, step]).main == 1


def test_a_step_comes_before_what_runs_once() -> None:
    """Decoding returns the cache that is donated to it; prefilling, which costs more, makes a cache of a prompt."""
    cache = "f32[64,16]{1,0}"
    line = 'metadata={source_file="a.py" source_line='
    prefill = f"""HloModule jit_prefill
ENTRY e {{ p = f32[64,64] parameter(0)  s = {cache} slice(p), slice={{[0:64], [0:16]}}, {line}1}}
  n = {cache} sine(s), {line}2}}  ROOT r = {cache} cosine(n), {line}3}} }}"""
    alias = "input_output_alias={ {}: (0, {}, may-alias) }"
    decode = (
        f"HloModule jit_decode, {alias}\nENTRY e {{ c = {cache} parameter(0)  ROOT n = {cache} negate(c), {line}4}} }}"
    )
    costs = [replace(cost_of_module(parse_module(text)), is_users=True) for text in (prefill, decode)]
    assert [cost.state for cost in costs] == [(), ("f32[64,16]",)]
    assert costs[0].bytes > 2 * costs[1].bytes
    assert rank_modules(costs).order == (1, 0)


def module_costs(*texts: str) -> list[ModuleCost]:
    return [replace(cost_of_module(parse_module(text)), is_users=True) for text in texts]


CACHE = "f32[64,16]{1,0}"
LINE = 'metadata={op_name="jit(f)/mul" source_file="a.py" source_line='
STEP = f"""HloModule jit_next
ENTRY e {{ i = s32[] parameter(0)  c = {CACHE} parameter(1)  ROOT n = {CACHE} negate(c), {LINE}4}} }}"""


def test_a_state_that_is_not_donated_is_one() -> None:
    """A scalar tells a step from a function of one array; two arrays do as well."""
    scalar, alone, two = module_costs(
        STEP,
        f"HloModule jit_g\nENTRY e {{ c = {CACHE} parameter(0)  ROOT n = {CACHE} negate(c), {LINE}4}} }}",
        f"""HloModule jit_h
ENTRY e {{ c = {CACHE} parameter(0)  d = {CACHE} parameter(1)  n = {CACHE} negate(c)
  ROOT t = ({CACHE}, {CACHE}) tuple(n, d) }}""",
    )
    assert (scalar.state, alone.state, two.state) == (("f32[64,16]",), (), ("f32[64,16]", "f32[64,16]"))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (f"c = {CACHE} parameter(0)  ROOT r = f32[] reduce(c, z), dimensions={{0,1}}, to_apply=s", "reads the state"),
        (f"x = f32[64,99] parameter(0)  ROOT r = {CACHE} slice(x), slice={{[0:64], [0:16]}}", "makes the state"),
    ],
)
def test_what_only_makes_or_reads_a_state_is_next_to_the_loop(entry: str, why: str) -> None:
    """It runs fewer times than the loop, even if it costs more; other modules count as they are."""
    text = f"""HloModule jit_other
s {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY e {{ z = f32[] constant(0)  {entry}, {LINE}1}} }}"""
    step, other = module_costs(STEP, text)
    other = replace(other, bytes=STEPS * 2 * step.bytes, flops=0, steps=0)
    step = replace(step, flops=0, steps=0)
    assert rank_modules([other, step]).main == 1, why
    assert rank_modules([replace(other, arguments=(), results=()), step]).main == 0


def test_a_gradient_comes_before_what_is_done_without() -> None:
    gradient, plain = module_costs(
        STEP.replace("jit(f)/mul", "jit(f)/transpose(jvp(f))/mul").replace("jit_next", "jit_train_step"), STEP
    )
    assert (gradient.has_gradient, plain.has_gradient) == (True, False)
    assert rank_modules([replace(plain, bytes=plain.bytes * (STEPS - 1)), gradient]).main == 1


def test_a_name_tells_what_runs_once() -> None:
    """Both append to a cache that is donated to them, prefilling a chunk of a prompt at a time."""
    decode, prefill = module_costs(STEP, STEP.replace("jit_next", "jit_prefill_chunk"))
    assert (decode.runs_once, prefill.runs_once) == (False, True)
    assert rank_modules([replace(prefill, bytes=prefill.bytes * 9), decode]).main == 1


def test_a_step_that_takes_a_whole_prompt_runs_once() -> None:
    """It returns the cache that it takes, as decoding does, but it takes many tokens instead of one."""
    prompt, token = module_costs(
        *(
            f"""HloModule jit_{name}
ENTRY e {{ i = s32[] parameter(0)  t = s32[2,{tokens}] parameter(1)  c = {CACHE} parameter(2)
  ROOT n = {CACHE} negate(c), {LINE}4}} }}"""
            for name, tokens in (("read", 300), ("continue", 1))
        )
    )
    assert prompt.state == token.state
    assert rank_modules([replace(prompt, bytes=prompt.bytes * 9), token]).main == 1
    whole, last_batch = replace(prompt, flops=prompt.flops * 9), replace(token, name=prompt.name)
    assert rank_modules([whole, last_batch]).main == 0, "another shape of the same function"


def test_of_several_shapes_the_largest_comes_first() -> None:
    """The small one may have more kernels, but the same function is shown for the sizes that it was made for."""
    small, large = (
        ModuleCost(9_000, 10, 6, True, ("f32[16]",), name="jit_f"),
        ModuleCost(9, 99, 1, True, ("f32[256]",), name="jit_f"),
    )
    other = ModuleCost(8_000, 10, 6, True, ("f32[16]",), name="jit_g")
    ranking = rank_modules([other, small, large])
    assert ranking.order == (2, 1, 0)
    assert ranking.shares[1] > ranking.shares[0] > ranking.shares[2]


def test_values_made_of_a_key_come_last_of_what_is_not_the_users() -> None:
    """Of a program without `jax.jit`, the product is the main module, not the random numbers that it multiplies."""
    made = "HloModule jit__normal\nENTRY e { k = u32[2] parameter(0)  ROOT r = f32[99] iota(), iota_dimension=0 }"
    key, product = (
        replace(cost_of_module(parse_module(made)), has_lines=True),
        ModuleCost(9, 9, 1, None, has_lines=True),
    )
    assert key.is_initializer
    assert rank_modules([replace(key, bytes=1_000), product]).order == (1, 0)


def test_helpers_are_small_and_not_the_users() -> None:
    large, small = HELPER_SHARE + 0.01, HELPER_SHARE - 0.01
    costs = [ModuleCost(round(share * 10_000), 0, 0, is_users=False) for share in (0.6, large, small)]
    ranking = rank_modules(costs)
    assert ranking.order == (0, 1, 2)
    assert ranking.helpers == {2}
    step = ModuleCost(10_000, 1, 1, is_users=True)
    ranking = rank_modules([*costs, step, ModuleCost(1, 0, 0, is_users=True)])
    assert ranking.main == 3
    assert ranking.helpers == {0, 1, 2}


def test_without_source_lines_there_are_no_helpers() -> None:
    ranking = rank_modules([ModuleCost(1, 1, 1, is_users=None), ModuleCost(99, 9, 9, is_users=None)])
    assert (ranking.order, ranking.helpers) == ((1, 0), frozenset())


def test_modules_that_cost_nothing() -> None:
    ranking = rank_modules([ModuleCost(0, 0, 0, is_users=True)] * 2)
    assert (ranking.order, ranking.shares) == ((0, 1), (0.5, 0.5))


# --- programs that the rule was not made for ---

PROGRAMS = {
    "prefill and decode": (
        """
D, S = 128, 256
w = [jax.random.normal(k, (D, D)) for k in jax.random.split(jax.random.key(0), 3)]
def attend(x, K, V, mask):
    return jax.nn.softmax(jnp.where(mask, x @ w[0] @ K.T, -1e9)) @ V
@jax.jit
def prefill(x):
    K, V = (jnp.zeros((S, D)).at[:len(x)].set(x @ each) for each in w[1:])
    return attend(x, K, V, jnp.arange(S)[None] <= jnp.arange(len(x))[:, None])[-1:], K, V
@functools.partial(jax.jit, donate_argnums=(1, 2))
def decode(x, K, V, i):
    K, V = (jax.lax.dynamic_update_slice(old, x @ each, (i, 0)) for old, each in zip((K, V), w[1:]))
    return attend(x, K, V, jnp.arange(S)[None] <= i), K, V
x, K, V = prefill(jax.random.normal(jax.random.key(9), (D, D)))
for i in range(128, 130): x, K, V = decode(x, K, V, i)
""",
        "jit_decode",
    ),
    "training, with an evaluation of more rows": (
        """
w = jax.random.normal(jax.random.key(0), (256, 256))
@jax.jit
def train_step(w, m, x):
    m = 0.9 * m + jax.grad(lambda w: jnp.tanh(x @ w).mean())(w)
    return w - 0.1 * m, m
@jax.jit
def check(w, x): return jnp.tanh(x @ w).mean(), jnp.corrcoef(jnp.tanh(x @ w).T)
x, m = jnp.ones((4096, 256)), jnp.zeros_like(w)
for _ in range(2): w, m = train_step(w, m, x[:32])
check(w, x)
""",
        "jit_train_step",
    ),
    "a simulation and its analysis": (
        """
@jax.jit
def advance(position, velocity, dt):
    distance = position[:, None] - position
    velocity -= dt * (distance / ((distance**2).sum(-1, keepdims=True) + 0.01) ** 1.5).sum(1)
    return position + dt * velocity, velocity
@jax.jit
def spectrum(position, velocity):
    distance = jnp.sqrt(((position[:, None] - position) ** 2).sum(-1) + 1e-6)
    return jnp.histogram(distance.ravel(), bins=50)[0], jnp.linalg.eigvalsh(jnp.exp(-distance))
p, v = jax.random.normal(jax.random.key(0), (500, 3)), jnp.zeros((500, 3))
for _ in range(3): p, v = advance(p, v, 0.01)
spectrum(p, v)
""",
        "jit_advance",
    ),
    "images from noise": (
        """
k = jax.random.normal(jax.random.key(0), (3, 3, 8, 8))
def conv(x): return jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
@jax.jit
def denoise(x, t): return x - 0.1 * conv(x) * jnp.cos(t)
@jax.jit
def decode_image(x):
    for _ in range(3): x = conv(jax.image.resize(x, (1, 2 * x.shape[1], 2 * x.shape[2], 8), "nearest"))
    return jnp.clip(x, 0, 1)
x = jax.random.normal(jax.random.key(1), (1, 32, 32, 8))
for t in range(5): x = denoise(x, t)
decode_image(x)
""",
        "jit_denoise",
    ),
    "a small step": (
        """
data = jax.random.normal(jax.random.key(0), (50_000, 8))
data = (data - data.mean(0)) / data.std(0)
@jax.jit
def tiny_step(w, row): return w - 0.01 * (row @ w) * row
w = tiny_step(jnp.zeros(8), data[0])
""",
        "jit_tiny_step",
    ),
    "without jit": (
        """
x = jax.random.normal(jax.random.key(0), (400, 400))
u, s, v = jnp.linalg.svd(x)
float(s[0])
""",
        "jit_svd",
    ),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", every(3, PROGRAMS, slow=0))
def test_the_main_module_of_programs(name: str, tmp_path: Path) -> None:
    """The right module was written down before the dump was made."""
    text, expected = PROGRAMS[name]
    script = tmp_path / "program.py"
    script.write_text(f"import functools\nimport jax\nimport jax.numpy as jnp\n{text}")
    settings = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_dump_to={tmp_path / 'dump'}"}
    subprocess.run([sys.executable, script], env=os.environ | settings, check=True, timeout=120, capture_output=True)
    assert load_main([str(tmp_path / "dump")], InputOptions()).module.name == expected


def test_how_often_a_module_runs_is_said_as_a_guess() -> None:
    """Decoding accesses fewer bytes per execution than the prefill next to it, so it is main by a guess alone."""
    decode, prefill = module_costs(STEP, STEP.replace("jit_next", "jit_prefill_chunk"))
    costs = [replace(prefill, bytes=prefill.bytes * 9), decode]
    assert reason_of_main(costs, rank_modules(costs).main) == "likely runs most often"
    assert reason_of_main(costs, 0) == "costs most"

"""Made-up arguments of healthy programs make no NaN: second moments, probabilities, divisors, and indices are in range.

Witness: programs of JAX that are right for every argument they are meant for; see `HEALTHY`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.evaluate.arguments import ANY, Range, argument_ranges, made_up_arguments
from hlo_cli.analysis.evaluate.run import run
from hlo_cli.analysis.semantics.typed_values import arrays_of

HEALTHY = """
import json
import jax, jax.numpy as jnp
S = jax.ShapeDtypeStruct
F, I = "f4", "i4"

def loss(p, x, y):
    h = x
    for w, b in p[:-1]:
        h = jax.nn.gelu(h @ w + b)
    logits = h @ p[-1][0] + p[-1][1]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))

def adam(p, mu, nu, step, x, y):
    l, g = jax.value_and_grad(loss)(p, x, y)
    step = step + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, g)
    nu = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, nu, g)
    new = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (1 - 0.9**step) / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8), p, mu, nu)
    return new, mu, nu, step, l

def scanned(p, v, n, xs):
    def step(c, x):
        p, v, n = c
        scale = jnp.sqrt(v / (1 - 0.99 ** (n + 1).astype(F)) + 1e-8)
        return (p - 0.1 * x / scale, 0.99 * v + 0.01 * x * x, n + 1), p.sum()
    return jax.lax.scan(step, (p, v, n), xs)

def branched(flag, v):
    return jax.lax.cond(flag, lambda v: jnp.log(v), lambda v: jax.lax.rsqrt(v + 1e-5), v)

P = [(S((16, 32), F), S((32,), F)), (S((32, 10), F), S((10,), F))]
V = S((8,), F)
PROGRAMS = {
    "adam": (adam, (P, P, P, S((), I), S((8, 16), F), S((8,), I))),
    "scanned": (scanned, (V, V, S((), I), S((5, 8), F))),
    "branched": (branched, (S((), "bool"), V)),
    "divergence": (lambda p, q: jnp.sum(p * (jnp.log(p) - jnp.log(q)) + (1 - p) * jnp.log1p(-p)), (V, V)),
    "normalized": (lambda x, m, v, s, b: (x - m) * jax.lax.rsqrt(v + 1e-5) * s + b, (S((4, 8), F), V, V, V, V)),
    "taken": (lambda e, i: jnp.take(e, i, 0).sum(0), (S((2, 4), F), S((5,), I))),
    "filled": (lambda e, i: jnp.take(e, i, 0, mode="fill").sum(0), (S((2, 4), F), S((5,), I))),
    "mean": (lambda s, n: s / n.astype(F), (V, S((8,), I))),
    "inverses": (lambda x: jnp.arcsin(x) + jnp.arctanh(x) + jax.scipy.special.erfinv(x), (V,)),
    "narrow": (lambda w, v: (w.astype(F) * jax.lax.rsqrt(v.astype(F) + 1e-6)).astype("bfloat16"), (S((8,), "bfloat16"),) * 2),
}
texts = {}
for name, (program, shapes) in PROGRAMS.items():
    lowered = jax.jit(program).lower(*shapes)
    texts[name] = lowered.as_text("hlo"), lowered.compile().as_text()
print(json.dumps(texts))
"""


@pytest.mark.oracle
def test_results_of_healthy_programs_have_no_nan() -> None:
    pytest.importorskip("jax")
    asked = subprocess.run(
        [sys.executable, "-c", HEALTHY],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        timeout=100,
    )
    for name, texts in json.loads(asked.stdout).items():
        for text in texts:
            module = parse_module(text)
            assert module.entry.root is not None
            for seed in range(3):
                found = run(module, seed=seed).result
                for index, array, _ in arrays_of(found, module.entry.root.shape):
                    assert array.dtype.kind != "f" or not np.isnan(array).any(), (name, seed, index)


def needs(text: str) -> list[Range]:
    """What a module needs of each of its parameters, which are arrays."""
    module = parse_module(text)
    ranges = argument_ranges(module)
    return [ranges.get(at, {}).get((), ANY) for at in range(len(module.entry.parameters))]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("ROOT r = f32[4] sqrt(p)", [Range(low=0), ANY]),
        ("c = f32[] constant(1)  k = f32[4] broadcast(c), dimensions={}  s = f32[4] subtract(k, p)  ROOT r = f32[4] log(s)", [Range(high=1), ANY]),
        ("a = f32[4] add(p, q)  ROOT r = f32[4] sqrt(a)", [Range(low=0), Range(low=0)]),
        ("a = f32[4] multiply(p, p)  b = f32[4] add(a, q)  ROOT r = f32[4] sqrt(b)", [ANY, Range(low=0)]),
        ("n = f32[4] negate(p)  ROOT r = f32[4] log(n)", [Range(high=0), ANY]),
        ("ROOT r = f32[4] divide(p, q)", [ANY, Range(not_zero=True)]),
        ("e = f32[4] exponential(p)  ROOT r = f32[4] log(e)", [ANY, ANY]),
        ("ROOT r = f32[4] atanh(q)", [ANY, Range(-1, 1)]),
    ],
)  # fmt: skip
def test_needs_are_followed_back_to_parameters(lines: str, expected: list[Range]) -> None:
    assert needs(f"ENTRY e {{ p = f32[4] parameter(0)  q = f32[4] parameter(1)  {lines} }}") == expected


def test_needs_of_two_users_that_contradict_each_other_leave_one() -> None:
    lines = "s = f32[4] sqrt(p)  n = f32[4] negate(p)  o = f32[] constant(1)  b = f32[4] broadcast(o), dimensions={}"
    text = f"ENTRY e {{ p = f32[4] parameter(0)  {lines}  d = f32[4] subtract(n, b)  t = f32[4] sqrt(d)  ROOT r = f32[4] add(s, t) }}"
    assert needs(text) in ([Range(low=0)], [Range(high=-1)])


@pytest.mark.parametrize("low", [-np.inf, -2.0, 0.0, 1.5])
@pytest.mark.parametrize("high", [-1.0, 1.0, 7.0, np.inf])
def test_numbers_are_moved_into_a_range_and_stay_apart(low: float, high: float) -> None:
    """Between two bounds none is reached; at one, numbers are as far from it as they were from zero."""
    if low >= high:
        return
    range_, given = Range(low=low, high=high), np.linspace(-5, 5, 41)
    moved = range_.moved(given)
    assert (low <= moved).all()
    assert (moved <= high).all()
    if np.isinf(low) and np.isinf(high):
        assert moved is given
    elif np.isinf(low) or np.isinf(high):
        bound = high if np.isinf(low) else low
        np.testing.assert_allclose(np.abs(moved - bound), np.abs(given))
    else:
        assert (np.diff(moved) > 0).all()
        assert (low < moved).all()
        assert (moved < high).all()


def test_arguments_are_in_their_ranges() -> None:
    text = """ENTRY e { p = f32[64] parameter(0)  q = f32[64] parameter(1)  i = s32[64,1] parameter(2)
      e = f32[2] parameter(3)  a = f32[64] sqrt(p)  b = f32[64] atanh(q)
      g = f32[64] gather(e, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
      ROOT r = (f32[64], f32[64], f32[64]) tuple(a, b, g) }"""
    p, q, i, _ = (np.asarray(each) for each in made_up_arguments(parse_module(text)))
    assert p.min() >= 0
    assert np.abs(q).max() <= 1
    assert i.min() == 0
    assert i.max() == 1


def test_modules_that_are_compared_get_the_same_arguments() -> None:
    """Only one of them takes a square root, as a planted error would have it: the arguments stay those of both."""
    from hlo_cli.analysis.comparison.two_runs import compare_runs

    text = "ENTRY e { p = f32[8] parameter(0)  a = f32[8] abs(p)  b = f32[8] OP(p)  ROOT r = f32[8] add(a, OF) }"
    old = parse_module(text.replace("OP", "sqrt").replace("OF", "a"))
    new = parse_module(text.replace("OP", "negate").replace("OF", "p"))
    assert compare_runs(old, new).verdict == "identical"  # p is not negative in both
    assert argument_ranges(new) == {}

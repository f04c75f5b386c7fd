"""Programs in jax that waste something that a rule is about, and beside each one that does not, compiled for four CPUs.

Compilers mend much of this themselves, one version more than another; what is here is what they leave.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

_PROGRAMS = r"""
import functools, glob, json, os, sys, tempfile
import jax, numpy as np
import jax.numpy as jnp
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh, thin = Mesh(np.array(jax.devices()), "d"), Mesh(np.array(jax.devices()).reshape(4, 1), ("d", "one"))
alone = Mesh(np.array(jax.devices()[:1]), "d")
rows, columns, whole = P("d", None), P(None, "d"), P()
f32, s8 = jnp.float32, jnp.int8
UNHOISTED = {"xla_disable_hlo_passes": "while-loop-invariant-code-motion"}
found = {}

def array(*sizes, dtype=f32, spec=whole, mesh=alone):
    return jax.ShapeDtypeStruct(sizes, dtype, sharding=NamedSharding(mesh, spec))

def pair(code, arguments, bad, good, *, mapped=None, mesh=mesh, options={}, x64=False, donate=()):
    jax.config.update("jax_enable_x64", x64)
    texts = []
    for function, given in ((bad, ()), (good, donate)):
        if mapped is not None:
            function = shard_map(function, mesh=mesh, in_specs=(mapped[0],) * len(arguments), out_specs=mapped[1], check_vma=False)
        with tempfile.TemporaryDirectory() as place:
            dumps = {"xla_dump_to": place, "xla_dump_hlo_as_text": True}
            jax.jit(function, donate_argnums=given, keep_unused=True).lower(*arguments).compile(compiler_options={**dumps, **options})
            texts.append([max((open(path).read() for path in glob.glob(f"{place}/*{stage}_optimizations.txt")), key=len) for stage in ("before", "after")])
    found[code] = texts

def at(scale=1):
    return lax.axis_index("d") * scale

ring = [(i, (i + 1) % 4) for i in range(4)]
spread = [array(4096, 1024, spec=rows, mesh=mesh)]
few = [array(8, 256, spec=rows, mesh=mesh)] * 6
square = [array(1024, 1024)]
gather = functools.partial(lax.all_gather, axis_name="d", tiled=True)

def rounds(hoisted):
    def loop(w):
        before = lax.psum(w, "d")
        step = lambda c, _: (jnp.tanh(c @ (before if hoisted else lax.psum(w, "d"))[:1024]), None)
        return lax.scan(step, jnp.ones((1024, 1024)), None, length=10)[0]
    return loop

def called_back(inside):
    def loop(x):
        ask = lambda c: jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct(c.shape, c.dtype), c)
        y = lax.fori_loop(0, 10, lambda i, c: jnp.sin(ask(c) if inside else c), x)
        return y if inside else ask(y)
    return loop

pair("HLO501", spread, lambda x: jnp.tanh(lax.dynamic_slice(gather(x), (0, at(256)), (4096, 256))),
     lambda x: jnp.tanh(lax.all_to_all(x, "d", 1, 0, tiled=True)), mapped=(rows, columns))
pair("HLO502", spread, lambda x: jnp.tanh(lax.dynamic_slice(lax.psum(x, "d"), (at(256), 0), (256, 1024))),
     lambda x: jnp.tanh(lax.psum_scatter(x, "d", tiled=True)), mapped=(rows, rows))
pair("HLO503", spread, lambda x: lax.ppermute(lax.ppermute(x, "d", ring), "d", ring),
     lambda x: lax.ppermute(jnp.sin(lax.ppermute(x, "d", ring)), "d", ring), mapped=(rows, rows))
pair("HLO505", [array(4096, 1024, spec=rows, mesh=mesh)], rounds(False), rounds(True), mapped=(rows, whole), options=UNHOISTED)
pair("HLO506", [array(1024, 1024, spec=rows, mesh=thin)], lambda x: jnp.sin(lax.psum(x, "one")), jnp.sin,
     mapped=(P("d", "one"), P("d", "one")), mesh=thin)
pair("HLO508", few, lambda *xs: [jnp.sin(gather(jnp.tanh(x))) for x in xs],
     lambda *xs: jnp.sin(gather(jnp.concatenate([jnp.tanh(x) for x in xs]))), mapped=(rows, whole))
pair("HLO601", [array(64, 64)], called_back(False), jnp.sin)
pair("HLO602", [array(64, 64)], called_back(True), called_back(False))
pair("HLO603", [array(64, 64)], lambda x: jnp.linalg.cholesky(x @ x.T), lambda x: x @ x.T)
pair("HLO702", [array(64, 64)], lambda x: x * np.float64(0.1), lambda x: x * 0.1, x64=True)
pair("HLO704", [array(256, 256, dtype=s8)] * 2, lax.dot, lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32))
pair("HLO203", square, lambda x: x * 2, lambda x: x * 2, donate=(0,))
pair("HLO205", [array(512, 512)], lambda x: x @ np.random.rand(512, 1024).astype(f32), lambda x: x @ jnp.ones((512, 1024)))
pair("HLO206", [array(512, 1024), array(4)], lambda x, y: y + 1, lambda x, y: y + x[0, 0])
pair("HLO202", [array(24000)], lambda x: jnp.sort(x[:, None] * x[None], axis=1).max(axis=1), lambda x: jnp.sort(x, axis=0))
print(json.dumps(found))
"""

CODES = (
    *("HLO202", "HLO203", "HLO205", "HLO206", "HLO501", "HLO502", "HLO503", "HLO505", "HLO506", "HLO508"),
    *("HLO601", "HLO602", "HLO603", "HLO702", "HLO704"),
)
"""The rules that there is a pair of programs for."""

Stages = tuple[str, str]


@cache
def programs() -> dict[str, tuple[Stages, Stages]]:
    """For each rule the texts before and after optimizations: of the wasteful program, and of the other."""
    pytest.importorskip("jax")
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4".strip()
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAMS], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, tuple[Stages, Stages]] = json.loads(done.stdout.splitlines()[-1])
    return found

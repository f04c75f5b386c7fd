"""Calls of Pallas kernels that break a rule, and such that do not, with the bodies of `fixtures/kernels.py`.

`python tests/lint_pallas_cases.py` writes `tests/data/padded_block.hlo`, a kernel whose blocks are columns.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from lint_cases import Case

ROOT = Path(__file__).parent.parent
PADDED = Path(__file__).parent / "data" / "padded_block.hlo"
_BODY = re.compile(r'"body": ?"([^"]*)"')
_CALL = re.compile(r"/(\w+)/pallas_call")


@cache
def bodies() -> dict[str, str]:
    """The body of each kernel in base64, by the name of its function."""
    text = (ROOT / "fixtures" / "tpu" / "v5e_kernels" / "before_optimizations.txt").read_text()
    lines = [line for line in text.splitlines() if "tpu_custom_call" in line]
    found = {_CALL.findall(line)[0]: _BODY.findall(line)[0] for line in lines}
    return found | {"column": _BODY.findall(PADDED.read_text())[0]}


def whole(example: str, name: str) -> str:
    """An example with the body of a kernel in place of the one that it cuts off."""
    return example.replace("TUzvUg…", bodies()[name])


def call(name: str, result: str, *operands: str, config: str = "") -> str:
    """A module that calls a kernel; `config` is more of its configuration."""
    names = "abcdef"[: len(operands)]
    lines = [f"  {each} = {shape} parameter({n})" for n, (each, shape) in enumerate(zip(names, operands, strict=True))]
    body = f'{{"custom_call_config":{{"body":"{bodies()[name]}"{config}}}}}'
    target = 'custom_call_target="tpu_custom_call"'
    lines.append(f"  «ROOT r = {result} custom-call({', '.join(names)}), {target}, backend_config={body}»")
    return "HloModule m\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


MATMUL = ("bf16[1024,1536]{1,0}", "bf16[1024,512]{1,0}", "bf16[512,1536]{1,0}")
IN_VMEM = tuple(f"{shape[:-1]}:T(8,128)(2,1)S(1)}}" for shape in MATMUL)
COLUMN = ("f32[8192,1]{1,0}", "f32[8192,1]{1,0}")
GATHER = ("f32[768,512]{1,0}", "s32[96]{0}", "f32[4096,512]{1,0}")
RIGHT = ',"cost_estimate":{"flops":1610612736,"transcendentals":0,"bytes_accessed":12582912}'
WRONG = RIGHT.replace("1610612736", "5368709")


def _plain(text: str) -> str:
    return text.replace("«", "").replace("»", "")


PALLAS = (
    Case("HLO801", call("matmul", *MATMUL), _plain(call("matmul", *IN_VMEM))),
    Case("HLO801", call("matmul", *MATMUL), _plain(call("gather", *GATHER))),
    Case("HLO802", call("column", *COLUMN), _plain(call("matmul", *MATMUL))),
    Case("HLO803", call("gather", *GATHER), _plain(call("matmul", *MATMUL))),
    Case("HLO804", call("matmul", *MATMUL), _plain(call("matmul", *MATMUL, config=RIGHT))),
    Case("HLO804", call("matmul", *MATMUL, config=WRONG), _plain(call("matmul", *MATMUL, config=RIGHT))),
)
"""HLO8: what Pallas kernels read again, pad, move in small steps, and say of their cost."""


def write_padded() -> None:
    """Keeps a kernel whose blocks have one column."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    def column(x: jax.Array) -> jax.Array:
        def body(x_ref: jax.Ref, o_ref: jax.Ref) -> None:
            o_ref[...] = x_ref[...] * 2

        block = pl.BlockSpec((1024, 1), lambda i: (i, 0))
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(body, shape, grid=(8,), in_specs=[block], out_specs=block, name="column")(x)

    traced = jax.jit(column).trace(jax.ShapeDtypeStruct((8192, 1), jnp.float32))
    text = traced.lower(lowering_platforms=("tpu",)).as_text(dialect="hlo")
    PADDED.write_text(text.replace("jit_column", "column"))


if __name__ == "__main__":
    write_padded()

"""Random modules run by XLA:CPU in this process and by the evaluator, compared; a line of JSON for each.

`evaluation_in_xla.py SEED FIRST COUNT`: a line `{"at": k}` before program k runs, so that one on which XLA aborts
is known, then one with what was found. `evaluation_in_xla.py --keep SEED COUNT` keeps the answers that agree.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from itertools import islice
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import ml_dtypes
import numpy as np
import numpy.typing as npt
from jaxlib import _hlo, _jax

from evaluation_families import programs
from evaluation_programs import Program
from hlo_cli import parse_module
from hlo_cli.ir.shape import ArrayShape
from judging_values import Answer, Found, held_as, is_known, judged, keep

OURS = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "s2": ml_dtypes.int2, "u2": ml_dtypes.uint2,
    "s4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "f8e4m3": ml_dtypes.float8_e4m3, "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu, "f4e2m1fn": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
"""The numpy types of jaxlib for types that the evaluator holds otherwise."""


def by_xla(program: Program, arguments: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """What XLA:CPU computes."""
    client = jax.devices("cpu")[0].client
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    module = _hlo.hlo_module_from_text(program.text)
    stablehlo = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    executable = client.compile_and_load(stablehlo, devices, _jax.CompileOptions())
    given = [
        jax.device_put(np.asarray(each).astype(OURS.get(kind, each.dtype)))
        for each, kind in zip(arguments, program.types, strict=True)
    ]
    found = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(each[0]) for each in found]


def answered(program: Program, seed: int) -> Answer | str:
    """What XLA computes of random arguments, or why it does not."""
    arguments = program.arguments(seed)
    try:
        expected = by_xla(program, arguments)
    except (_jax.JaxRuntimeError, ValueError, RuntimeError) as error:
        return str(error)[:300]
    root = parse_module(program.text).entry.root
    assert root is not None
    kinds = [leaf.element_type for _, leaf in root.shape.leaves if isinstance(leaf, ArrayShape)]
    return Answer(program, arguments, [held_as(each, kind) for each, kind in zip(expected, kinds, strict=True)])


def compared(program: Program, seed: int) -> Found:
    """How far the evaluator is from XLA, in the units of the family of the program."""
    answer = answered(program, seed)
    if isinstance(answer, str):
        return {"outcome": "refused", "why": answer}
    return judged(program, answer.arguments, answer.results)


def main() -> None:
    """Runs the programs that the command line names."""
    if sys.argv[1] == "--keep":
        seed, count = map(int, sys.argv[2:])
        answers = (answered(program, seed * 1_000_003 + at) for at, program in enumerate(programs(seed, count)))
        keep(
            [
                each
                for each in answers
                if isinstance(each, Answer) and not is_known(asdict(each.program)) and each.is_near
            ]
        )
        return
    seed, first, count = map(int, sys.argv[1:4])
    only = sys.argv[4].split(",") if len(sys.argv) > 4 else []
    for at, program in enumerate(islice(programs(seed, first + count), first, None), first):
        if only and program.opcode not in only and program.family not in only:
            continue
        sys.stdout.write(json.dumps({"at": at, "running": program.text}) + "\n")
        sys.stdout.flush()
        found = compared(program, seed * 1_000_003 + at)
        about = {"family": program.family, "opcode": program.opcode, "terms": program.terms, "types": program.types}
        sys.stdout.write(json.dumps({"at": at, **about, **found, "text": program.text}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

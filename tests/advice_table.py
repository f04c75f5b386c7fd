"""What rules advise about each of the programs that `advice_programs.py` compiles, and what it promises."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Literal

from hlo_cli.lint.settings import LintSettings


@dataclass(frozen=True, slots=True)
class Advice:
    """The name of an edit (the code of its rule first), the compilers it is for, and what the rule says.

    `hint` is in the hint of a finding, `fix` in the rule's page if findings have no hint. Of the bytes in the hint,
    `less` says that the whole module needs that much less, for all findings together if they are `several`, `only` what
    the compiler's size of this kind is then. `traffic` says that the bytes accessed are fewer by twice the cost.
    """

    name: str
    targets: str
    _: KW_ONLY
    hint: str = ""
    fix: str = ""
    less: bool = False
    several: bool = False
    traffic: bool = False
    only: Literal["", "argument", "output", "total"] = ""
    stage: Literal["before", "after"] = "after"
    settings: LintSettings = field(default_factory=LintSettings)

    @property
    def code(self) -> str:
        return self.name.split()[0]


DONATE: Final = "donate x: in JAX, donate_argnums of jax.jit"
PASSED: Final = "in_shardings=Format(Layout((1, 0)), sharding)"
RETURNED: Final = "out_shardings=Format(Layout((1, 0)), sharding)"
BARRIER: Final = "Remove what separates"

HALF: Final = LintSettings(min_replicated_bytes=8 << 20)

ADVICE: Final = (
    Advice("HLO101 merged", "tpu", hint="pass x with merged dimensions, such as f32[40,1600]", only="argument"),
    Advice("HLO101 passed", "tpu", hint=f"pass x in dimension order {{0,1}}: in JAX, {PASSED}", only="argument"),
    Advice("HLO101 returned", "tpu", hint=f"return it in dimension order {{0,1}}: in JAX, {RETURNED}", only="output"),
    Advice("HLO102 passed", "tpu", hint=f"pass x in dimension order {{0,1}}: in JAX, {PASSED}", traffic=True),
    Advice("HLO102 returned", "tpu", hint=f"return it in dimension order {{0,1}}: in JAX, {RETURNED}"),
    Advice("HLO103", "cpu", hint="pass x transposed, and remove the transpose"),
    Advice("HLO103", "gpu", fix="pass it transposed, and remove the transpose"),
    Advice(
        "HLO104",
        "tpu",
        hint="pass it with merged dimensions, such as f32[40,1600]",
        only="argument",
        stage="before",
        settings=LintSettings(chip="v5e"),
    ),
    Advice("HLO105", "tpu", fix="with_layout_constraint"),
    Advice(
        "HLO106",
        "cpu",
        hint="return it in dimension order {1,0}: in JAX, out_shardings=Format(Layout((0, 1)), sharding)",
    ),
    Advice(
        "HLO201",
        "cpu gpu",
        hint="donate x to lower the peak to",
        only="total",
        settings=LintSettings(max_peak_bytes=6 << 20),
    ),
    Advice("HLO201", "tpu", hint=DONATE, less=True, settings=LintSettings(max_peak_bytes=6 << 20)),
    Advice("HLO202", "cpu", fix="jax.lax.map with batch_size"),
    Advice("HLO203", "cpu tpu gpu", hint=DONATE, less=True),
    Advice("HLO203 step", "cpu tpu gpu", hint=DONATE, less=True, several=True),
    Advice("HLO204 in a loop", "cpu gpu", hint=DONATE, less=True),
    Advice("HLO204 returned", "cpu", hint="do not return x"),
    Advice("HLO204 returned", "gpu", fix="do not return an argument that is not"),
    Advice("HLO204 updated", "cpu tpu gpu", hint=DONATE, less=True),
    Advice("HLO205", "cpu tpu gpu", hint="pass the array as an argument"),
    Advice("HLO205 computed", "cpu tpu gpu", fix="compute it in the program with jax.numpy instead of NumPy"),
    Advice("HLO206", "cpu tpu gpu", hint="do not pass it: jax.jit drops unused arguments unless keep_unused=True"),
    Advice("HLO207", "tpu", fix="compute the value where it is used"),
    Advice("HLO208", "tpu", fix="Move the uses closer together"),
    Advice("HLO209", "tpu", fix="xla_tpu_scoped_vmem_limit_kib"),
    Advice("HLO301", "tpu gpu", fix=BARRIER),
    Advice("HLO302", "tpu", hint="pass w as bf16"),
    Advice("HLO302", "gpu", fix="Pass the argument in the type that the program computes in"),
    Advice("HLO303", "gpu", fix="Remove both conversions from the program"),
    Advice("HLO304", "gpu", fix="before a jax.lax.optimization_barrier instead of after it"),
    Advice("HLO305", "tpu gpu", fix=BARRIER),
    Advice("HLO402", "gpu", fix="xla_gpu_disable_async_collectives"),
    Advice("HLO402 scheduled", "tpu", fix="xla_tpu_enable_latency_hiding_scheduler=false"),
    Advice("HLO403 all-gather", "tpu", fix="an all-gather needs xla_tpu_enable_async_collective_fusion"),
    Advice("HLO403 all-reduce", "tpu", fix="xla_enable_async_all_reduce=true and"),
    Advice("HLO501", "cpu tpu gpu", fix="use an all-to-all (jax.lax.all_to_all in shard_map)"),
    Advice("HLO501 constrained", "tpu", fix="do not constrain the array to be replicated in between"),
    Advice("HLO502", "cpu tpu gpu", fix="jax.lax.psum_scatter in shard_map instead of psum and a slice"),
    Advice("HLO503", "cpu tpu gpu", fix="one ppermute in shard_map"),
    Advice("HLO504", "cpu tpu gpu", hint="shard it over all devices", only="argument", stage="before"),
    Advice("HLO505", "cpu tpu gpu", fix="out of the function that scan runs"),
    Advice("HLO506", "cpu", fix="Remove the collective from the program"),
    Advice("HLO507", "tpu", fix="gather first, then astype"),
    Advice("HLO508", "cpu tpu", hint="concatenate the arrays and use one all-gather"),
    Advice("HLO509", "cpu tpu", fix="remove the sharding constraint in between"),
    Advice(
        "HLO510", "cpu tpu gpu", hint="divide it among these devices", only="argument", stage="before", settings=HALF
    ),
    Advice("HLO601", "cpu", fix="Compute the value in the program"),
    Advice("HLO602", "cpu", fix="return them from the function that scan runs"),
    Advice("HLO603", "tpu", fix="Export for each platform", stage="before"),
    Advice("HLO604", "cpu", fix="call it with jax.ffi.ffi_call"),
    Advice("HLO701", "tpu", fix="such as np.float32(0.1)"),
    Advice("HLO702", "cpu gpu", fix="such as np.float32(0.1)"),
    Advice("HLO703", "gpu", fix="jnp.sum(x, dtype=jnp.float32)"),
    Advice("HLO704", "cpu tpu gpu", fix="preferred_element_type=jnp.int32"),
    Advice("HLO705", "tpu", fix='precision="high"'),
    Advice("HLO706", "tpu gpu", fix="Remove the precision setting"),
    Advice("HLO707", "cpu gpu", fix="Use the wide value"),
)
"""Each rule that advises, with programs in which its advice comes true."""

MENDED: Final = (
    ("HLO102 fetched", "tpu"),
    ("HLO203 all", "cpu"),
    ("HLO301", "cpu"),
    ("HLO506", "tpu gpu"),
    ("HLO507", "gpu"),
    ("HLO508", "gpu"),
    ("HLO703", "cpu tpu"),
    ("HLO706", "cpu"),
    ("HLO707", "tpu"),
)
"""Programs that a compiler mends, or for which an edit gains nothing: these are not found at any stage."""

ADVICELESS: Final = {
    "HLO401": "no program was found whose only exposed transfer an edit hides",
}
"""The rules about efficiency that no compiled program proves anything of: their findings have no hint that promises."""

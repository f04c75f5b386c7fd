"""Warnings and errors of XLA with HLO in them, and values on their own; what is named in them is made up."""

from __future__ import annotations

SLOW_FOLDING = """\
2024-05-19 20:16:26.694439: E external/xla/xla/service/slow_operation_alarm.cc:65] Constant folding an instruction is taking > 1s:

  %reduce.8 = f64[2000,10]{1,0} reduce(f64[2000,10,10]{2,1,0} %broadcast.2, f64[] %constant.3), dimensions={2}, to_apply=%region_0.4, metadata={op_name="jit(f)/reduce_sum" source_file="f.py" source_line=13}

This isn't necessarily a bug; constant-folding is inherently a trade-off between compilation time and speed at runtime.
2024-05-19 20:16:29.694439: E external/xla/xla/service/slow_operation_alarm.cc:133] The operation took 3.5s
"""
RESHARDING = (
    "2024-11-02 10:11:12.345678: E external/xla/xla/service/spmd/spmd_partitioner.cc:613] [spmd] Involuntary full "
    "rematerialization. The compiler was not able to go from sharding {devices=[4,2]<=[8]} to {devices=[2,4]<=[4,2]T(1,0)} "
    "without doing a full rematerialization of the tensor for HLO operation: %add.3 = f32[64,128]{1,0} add(f32[64,128]{1,0} "
    '%a, f32[64,128]{1,0} %b), sharding={devices=[4,2]<=[8]}, metadata={op_name="jit(f)/add"}. You probably want to enrich '
    "the sharding annotations to prevent this from happening.\n"
)
WRONG_SHAPE = (
    "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: during context [hlo verifier]: Expected instruction to have shape equal "
    "to f32[20,64]{1,0}, actual shape is f32[64,20]{1,0}:\n%dot.7 = f32[64,20]{1,0} dot(f32[20,8]{1,0} %a, f32[8,64]{1,0} %b), "
    "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n\nFailed after layout-assignment\n"
)
RET_CHECK = (
    "INTERNAL: RET_CHECK failure (xla/service/hlo_verifier.cc:812) operand->shape() == instruction->shape() "
    "%copy.1 = f32[8]{0} copy(f32[9]{0} %p)\n"
)
CHANGED = """\
--- a/m.hlo
+++ b/m.hlo
@@ -1,4 +1,4 @@
 ENTRY %e (p: f32[8]) -> f32[8] {
   %p = f32[8]{0} parameter(0)
-  ROOT %a = f32[8]{0} add(%p, %p)
+  ROOT %a = f32[8]{0} multiply(%p, %p)
 }
"""
SHAPE = "bf16[8,128]{1,0:T(8,128)(2,1)S(1)}\n"
LAYOUT = "{1,0:T(8,128)(2,1)}\n"
SHARDING = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}\n"
GROUPS = "replica_groups=[2,4]<=[4,2]T(1,0)\n"
TRACE = (
    r'{"name": "fusion.3", "args": {"long_name": "%fusion.3 = f32[8]{0} fusion(f32[8]{0} %p), kind=kLoop, calls=%f"}}'
)
PROTO = """\
hlo_module {
  name: "m"
  computations {
    name: "e"
    instructions { name: "p" opcode: "parameter" shape { element_type: F32 dimensions: 8 } id: 1 }
    id: 2
    root_id: 1
  }
  entry_computation_id: 2
}
"""
JAXPR = "{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }\n"

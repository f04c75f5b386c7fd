"""Instructions that break the rule of their opcode, and what is said of each."""

from __future__ import annotations

TEXT = """HloModule wrong, replica_count=4
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
add_s32 { x = s32[] parameter(0)  y = s32[] parameter(1)  ROOT z = s32[] add(x, y) }
vector { x = f32[2] parameter(0)  y = f32[2] parameter(1)  ROOT z = f32[2] add(x, y) }
less { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = pred[] compare(x, y), direction=LT }
negate { x = f32[2,3] parameter(0)  ROOT z = f32[2,3] negate(x) }
always { x = f32[2,3] parameter(0)  ROOT z = pred[] constant(true) }
never { x = f32[2,3] parameter(0)  ROOT z = s32[] constant(0) }
row { x = f32[3] parameter(0)  c = f32[] parameter(1)  ROOT z = (f32[3], f32[]) tuple(x, c) }
ENTRY e {
  a = f32[2,3] parameter(0)
  b = f32[3,2] parameter(1)
  s = f32[] parameter(2)
  v = f32[3] parameter(3)
  p = pred[2,3] parameter(4)
  i = s32[2,3] parameter(5)
  k = s32[] parameter(6)
  z = c64[4,4] parameter(7)
  t = (f32[2,3], s32[]) parameter(8)
  w = f32[4,4] parameter(9)
  tok = token[] parameter(10)
  at = s32[7,1] parameter(11)
  up = f32[7,3] parameter(12)
  d = f64[2,3] parameter(13)
  image = f32[8,6,6,4] parameter(14)
  kernel = f32[3,3,4,8] parameter(15)
  u = u32[2,3] parameter(16)
  q = pred[] parameter(17)
  cube = f32[2,5,7] parameter(18)
  sizes = s32[2] parameter(19)
  h = f16[] parameter(20)
  ROOT r = INSTRUCTION
}
"""

_GATHER = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}"
_SCATTER = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
_CONVOLUTION = "window={size=3x3}, dim_labels=b01f_01io->b01f"

WITHOUT_SHAPE = (
    ("add(a, b)", "expected operands of the same sizes; %a is f32[2,3], %b is f32[3,2]"),
    ("add(a, v)", "expected operands of the same sizes"),
    ("add(a, i)", "expected operands of the same element type"),
    ("add(a, t)", "expected an array as operand 1; %t is (f32[2,3], s32[])"),
    ("subtract(p, p)", "expected signed integers or unsigned integers or floats or complex numbers; %p is pred[2,3]"),
    ("shift-left(p, p)", "expected signed integers or unsigned integers or floats or complex numbers; %p is pred"),
    ("and(a, a)", "expected pred or signed integers or unsigned integers; %a is f32[2,3]"),
    ("atan2(i, i)", "expected floats or complex numbers; %i is s32[2,3]"),
    ("negate(tok)", "expected an array as operand 0; %tok is token[]"),
    ("negate(p)", "expected signed integers or unsigned integers or floats or complex numbers"),
    ("sqrt(i)", "expected floats or complex numbers; %i is s32[2,3]"),
    ("floor(z)", "expected floats; %z is c64[4,4]"),
    ("cbrt(i)", "expected floats; %i is s32[2,3]"),
    ("sign(u)", "expected signed integers or floats or complex numbers; %u is u32[2,3]"),
    ("abs(p)", "expected signed integers or floats or complex numbers; %p is pred[2,3]"),
    ("not(a)", "expected pred or signed integers or unsigned integers; %a is f32[2,3]"),
    ("popcnt(a)", "expected signed integers or unsigned integers; %a is f32[2,3]"),
    ("is-finite(i)", "expected floats; %i is s32[2,3]"),
    ("real(i)", "expected floats or complex numbers; %i is s32[2,3]"),
    ("complex(a, d)", "expected f32 and f32, or f64 and f64; %a is f32[2,3], %d is f64[2,3]"),
    ("complex(i, i)", "expected f32 and f32, or f64 and f64"),
    ("compare(a, b), direction=LT", "expected operands of the same sizes"),
    ("compare(a, i), direction=LT", "expected operands of the same element type"),
    ("clamp(k, a, k)", "expected operands of the same element type; %k is s32[], %a is f32[2,3]"),
    ("clamp(v, a, v)", "expected bounds with the operand's sizes; %v is f32[3], %a is f32[2,3]"),
    ("select(a, a, a)", "expected pred; %a is f32[2,3]"),
    ("select(p, a, b)", "expected on_true and on_false with the same sizes"),
    (
        "select(p, b, b)",
        "expected a scalar predicate or one with the sizes of on_true; %p is pred[2,3], %b is f32[3,2]",
    ),
    ("select(p, a, i)", "expected operands of the same element type"),
    ("transpose(a), dimensions={0}", "expected 2 numbers in dimensions, found 1"),
    ("transpose(a), dimensions={0,0}", "duplicate dimension 0 in dimensions"),
    ("transpose(a), dimensions={0,2}", "dimension 2 in dimensions is out of range (rank 2)"),
    ("reverse(a), dimensions={0,0}", "duplicate dimension 0 in dimensions"),
    ("reverse(a), dimensions={5}", "dimension 5 in dimensions is out of range (rank 2)"),
    ("pad(a, v), padding=1_1x0_0", "expected a scalar as operand 1; %v is f32[3]"),
    ("pad(a, k), padding=1_1x0_0", "expected operands of the same element type"),
    ("pad(a, s), padding=1_1", "expected a padding of 2 dimensions, found 1"),
    ("pad(a, s), padding=-2_-1x0_0", "negative padding leaves -1 elements in dimension 0 (size 2)"),
    ("concatenate(a, b), dimensions={0}", "expected sizes to match except in dimension 0"),
    ("concatenate(a, v), dimensions={0}", "expected sizes to match except in dimension 0"),
    ("concatenate(a, i), dimensions={0}", "expected operands of the same element type"),
    ("concatenate(a, a), dimensions={2}", "dimension 2 in dimensions is out of range (rank 2)"),
    ("reduce(a, s), dimensions={2}, to_apply=add", "dimension 2 in dimensions is out of range (rank 2)"),
    ("reduce(a, s), dimensions={0,0}, to_apply=add", "duplicate dimension 0 in dimensions"),
    (
        "reduce(a, k), dimensions={0}, to_apply=add",
        "initial value 0 is s32[], but the applied computation returns f32[]",
    ),
    (
        "reduce(i, s), dimensions={0}, to_apply=add",
        "each element of operand 0 is s32[], but the applied computation returns f32[]",
    ),
    ("reduce(a, s), dimensions={0}, to_apply=negate", "expected 2 parameters in negate, found 1"),
    ("reduce(a, s), dimensions={0}, to_apply=vector", "expected 1 scalars as the result of vector, found f32[2]"),
    (
        "reduce(a, s), dimensions={0}, to_apply=less",
        "parameter 0 of less is f32[], but the applied computation returns pred[]",
    ),
    ("reduce(a, b, s, s), dimensions={0}, to_apply=add", "expected operands of the same sizes"),
    ("reduce-window(a, s), window={size=2}, to_apply=add", "expected a window of 2 dimensions, found 1"),
    (
        "reduce-window(a, s), window={size=1x1 stride=0x1}, to_apply=add",
        "expected a stride of at least 1 in dimension 0",
    ),
    (
        "reduce-window(a, s), window={size=1x1 rhs_dilate=1x0}, to_apply=add",
        "expected a rhs_dilate of at least 1 in dimension 1",
    ),
    (
        "select-and-scatter(a, b, s), window={size=1x1}, select=less, scatter=add",
        "expected a source of shape [2,3], one value per window",
    ),
    ("select-and-scatter(a, a, s), window={size=1x1}, select=add, scatter=add", "expected pred[] as the result of add"),
    ("map(a, b), dimensions={0,1}, to_apply=add", "expected operands of the same sizes"),
    ("map(a, a), dimensions={0}, to_apply=add", "expected all 2 dimensions in order, found 1 in dimensions"),
    ("map(a, a), dimensions={0,1}, to_apply=vector", "parameter 0 of vector is f32[2]"),
    ("map(a), dimensions={0,1}, to_apply=add", "expected 1 parameter in add, found 2"),
    (
        "dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "expected equal sizes of contracting dimensions 1 and 0",
    ),
    (
        "dot(a, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        "dimension 2 in the left operand is out of range (rank 2)",
    ),
    (
        "dot(a, b), lhs_contracting_dims={1}",
        "expected the same number of contracting dimensions on both sides, found 1 and 0",
    ),
    (
        "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_batch_dims={1}, rhs_batch_dims={1}",
        "duplicate dimension 1 in the left operand",
    ),
    (
        "ragged-dot(a, b, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={0}",
        "expected 1 number in rhs_group_dims, found 0",
    ),
    (
        "ragged-dot(a, b, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}",
        "expected group sizes; %k is s32[]",
    ),
    (f"convolution(image, a), {_CONVOLUTION}", "expected operands of rank 4 to match dim_labels=b01f_01io->b01f"),
    (
        "convolution(image, kernel), window={size=2x3}, dim_labels=b01f_01io->b01f",
        "expected a window of the kernel's size",
    ),
    (f"convolution(image, kernel), {_CONVOLUTION}, feature_group_count=3", "4 input features are not divisible"),
    (
        f"convolution(image, kernel), {_CONVOLUTION}, feature_group_count=2",
        "expected 2 input features in the kernel, found 4",
    ),
    (f"convolution(image, kernel), {_CONVOLUTION}, batch_group_count=3", "are not divisible by batch_group_count=3"),
    (f"convolution(image, kernel), {_CONVOLUTION}, feature_group_count=0", "group counts must be at least 1"),
    (
        f"convolution(image, kernel), {_CONVOLUTION}, feature_group_count=2, batch_group_count=2",
        "only one of batch_group_count=2 and feature_group_count=2 may be greater than 1",
    ),
    (f"gather(a, a), {_GATHER}", "expected signed integers or unsigned integers; %a is f32[2,3]"),
    (f"gather(a, i), {_GATHER}", "expected 3 numbers in start_index_map, one per index component, found 1"),
    (f"gather(a, at), {_GATHER.replace('1,3', '1,4')}", "expected at most 3 in dimension 1 of slice_sizes, found 4"),
    (f"gather(a, at), {_GATHER.replace('1,3', '2,3')}", "expected slice size 0 or 1 in collapsed dimension 0"),
    (f"gather(a, at), {_GATHER.replace('{1,3}', '{1}')}", "expected 2 numbers in slice_sizes, found 1"),
    (
        f"gather(a, at), {_GATHER.replace('offset_dims={1}', 'offset_dims={2}')}",
        "dimension 2 in offset_dims is out of range (rank 2)",
    ),
    (
        f"gather(a, at), {_GATHER.replace('collapsed_slice_dims={0}', 'collapsed_slice_dims={}')}",
        "expected 2 dimensions in total",
    ),
    (
        f"gather(a, at), {_GATHER.replace('map={0}', 'map={2}')}",
        "dimension 2 in start_index_map is out of range (rank 2)",
    ),
    (
        f"gather(a, at), {_GATHER.replace('vector_dim=1', 'vector_dim=3')}",
        "expected index_vector_dim from 0 to 2, found 3",
    ),
    (f"scatter(a, up, up), {_SCATTER}", "expected signed integers or unsigned integers; %up is f32[7,3]"),
    (f"scatter(a, at, w), {_SCATTER}", "expected at most 3 in dimension 1 of the updates, found 4"),
    (f"scatter(a, at, a), {_SCATTER}", "expected 7 in dimension 0 of the updates to match the indices, found 2"),
    (f"scatter(a, at, v), {_SCATTER}", "expected updates of 2 dimensions; %v is f32[3]"),
    (
        f"scatter(a, at, up), {_SCATTER.replace('inserted_window_dims={0}', 'inserted_window_dims={}')}",
        "expected 2 dimensions in total",
    ),
    ("get-dimension-size(a), dimensions={2}", "dimension 2 in dimensions is out of range (rank 2)"),
    ("set-dimension-size(a, s), dimensions={0}", "expected an s32 scalar as operand 1; %s is f32[]"),
    ("set-dimension-size(a, k), dimensions={4}", "dimension 4 in dimensions is out of range (rank 2)"),
    ("fft(a), fft_type=FFT, fft_length={3}", "expected c64 or c128; %a is f32[2,3]"),
    ("fft(z), fft_type=RFFT, fft_length={4}", "expected f32 or f64; %z is c64[4,4]"),
    ("fft(a), fft_type=RFFT, fft_length={4}", "expected last dimensions [4] to match fft_length; %a is f32[2,3]"),
    ("fft(z), fft_type=IRFFT, fft_length={4}", "expected last dimensions [3] to match fft_length; %z is c64[4,4]"),
    ("fft(z), fft_type=FFT, fft_length={1,2,3,4}", "expected 1 to 3 numbers in fft_length, found 4"),
    ("cholesky(a)", "expected square matrices; %a is f32[2,3]"),
    ("cholesky(i)", "expected floats or complex numbers; %i is s32[2,3]"),
    ("triangular-solve(w, b), left_side=true, transpose_a=TRANSPOSE", "expected 4 unknowns, found 3"),
    ("triangular-solve(a, a), left_side=true, transpose_a=TRANSPOSE", "expected square matrices"),
    ("triangular-solve(w, v), left_side=true, transpose_a=TRANSPOSE", "expected operands of the same rank"),
    ("triangular-solve(w, w), left_side=true", "expected transpose_a to be NO_TRANSPOSE, TRANSPOSE, or ADJOINT"),
    (
        "batch-norm-training(a, s, v), epsilon=0.1, feature_index=1",
        "expected 3 values, one per feature; %s is f32[]",
    ),
    (
        "batch-norm-training(a, v, v), epsilon=0.1, feature_index=2",
        "expected a dimension of the operand in feature_index",
    ),
    ("batch-norm-inference(i, v, v, v, v), epsilon=0.1, feature_index=1", "expected floats; %i is s32[2,3]"),
    ("batch-norm-grad(a, v, v, v, b), epsilon=0.1, feature_index=1", "expected a gradient with the operand's sizes"),
    ("topk(a), k=4", "expected k ≤ size of the last dimension, found 4"),
    ("while(a), condition=always, body=add", "expected 1 parameter in add, found 2"),
    ("while(a), condition=never, body=negate", "expected pred[] as the result of never, found s32[]"),
    ("while(b), condition=always, body=negate", "parameter %x of negate is f32[2,3], %b is f32[3,2]"),
    ("while(a), condition=always, body=never", "expected the result of never to have the operand's shape, found s32[]"),
    ("call(a, a), to_apply=negate", "expected 2 parameters in negate, found 1"),
    ("call(b), to_apply=negate", "parameter %x of negate is f32[2,3], %b is f32[3,2]"),
    (
        "conditional(k, a, b), branch_computations={negate, negate}",
        "parameter %x of negate is f32[2,3], %b is f32[3,2]",
    ),
    ("conditional(k, a, a), branch_computations={negate, never}", "expected all branches to return the same shape"),
    (
        "conditional(s, a, a), branch_computations={negate, negate}",
        "expected a pred[] or s32[] branch index; %s is f32[]",
    ),
)
"""What XLA's parser finds wrong too, for here it has to infer the shape."""

WRITTEN = (
    ("f32[9,3] add(a, a)", "expected the shape f32[2,3], found f32[9,3]"),
    ("s32[2,3] add(a, a)", "expected the shape f32[2,3], found s32[2,3]"),
    ("f32[2,3] compare(a, a), direction=LT", "expected the shape pred[2,3], found f32[2,3]"),
    ("f32[3,2] negate(a)", "expected the shape f32[2,3], found f32[3,2]"),
    ("f32[2,3] transpose(a), dimensions={1,0}", "expected the shape f32[3,2], found f32[2,3]"),
    ("f32[2] reduce(a, s), dimensions={0}, to_apply=add", "expected the shape f32[3], found f32[2]"),
    ("f32[3,3] slice(a), slice={[0:2], [0:3]}", "expected the shape f32[2,3], found f32[3,3]"),
    ("f32[2,4] slice(a), slice={[0:2], [0:4]}", "expected a range within dimension 1 (size 3), found [0:4]"),
    ("f32[1,3] slice(a), slice={[0:1]}", "expected 2 ranges in slice, found 1"),
    ("f32[2,3,4] broadcast(a), dimensions={1,0}", "dimension 1 of the result has size 3, not 2"),
    ("f32[2,3,4] broadcast(a), dimensions={0,3}", "dimension 3 in dimensions is out of range (rank 3)"),
    ("f32[2,3,4] broadcast(a), dimensions={0,0}", "duplicate dimension 0 in dimensions"),
    ("f32[2,3,4] broadcast(a), dimensions={0}", "expected 2 numbers in dimensions, found 1"),
    ("s32[2,3] broadcast(a), dimensions={0,1}", "expected the shape f32[2,3], found s32[2,3]"),
    ("f32[4] iota(), iota_dimension=1", "expected iota_dimension below 1, the rank of the result, found 1"),
    ("f32[2,4] dynamic-slice(a, k, k), dynamic_slice_sizes={2,4}", "expected at most 3 in dimension 1"),
    ("f32[1,1] dynamic-slice(a, k), dynamic_slice_sizes={1,1}", "expected 2 indices, found 1"),
    (
        "f32[1,1] dynamic-slice(a, s, s), dynamic_slice_sizes={1,1}",
        "expected signed integers or unsigned integers; %s is f32[]",
    ),
    ("f32[2,3] dynamic-update-slice(a, v, k, k)", "expected an update of 2 dimensions; %a is f32[2,3], %v is f32[3]"),
    ("f32[2,3] dynamic-update-slice(a, b, k, k)", "expected at most 2 in dimension 0 of the update, found 3"),
    ("f32[2,3] dynamic-update-slice(a, i, k, k)", "expected operands of the same element type"),
    ("f32[3,2] bitcast-convert(a)", "expected the shape f32[2,3], found f32[3,2]"),
    ("f64[2] bitcast-convert(a)", "expected a last dimension of size 2 from f32 to f64; %a is f32[2,3]"),
    ("c64[2] bitcast-convert(a)", "cannot bitcast-convert between complex and non-complex types: f32 to c64"),
    ("f32[2,3] reduce-precision(a), exponent_bits=0, mantissa_bits=3", "expected exponent_bits of at least 1, found 0"),
    ("s32[2,3] reduce-precision(i), exponent_bits=3, mantissa_bits=3", "expected floats; %i is s32[2,3]"),
    ("f32[4,3] collective-permute(a), source_target_pairs={{0,1}}", "expected the shape f32[2,3], found f32[4,3]"),
    (
        "f32[5,3] all-gather(a), dimensions={0}, replica_groups={{0,1}}",
        "expected a factor of 2, the group size",
    ),
    (
        "f32[4,3] all-gather(a), dimensions={2}, replica_groups={{0,1}}",
        "dimension 2 in dimensions is out of range (rank 2)",
    ),
    (
        "f32[2,2] reduce-scatter(a), dimensions={1}, replica_groups={{0,1}}, to_apply=add",
        "is not divisible by 2",
    ),
    ("f32[3,3] all-reduce(a), replica_groups={{0,1}}, to_apply=add", "expected the shape f32[2,3], found f32[3,3]"),
    ("f32[2,3] all-to-all(a), dimensions={1}, replica_groups={{0,1}}", "dimension 1 is not divisible by 2"),
    ("f32[3,3] collective-broadcast(a), replica_groups={{0,1}}", "expected the shape f32[2,3], found f32[3,3]"),
    ("u32[2] sort(a), dimensions={0}, to_apply=less", "expected the shape f32[2,3], found u32[2]"),
    ("f32[2,3] sort(a), dimensions={4}, to_apply=less", "dimension 4 in dimensions is out of range (rank 2)"),
    ("f32[2,3] sort(a), dimensions={0}, to_apply=add", "expected pred[] as the result of add, found f32[]"),
)
"""What the verifier of StableHLO finds wrong too, when XLA has translated it."""

XLA_ALONE = (
    ("s32[] get-tuple-element(t), index=0", "expected the shape f32[2,3], found s32[]"),
    ("f32[2,3] call(a), to_apply=always", "expected the shape pred[], found f32[2,3]"),
    ("pred[2,3] while(a), condition=always, body=negate", "expected the shape f32[2,3], found pred[2,3]"),
    ("f32[2,3] get-tuple-element(t), index=2", "expected an index below 2, found 2; %t is (f32[2,3], s32[])"),
    ("f32[2,3] get-tuple-element(a), index=0", "expected a tuple; %a is f32[2,3]"),
    ("f32[3,3] reshape(a)", "expected the same number of elements; the result has 9 elements, the operand 6"),
    ("f32[3,2] dynamic-reshape(a, k)", "expected 3 operands for a result of rank 2, found 2"),
    ("f32[3,2] dynamic-reshape(a, k, s)", "expected s32 sizes; %s is f32[]"),
    ("pred[4] iota(), iota_dimension=0", "expected a numeric result type, found pred"),
    ("f32[4] rng(s, k), distribution=rng_uniform", "expected parameters of the same type; %s is f32[], %k is s32[]"),
    ("s32[4] rng(k, k), distribution=rng_normal", "expected floats; %k is s32[]"),
    ("f32[4] rng(s, h), distribution=rng_normal", "expected parameters of the same type; %s is f32[], %h is f16[]"),
    ("(f32[2,3], f32[2,3], u32[]) copy-start(b)", "expected the shape (f32[3,2], f32[3,2], u32[])"),
    ("f32[2,3] copy-done(t)", "expected the result of copy-start; %t is (f32[2,3], s32[])"),
    ("f32[2,3] add-dependency(a, a)", "expected a token as operand 1; %a is f32[2,3]"),
    (
        "token[] outfeed(a, tok), outfeed_shape=f32[3,2]",
        "expected the operand's shape as outfeed_shape, found f32[3,2]",
    ),
    ("((f32[2,3]), f32[9], u32[]) slice-start(a), slice={[0:1], [0:1]}", "found ((f32[2,3]), f32[9], u32[])"),
    ("((f32[3,2]), f32[2,3], u32[]) async-start(a), calls=negate", "expected the operands as element 0 of the result"),
    (
        "((f32[3,2]), f32[2,3], u32[]) async-start(b), calls=negate",
        "expected operands matching the parameters of negate",
    ),
    ("((f32[2,3]), f32[3,2], u32[]) async-start(a), calls=negate", "expected the computation's result as element 1"),
    ("f32[2,3] stochastic-convert(a, i)", "expected unsigned integers; %i is s32[2,3]"),
    ("f32[2,3] fusion(b), kind=kLoop, calls=negate", "parameter %x of negate is f32[2,3], %b is f32[3,2]"),
    ("pred[] fusion(a), kind=kLoop, calls=negate", "expected the shape f32[2,3], found pred[]"),
    ("f32[2,3] fusion(a), kind=kLoop, calls=add", "expected at most as many parameters as operands"),
    ("(f32[2,3], f32[2,3]) all-to-all(a, b), replica_groups={{0,1}}", "expected operands of the same shape and layout"),
    ("(f32[2,3], f32[2,3]) all-to-all(a, a), replica_groups={}", "expected 4 operands, one per device, found 2"),
    (
        "f32[2,3] ragged-all-to-all(a, a, cube, cube, cube, cube), replica_groups={}",
        "expected rank 1 or 2 of operand 2",
    ),
    ("f32[2,3] compare(a, a), direction=LT, type=SIGNED", "expected type=FLOAT or TOTALORDER, found SIGNED"),
    ("pred[2,3] compare(i, i), direction=LT, order=PARTIAL", "expected order=TOTAL, found PARTIAL"),
    ("(f32[2,3], s32[]) scan(a, s), dimensions={0}, num_carries=1, to_apply=row", "found (f32[2,3], s32[])"),
    ("(f32[2,3], f32[]) scan(b, s), dimensions={0}, num_carries=1, to_apply=row", "without dimension 0 as parameter 0"),
)
"""What only XLA's verifier looks at, which jaxlib does not run by itself."""

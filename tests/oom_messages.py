"""Out-of-memory messages in XLA's wordings; what is measured and named in them is made up."""

from __future__ import annotations

TPU_HBM = """\
Traceback (most recent call last):
  File "train.py", line 12, in <module>
    step(state, batch)
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 20.00G of 15.48G hbm. Exceeded hbm capacity by 4.52G.

Total hbm usage >= 20.50G:
    reserved        512.00M\x20
    program          19.00G\x20
    arguments         1.00G\x20

Output size 64.0K; shares 32.0K with arguments.

Program hbm requirement 19.00G:
    reserved          12.0K
    global           500.0K
    scoped             4.0M
    HLO temp         19.00G (75.0% utilization: Unpadded (13.50G) Padded (18.00G), 5.3% fragmentation (1.00G))

  Largest program allocations in hbm:

  1. Size: 8.00G
     Operator: op_type="OneHot" op_name="jit(step)/one_hot" source_file="train.py" source_line=7
     Shape: s32[16777216,10]{1,0:T(8,128)}
     Unpadded size: 640.00M
     Extra memory due to padding: 7.38G (12.8x expansion)
     XLA label: %iota.2 = s32[16777216,10]{1,0:T(8,128)} iota(), iota_dimension=1, metadata={op_name="jit(step)/one_hot"}
     Allocation type: HLO temp
     ==========================

  2. Size: 2.00G
     Shape: f32[32,4096,4096]{1,2,0:T(8,128)}
     Unpadded size: 2.00G
     XLA label: fusion.3.remat = fusion(dot.4, dot.5), kind=kOutput, calls=fused_computation.1
     Allocation type: HLO temp
     ==========================

  3. Size: 1.00G
     Shape: (bf16[512,1024]{1,0:T(8,128)(2,1)}, u32[]{:S(2)})
     XLA label: %copy-start.1 = (bf16[512,1024]{1,0:T(8,128)(2,1)}, u32[]{:S(2)}) copy-start(bf16[512,1024]{1,0} %p)
     Allocation type: scoped
     ==========================

The above exception was the direct cause of the following exception:
  Size: 3.00G
"""

TPU_HBM_SHORT = """\
E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries (22.00G) exceeds \
available HBM (15.75G). HLO module: jit_step.
See the documentation for more details.
"""

TPU_RANGES = """\
E0102 10:11:12.345678 77 deepsea_compiler_base.cc:3582] XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 19.01G of 15.75G hbm. Exceeded hbm capacity by 3.26G. HLO module: jit_step. Memory usage report:\x20

Memory Space: default (color=0)
Total bytes: 20411581952 (19.01GiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
    8.00GiB( 40%);    8.00GiB;   4294967296;                4; bf16[262144,6,1000], f32[262144,6,1000], 2×s32[262144,6,1000]
   14.00GiB( 70%);    6.00GiB;   8589934592;                2; 2×f32[262144,6,1024]
   20.00GiB(100%);    6.00GiB;            0;                1; f32[3,262144,2048]
   20.00GiB(100%);       512B;  12884901888;                7; 7×(s32[], f32[262144,6,1000], bf16[1024,6,262144], f32[128], s32[], /*index=5*/s32[])

  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
    5.00GiB(100%);    5.00GiB;            0;                1; bf16[2560,1048576]

  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
       512B(100%);       512B;            0;                1; f32[]

  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
       512B(100%);       512B;            0;                1; pred[]


Memory Space: vmem (color=1)
Total bytes: 4194304 (4.00MiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
    3.00MiB( 75%);    3.00MiB;      1048576;                2; f32[6,128,1024], u8[3145728]
    4.00MiB(100%);    1.00MiB;            0;               31; 31×bf16[512,1024]


Memory Space: color_6 (color=6)
Total bytes: 0 (0B)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------


E0102 10:11:12.345679 77 deepsea_compiler_base.cc:3861] Failed to verify buffer assignment.
jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory \
required for HLO temporaries (19.01G) exceeds available HBM (15.75G). HLO module: jit_step.
See the documentation for more details.
"""

TPU_HBM_ON_ONE_LINE = (
    "Ran out of memory in memory space hbm. Used 40.00G of 32.00G hbm. Exceeded hbm capacity by 8.00G. "
    "Total hbm usage >= 40.00G: reserved 2.00M program unknown size arguments 39.00G"
)

TPU_VMEM_OLD = """\
Compilation failure: Ran out of memory in memory space vmem. It should not be possible to run out of vmem.

Largest program allocations in vmem:

  XLA label: register allocator spill slots
  Allocation type: scoped

  XLA label: %fusion.7 = (bf16[], f32[256]{0}) fusion(f32[256]{0}, ...(+13)), kind=kOutput, calls=%fused_computation.7
  Allocation type: scoped
"""

TPU_SCOPED = """\
RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom:
Ran out of memory in memory space vmem while allocating on stack for %kernel.1 = f32[2048,2048]{1,0:T(8,128)} \
custom-call(%args_0_.1), custom_call_target="tpu_custom_call". Scoped allocation with size 48.50M and limit 32.00M \
exceeded scoped vmem limit by 16.50M. It should not be possible to run out of scoped vmem.
"""

TPU_SCOPED_CUT = (
    "Ran out of memory in memory space vmem while allocating on stack for %kernel.2 = bf16[8]{0} custom-call("
)

TPU_ALLOCATION = (
    "RESOURCE_EXHAUSTED: Allocation (size=8388608) would exceed memory (size=1048576) :: #allocation3 [shape = "
    "'u8[8388608]{0}', space=smem, size = 0x800000, scoped, tag = 'input window allocation for operator input 0. The "
    "window shape is f32[2048,1024].'] :: kernel.1\n"
)

TPU_OUTPUT = (
    "Allocation (size=21474836480) would exceed memory (size=17179869184) :: #allocation7 [shape = "
    "'f32[320,4096,4096]{1,2,0:T(8,128)}', space=hbm, size = 0xffffffffffffffff, tag = 'output of fusion.9@{1}'] :: "
    "<no-hlo-instruction>\n"
)

TPU_SPARSE_CORE = (
    "E3000: CompileTimeSparseCoreAllocationFailure: current allocation offset upper bound (90000 words) exceeds the "
    "legitimate user allocatable offset upper bound (65000 words) in memory space tile_spmem\n"
)

TPU_RUN = (
    "E0100: RuntimeBufferAllocationFailure: Error allocating device buffer: Attempting to allocate 4.50G. That was not "
    "possible. There are 2.25G free.; (0x0x1_HBM0)\n"
)

TPU_LOAD = (
    "RESOURCE_EXHAUSTED: Error loading program: Attempting to reserve 9.00G at the bottom of memory. That was not "
    "possible. There are 8.50G free, 0B reserved, and 8.25G reservable.\n"
)

GPU_RUN = """\
2026-01-02 10:11:12.345678: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB (rounded to 2147483648)requested by op\x20
2026-01-02 10:11:12.345679: I external/xla/xla/tsl/framework/bfc_allocator.cc:1103] 2 Chunks of size 536870912 totalling 1.00GiB
2026-01-02 10:11:12.345680: I external/xla/xla/tsl/framework/bfc_allocator.cc:1103] 1 Chunks of size 1048576 totalling 1.00MiB
2026-01-02 10:11:12.345681: I external/xla/xla/tsl/framework/bfc_allocator.cc:1114] Stats:\x20
Limit:                      3221225472
InUse:                      1074790400

E0102 10:11:12.400000   27487 pjrt_stream_executor_client.cc:2826] Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483520 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:    1.00GiB
              constant allocation:         4B
        maybe_live_out allocation:  512.00MiB
     preallocated temp allocation:    2.00GiB
  preallocated temp fragmentation:   24.0KiB (0.00%)
                 total allocation:    3.50GiB
              total fragmentation:    1.00MiB (0.03%)
Peak buffers:
\tBuffer 1:
\t\tSize: 1.50GiB
\t\tOperator: op_name="jit(step)/dot_general[precision=None]" source_file="model.py" source_line=175
\t\tXLA Label: custom-call
\t\tShape: f32[5104,78898]
\t\t==========================

\tBuffer 2:
\t\tSize: 500.00MiB
\t\tEntry Parameter Subshape: f16[2048,128000]
\t\t==========================

Traceback (most recent call last):
  File "model.py", line 3, in <module>
RuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483520 bytes.
"""

GPU_REQUEST = "Resource exhausted: Failed to allocate request for 32.00MiB (33554432B) on device ordinal 3\n"
GPU_NEW = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1.25GiB.\n"
GPU_DRIVER = "rocm_driver.cc:1268] failed to allocate 1.00GiB (1073741824 bytes) from device: HIP_ERROR_OutOfMemory\n"
GPU_SHARED = "Shared memory size limit exceeded: requested 131072, available: 101376\n"
GPU_REMATERIALIZATION = (
    "W0102 10:11:12.000000 77 hlo_rematerialization.cc:3005] Can't reduce memory use below 1.00GiB (1073741824 bytes) by "
    "rematerialization; only reduced to 2.00GiB (2147483648 bytes), down from 3.00GiB (3221225472 bytes) originally\n"
)
GPU_NO_FAILURE = (
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.25GiB with freed_by_count=0. The caller indicates that "
    "this is not a failure, but this may mean that there could be performance gains if more memory were available.\n"
)
CPU_RUN = "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes.\n"

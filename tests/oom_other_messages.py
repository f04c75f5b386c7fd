"""More out-of-memory messages in the wordings of XLA and of other programs; what is measured and named is made up."""

from __future__ import annotations

TPU_CORES = "RESOURCE_EXHAUSTED: TPU TensorCore Hbm usage: 30.00G, SparseCore Hbm usage 70.00G, exceeding available bytes: 95.00G\n"
TPU_ABORTED = (
    "RESOURCE_EXHAUSTED: Compilation failure: Aborting compilation early because it's unlikely to have enough memory. "
    "Requires 2.00T, has 90.00G available. If more detailed logging is desired, set "
    "--xla_tpu_impure_oom_fast_exit_threshold=-1\n"
)
TPU_LIMIT = (
    "Scoped allocation with size 24.00M and limit 16.00M exceeded scoped vmem limit by 8.00M. It should not be possible "
    "to run out of scoped vmem - please file a bug against XLA.\n"
)
TPU_SCOPED_UNDER_LOAD = """\
XlaRuntimeError: RESOURCE_EXHAUSTED: Error loading program: Attempting to allocate 40.00M. That was not possible. There are 32.00M free.; (0x0x0_HBM0): while running replica 0 and partition 0 of a replicated computation (other replicas may have failed as well).
CompileTimeScopedVmemOom:
Ran out of memory in memory space vmem while allocating on stack for %_bwd.2 = f32[8192,512]{1,0:T(8,128)} custom-call(%args_0_.1, %bitcast.1), custom_call_target="tpu_custom_call", operand_layout_constraints={f32[8192,512]{1,0}}, metadata={op_name="jit(step)/jit(_bwd)/my_kernel/pallas_call" stack_frame_id=23}. Scoped allocation with size 40.00M and limit 32.00M exceeded scoped vmem limit by 8.00M. It should not be possible to run out of scoped vmem -\x20
See https://openxla.org/xla/errors/error_1001 for more details.
"""
TPU_VMEM = """\
RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space vmem. Used 80.00M of 64.00M vmem. Exceeded vmem capacity by 16.00M.

Program vmem requirement 80.00M:
    scoped           80.00M

  Largest program allocations in vmem:

  1. Size: 36.00M
     Operator: op_name="jit(step)/jit(attention)/PAGED-q_256-kv_2048/pallas_call" stack_frame_id=459
     Shape: f8e4m3fn[2,2048,9,4,256]{4,3,2,1,0:T(8,128)(4,1)}
     Unpadded size: 18.00M
     Extra memory due to padding: 18.00M (2.0x expansion)
     XLA label: PAGED-q_256-kv_2048.72 = custom-call(seq_lens.1, tables.1, ...(+6)), custom_call_target="tpu_custom_call", operand_layout_constraints={s32[8]{0}, bf16[8,1024,2,2,128]{4,3,2,1,0}}, output_to_operand_aliasing={{0}: (7, {}), {1}: (9, {})}
     Allocation type: scoped
     Tag: scratch operand
     ==========================

  2. Size: 4.00M
     Shape: f32[8,1024,128]{2,1,0:T(8,128)}
     Unpadded size: 4.00M
     Allocation type: scoped
     Tag: input window, operand 3
     ==========================

"""
TPU_SMEM = (
    "RESOURCE_EXHAUSTED: Allocation (size=2097152) would exceed memory (size=1048576) :: #allocation4 [shape = "
    "'u8[2097152]{0}', space=smem, size = 0x200000, scoped, tag = 'prefetched SMEM operand 0'] :: gather_rows.5\n"
)
TPU_WINDOW = (
    "RESOURCE_EXHAUSTED: Allocation (size=268435456) would exceed memory (size=67108864) :: #allocation6 [shape = "
    "'u8[268435456]{0}', space=vmem, size = 0x10000000, scoped, tag = 'output window allocation for operator output 1. "
    "The window shape is f32[4096,8192], while the full shape is f32[32768,8192]. The u8 shape/size shown above "
    "represents the raw byte size of this window in VMEM. This allocation has 2 buffering levels.'] :: my_kernel.7\n"
)
TPU_SCOPED_MEMORY = (
    "Allocation (size=134217728) would exceed memory (size=67108864) :: #allocation25 [shape = 'u8[134217728]{0}', "
    "space=vmem, size = 0x8000000, tag = 'scoped memory for gather_matmul_kernel.2'] :: gather_matmul_kernel.2\n"
)
TPU_HOST = (
    "RESOURCE_EXHAUSTED: Allocation (size=2147483648000) would exceed memory (size=137438953472) :: %s0 = "
    "inlined_call_operand.host [shape: f32[2000,16384,16384], index: 0, kind: output, shape index: {}] /* operand 0 */ "
    ":: custom-call.3\n"
)
TPU_SPARSE_CORE_NUMBER = (
    "INTERNAL:Failed to run pass pipeline. Hlo-Op: result.7:12:1: error: 'memref.alloca' op current allocation offset "
    "upper bound (150000 words) exceeds the legitimate user allocatable offset upper bound (131071 words) in memory "
    'space 201 when allocating 20000 words. result.7:12:1: note: see current operation: %9 = "memref.alloca"() '
    "<{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<20000xf32, 201>\n"
)
TPU_OLD_LOAD = """\
RuntimeError: Resource exhausted: From /job:tpu_worker/replica:0/task:0:
Attempting to reserve 4.50G at the bottom of memory. That was not possible. There are 2.25G free, 0B reserved, and 2.00G reservable.;\x20
HBM capacity 8.00G:
       Top-of-Memory reserved:  512.00M (     536,870,912 bytes)
          Currently allocated:    5.00G (   5,368,709,120 bytes)
                               ------------
      Available after request:   -2.00G (  -2,147,483,648 bytes)
; attempting reservation for program memory

Total hbm usage >= 11.00G:
    reserved(Infeed/Outfeed/Continuations) 512.00M\x20
    heap allocations (without fragmentation)   5.50G\x20
    program                    5.00G\x20

Persistent allocations include some or all of:
    arguments                500.00M (90.0% utilization)

Program hbm requirement 5.00G:
    reserved           4.0K
    scoped           17.00M
    HLO temp          4.00G (97.0% utilization: Unpadded (3.50G) Padded (3.75G), 0.5% fragmentation (16.00M))
    overlays          1.00G

"""
GPU_ASYNC = """\
E1103 18:23:55.101761 3413773 gpu_cudamallocasync_allocator.cc:361] gpu_async_3 cuMemAllocAsync failed to allocate 9663676416 bytes: RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: out of memory
 Reported by CUDA: Free memory/Total memory: 4294967296/85899345920
E1103 18:23:55.101869 3413773 gpu_cudamallocasync_allocator.cc:366] Stats: Limit:                               0
InUse:                     61982909300
MaxInUse:                  61982909300
NumAllocs:                       21841
MaxAllocSize:               5974366617
Reserved:                            0
PeakReserved:                        0
LargestFreeBlock:                    0

E1103 18:23:55.101917 3413773 gpu_cudamallocasync_allocator.cc:70] Histogram of current allocation: (allocation_size_in_bytes, nb_allocation_of_that_sizes), ...;
E1103 18:23:55.102059 3413773 gpu_cudamallocasync_allocator.cc:73] 256, 56
E1103 18:23:55.102126 3413773 gpu_cudamallocasync_allocator.cc:73] 2097152, 784
jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9.00GiB. [executable_name='jit_train_step']
"""
GPU_CONSTANT = "jaxlib._jax.XlaRuntimeError: INTERNAL: Failed to allocate 402653184 bytes for new constant\n"
GPU_ARGUMENTS = (
    "E0207 18:44:44.481770 1957515 gpu_hlo_schedule.cc:815] The byte size of input/output arguments (68719476736) exceeds "
    "the base limit (34359738368). This indicates an error in the calculation!\n"
)
GPU_TRITON = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 196608, Hardware limit: 163840. "
    "Reducing block sizes or `num_stages` may help.\n"
)
GPU_HOST = "cuda_driver.cc:1205] failed to alloc 4294967296 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
OTHER_TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a total capacity of 39.50 GiB of "
    "which 1.25 GiB is free. Process 123 has 38.00 GiB memory in use.\n"
)
OTHER_TORCH_OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 4.00 GiB total capacity; 2.97 GiB already "
    "allocated; 10.00 MiB free; 2.99 GiB reserved in total by PyTorch)\n"
)
OTHER_TORCH_CPU = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12\n"
OTHER_TENSORFLOW = (
    "W tensorflow/core/framework/op_kernel.cc:1753] OP_REQUIRES failed at transpose_op.cc:198 : Resource exhausted: OOM "
    "when allocating tensor with shape[8,1024,128,128] and type float on /job:localhost/replica:0/task:0/device:GPU:0 "
    "by allocator GPU_0_bfc\n"
)
OTHER_KERNEL = """\
[  510.762654] python3 invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
[  510.870332] memory: usage 16777216kB, limit 16777216kB, failcnt 123
[  510.910332] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods/pod7,task_memcg=/kubepods/pod7/c1,task=python3,pid=2343,uid=0
[  510.917639] Memory cgroup out of memory: Killed process 2343 (python3) total-vm:31457280kB, anon-rss:14680064kB, file-rss:12288kB, shmem-rss:0kB, UID:0 pgtables:28092kB oom_score_adj:0
"""
OTHER_KUBERNETES = """\
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
"""
OTHER_SLURM = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=440575.0. Some of the step tasks have been OOM Killed.\n"
)
OTHER_RAY = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    "Memory on the node (IP: 10.0.0.2, ID: 8c5a) where the task (task ID: 41617b, name=load_batch, pid=548, memory "
    "used=12.00GB) was running was 31.00GB / 32.00GB (0.968750), which exceeds the memory usage threshold of 0.95.\n"
)

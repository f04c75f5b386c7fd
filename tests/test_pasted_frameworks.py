"""Texts that frameworks and tools around XLA print: each is real wording with numbers of our own, and its answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_cli import cli

WATCHDOG = (
    "[rank{0}]:[E1024 09:31:02.114 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=16777216, NumelOut=16777216, Timeout(ms)=600000) ran for 600029 "
    "milliseconds before timing out.\n"
)
QUEUE = (
    "[rank3]:[E1024 09:31:02.115 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 3] Exception "
    "(either an "
    "error or timeout) detected by watchdog at work: 1024, last enqueued NCCL work: 1026, last completed NCCL "
    "work: 1023.\n"
)
CLIQUE = (
    "E0311 09:12:44.118401 2204113 rendezvous.cc:102] [id=0] This thread has been waiting for `initialize clique "
    "for rank "
    "5; clique_key=devices=[0,1,2,3,4,5,6,7]; groups=[[0,1,2,3,4,5,6,7]]; is_p2p=0; incarnations=[0]; "
    "run_id=1927364` for "
    "10 seconds and may be stuck. Expected 8 threads to join the rendezvous, but only 7 of them arrived on time.\n"
)
PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm_fusion_dot_9' for 'sm_90a'
ptxas info    : Function properties for gemm_fusion_dot_9
    {0} bytes stack frame, {1} bytes spill stores, {2} bytes spill loads
ptxas info    : Used {3} registers, used 1 barriers, 49152 bytes smem, 392 bytes cmem[0]
"""
MEMORY = (
    "CompiledMemoryStats(generated_code_size_in_bytes=0, argument_size_in_bytes=1024, output_size_in_bytes=1024, "
    "alias_size_in_bytes=1024, temp_size_in_bytes=4096, host_generated_code_size_in_bytes=0, "
    "host_argument_size_in_bytes=2147483648, host_output_size_in_bytes=2147483648, "
    "host_alias_size_in_bytes=2147483648, "
    "host_temp_size_in_bytes=536870912)\n"
)
X64 = (
    "jaxlib.xla_extension.XlaRuntimeError: UNIMPLEMENTED: While rewriting computation to not contain X64 element "
    "types, "
    "XLA encountered an HLO for which this rewriting is not implemented: %custom-call.4 = (f64[256,256]{1,0}, "
    "s32[256]{0}) "
    'custom-call(f64[256,256]{1,0} %param.1), custom_call_target="LuDecomposition"\n'
)
TENSORFLOW = (
    "tensorflow.python.framework.errors_impl.InvalidArgumentError: Detected unsupported operations when trying "
    "to compile "
    "graph __inference_step_51[_XlaMustCompile=true,config_proto=6001324581131673121] on XLA_GPU_JIT: {0} (No "
    "registered "
    "'{0}' OpKernel for XLA_GPU_JIT devices compatible with node {{{{node a}}}}{1}\n"
)
ATTRIBUTES = "\n\t (OpKernel was found, but attributes didn't match) Requested Attributes: T=DT_STRING, index=0"
TORCH = """---------------------------------------  ------------  ------------  ------------  ------------  ------------  ------------
                                   Name    Self CPU %      Self CPU     Self CUDA   Self CUDA %    CUDA total    # of Calls
---------------------------------------  ------------  ------------  ------------  ------------  ------------  ------------
                               aten::mm         2.11%       1.204ms      12.310ms        61.55%      12.310ms           48
    void cutlass::Kernel2<cutlass_80...         0.00%       0.000us      12.310ms        61.55%      12.310ms           48
                              aten::add         1.02%     582.000us       4.690ms        23.45%       4.690ms           96
---------------------------------------  ------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 57.061ms
Self CUDA time total: 20.000ms
"""
ON_CPU = """-----------------  ------------  ------------  ------------  ------------
             Name    Self CPU %      Self CPU   CPU total %    # of Calls
-----------------  ------------  ------------  ------------  ------------
         aten::mm        75.00%       3.000ms        75.00%            10
        aten::add        25.00%       1.000ms        25.00%            20
-----------------  ------------  ------------  ------------  ------------
Self CPU time total: 4.000ms
"""
NAN = """Traceback (most recent call last):
  File "/usr/lib/python3.12/site-packages/jax/_src/pjit.py", line 190, in cache_miss
  File "/w/train.py", line 52, in loss
FloatingPointError: invalid value ({0}) encountered in {1}
"""
PPROF = """$ go tool pprof -top memory.prof
File: python3
Type: space
Showing nodes accounting for 12.50GB, 100% of 12.50GB total
Dropped 14 nodes (cum <= 0.06GB)
      flat  flat%   sum%        cum   cum%
    8.00GB 64.00% 64.00%     8.00GB 64.00%  init_params
    4.50GB 36.00%   100%     4.50GB 36.00%  [executable] jit_train_step
         0     0%   100%    12.50GB   100%  main
"""
ANSWERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "watchdog",
        WATCHDOG.format(3, 1024, "ALLREDUCE") + QUEUE,
        (
            "Rank 3 waited 600 s for collective 1,024 (all-reduce of 16,777,216 elements); the limit is 600 s",
            "Rank 3 completed number 1,023; 3 are in its queue",
        ),
    ),
    (
        "watchdogs",
        WATCHDOG.format(1, 70, "ALLREDUCE") + WATCHDOG.format(0, 71, "_ALLGATHER_BASE"),
        ("The ranks are in different collectives: all-gather number 71 on 1 rank, all-reduce number 70 on 1 rank",),
    ),
    (
        "clique",
        CLIQUE,
        ("The setup of an NCCL communicator of 8 devices (rank 5) of run 1927364", "7 threads are in it"),
    ),
    ("spills", PTXAS.format(16, 24, 20, 168), ("(24 + 20 bytes per thread)", "has 168 registers a thread", "49,152")),
    ("most", PTXAS.format(16, 24, 20, 255), ("255 registers a thread, the most that a thread may have",)),
    (
        "no spills",
        PTXAS.format(0, 0, 0, 40),
        ("No kernel spills registers: gemm_fusion_dot_9 has 40 a thread and 48 KiB of shared memory",),
    ),
    ("host memory", MEMORY, ("5 KiB (5,120 bytes)", "2.5 GiB of host memory are not counted")),
    ("64 bits", X64, ("custom-call.4, a custom-call LuDecomposition, gives (f64[256,256]", "leave jax_enable_x64 off")),
    ("no kernel", TENSORFLOW.format("UniqueV2", ""), ("UniqueV2 has none on XLA_GPU_JIT", "Take UniqueV2 out")),
    ("string", TENSORFLOW.format("_Arg", ATTRIBUTES), ("_Arg STRING has none on XLA_GPU_JIT",)),
    (
        "torch",
        TORCH,
        (
            "20.0 ms on the device (CUDA): aten::mm 12.3 ms (62%, 48 calls), aten::add 4.7 ms (23%, 96 calls)",
            "1 row of kernels repeats the time",
        ),
    ),
    ("torch on the CPU", ON_CPU, ("4.0 ms on the CPU: aten::mm 3.0 ms (75%, 10 calls), aten::add 1.0 ms",)),
    ("nan", NAN.format("nan", "log"), ("log at /w/train.py:52 gives NaN: its argument is below 0",)),
    ("inf", NAN.format("inf", "exp"), ("exp at /w/train.py:52 gives an infinite value: its argument is above 88.7",)),
    ("other", NAN.format("nan", "cumsum"), ("cumsum at /w/train.py:52 gives NaN jax_debug_nans",)),
    (
        "compiled type",
        "Argument 'b' compiled with float32[1024,256] and called with float32[1024,128]",
        ("b is float32[1024,128], compiled for float32[1024,256]",),
    ),
    (
        "tree",
        (
            "TypeError: Function compiled with input pytree does not match the input pytree it was called with. "
            "There are 1 "
            "mismatches, including:\n    * at args[0], seen <class 'dict'> with 2 children but now given <class "
            "'dict'> with 1 "
            "child, so the numbers of children do not match, with the symmetric difference of key sets: {'mask'}"
        ),
        ("args[0]: seen <class 'dict'> with 2 children but now given", "{'mask'}"),
    ),
    (
        "carry",
        (
            "TypeError: scan body function carry input and carry output must have equal types, but they "
            "differ:\n\nThe input "
            "carry c has type float32[4,8] but the corresponding output carry component has type bfloat16[4,8], so "
            "the dtypes "
            "do not match."
        ),
        ("c of scan is float32[4,8], the body returns bfloat16[4,8]",),
    ),
    (
        "dot",
        "TypeError: dot_general requires contracting dimensions to have the same shape, got (8,) and (4,).",
        ("8 elements in the left operand and 4 in the right one",),
    ),
    (
        "memory kind",
        (
            "ValueError: Could not find memory addressable by device cpu. Device cpu can address the following "
            "memory kinds: "
            "device, pinned_host, unpinned_host. Got memory kind: hbm"
        ),
        ("hbm is not one of cpu, which has device, pinned_host, unpinned_host",),
    ),
    (
        "block",
        (
            "ValueError: The Pallas TPU lowering currently requires that the last two dimensions of your block "
            "shape are "
            "divisible by 8 and 128 respectively, or be equal to the respective dimensions of the overall array. "
            "Block spec "
            "for args[1] in pallas_call matmul_kernel at /w/mm.py:12 has block shape (8, 100), array shape (512, "
            "400), and "
            "index_map { lambda ; a:i32[] b:i32[]. let  in (a, b) }, in memory space ANY."
        ),
        ("matmul_kernel has blocks (8, 100) of args[1], which is (512, 400)",),
    ),
    (
        "Mosaic GPU",
        "ValueError: Mosaic GPU kernel exceeds available shared memory: smem_bytes=262144 > max_smem_bytes=232448",
        ("the kernel needs 262144 bytes of 232448",),
    ),
    (
        "fallback",
        (
            "UserWarning: 0The operator aten::_unique2 is not currently supported on the XLA backend and will fall "
            "back to run "
            "on the CPU. This may have performance implications."
        ),
        ("aten::_unique2 runs on the CPU", "it ends the graph"),
    ),
    (
        "TPU in use",
        (
            "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with "
            "pid 48213. "
            "Not attempting to load libtpu.so in this process."
        ),
        ("Process 48213 has the TPU",),
    ),
    (
        "no plugin",
        (
            "WARNING:2026-02-01 10:00:01,100:jax._src.xla_bridge:864: An NVIDIA GPU may be present on this "
            "machine, but a "
            "CUDA-enabled jaxlib is not installed. Falling back to cpu."
        ),
        ("no plugin for the GPU is installed, so programs run on cpu",),
    ),
    (
        "driver",
        (
            "W nvptx_compiler.cc:930] The NVIDIA driver's CUDA version is 12.2 which is older than the PTX compiler "
            "version "
            "12.8.93. Because the driver is older than the PTX compiler version, XLA is disabling parallel compilation."
        ),
        ("the driver has CUDA 12.2, the compiler of PTX 12.8.93",),
    ),
    (
        "autotuning",
        "E0000 00:00:1738.1  4412 buffer_comparator.cc:156] Difference at 12: 1.25, expected 3.5\n",
        ("Element 12 is 1.25, the reference has 3.5",),
    ),
    (
        "dead process",
        (
            "absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
            "/job:jax_worker/replica:0/task:4\nThe tasks have crashed."
        ),
        ("no heartbeat from /job:jax_worker/replica:0/task:4",),
    ),
    (
        "megascale",
        "Megascale detects a hang that is likely caused by executing different programs on TPU chips. See the log.",
        ("executing different programs on TPU chips", "hlo diff HOST0/ HOST1/"),
    ),
    (
        "flags",
        'export XLA_FLAGS="--xla_gpu_triton_gem_any=false --xla_dump_to=/tmp/d"\n',
        ("of 2 flags", "--xla_gpu_triton_gem_any is not a flag", "the nearest is --xla_gpu_triton_gemm_any"),
    ),
    (
        "compiled twice",
        "Finished XLA compilation of jit(step) in 41.2 sec\nFinished XLA compilation of jit(step) in 40.8 sec\n",
        ("the longest is step (82.0 s, compiled 2 times)",),
    ),
    (
        "cache miss",
        (
            "PERSISTENT COMPILATION CACHE MISS for 'jit_step' with key "
            "'jit_step-98ea9b6e2bd45cb5d0e1dd2c3ba2ae77f5b9a8a8'\n"
        ),
        ("The persistent cache had 0 of 1 program: jit_step compiled",),
    ),
    (
        "boolean of a tracer",
        (
            "jax.errors.TracerBoolConversionError: Attempted boolean conversion of traced array with shape "
            "bool[].\nThe error "
            "occurred while tracing the function step at /w/t.py:10 for jit. This concrete value was not available "
            "in Python "
            "because it depends on the value of the argument x.\nSee https://docs.jax.dev/en/latest/errors.html"
        ),
        ("step (/w/t.py:10) uses the value of bool[], which depends on x", "jnp.where or jax.lax.cond"),
    ),
    (
        "pmap",
        (
            "ValueError: compiling computation that requires 10 logical devices, but only 8 XLA devices are available "
            "(num_replicas=10)"
        ),
        ("needs 10 devices, and 8 are available",),
    ),
    (
        "memory of NCCL",
        (
            "INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled cuda error (run with NCCL_DEBUG=INFO for "
            "details). Last "
            "NCCL warning(error) log entry (may be unrelated) 'Cuda failure 2 'out of memory''."
        ),
        ("ncclGroupEnd failed: unhandled cuda error; its last warning: Cuda failure 2 'out of memory'",),
    ),
    (
        "algorithm",
        (
            "slow_operation_alarm.cc:65] Trying algorithm eng0{} for conv f32[8,4,3,3]{3,2,1,0} "
            "custom-call(f32[2,4,5,5] %a, "
            'f32[2,8,5,5] %b), custom_call_target="__cudnn$convBackwardFilter" is taking a while...\nE slow_operation_alarm.cc:'
            "133] The operation took 3.2s\n"
        ),
        ("eng0{}", "3.2 s"),
    ),
    (
        "old rendezvous",
        (
            "E0000 1201 rendezvous.cc:31] This thread has been waiting for `all reduce RendezvousKey{run_id=RunId: 7, "
            "global_devices=[0, 1, 2, 3], num_local_participants=4}` for 5000ms and may be stuck: Expected 4 threads "
            "to join "
            "the rendezvous, but not all of them arrived on time."
        ),
        ("An all-reduce of run 7 is not complete: it needs 4 devices", "after 5 s"),
    ),
    (
        "executions",
        (
            "Execution Analysis: Execution Cause\nExecution Analysis:   most likely user code trying to access "
            "tensor value "
            "before torch_xla.sync\nExecution Analysis: Graph Info:\nExecution Analysis: Python Frame Triggered "
            "Execution:\n"
            "Execution Analysis:   loss_item (/w/train.py:44)\n"
        ),
        ("executed 1 graph: most likely user code trying to access", "came from /w/train.py:44 (loss_item)", "item()"),
    ),
    (
        "pinned memory",
        (
            "RESOURCE_EXHAUSTED: Failed to allocate 68719476736 bytes of pinned host memory: "
            "CUDA_ERROR_OUT_OF_MEMORY: out of "
            "memory\n"
        ),
        ("Out of pinned host memory", "64 GiB requested"),
    ),
    ("pprof", PPROF, ("12.5 GiB in use", "init_params 8 GiB (64%), [executable] jit_train_step 4.5 GiB (36%)")),
)


@pytest.mark.parametrize(("text", "words"), [each[1:] for each in ANSWERS], ids=[each[0] for each in ANSWERS])
def test_a_print_of_a_framework_is_answered(
    text: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pasted.txt"
    path.write_text(text)
    code = cli.main([str(path), "--format", "screen"], standalone=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert [each for each in words if each not in shown] == [], shown
    assert code == 0


def test_times_of_torch_are_answered_in_place_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.txt"
    path.write_text(TORCH)
    assert cli.main(["profile", str(path), "--format", "screen"], standalone=False) == 0
    assert "20.0 ms on the device (CUDA)" in " ".join(capsys.readouterr().out.split())


def test_a_table_without_its_columns_is_any_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.txt"
    path.write_text(TORCH.replace("  Self CPU  ", "  CPU  "))
    assert cli.main([str(path), "--format", "screen"], standalone=False) == 0
    assert capsys.readouterr().out.startswith("A table of 3 rows: the largest by CPU is aten::mm, 1.204ms")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "jax.errors.TracerBoolConversionError: Attempted boolean conversion of traced array with shape bool[].\n",
            "Value of a traced array: the program uses the value of bool[]",
        ),
        (
            "ValueError: the sharding of the argument x has array dimension 0 partitioned 3 times\n",
            "Sharding of an argument: dimension 0 is divided into 3 parts, but its size is not a multiple of that",
        ),
    ],
)
def test_what_a_message_lacks_leaves_no_hole(
    text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "error.txt").write_text(text)
    assert cli.main([str(tmp_path / "error.txt"), "--format", "screen"], standalone=False) == 0
    assert " ".join(capsys.readouterr().out.split("\n\n")[0].split()) == sentence

"""Are messages without a rule of their own answered: by a cause, a code, or the system that they are of?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from hlo_cli.commands.pasted.compiler_messages import message_report
from hlo_cli.commands.pasted.figures import figures_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.report.report import Report
from hlo_cli.syntax.compiler_messages.causes import CAUSES
from hlo_cli.syntax.compiler_messages.compiler_errors import parse_compiler_errors
from hlo_cli.syntax.compiler_messages.message_facts import (
    _CAUSES,
    _LIBRARY,
    _NCCL,
    comparison_of,
    meaning_of,
    signal_meaning,
    system_of,
)
from timing import is_linear


def explained(text: str) -> Report:
    """The report on a text that no kind of the table is."""
    report = message_report(PastedText("mentions", "-", text))
    assert report is not None
    return report


def prose(report: Report) -> str:
    """All sentences of a report."""
    texts = [paragraph for part in report.parts for paragraph in getattr(part, "paragraphs", ())]
    return " ".join((report.answer, *map(str, texts)))


# The words are those of kube-scheduler, slurmstepd, srun, NCCL (socket.cc), PyTorch, CPython, and shells.
@pytest.mark.parametrize(
    ("text", "answer", "advice"),
    [
        (
            (
                "0/24 nodes are available: 16 Insufficient google.com/tpu, 8 node(s) had untolerated taint. preemption: "
                "0/24 "
                "nodes are available"
            ),
            "0/24 nodes fit: 16 Insufficient google.com/tpu, 8 node(s) had untolerated taint",
            "kubectl describe node",
        ),
        (
            (
                "slurmstepd: error: *** STEP 44.0 ON n7 CANCELLED AT 2025-02-17T03:12:44 ***\n"
                "slurmstepd: error: *** JOB 44 ON n7 CANCELLED AT 2025-02-17T03:12:44 DUE TO TIME LIMIT ***"
            ),
            "job 44 on n7 was ended: TIME LIMIT",
            "--time",
        ),
        ("srun: error: n8: tasks 4-7: Killed", "task 4-7 on n8: Killed", "sacct"),
        (
            (
                "[3] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.4.12.9<45341> failed : No route to "
                "host"
            ),
            "10.4.12.9<45341>",
            "NCCL_DEBUG=INFO",
        ),
        ("Process finished with exit code 137", "exit status 137: SIGKILL", "out of memory"),
        ("worker 3 exited with exit status -11", "exit status -11: SIGSEGV", "faulthandler"),
        ("worker 3 exited with exit code 1", "exit status 1", "output of that process"),
        ("Bus error (core dumped)", "SIGBUS", "/dev/shm"),
        ("RuntimeError: HIP error: invalid device function", "no code was compiled for this GPU", "gfx"),
        ("rocblas_status_internal_error", "an internal check of the library failed", "driver"),
        ("ncclInvalidUsage: This usually reflects invalid usage", "does not allow", "NCCL_DEBUG=WARN"),
        ("OSError: [Errno 28] No space left on device: '/ckpt/7'", "no space is left for /ckpt/7", "checkpoints"),
        ("ImportError: libcudnn.so.9: cannot open shared object file", "libcudnn.so.9 cannot be loaded", "LD_LIBRARY"),
        ("AttributeError: module 'jax' has no attribute 'tree_map'", "jax has no tree_map", "releases"),
        ("IndexError: index 50257 is out of bounds for axis 0 with size 50257", "index 50257", "token"),
        ("x.cc:1] Skipping the delay kernel, measurement accuracy will be reduced", "less accurate", "is harmless"),
    ],
)
def test_causes_are_named(text: str, answer: str, advice: str) -> None:
    found = explained(text)
    assert answer in found.answer
    assert advice in prose(found)


@pytest.mark.parametrize(
    ("message", "difference"),
    [
        (
            "Mismatch between out shape bf16[16,4096]{1,0} and computed shape bf16[16,2048]{1,0}",
            "dimension 1 is 4096 and 2048",
        ),
        ("expected float32[8] but got bfloat16[8]", "the types are float32 and bfloat16"),
        (
            "Matrix size-incompatible: In[0]: [64,512], In[1]: [256,128]",
            "the summed dimensions have 512 and 256 elements",
        ),
        ("needs 30GiB, only 16GiB are available", "30GiB is 1.88 times 16GiB"),
        ("needs 80GB, only 75GiB are available", "75GiB is 1.01 times 80GB"),
        ("needs 80G, only 75GiB are available", "80G is 1.07 times 75GiB"),
        ("failed to open it; torch float32 is faster than bfloat16, must be on", ""),
        ("lhs is float32 and rhs is bfloat16: types must match", "the types are float32 and bfloat16"),
        ("expected int32, got float32", "the types are int32 and float32"),
        ("pjrt_device == buffer->device() (TPU_3(process=0,(1,1,0,0)) vs. TPU_0(process=0,(0,0,0,0)))", ""),
        ("runs (4, 8) at step (5, 9)", ""),
    ],
)
def test_two_values_are_compared(message: str, difference: str) -> None:
    assert comparison_of(message) == difference


@pytest.mark.parametrize(
    ("message", "system"),
    [
        ("xla/service/spmd/spmd_partitioner.cc:1: no sharding", "the SPMD partitioner"),
        ("RuntimeError: CUDA error: an illegal memory access; NCCL watchdog", "NCCL"),
        ("orbax.checkpoint: cannot restore", "Orbax"),
        ("nothing of it", None),
    ],
)
def test_systems_are_named(message: str, system: str | None) -> None:
    found = system_of(message)
    assert (found.name if found else None) == system


def test_codes_of_libraries_are_looked_up_by_their_words() -> None:
    codes = ("CUBLAS_STATUS_ALLOC_FAILED", "cudaErrorDevicesUnavailable", "ncclRemoteError")
    assert all(meaning_of(code) for code in codes)
    assert meaning_of("CUDA_ERROR_OF_TOMORROW") is None
    texts = [text for meanings in (_CAUSES, _NCCL, _LIBRARY) for words in meanings.values() for text in words]
    assert not [text for text in texts if "{" in text]
    assert signal_meaning(status=3) is None


def test_a_rule_comes_before_a_cause() -> None:
    text = "timed out\nINVALID_ARGUMENT: Binary op with incompatible shapes: f32[2,3] and f32[3,2]."
    [found] = parse_compiler_errors(text)
    assert found.rule is not None
    assert found.rule.key == "operand shapes"


@pytest.mark.parametrize("text", ["step 3 went well on two machines", "ValueError: the hat does not fit"])
def test_text_without_a_known_message_is_not_answered(text: str) -> None:
    assert message_report(PastedText("mentions", "-", text)) is None


@pytest.mark.slow
@pytest.mark.parametrize("word", ["connect ", "index ", "Error: ", "a", "(1, ", "GPU ", "[a] "])
def test_no_cause_is_slow_on_a_long_line(word: str) -> None:
    def work(size: int) -> Callable[[], object]:
        return partial(parse_compiler_errors, word * (size // len(word)))

    assert is_linear(work, 5_000, 20_000), f"{len(CAUSES)} causes are not linear in {word!r}"


# --- messages of later rounds: the words are those of PyTorch, libtpu, rocBLAS, MIOpen, JAX, and vLLM ---


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, xla:0 and cpu!",
            "one is on xla:0, another one on cpu",
        ),
        ("RuntimeError: GET was unable to find an engine to execute this computation", "it found none that works"),
        (
            "rocBLAS error: Cannot read TensileLibrary.dat: No such file or directory for GPU arch : gfx1036",
            "it has none for gfx1036",
        ),
        (
            "MIOpen(HIP): Warning [IsEnoughWorkspace] Solver <X>, workspace required: 2097152, provided ptr: 0 size: 0",
            "it needs 2 MiB (2,097,152 bytes)",
        ),
        (
            "ABORTED: The remote task: /job:jax_worker/replica:0/task:12 was restarted (incarnation changed)",
            "task:12 was restarted (incarnation changed)",
        ),
        ("ALREADY_EXISTS: Config key jax/cuda/3 already exists.", "jax/cuda/3 exists already"),
        ("Slice builder: worker 6 reported topology 4x4x4, expected 4x4x8", "worker 6 has 4x4x4, the slice 4x4x8"),
        ("NotImplementedError: Differentiation rule for 'k_p' not implemented", "k_p has none for Differentiation"),
        ("TypeError: Cannot differentiate through an integer input; got int32[32]", "an argument is int32[32]"),
        (
            (
                "ShardingTypeError: PartitionSpec cannot contain axis names that are of type Auto or Manual. Got P('x') with axis "
                "name: x of type: AxisType.Auto"
            ),
            "the axis x is AxisType.Auto",
        ),
        ("TypeError: unhashable type: 'jaxlib.xla_extension.ArrayImpl'", "ArrayImpl is not hashable"),
        ("ValueError: too many values to unpack (expected 2)", "2 were expected"),
        ("RuntimeError: Ninja is required to load extensions (pip install ninja to get it)", "Ninja is missing"),
        ("plugin version mismatch: plugin implements PJRT API 0.54, expects at least 0.68", "0.54 meets 0.68"),
        (
            'ValueError: Layer "dense_7" expected 2 variables, but received 0 variables',
            "dense_7 expects 2, the file has 0",
        ),
        ("WARNING: XPlane trace: 1,048,576 events dropped", "1,048,576 events are missing"),
        (
            "INTERNAL: HloVerifier: dynamic-slice.9: Slice size 64 at dimension 1 exceeds operand size 48",
            "exceeds operand size 48",
        ),
        (
            "ValueError: The number of devices in the mesh (8) does not match the number of devices of the array (4).",
            "8 is 4 more than 4",
        ),
        ("NameError: unbound axis name: q", "no axis q is around the call"),
        (
            "TypeError: cond_fun must return a boolean scalar, but got output type(s) [ShapedArray(float32[3])].",
            "it returns float32[3]",
        ),
        ("TypeError: Value 'a' with dtype <U1 is not a valid JAX array type.", "'a' has the type <U1"),
        (
            "ValueError: Arguments to sort must have equal shapes, got: (8, 16) (4, 3)",
            "sort got (8, 16) and (4, 3): dimension 0 is 8 and 4, dimension 1 is 16 and 3",
        ),
        (
            "ValueError: k argument to top_k must be no larger than size along axis; got k=99 with shape=[8, 16] and axis=1",
            "k is 99, the shape [8, 16] along axis 1",
        ),
        (
            "TypeError: jacfwd requires real-valued inputs (a sub-dtype of np.floating), but got int32.",
            "jacfwd got int32",
        ),
        ("AttributeError: No VJP defined for custom_vjp function f using defvjp.", "f has none"),
        ("AttributeError: Unrecognized config option: jax_foo", "jax_foo is not one of them"),
        ("TypeError: unsupported operand type(s) for +: 'Array' and 'NoneType'", "Array + NoneType is not defined"),
        ("ValueError: max seq len (131072) is larger than the cache (96416)", "131,072 is 34,656 more than 96,416"),
        ("ValueError: Cannot shard axis 2: 20 is not a multiple of 8", "pad it to 24"),
        (
            (
                "TypeError: cond branches must have equal output types but they differ.\n\nThe output of branch 0 at path "
                "['c'] has type bfloat16[8] but the corresponding output of branch 1 has type float32[8], so"
            ),
            "['c'] of branch 0 returns bfloat16[8], branch 1 returns float32[8]",
        ),
    ],
)
def test_messages_of_other_systems_are_answered(text: str, answer: str) -> None:
    assert answer in explained(text).answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            (
                "  op             occurrences   self time (us)\n  fusion.1            12          90.0\n"
                "  all-gather.7        12          10.0\n"
            ),
            "A table of 2 rows: the largest by self time (us) is fusion.1, 90.0, 90% of the sum",
        ),
        (
            "| name | # params |\n|---|---|\n| a | 1,000 |\n| b | 3,000 |\n| total | 4,000 |\n",
            "is b, 3,000, 75% of the sum",
        ),
        ("peak memory 14.2GB (arguments 6.1GB, temps 8.1GB)", "Peak memory 13.2 GiB: arguments 5.7 GiB, temps 7.5 GiB"),
        ("Peak HBM by module:\n  jit_step     27.31 GiB\n  jit_eval      9.02 GiB\n", "2 sizes: jit_step 27.3 GiB"),
        (
            "2025-02-03 10:00:11.2: I a.cc:1] Compiling\n2025-02-03 10:04:40.2: I a.cc:2] Done\n",
            "the longest time between lines is 269.0 s, after: Compiling",
        ),
    ],
)
def test_figures_are_read(text: str, answer: str) -> None:
    report = figures_report(PastedText("mentions", "-", text, given=text))
    assert report is not None
    assert answer in report.answer

"""Texts about programs before and around HLO: errors of frameworks, prints, tables of tools; `data/pasted` has real wording."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hlo_cli import cli
from hlo_cli.commands.prints import device_tables, program_prints
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.report.report import Report
from hlo_cli.syntax.compiler_messages.tracing_errors import TRACING_RULES, size_difference
from timing import is_linear

TEXTS = Path(__file__).parent / "data" / "pasted"

ANSWERS: dict[str, tuple[str, ...]] = {
    # --- errors of JAX while it traces; the numbers are those of the calls in the tracebacks ---
    "bool": ("step (/w/train.py:9) uses the value of bool[], which depends on x", "Start at /w/train.py:11"),
    "broadcast": ("add: dimension 1 is 512 and 256", "Start at /w/train.py:14"),
    "broadcast2": ("add: dimension 1 is 128 and 64", "Start at /w/train.py:15"),
    "vmap": (
        "axis 0 of argument q of type float32[8,3,4] has size 8, axis 0 of argument k of type float32[16,4,3] has",
    ),
    "cond": ("true_fun returns float32[4,4], false_fun returns bfloat16[4,4]: the dtypes do not match",),
    "grad_int": ("grad got int32",),
    "conv": ("the input has 64 features in 1 groups, the kernel expects 32",),
    "leak": ("a float32[4] that g made (/w/train.py:23:22) is used outside of it",),
    "reshape": ("(32, 100) has 3,200 elements, not a multiple of 224, the product of (32, -1, 7)",),
    "concat": ("along dimension 0, dimension 1 is 8 and 16",),
    "slice": ("the slice at position 0 is slice(None, JitTracer(~int32[]), None)",),
    "shape_arg": ("<lambda> (/w/train.py:28) takes a size from n",),
    "hash": ("a static argument is <class 'dict'>",),
    "str_arg": ("x is <class 'str'>", "Name x in static_argnums"),
    "scan_len": ("the arrays have 8, 9 elements along dimension 0",),
    "einsum": ("'d' is 64 in operand 1 and 32 in an earlier one",),
    "f64": ("asarray gives float32 where float64 was requested", "jax_enable_x64"),
    "export_platform": ("it was exported for ('tpu',), and runs on ('cpu',)",),
    "export_shape": ("args[0].shape[0]: the program takes (4,), and was called with (5,)",),
    "poly": ("(b, 3) may not fit (2, -1, b)",),
    "make_mesh": ("the mesh (4, 2) needs 8, and JAX has 1",),
    "callback": ("it raised ZeroDivisionError: division by zero", "Start at /w/train.py:35"),
    "vjp": ("bwd returns PyTreeDef((*,)), the arguments are PyTreeDef((*, *))", "Start at /w/model2.py:12"),
    "dslice": ("the slice is (4, 32), the array (8, 16): dimension 1 is 32, of 16",),
    "reshape2": ("(3, 4) has 12 elements, (5, 2) has another number",),
    "axis": ("psum names batch, which nothing around it binds", "Start at /w/model2.py:16"),
    "boolidx": ("the mask is a traced bool[8]", "jnp.where(mask, x, 0)"),
    "axisoob": ("axis 2 is not one of an array with 2 dimensions",),
    "transpose": ("the order is (0, 1), the array (2, 3, 4)",),
    "stack": ("dimension 0 is 3 and 4",),
    "select": ("the predicate is (4,), the values are (4, 8)",),
    "dtype_mix": ("add got float32, bfloat16",),
    "pallas_index": ("(/w/model2.py:27) of args[0] returns 1 values, its block has 2 dimensions",),
    "np_broadcast": ("dimension -1 is 4 and 5",),
    "switch": ("branch 0 output is a pytree leaf but branch1 output is a <class 'tuple'>",),
    "vmap_rank": ("axis 1 of (3,) does not exist: the array has 1 dimensions",),
    "while_carry": ("c[1] of while_loop is float32[8,128], the body returns bfloat16[8,128]",),
    "prng": ("the key has the shape (3,), not (2,)",),
    "grad_scalar": ("the function returns (3,)", "Start at /w/train.py:16"),
    "squeeze": (
        "dimensions (0,) of (2, 3) are to be dropped",
        "Start at /w/model3.py:8",
    ),
    # --- errors of other frameworks ---
    "hf_size": (
        "lm_head.weight is [32000, 4096] in the checkpoint, [32064, 4096] in the model: dimension 0 is 32000 and",
    ),
    "keras_input": ("dense expects 784 along axis -1, its input is (32, 28, 28)",),
    "torch_assert": ("indexSelectSmallIndex found that `srcIndex < srcSelectDimSize` is false",),
    "elastic": ("rank 3 on node17 failed first, with exit code -9 SIGKILL",),
    "dynamo": ("forward (/w/model.py:20) was compiled 8 times", "expected 8, actual 17"),
    "tf_retrace": ("5 of the last 6 calls of train_step were traced again",),
    "tensorstore": ("gs://bucket/ckpt/1000/params.layer_0/.zarray does not exist",),
    "orbax": ("needs (32000, 8192), the checkpoint has (32000, 16384): dimension 1 is 8192 and 16384",),
    "flax_shape": ("kernel of /model/encoder/conv1 is (3, 80, 384), the module needs (4, 3, 80, 384)",),
    "tf_incompatible": ("[32,10] and [32,1000] in gradient_tape/mean_squared_error/BroadcastGradientArgs",),
    "torch_size": ("dimension 1 is 128 in one tensor and 77 in the other",),
    "torch_mat": ("the left matrix has 1,024 columns, the right one 768 rows", "Start at /w/model.py:88"),
    "vllm_kv": ("16.00 GiB are needed for the longest request, 5.31 GiB are free: enough for 43,520 tokens",),
    # --- runtimes, compilers, and networks ---
    "barrier": ("13 of 16 tasks reached 0_async_write_complete.0.1; missing are tasks 0, 4, 6",),
    "halted": ("TensorCoreSequencer:1 of node 0 stopped in custom-call.2 of main.55",),
    "launch_id": ("one core started another program than the others", "hlo diff HOST0/ HOST1/"),
    "lhs_memory": ("jit_train_step needs 17 GiB (18,253,611,008 bytes), the limit is 14 GiB (15,032,385,536 bytes)",),
    "base_limit": ("reduces memory to 41.7 TiB", "they alone need 22.5 TiB, device memory has 25.2 GiB"),
    "delay_kernel": ("one measurement also has the time of its launch", "harmless for results"),
    "wrong_reference": ("a candidate differs from the reference, and is dropped",),
    "ptxas": ("does not know .version 7.8; its version of PTX is 7.4",),
    "pjrt_api": ("the plugin METAL has 0.47, jaxlib has 0.54",),
    "no_gpu": ("cuda did not start: No visible GPU devices",),
    "rocm_fault": ("a kernel on GPU node-1 accessed 0x7f9587e00000: Page not present",),
    "nccl_ib": ("the transfer with 10.0.0.63 by mlx5_1 ended with status 12",),
    "nccl_duplicate": ("Ranks 1 and 0 are both on the GPU at bus 19000",),
    "cufft": ("no plan for 64x512x512 elements, batch 32",),
    "bfc": ("32.4 GiB of 37.5 GiB in arrays (86%)",),
    "tf_oom": ("requested 392 MiB", "f32[512,64,56,56]"),
    "torch_oom": ("requested 2 GiB of GPU memory, but only 1.2 GiB of 79.2 GiB is free",),
    "slurm": ("job step 1827364.0 reached its limit of host memory",),
    "donate_cut": ("2 donated arguments (134,217,728 and 16,777,216 bytes)",),
    "setmem": ("GPU_0_bfc had no 8.50GiB for a workspace; it is not a failure",),
    "stablehlo_version": ("of version 1.8.0, this jaxlib reads up to 1.5.0",),
    "preempted": ("10.0.0.2:8476: Failed to connect to remote host: connect: Connection refused",),
    "dlopen": ("cuda did not start", "libcudart.so.12"),
    "cache_error": ("the entry of jit_train_step is not usable", "8 vs 4"),
    "cudnn": ("No execution plans support the graph",),
    "kube": ("Kubernetes killed a container (exit code 137)",),
    # --- prints and tables ---
    "abstract_mesh": ("Mesh of 8 devices: x 2 × y 4",),
    "tree_dtypes": ("2 arrays, 401,920 elements (1.5 MiB): the largest is Dense_0/kernel, 401,408",),
    "torch_close": ("3 of 4,096 elements differ (<1%), at most 0.015625 absolute",),
    "smi_csv": ("2 GPUs, 0% to 97% busy; the fullest, 0, has 71.5 GiB of 80 GiB in use (89%)",),
    "maxtext_mem": ("3 TPU devices; the fullest, TPU_2, has 13.9 GiB of 14.7 GiB in use (95%)",),
    "maxtext_step": ("3 steps, 4.5 s at the median, 182 Tflop/s a device; 1 step much longer: step 12 9.7 s",),
    "rocprof3": ("2 kernels, 28.3 ms: gemm_fusion_dot_12.kd 40 × 455.1 µs",),
    "env": ("jax 0.4.35, jaxlib 0.4.34, 8 × Cuda in 1 process",),
    "jaxpr": (
        "jaxpr of 5 equations, 3 arguments (145 KiB)",
        "the largest value is d f32[32,256] (32 KiB, dot_general)",
    ),
    "pt_xla_graph": ("graph of 3 operations, ended at /w/train.py:120", "; 1 input ("),
    "mesh_print": ("Mesh of 8 devices: data 4 × model 2",),
    "visualize": ("8 TPU devices hold 4 × 2 parts of an array",),
    "tree_shapes": ("4 arrays, 407,050 elements (1.6 MiB in f32", "Dense_0/kernel, 401,408"),
    "sharding_print": ("Device 3 holds the whole array",),
    "allclose": ("2 of 1,024 elements differ (<1%), at most 7.99 absolute", "12, 15 399.0 402.99"),
    "hlo_runner": ("96 of 4,096 elements of f32[64,64]{1,0} differ (2%)",),
    "nvidia_smi": ("2 GPUs, 0% to 98% busy; the fullest, 0, has 71.5 GiB of 79.6 GiB in use (90%)",),
    "tpu_info": ("4 TPU devices, 100% busy; the fullest, 8, has 18.4 GiB of 31.3 GiB in use (59%)",),
    "ncu": ("gemm_fusion_dot_12 takes 118.0 µs: memory at 73% of its peak, compute at 30%", "bound by memory"),
    "nsys_mem": ("508 copies and fills take 11.4 ms: Host-to-Device 8.1 ms in 412",),
    "lhs_stats": ("exposes 1,845,221 of 9,226,105 cycles (20%) of collectives: all-reduce 1,200,000",),
}
"""Words of the answer to each text; white space does not count."""


def answer(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """The exit code of `hlo FILE`, and what it writes, on one line."""
    code = cli.main([str(path), "--format", "screen", *options], standalone=False)
    written = capsys.readouterr()
    return code, " ".join(f"{written.out} {written.err}".split())


@pytest.mark.parametrize("name", ANSWERS)
def test_a_text_is_answered_rightly(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = answer(TEXTS / f"{name}.txt", capsys)
    assert [words for words in ANSWERS[name] if words not in text] == [], text
    assert code == 0


@pytest.mark.parametrize(("name", "numbers"), [
    ("jaxpr", {"equations": 5, "arguments": 3, "argument_bytes": 4 * (128 * 256 + 256 + 32 * 128)}),
    ("nvidia_smi", {"devices": 2, "used_bytes": 73214 << 20, "limit_bytes": 81559 << 20,
                    "total_used_bytes": (73214 + 61237) << 20}),
    ("lhs_stats", {"exposed_cycles": 1845221, "cycles": 9226105, "peak_bytes": 12884901888}),
    ("tree_shapes", {"arrays": 4, "elements": 784 * 512 + 512 + 512 * 10 + 10, "total_bytes": None}),
    ("tree_dtypes", {"arrays": 2, "elements": 401_920, "total_bytes": 4 * 401_920}),
    ("maxtext_step", {"steps": 3, "seconds": 4.512, "slow_steps": 1, "tflops": 182.412}),
    ("mesh_print", {"devices": 8, "axes": 2}),
    ("visualize", {"devices": 8, "rows": 4, "columns": 2, "copies": 1}),
    ("allclose", {"mismatches": 2, "elements": 1024, "largest_absolute": "7.99", "largest_relative": "0.00990099"}),
])  # fmt: skip
def test_programs_get_the_numbers(name: str, numbers: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(TEXTS / f"{name}.txt"), "--format", "json"], standalone=False) == 0
    found = json.loads(capsys.readouterr().out)["answer"]
    assert {key: value for key, value in found.items() if key != "text"} == numbers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "step 812: fusion.12 wrote bf16[8,128] and f32[4] in 3.5 GiB",
            ("not recognized", "2 shapes, the largest bf16[8,128] (2 KiB)", "the instruction fusion.12", "3.5 GiB"),
        ),
        ("the job needs 12.5 GiB more", ("no HLO found", "Not recognized; the text mentions 12.5 GiB", "hlo memspace")),
        ("why is all-reduce.7 slow?", ("Not recognized; the text mentions the instruction all-reduce.7",)),
    ],
)
def test_what_a_text_mentions_is_shown_next_to_the_error(
    text: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    code, shown = answer(path, capsys)
    assert [each for each in words if each not in shown] == [], shown
    assert code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            (
                'Traceback (most recent call last):\n  File "/w/eval.py", line 7, in run\n    y = fit(x)\n'
                "solver.ShapeProblem.FitError: got (12, 3) for basis of (12, 4)\n"
            ),
            ("got (12, 3) for basis of (12, 4)", "The sizes differ: dimension 1 is 3 and 4", "/w/eval.py:7"),
        ),
        (
            (
                'Traceback (most recent call last):\n  File "/w/eval.py", line 7, in run\n    y = jax.jit(f)(x)\n'
                "jax.errors.SomeNewError: a rule that nobody has seen\n"
            ),
            ("a rule that nobody has seen", "Start at /w/eval.py:7"),
        ),
        ("ValueError: buffer of 12.5 GiB is too large for the pool", ("buffer of 12.5 GiB is too large for the pool",)),
    ],
)
def test_an_unknown_exception_with_sizes_is_answered_in_part(
    text: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    code, shown = answer(path, capsys)
    assert [each for each in words if each not in shown] == [], shown
    assert code == 0


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ("(3, 4), (3, 4)", ""),
        ("(3, 4), (1, 5)", "dimension 1 is 4 and 5"),
        ("(b, 4), (c, 4)", "dimension 0 is b and c"),
        ("(3, 4), (5,)", "dimension -1 is 4 and 5"),
        ("(2, 3), (2, 3), (4, 3)", "dimension 0 is 2 and 4"),
    ],
)
def test_where_sizes_differ(sizes: str, words: str) -> None:
    assert size_difference(sizes) == words


def test_every_rule_has_an_answer_and_a_fix() -> None:
    for _, rule in TRACING_RULES:
        assert rule.violated
        assert rule.fix
        assert rule.rule.endswith(".")


def test_a_print_of_nsight_compute_without_its_kernel_is_no_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Section: GPU Speed Of Light Throughput\n x (64, 1)x(128, 1, 1), Context 1, Stream 7\n")
    assert answer(path, capsys)[0] == 2


DONATING = """HloModule jit_step

ENTRY e {
  s = f32[8,4] parameter(0)
  t = f32[8,4] parameter(1)
  b = s32[16] parameter(2)
  n = f32[3] parameter(3)
  k = bf16[2,2] parameter(4)
  u = f32[8,4] add(s, t)
  c = f32[16] convert(b)
  r = f32[2,8] reshape(c)
  ROOT out = (f32[8,4], f32[16], f32[2,8]) tuple(u, c, r)
}
"""


@pytest.mark.parametrize(
    ("aval", "reason"),
    [
        ("float32[8,4]", "is the type of 2 arguments, but of 1 result only"),
        ("int32[16]", "has the sizes of the result f32[16], which has another type"),
        ("float32[3]", "is like no result (f32[8,4], f32[16], f32[2,8])"),
        ("bfloat16[2,2]", "is like no result"),
        ("float32[5]", "The message names no argument"),
    ],
)
def test_the_program_next_to_a_log_says_why_a_donation_is_not_used(
    aval: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "module_0001.jit_step.before_optimizations.txt").write_text(DONATING)
    path = tmp_path / "job.log"
    path.write_text(f"UserWarning: Some donated buffers were not usable: ShapedArray({aval}).\nSee an explanation\n")
    code, shown = answer(path, capsys)
    assert reason in shown, shown
    assert code == 0


def test_an_operation_profile_of_xprof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fields of xprof's op_profile.proto; times are in picoseconds, and an instruction may be in several programs."""

    def leaf(name: str, time: object, runs: int) -> dict[str, object]:
        return {"name": name, "metrics": {"rawTime": time, "occurrences": runs}, "xla": {"op": name}}

    program = {"name": "jit_step(7)", "children": [leaf("fusion.3", 4.2e9, 10), leaf("dot.1", "900000000", 3)]}
    other = {
        "name": "jit_eval(8)",
        "children": [leaf("fusion.3", 8e8, 2), {"name": "idle", "metrics": {"rawTime": 5e9}}],
    }
    path = tmp_path / "op_profile.json"
    path.write_text(
        json.dumps({"byProgram": {"name": "by_program", "children": [program, other]}, "deviceType": "TPU v5e"})
    )
    for line in ([str(path)], ["profile", str(path)], ["parse", str(path)]):
        assert cli.main([*line, "--format", "screen"], standalone=False) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert shown.startswith("2 instructions, 5.9 ms: fusion.3 12 × 416.7 µs, dot.1 3 × 300.0 µs")


def test_all_of_a_long_text_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Long logs are read in parts; a table or a program is not."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"completed step: {number}, seconds: 4.5, loss: 8.1\n" for number in range(30_000)))
    assert answer(path, capsys)[1].startswith("30,000 steps, 4.5 s at the median")
    lines = "".join(f"    b{number}:f32[8] = add a a\n" for number in range(30_000))
    path.write_text(f"{{ lambda ; a:f32[8]. let\n{lines}  in (a,) }}\n")
    assert answer(path, capsys)[1].startswith("jaxpr of 30,000 equations")


def test_a_negative_size_of_an_allocator_is_no_internal_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("{'bytes_in_use': -7}\n")
    assert answer(path, capsys)[0] in (0, 2)


_NCU = "  k (1, 1, 1)x(1, 1, 1), Context 1, Stream 7\n    Section: S\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{_NCU}    Duration  us   ,\n",
        " 1.0  ,  1,000  5 [CUDA memset]\n",
        " 1.0  5  ,  5 [CUDA memset]\n",
        f"k ({'9' * 5000}, 1, 1)x(1, 1, 1), Context 1\nSection: S\n",
        "Mesh(" + ", ".join(f"'a{at}': 999999999" for at in range(700)) + ")",
        f"{{'a': ({', '.join(['9223372036854775807'] * 32)}), 'b': (3,)}}",
    ],
)
def test_what_only_looks_like_a_number_is_no_internal_error(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    code, shown = answer(path, capsys)
    assert code in (0, 2)
    assert "internal error" not in shown.lower()


@pytest.mark.parametrize(
    ("report", "head", "part", "tail"),
    [
        (program_prints.jaxpr_report, "{ lambda ; a:f32[8]. let\n", "a:b ", ""),
        (program_prints.jaxpr_report, "{ lambda", " ", "!"),
        (program_prints.jaxpr_report, "", "{ lambda ", ""),
        (device_tables.kernel_metrics_report, f"{_NCU}    Abc", " ", "!"),
        (device_tables.kernel_metrics_report, _NCU, "    A b", "  !"),
    ],
)
def test_a_damaged_print_takes_linear_time(
    report: Callable[[PastedText], object], head: str, part: str, tail: str
) -> None:
    def work(size: int) -> Callable[[], object]:
        pasted = PastedText("jaxpr", "-", f"{head}{part * (size // len(part))}{tail}")

        return lambda: report(pasted)

    assert is_linear(work, 10_000, 80_000)


@pytest.mark.parametrize(
    ("memory", "compute", "words"),
    [
        (59, 58, "both are below 60% of their peaks"),
        (70, 58, "bound by memory"),
        (7, 61, "bound by compute"),
    ],
)
def test_what_bounds_a_kernel(
    memory: int, compute: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(
        f"{_NCU}    Memory Throughput    %   {memory}\n    Compute (SM) Throughput  %  {compute}\n    Duration  us  5\n"
    )
    assert words in answer(path, capsys)[1]


@pytest.mark.parametrize(
    ("arguments", "words", "size"),
    [
        ("a:f32[2,4] c:f32[8,16]", "2 arguments (544 B)", 544),
        ("a:f32[2,4] c:f32[8@x,16]", "2 arguments (544 B)", 544),
        ("a:f32[b,4] c:f32[8,16]", "2 arguments (512 B and 1 of unknown size)", None),
        ("a:f32[b,4]", "1 argument (of unknown size)", None),
        ("", "0 arguments:", 0),
    ],
)
def test_a_total_says_what_it_does_not_include(arguments: str, words: str, size: int | None) -> None:
    text = f"{{ lambda ; {arguments}. let d:f32[4] = sin c in (d,) }}"
    report = program_prints.jaxpr_report(PastedText("jaxpr", "-", text))
    assert report is not None
    assert words in report.answer
    assert report.numbers["argument_bytes"] == size


def said(report: Callable[[PastedText], Report | None], text: str) -> str:
    """The answer to a text; nothing if there is none."""
    found = report(PastedText("mentions", "-", text))
    return "" if found is None else found.answer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("completed step: 3, seconds: 1.5e-03, loss: 8", "1 step, 1.5 ms"),
        ("step 100, time: 250 ms", "1 step, 250.0 ms"),
        ("step 100: step_time=250ms", "1 step, 250.0 ms"),
        ("step=1,010, step_time=3.2 s", "1 step, 3.2 s"),
        ("step 3 time=4.5 loss: 8", "1 step, 4.5 s"),
        ("step: 3 time: 09:12:44", ""),
        ("step: 3 time: 4 min", ""),
        ("step: 3 time: 1,024.5 ms", ""),
        ("step: 3, seconds: 4.5\n" * 3 + "step: 4, seconds: 4.5\n", "2 steps, 4.5 s"),
    ],
)
def test_the_time_of_a_step_has_its_unit(text: str, words: str) -> None:
    shown = said(device_tables.step_times_report, text)
    assert shown.startswith(words)
    assert bool(shown) == bool(words)


def test_the_rates_of_a_step_may_have_commas() -> None:
    text = "step: 1, seconds: 4.5, TFLOP/s/device: 1,182.4, Tokens/s/device: 1,024.1, loss: 8"
    report = device_tables.step_times_report(PastedText("step-times", "-", text))
    assert report is not None
    assert tuple(report.tables[0].rows[0]) == (1, 4.5, 1182.4, 1024.1)


BY_TIME = """ ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

 71.3  8123456  412  19717.1  1312.0  480  812345  62123.4  [CUDA memcpy Host-to-Device]
"""
BY_SIZE = """ Total (MB)  Count  Avg (MB)  Med (MB)  Min (MB)  Max (MB)  StdDev (MB)  Operation
 ----------  -----  --------  --------  --------  --------  -----------  ---------
  1,124.000    412     2.728     0.001     0.000    52.429        9.120  [CUDA memcpy Host-to-Device]
     12.000     96     0.500     0.001     0.000    12.429        2.120  [CUDA memcpy Device-to-Host]
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BY_TIME, "412 copies and fills take 8.1 ms"),
        (BY_SIZE, "508 copies and fills have 1.1 GiB"),
        (BY_TIME + BY_SIZE, "412 copies and fills take 8.1 ms"),
        (BY_SIZE + BY_TIME, "412 copies and fills take 8.1 ms"),
    ],
)
def test_times_and_sizes_of_copies_are_not_mixed(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert words in answer(path, capsys)[1]


def test_each_schedule_has_its_statistics() -> None:
    text = "".join(
        f"For computation: {name}, module jit_f\nTotal wasted cycles: {wasted}\nTotal cycles: 100\n"
        for name, wasted in (("body", 7), ("main", 60), ("cond", 0))
    )
    report = device_tables.schedule_statistics_report(PastedText("schedule-statistics", "-", text))
    assert report is not None
    assert report.answer.startswith("3 schedules; the one of main exposes 60 of 100 cycles (60%)")
    assert [tuple(row) for row in report.tables[-1].rows] == [
        (7, 100, None, "body"),
        (60, 100, None, "main"),
        (0, 100, None, "cond"),
    ]


@pytest.mark.parametrize("size", ["60.5", "60"])
def test_the_memory_of_a_container_is_not_that_of_a_gpu(size: str) -> None:
    assert said(device_tables.device_usage_report, f"1f2e  web  0.5%  {size}MiB / 512MiB  11%\n") == ""


def test_memory_is_counted_once() -> None:
    smi = (TEXTS / "nvidia_smi.txt").read_text()
    parts = "| MIG devices: |\n|  0    1   0   0  |   12MiB / 40192MiB  | 42      0 |\n"
    assert said(device_tables.device_usage_report, smi + parts) == said(device_tables.device_usage_report, smi)
    log = (TEXTS / "maxtext_mem.txt").read_text()
    assert said(device_tables.device_usage_report, log + log) == said(device_tables.device_usage_report, log)


def test_a_table_of_devices_with_commas_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.csv"
    path.write_text((TEXTS / "smi_csv.txt").read_text())
    code, shown = answer(path, capsys)
    assert code == 0
    assert "2 GPUs, 0% to 97% busy" in shown

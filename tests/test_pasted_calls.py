"""Errors of calls, libraries, and the system below a program: real wording with numbers of our own, and the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_cli.commands.pasted.answer import _report_of
from hlo_cli.inputs.pasted.envelopes import PastedTextError
from hlo_cli.inputs.pasted.read import read_text
from hlo_cli.ir.compiler_messages import ErrorRule
from hlo_cli.source import HloError
from hlo_cli.syntax.compiler_messages.call_errors import CALL_RULES
from hlo_cli.syntax.compiler_messages.library_errors import LIBRARY_RULES
from hlo_cli.syntax.compiler_messages.native_errors import NATIVE_RULES
from hlo_cli.syntax.compiler_messages.python_errors import PYTHON_RULES
from hlo_cli.syntax.compiler_messages.runtime_errors import RUNTIME_RULES

TEXTS = Path(__file__).parent / "data" / "pasted" / "calls.txt"
"""Texts, each alone as it is pasted, after a line with the first line of the answer."""
ANSWERS = [
    (text, words)
    for words, _, text in (each.partition("\n") for each in TEXTS.read_text(encoding="utf-8").split("=== ")[1:])
]


PRINTS = (
    (
        (
            "ShapeDtypeStruct(shape=(4096, 1024), dtype=bfloat16, sharding=NamedSharding(mesh=Mesh('data': 2, "
            "'model': 4, "
            "axis_types=(Explicit, Explicit)), spec=P('data', 'model'), memory_kind=device))"
        ),
        "Needs 8,388,608 bytes for 4,194,304 bf16 elements, no padding; each device holds bf16[2048,256] (1 MiB) of it",
    ),
    (
        (
            "{'w': ShapeDtypeStruct(shape=(4096, 1024), dtype=bfloat16, sharding=NamedSharding(mesh=Mesh('data': 2, "
            "'model': 4), spec=P('data', 'model'))), 'b': ShapeDtypeStruct(shape=(1024,), dtype=float32, "
            "sharding=NamedSharding(mesh=Mesh('data': 2, 'model': 4), spec=P('model')))}"
        ),
        "2 arrays, 4,195,328 elements (8.0 MiB, 1.0 MiB on each device): the largest is w, 4,194,304",
    ),
    (
        "{'params': {'w': Array([], shape=(0, 4), dtype=float32), 'b': ()}, 'opt': (3,)}",
        "2 arrays, 3 elements (12 B in f32, 6 B in bf16): the largest is opt, 3",
    ),
    (
        (
            "\u250c\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2510\n\u2502CPU 0,1\u2502\n"
            "\u251c\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2524\n\u2502CPU 2,3\u2502\n"
            "\u2514\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2518\n"
        ),
        "4 CPU devices hold 2 × 1 parts of an array, 2 copies of each part",
    ),
    (
        (
            "| NVIDIA-SMI 570.86.10   Driver Version: 570.86.10   CUDA Version: 12.8 |\n"
            "|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |\n"
            "| N/A   44C    P0             11W /  N/A  | Not Supported          |      3%      Default |\n"
            "|   1  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |\n"
            "| N/A   31C    P0             70W /  700W |   74512MiB /  81559MiB |     98%      Default |\n"
        ),
        "2 GPUs, 3% to 98% busy; the fullest, 1, has 72.8 GiB of 79.6 GiB in use (91%); the memory of 0 is unknown",
    ),
    (
        (
            "F0000 00:00:1712345678.123456   77 parse_flags_from_env.cc:234] Unknown flags in LIBTPU_INIT_ARGS: "
            "--xla_tpu_enable_foo=true\n"
        ),
        "--xla_tpu_enable_foo is not a flag of this libtpu; libtpu 0.0.52 does not have it either",
    ),
    (
        "step=1200 loss=2.314 step_time=412.3ms tokens/s=98234\nstep=1201 loss=2.310 step_time=415.1ms\n",
        "2 steps, 412.3 ms at the median",
    ),
    (
        (
            "jax:    0.4.38\njaxlib: 0.4.38\nnumpy:  1.26.4\ndevice info: TPU v4-16, 4 local "
            'devices"\nprocess_count: 4\n'
            "XLA_FLAGS=--xla_force_host_platform_device_count=8\n"
        ),
        "jax 0.4.38, jaxlib 0.4.38, 16 × TPU v4 (4 of them here) in 4 processes",
    ),
    (
        (
            "Not equal to tolerance rtol=1e-05, atol=0\nMismatched elements: 1 / 16 (6.25%)\n"
            "Max absolute difference among violations: 0.5\nNot equal to tolerance rtol=1e-02, atol=0.1\n"
            "Mismatched elements: 9 / 10 (90%)\nMax absolute difference among violations: 7.5\n"
        ),
        (
            "1 of 16 elements differ (6%), at most 0.5 absolute; this is the first of 2 comparisons; in the "
            "others, 9 of 10 "
            "elements differ"
        ),
    ),
    (
        (
            "[[[CpuDevice(id=0) CpuDevice(id=1)]\n  [CpuDevice(id=2) CpuDevice(id=3)]]\n\n [[CpuDevice(id=4) "
            "CpuDevice(id=5)]\n"
            "  [CpuDevice(id=6) CpuDevice(id=7)]]]\n"
        ),
        "8 CPU devices, as an array of 2 × 2 × 2",
    ),
    (
        (
            "[TpuDevice(id=0, process_index=0, coords=(0,0,0), core_on_chip=0), TpuDevice(id=1, process_index=0, "
            "coords=(1,0,0), core_on_chip=0), TpuDevice(id=2, process_index=1, coords=(0,1,0), core_on_chip=0), "
            "TpuDevice(id=3, process_index=1, coords=(1,1,0), core_on_chip=0)]\n"
        ),
        "4 TPU devices in 2 processes (2 each); coordinates 2 × 2 × 1",
    ),
    (
        (
            "GPU  Temp (DieEdge)  AvgPwr  SCLK    Fan  Perf  PwrCap  VRAM%  GPU%\n"
            "0    38.0c           90.0W   132Mhz  0%   auto  750.0W   91%   100%\n"
            "1    36.0c           88.0W   132Mhz  0%   auto  750.0W    0%   0%\n"
        ),
        "2 devices, 0% to 100% busy; the fullest, 0, has 91% of its memory in use",
    ),
    (
        (
            "|                  PyTorch CUDA memory summary, device ID 0                 |\n"
            "|            CUDA OOMs: 1            |        cudaMalloc retries: 3         |\n"
            "| Allocated memory      |  12345 MiB |  70123 MiB | 123456 MiB | 111111 MiB |\n"
            "| GPU reserved memory   |  72000 MiB |  72000 MiB |  72000 MiB |      0 B   |\n"
        ),
        (
            "Tensors of PyTorch use 12.1 GiB (at most 68.5 GiB) of 70.3 GiB that PyTorch has reserved; 1 "
            "out-of-memory error, "
            "3 retries"
        ),
    ),
    (
        (
            "\u2503 path    \u2503 module \u2503 outputs        \u2503 params                  \u2503\n"
            "\u2521\u2501\u2501\u2501\n\u2502         \u2502 M      \u2502 float32[32,10] \u2502                 "
            "        \u2502\n"
            "\u251c\u2500\u2500\n\u2502 Dense_0 \u2502 Dense  \u2502 float32[32,64] \u2502 bias: float32[64]     "
            "  \u2502\n"
            "\u2502         \u2502        \u2502                \u2502 8,256 (33.0 KB)         \u2502\n"
            "\u251c\u2500\u2500\n\u2502 Dense_1 \u2502 Dense  \u2502 float32[32,10] \u2502 650 (2.6 KB)          "
            "  \u2502\n"
            "\u2514\u2500\u2500\n       Total Parameters: 8,906 (35.6 KB)\n"
        ),
        "Model of 8,906 parameters (35.6 KB); Dense_0 has the most, 8,256 (93%)",
    ),
    (
        (
            "Linear( # Param: 40 (160 B)\n  kernel=Param( # 32 (128 B)\n    value=Array(shape=(4, 8), "
            "dtype=dtype('float32'))"
            "\n  ),\n  bias=Param( # 8 (32 B)\n  ),\n)\n"
        ),
        "Model of 40 parameters (160 B); kernel has the most, 32 (80%)",
    ),
    (
        (
            "Layer (type)                Output Shape              Param #\ndense (Dense)               (None, "
            "64)                8256\n"
            "dense_1 (Dense)             (None, 10)                650\nTotal params: 8,906 (34.79 KB)\n"
        ),
        "Model of 8,906 parameters (34.79 KB); dense (Dense) has the most, 8,256 (93%)",
    ),
)
"""Prints, tables, and logs, with the answer and its first note."""


@pytest.mark.parametrize(("text", "words"), PRINTS)
def test_a_print_is_answered_with_its_numbers(text: str, words: str) -> None:
    with pytest.raises(PastedTextError) as caught:
        read_text(text, "-")
    report = _report_of(caught.value.pasted)
    assert "; ".join((report.answer, *(note.message for note in report.notes))).startswith(words)


def answer_to(text: str) -> str:
    with pytest.raises(PastedTextError) as caught:
        read_text(text, "-")
    return _report_of(caught.value.pasted).answer


@pytest.mark.parametrize(("text", "words"), ANSWERS)
def test_an_error_is_answered_with_its_numbers(text: str, words: str) -> None:
    assert answer_to(text) == words


def test_lines_may_be_wrapped_after_a_traceback() -> None:
    text, words = ANSWERS[0]
    wrapped = text.replace("ndim to", "ndim\n  to")
    assert answer_to(f'Traceback (most recent call last):\n  File "/a/jax/b.py", line 3, in f\n{wrapped}\n') == words


@pytest.mark.parametrize(
    "text",
    [
        'declare -x XLA_FLAGS="--xla_gpu_autotune_level=2 --xla_dump_to=/d"',
        "environ({'XLA_FLAGS': '--xla_gpu_autotune_level=2 --xla_dump_to=/d', 'CUDA_VISIBLE_DEVICES': '0'})",
        'env:\n- name: XLA_FLAGS\n  value: "--xla_gpu_autotune_level=2 --xla_dump_to=/d"\n- name: A\n  value: b\n',
    ],
)
def test_flags_are_read_where_variables_are_listed(text: str) -> None:
    assert answer_to(text) == "2 of 2 flags are not the default: --xla_gpu_autotune_level, --xla_dump_to"


@pytest.mark.parametrize("rules", [CALL_RULES, NATIVE_RULES, PYTHON_RULES, LIBRARY_RULES, RUNTIME_RULES])
def test_every_rule_says_what_to_do(rules: tuple[tuple[str, ErrorRule], ...]) -> None:
    assert all(rule.violated for _, rule in rules)
    assert all(rule.fix for _, rule in rules)


@pytest.mark.parametrize("words", ["loading libdevice took 3 s", "shapes of x and y (mismatch)", "Gloo is installed"])
def test_words_alone_are_no_error(words: str) -> None:
    with pytest.raises(HloError) as caught:
        read_text(f"log: {words}", "-")
    if isinstance(caught.value, PastedTextError):
        pasted = caught.value.pasted
        with pytest.raises(HloError, match="no HLO found"):
            _report_of(pasted)

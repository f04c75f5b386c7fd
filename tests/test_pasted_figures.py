"""Are figures without a known form answered by what follows from them, and only by that?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from hlo_cli.commands.pasted.figures import figures_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from timing import is_linear


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "| t | shape | dtype |\n|---|---|---|\n| q | (8, 16) | bfloat16 |\n| e | (4, 4) | float64 |",
            "2 arrays, 384 B: ",
        ),
        (
            "k shape=(3, 5), dtype=float32\nv shape=(3, 5), dtype=float32",
            "2 arrays, 120 B: the largest is k f32[3,5], 60 B",
        ),
        ("torch.Size([2, 8, 4]) torch.float16", "1 array, 128 B: f16[2,8,4]"),
        (
            "step=1 mem=10GiB/16GiB\nstep=2 mem=12GiB/16GiB",
            "mem is at most 12 GiB of 16 GiB (75%), 4 GiB free; 2 values",
        ),
        ("HBM: 33 of 32 GiB", "HBM is 33 GiB of 32 GiB (103%), 1 GiB over"),
        (
            "part,bytes\nweights,300\ngrads,100",
            "A table of 2 rows: the largest by bytes is weights, 300, 75% of the sum",
        ),
        ("mesh:\n  data: 2\n  model: 4", "A mesh of 8 devices: data 2, model 4"),
        (
            "ici_fsdp_parallelism: -1\nici_tensor_parallelism: 4\ndcn_data_parallelism: 2",
            "A mesh of a multiple of 8 devices; ici_fsdp_parallelism takes the rest",
        ),
        ("a model with 2B parameters in bf16", "2B parameters need 3.7 GiB in bf16"),
        ("{'params': '2 GiB', 'opt': '4 GiB'}", "2 sizes: params 2 GiB, opt 4 GiB; the largest is opt"),
        ("step: 10 loss: 3.5 lr: 0.1\nstep: 20 loss: 2.5 lr: 0.1", "2 lines, step 10 to 20: loss 3.5 → 2.5"),
    ],
)
def test_figures_are_answered_by_what_follows(text: str, answer: str) -> None:
    report = figures_report(PastedText("mentions", "-", text))
    assert report is not None
    assert report.answer.startswith(answer)


@pytest.mark.parametrize(
    "text",
    [
        "batch_size=32 seq_len=4096 hidden=8192 heads=64",  # a product of settings means nothing
        "(3, 4) and (5, 6) of float32",
        "the version is (1, 2)",
        "data: 8\nmodel: 4",  # axes of nothing that is named
        "Namespace(batch=8, lr=0.0003, layers=32)",
        "a, b, c\n1, 2, 3",
        "7B people in 2020",
        "we have 3 hosts with 16 GB each and 2 with 32 GB",
        "epoch 1 loss 0.3\nx shape (2, 2) float32\nepoch 2 loss 0.2",  # one shape in a log
        "INFO:root:started\nINFO:root:batch (8, 128) float32\nINFO:root:done",
        "hello (2, 2) float32 world",
    ],
)
def test_numbers_without_a_meaning_stay_alone(text: str) -> None:
    assert figures_report(PastedText("mentions", "-", text)) is None


@pytest.mark.parametrize("piece", ["a=1GiB/", "mesh: a: 1, ", "(1, 2) f32 ", "key=1 ", "x,1,", "1B a a ", "[1, 2, 3"])
def test_figures_take_linear_time(piece: str) -> None:
    def work(count: int) -> Callable[[], object]:
        return partial(figures_report, PastedText("mentions", "-", piece * count))

    assert is_linear(work, 500, 4000)

"""Are prints of arrays, shards, layouts, stacks, metrics, caches, and steps answered with their numbers?

The forms are those of jax 0.10.2, py-spy 0.4, CPython's faulthandler, DCGM, vLLM 0.9, and of training loops.
"""

from __future__ import annotations

import pytest

from hlo_cli.commands.pasted.answer import _report_of
from hlo_cli.commands.prints.runtime_prints import _sizes_of
from hlo_cli.inputs.pasted.envelopes import PastedTextError
from hlo_cli.inputs.pasted.read import read_text

SHARDS = (
    "[Shard(device=CpuDevice(id=0), index=(slice(0, 4, None), slice(None, None, None)), replica_id=0, data=[[0. 1.]]), "
    "Shard(device=CpuDevice(id=1), index=(slice(4, 8, None), slice(None, None, None)), replica_id=0, data=[[2. 3.]])]"
)
PYSPY = """Process 88: python train.py
Python v3.11.8 (/usr/bin/python3.11)

Thread 88 (idle): "MainThread"
    _value (jax/_src/array.py:620)
    log_metrics (train/loop.py:144)
    main (train.py:61)
Thread 89 (active): "loader-0"
    _decode (data/pipeline.py:88)
"""
FAULT = """Current thread 0x00007f1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/home/me/train.py", line 12 in main
"""
DCGM = """#Entity   SMACT  TENSO  DRAMA
ID
GPU 0     0.900  0.400  0.600
GPU 1     0.300  0.100  0.200
GPU 0     0.700  0.200  0.400
"""
TABLE = """  Time (%)  Total Time (ns)  Num Calls   Avg (ns)           Name
 --------  ---------------  ---------  ----------  ---------------------
     75.0    3,000,000,000        300  10,000,000  cudaStreamSynchronize
     25.0    1,000,000,000      1,000   1,000,000  cudaLaunchKernel
"""


def answer(text: str) -> str:
    """The first sentence of the answer to a text."""
    with pytest.raises(PastedTextError) as caught:
        read_text(text, "-")
    return str(_report_of(caught.value.pasted).answer)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[Array([[0., 0.], [0., 0.]], dtype=float32), Array([1, 2, 3], dtype=int32)]", "2 arrays, 28 B"),
        (
            (
                "TrainState(step=Array(0, dtype=int32), params={'w': {'b': Array([1., 2.], dtype=bfloat16)}}, tx=<f at "
                "0x7>)"
            ),
            "2 arrays, 8 B; the largest is step s32[]",
        ),
        (
            "{'a': Array([[0., 0.],\n       ...,\n       [0., 0.]], dtype=float32), 'b': Array(2, dtype=int32)}",
            "2 arrays, 4 B and 1 array of unknown size",
        ),
        (SHARDS, "2 shards of an array: dimension 0 in 2 parts of 4, dimension 1 whole; no part twice"),
        (SHARDS.replace("slice(4, 8,", "slice(0, 4,"), "dimension 0 whole, dimension 1 whole; 2 copies of each part"),
        (
            "Format(layout=Layout(major_to_minor=(1, 0, 2), tiling=((8, 128), (2, 1))), sharding=S(spec=P('x',)))",
            "XLA's layout {2,0,1:T(8,128)(2,1)}: 3 dimensions",
        ),
        (PYSPY, "MainThread copies an array to the host when the device is done in _value at train/loop.py:144"),
        (FAULT, "waits until another thread is done in wait at /home/me/train.py:12"),
        (DCGM, "2 GPUs: multiprocessors active 30 to 80%, tensor cores active 10 to 30%"),
        (DCGM, "the least busy is GPU 1"),
        (TABLE, "2 functions, 4.0 s: cudaStreamSynchronize 300 × 10.0 ms"),
        (
            (
                "INFO GPU KV cache size: 311,248 tokens\nINFO Maximum concurrency for 32,768 tokens per request: 9.50x\n"
                "INFO Available KV cache memory: 37.99 GiB\n"
            ),
            "KV cache of 38.0 GiB for 311,248 tokens (128.0 KiB a token), 9.5 requests of 32,768 tokens at once",
        ),
        ("step 7/9 | loss 2.9 | 812.4 ms/it | 161,327 tok/s\nstep 8/9 | loss 2.9 | 810 ms/it", "2 steps, 810.0 ms"),
        (
            "Epoch 3: 12%| 122/1000 [01:42<12:15, 2.00it/s]\nEpoch 3: 13%| 130/1000 [01:49<12:10, 2.00it/s]",
            "2 steps, 500.0 ms",
        ),
        ("Iteration 10: loss 2.5, 4.0 it/s\nIteration 20: loss 2.4, 2.0 it/s\n", "2 steps, 250.0 ms at the median"),
        ('{"step": 1, "step_time_ms": 500}\n{"step": 2, "step_time_ms": 510}\n', "2 steps, 500.0 ms at the median"),
    ],
)
def test_prints_are_answered_with_their_numbers(text: str, words: str) -> None:
    assert words in " ".join(answer(text).split())


@pytest.mark.parametrize(
    ("content", "sizes"),
    [
        ("[[[1, 2], [3, 4], [5, 6]]], dtype=int32", (1, 3, 2)),
        ("[1., 2.], dtype=float32", (2,)),
        ("-1.5, dtype=float32", ()),
        ("[], dtype=float32", (0,)),
    ],
)
def test_sizes_of_printed_values(content: str, sizes: tuple[int, ...]) -> None:
    assert _sizes_of(content) == sizes

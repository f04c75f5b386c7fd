"""What holds for every test: a limit to its time, how hard Hypothesis looks for what breaks it, and what is garbage."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import settings

from share import long_first

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for jobs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests of Ctrl-C start programs, which inherit it

SLOW_SECONDS = 900
"""What a test may take that says of itself that it is slow, or that asks XLA; pyproject.toml has the limit of others."""

LONG_SECONDS = 3600
"""What a test may take that compiles many programs, on a busy machine."""

collect_ignore = [
    *("advice_of_collectives.py", "advice_of_fusions.py", "advice_of_layouts.py", "advice_of_memory.py"),
    *("advice_of_types.py", "advice_programs.py", "peak_programs.py", "shard_in_jax.py", "shard_programs.py"),
    *("devices_in_jax.py", "evaluation_in_xla.py", "gpu_compiling.py", "gpu_programs.py", "gpu_statistics.py"),
    *("jax_objects.py", "running_notebooks.py", "memory_programs.py"),
]
"""What is written in jax or runs notebooks, in processes of their own."""

settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=100, deadline=None, derandomize="CI" in os.environ)
settings.load_profile("quick")  # --hypothesis-profile says otherwise

gc.disable()  # until all tests are collected: they stay to the end


@pytest.hookimpl(trylast=True)  # of the tests that are selected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give those a longer time that need it, and begin with them if there are several processes."""
    marks = {item: {mark.name for mark in item.iter_markers()} for item in items}
    for item in items:
        if "timeout" in marks[item]:
            continue
        if "long" in marks[item]:
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))
        elif marks[item] & {"slow", "oracle"}:
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))
    processes = int(getattr(config, "workerinput", {}).get("workercount", 1))
    if processes > 1:
        items[:] = long_first(items, lambda item: "slow" in marks[item], processes)


def pytest_collection_finish() -> None:
    """Leave all modules and tests out of later garbage collections."""
    gc.freeze()
    gc.enable()
    gc.get_freeze_count = lambda: 1  # it counts them one by one, and `no_garbage_collection` asks often

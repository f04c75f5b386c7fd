"""What holds for every test: a limit to its time, and how hard Hypothesis looks for what breaks it."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

SLOW_SECONDS = 900
"""What a test may take that says of itself that it is slow, or that asks XLA; pyproject.toml has the limit of others."""

LONG_SECONDS = 3600
"""What a test may take that compiles many programs, on a busy machine."""

collect_ignore = [
    *("advice_of_collectives.py", "advice_of_fusions.py", "advice_of_layouts.py", "advice_of_memory.py"),
    *("advice_of_types.py", "advice_programs.py", "peak_programs.py", "shard_in_jax.py", "shard_programs.py"),
    "tpu_programs.py",
]
"""What is written in jax, and run by processes of their own."""

settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=100, deadline=None, derandomize="CI" in os.environ)
settings.load_profile("quick")  # --hypothesis-profile says otherwise


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give those a longer time that need it."""
    for item in items:
        if item.get_closest_marker("timeout") is not None:
            continue
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))
        elif any(item.get_closest_marker(name) for name in ("slow", "oracle")):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))

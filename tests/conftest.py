"""What holds for every test: limits to its time, how hard Hypothesis looks for what breaks it, and what is garbage.

A test is limited by its processor time, which a busy machine does not change. The clock on the wall only ends what
hangs or waits for other processes, and has thirty times as long.
"""

from __future__ import annotations

import ctypes
import doctest
import gc
import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import _lru_cache_wrapper
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from dumps import FIXTURES, Dump
from parsed import forget_trees
from share import long_first

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for jobs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests of Ctrl-C start programs, which inherit it

os.environ["HLO_CACHE"] = "0"  # a test that starts `hlo` asks this tree, not an answer that was kept

SLOW_SECONDS = 900
"""What a test may take that says of itself that it is slow, or that asks XLA; pyproject.toml has the limit of others."""

LONG_SECONDS = 3600
"""What a test may take that compiles many programs."""

ON_THE_WALL: Final = 30
"""Seconds on the wall for one of the processor: a machine with eight times as many processes as cores gave a twelfth."""

MOST_ON_THE_WALL: Final = 7200
"""Seconds on the wall for tests with much processor time, unless it alone is more."""

_TRIM: Final = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
"""Returns free memory to the system, which glibc keeps otherwise."""

MANY_DUMPS: Final = 30
"""Dumps to which a law is held, of which `make test` takes a third; a law on few dumps chose them for a reason."""

GOLDEN: Final = FIXTURES / "golden"

LIMIT: Final = pytest.StashKey[float]()
"""The processor time of a test in seconds."""

collect_ignore = [
    *("advice_of_collectives.py", "advice_of_fusions.py", "advice_of_layouts.py", "advice_of_memory.py"),
    *("advice_of_types.py", "advice_programs.py", "peak_programs.py", "shard_in_jax.py", "shard_programs.py"),
    *("devices_in_jax.py", "evaluation_in_xla.py", "gpu_compiling.py", "gpu_programs.py", "gpu_statistics.py"),
    *("jax_objects.py", "running_notebooks.py", "memory_programs.py", "user_programs.py", "reduced_in_xla.py", "data"),
    *("kernel_programs.py", "kernel_recipes.py", "hunt_programs.py"),
    "make_environment_table.py",
    "planted_executions.py",
    "planted_steps.py",
]
"""What is written in jax or runs notebooks, in processes of their own; `data` has scripts, too."""

settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=100, deadline=None, derandomize="CI" in os.environ)
settings.load_profile("quick")  # --hypothesis-profile says otherwise

gc.disable()  # until all tests are collected: they stay to the end

# --- what is collected, and in how little time ---

_EXAMPLE: Final = ">>>"
"""What every example of a docstring begins with."""

_find_examples = doctest.DocTestFinder._get_test  # type: ignore[attr-defined]


def _find_examples_if_any(finder: doctest.DocTestFinder, documented: object, *rest: object) -> doctest.DocTest | None:
    """The examples of a docstring: only where there are some is the line looked for, half the time of all."""
    text = documented if isinstance(documented, str) else getattr(documented, "__doc__", None)
    if text is None or (isinstance(text, str) and _EXAMPLE not in text):
        return None
    found: doctest.DocTest | None = _find_examples(finder, documented, *rest)
    return found


doctest.DocTestFinder._get_test = _find_examples_if_any  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leaves out the examples of files that have none, which would be imported and searched for them."""
    found = yield
    if found and file_path.suffix == ".py" and _EXAMPLE.encode() not in file_path.read_bytes():
        return [each for each in found if not isinstance(each, DoctestModule)]
    return found


def pytest_collection(session: pytest.Session) -> None:
    """Begins, in each of several processes, with another part of the tests where all are collected.

    All tests are rewritten and compiled in a fresh clone, for as long as everything else takes: each process does its
    part, and finds those of the others done.
    """
    if settings.get_current_profile_name() == "quick":
        # Hypothesis would read all of our code, for numbers to try in a twentieth of its examples: that is a third of
        # the time of collecting, and makes the few examples of `make test` others after each change.
        providers._get_local_constants = lambda: providers._local_constants
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
    number, processes = int(worker["workerid"].removeprefix("gw")), int(worker["workercount"])
    first = len(names) * number // processes
    for name in names[first:] + names[:first]:
        with suppress(Exception, pytest.skip.Exception):  # it is raised again where the file is collected
            import_module(name)


class _EveryThirdDump:
    """Makes laws that are held to all dumps slow for two thirds of these; which ones, differs from law to law."""

    @pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Marks the tests."""
        cases: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
            if any(map(_is_dump, params.values())):
                others = [repr(value) for value in params.values() if not _is_dump(value)]
                cases[" ".join((item.nodeid.partition("[")[0], *others))].append(item)
        for number, several in enumerate(cases.values()):
            for at, item in enumerate(several if len(several) >= MANY_DUMPS else ()):
                if (at + number) % 3:
                    item.add_marker(pytest.mark.slow)


def _is_dump(value: object) -> bool:
    return isinstance(value, Dump) or (
        isinstance(value, Path) and FIXTURES in value.parents and GOLDEN not in value.parents
    )


def pytest_configure(config: pytest.Config) -> None:
    """Adds a part with a hook of its own; processes of tests tell the one that prints what it prints, and no more."""
    config.pluginmanager.register(_EveryThirdDump())
    if hasattr(config, "workerinput") and not config.getoption("xmlpath", None):
        for plugin in config.pluginmanager.get_plugins():
            if type(plugin).__name__ == "WorkerInteractor":
                plugin.sendevent = _without_what_nobody_reads(plugin.sendevent)


def _without_what_nobody_reads(send: Callable[..., None]) -> Callable[..., None]:
    """Of six messages that pytest-xdist sends for a test, three; the others are a sixth of the time of quick tests."""

    def send_some(name: str, **details: Any) -> None:
        report = details.get("data", {})
        is_dull = name == "testreport" and report["when"] != "call" and report["outcome"] == "passed"
        if name not in ("logstart", "logfinish") and not (is_dull and report["duration"] < 0.005):
            if name == "testreport" and report["outcome"] == "passed":
                report["keywords"] = {}  # half of the message, and only hooks for failures would read them
            send(name, **details)

    return send_some


@pytest.hookimpl(trylast=True)  # of the tests that are selected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give those a longer time that need it, and begin with them if there are several processes."""
    marks = {item: {mark.name for mark in item.iter_markers()} for item in items}
    usual = float(config.getini("timeout") or 0)
    for item in items:
        item.stash[LIMIT] = limit = _limit_of(item, marks[item], usual)
        item.add_marker(pytest.mark.timeout(max(min(ON_THE_WALL * limit, MOST_ON_THE_WALL), limit)), append=False)
    processes = int(getattr(config, "workerinput", {}).get("workercount", 1))
    if processes > 1:
        items[:] = long_first(items, lambda item: "slow" in marks[item], processes)
    items.sort(key=lambda item: not _reads_code(item))


def _reads_code(item: pytest.Item | None) -> bool:
    """Whether a test reads the code of the package: these follow each other, as its syntax trees are made once."""
    return item is not None and item.get_closest_marker("code") is not None


def _limit_of(item: pytest.Item, marks: set[str], usual: float) -> float:
    """The processor time of a test in seconds: its own `timeout`, or that of its kind."""
    own = item.get_closest_marker("timeout")
    if own is not None:
        return float(own.args[0] if own.args else own.kwargs["timeout"])
    if "long" in marks:
        return LONG_SECONDS
    return SLOW_SECONDS if marks & {"slow", "oracle"} else usual


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Ends a test that has used up its processor time; that of processes which it starts has limits of its own."""
    limit = item.stash.get(LIMIT, 0)
    if not limit or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return (yield)

    def stop(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"took more than {limit:g} seconds of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def pytest_collection_finish() -> None:
    """Leave all modules and tests out of later garbage collections."""
    gc.freeze()
    gc.enable()
    gc.get_freeze_count = lambda: 1  # it counts them one by one, and `no_garbage_collection` asks often


@pytest.fixture(scope="module")
def modules_kept() -> Iterator[None]:
    """Lets all tests of a file read each text once; for files that ask about the dumps in `fixtures/` as they are."""
    from in_process import modules_kept

    with modules_kept():
        yield


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Forgets what a file of tests has remembered, and leaves what else is there out of later garbage collections.

    Each collection, and each process that a test starts as a copy of this one, would take its time for what others left:
    a tenth of a second for a gigabyte.
    """
    if not isinstance(item, pytest.Function) or (nextitem is not None and nextitem.path == item.path):
        return  # examples leave little
    for cached in _caches_of(item.module):
        cached.cache_clear()
    for name, part in list(sys.modules.items()):
        for cached in _caches_of(part) if name.startswith("hlo_cli.") else ():
            if cached.cache_parameters()["maxsize"] is not None:  # the others hold tables, once for all
                cached.cache_clear()
    if not _reads_code(nextitem):
        forget_trees()
    gc.collect()
    gc.freeze()
    if _TRIM is not None:
        _TRIM(0)


def _caches_of(module: ModuleType) -> list[Any]:
    """The functions of a module that remember their results."""
    found = (value for value in vars(module).values() if isinstance(value, _lru_cache_wrapper))
    return [value for value in found if value.__module__ == module.__name__]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Lets a process of pytest-xdist end in peace: execnet interrupts it if that takes more than five seconds."""
    if hasattr(session.config, "workerinput"):
        gc.disable()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)

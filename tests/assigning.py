"""What XLA's CPU compiler says of the memory of modules exactly as they stand, in the order of their text.

The text takes the place of another module with the same parameters and results behind the compiler's scheduler, as in
`running.py`. What it writes about buffers is there even where it cannot generate code, or ends its process over that:
then the next text gets a new one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from running import STUB

_COMPILE = (
    """
import os, signal, sys
import jax
from jax._src.lib import _jax
from jaxlib import _hlo, _xla
"""
    + STUB
    + """
def compile_texts():
    client = jax.devices("cpu")[0].client
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    for line in sys.stdin:
        place = line.strip()
        given = None
        try:
            with open(place + "/given.txt") as file:
                module = _hlo.hlo_module_from_text(file.read())
            given = module.as_serialized_hlo_module_proto()
            settings = _jax.CompileOptions()
            settings.env_option_overrides = [("xla_dump_to", place), ("xla_dump_hlo_as_text", True), ("xla_backend_optimization_level", 0)]
            _xla.register_xla_transform("inject", 1, lambda ignored: given)
            small, _ = stub(module)
            translated = _jax.mlir.hlo_to_stablehlo(small.as_serialized_hlo_module_proto())
            client.compile_and_load(translated, devices, settings)
        except Exception as error:
            with open(place + "/error.txt", "w") as file:
                file.write(str(error))
        finally:
            if given is not None:
                _xla.clear_xla_transform("inject", 1)
        print("done", flush=True)

for _ in range(1000):  # a process for each text that ends one, and not for ever if none of them starts
    child = os.fork()
    if child == 0:
        unread, messages = os.pipe()  # a process that XLA ends does not write where it was
        os.close(unread)
        os.dup2(messages, 2)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        compile_texts()
        os._exit(0)
    if not os.waitpid(child, 0)[1]:
        break
    print("ended", flush=True)
os._exit(0)  # the threads of jaxlib can wait for each other for ever while Python ends
"""
)


@dataclass(frozen=True)
class Answer:
    """The module as XLA prints it, what it wrote beside that, by kind, and what it said was wrong."""

    text: str
    files: dict[str, str]
    error: str

    def sibling(self, kind: str) -> str:
        """The text of a file about the module, such as `buffer-assignment`."""
        return self.files[kind]


def assigned(texts: Iterable[str]) -> Iterator[Answer | None]:
    """The answer to each text; None for one whose process ended before its buffers were assigned."""
    pytest.importorskip("jaxlib._hlo")
    pytest.importorskip("jax")
    process = _started()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for text in texts:
            with tempfile.TemporaryDirectory() as place:
                (Path(place) / "given.txt").write_text(text)
                process.stdin.write(f"{place}\n")
                process.stdin.flush()
                assert process.stdout.readline(), "the process that starts others ended"
                yield _answer(Path(place))
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=60)


def _started() -> subprocess.Popen[str]:
    quiet = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen(
        [sys.executable, "-c", _COMPILE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **quiet},
    )


def _answer(place: Path) -> Answer | None:
    stem = "cpu_after_optimizations"
    found = {path.name.rpartition(stem)[2].strip("-"): path.read_text() for path in place.glob(f"*{stem}*.txt")}
    files = {name.removesuffix(".txt"): text for name, text in found.items() if name != ".txt"}
    error = place / "error.txt"
    said = error.read_text() if error.exists() else ""
    if not said and "buffer-assignment" not in files:
        return None
    return Answer(found.get(".txt", ""), files, said)

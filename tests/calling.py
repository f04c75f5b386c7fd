"""Functions behind custom calls, compiled from the C that is printed for them, and called: by us and by XLA."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from ctypes import CDLL, c_void_p, cast
from pathlib import Path

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.custom_calls.call import YOUR_CODE, custom_calls_of, source_of

_RUN = """
import ctypes, sys
import jax, numpy
from jax._src.lib import _jax
from jaxlib import _hlo

library, name, typed, *sizes = sys.argv[1:]
function = jax.ffi.pycapsule(getattr(ctypes.CDLL(library), name))
jax.ffi.register_ffi_target(name, function, platform="cpu", api_version=int(typed))
module = _hlo.hlo_module_from_text(sys.stdin.read())
client = jax.devices("cpu")[0].client
devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
translated = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
program = client.compile_and_load(translated, devices, _jax.CompileOptions())
inputs = [jax.device_put(numpy.full(int(size), n + 1, numpy.float32)) for n, size in enumerate(sizes)]
arrays = program.execute_sharded(inputs).disassemble_into_single_device_arrays()
print(float(numpy.asarray(arrays[0][0]).ravel()[0]))
"""


def source_for(text: str, code: str = "") -> str:
    """The C for the custom calls of a module, with a function's work written into it."""
    return "".join(f"{line}\n" for line in source_of(custom_calls_of(parse_module(text)))).replace(YOUR_CODE, code)


def compiled(source: str, folder: Path, *flags: str, language: str = "c") -> Path:
    """A shared library of the source; a warning is an error, except in XLA's own header."""
    compiler = shutil.which("gcc" if language == "c" else "g++") or pytest.skip("there is no compiler")
    library = folder / f"library{len(list(folder.iterdir()))}.so"
    standard = ["-std=c11", "-pedantic"] if language == "c" else ["-std=c++17", "-isystem", _header_folder()]
    options = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *standard, *flags]
    command = [compiler, "-x", language, *options, "-o", str(library), "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return library


def called(library: Path, name: str, *arguments: c_void_p | int | None) -> None:
    """Call a function that gives nothing back."""
    function = CDLL(str(library))[name]
    function.restype = None
    function(*arguments)


def table(*pointers: object) -> c_void_p:
    """An array of pointers, as tuples are in memory; it lives as long as what is returned."""
    array = (c_void_p * len(pointers))(*(cast(each, c_void_p) for each in pointers))  # type: ignore[arg-type]
    pointer = cast(array, c_void_p)
    pointer.kept = array, pointers  # type: ignore[attr-defined]
    return pointer


def answered_by_xla(text: str, library: Path, name: str, sizes: tuple[int, ...], *, typed: bool) -> float:
    """The first number that XLA:CPU computes where the module's inputs are all 1, all 2 and so on."""
    pytest.importorskip("jaxlib._hlo")
    pytest.importorskip("jax")
    asked = subprocess.run(
        [sys.executable, "-c", _RUN, str(library), name, str(int(typed)), *map(str, sizes)],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert not asked.returncode, asked.stderr[-2000:]
    return float(asked.stdout.splitlines()[-1])


def _header_folder() -> str:
    jaxlib = pytest.importorskip("jaxlib")
    return str(Path(jaxlib.__file__).parent / "include")

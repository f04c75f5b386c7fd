"""Empty libraries in the place of ROCm's, with which JAX's ROCm plugin compiles without a GPU and without ROCm.

The plugin (package jax-rocm7-pjrt) is linked with libraries of ROCm that are not on package indexes. Compiling ahead of
time for a target calls next to nothing of them: here every function reports that there is no GPU.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_PREFIXES = {
    "librocprofiler-sdk": r"rocprofiler_",
    "librccl": r"nccl",
    "libhipblaslt": r"hipblasLt|_ZNK?13hipblaslt",
    "libhipfft": r"hipfft",
    "libMIOpen": r"miopen",
    "librocblas": r"rocblas_",
    "librocm_smi64": r"rsmi_",
    "libamdhip64": r"hip|__hip",
}
"""Names of the functions of each library; the first that fits has a function."""
_TEXTS = re.compile(r"String|status_string|GetLastError$")
_WITH_RESULTS = {
    "__hipRegisterFatBinary": "void* F(void) { return buffer; }",
    "hipGetDeviceCount": "int F(int* count) { *count = 0; return 100; }",
    "hipGetLastError": "int F(void) { return 0; }",
    "hipInit": "int F(void) { return 0; }",
    "hipDriverGetVersion": "int F(int* version) { *version = 70253211; return 0; }",
    "hipRuntimeGetVersion": "int F(int* version) { *version = 70253211; return 0; }",
}


def make_stubs(plugin: Path, folder: Path) -> None:
    """Writes the libraries that a plugin needs, for `LD_LIBRARY_PATH`; requires gcc and binutils."""
    needed = re.findall(r"Shared library: \[(.*?)\]", _output("readelf", "-d", str(plugin)))
    symbols = re.findall(r"(?m)^\s+U (\w+)(?:@+(\S+))?$", _output("nm", "-D", "--undefined-only", str(plugin)))
    folder.mkdir(parents=True, exist_ok=True)
    for name, pattern in _PREFIXES.items():
        found = [(symbol, version) for symbol, version in symbols if re.match(pattern, symbol)]
        symbols = [each for each in symbols if each not in found]
        library = next(each for each in needed if each.startswith(f"{name}."))
        source, versions = folder / f"{name}.c", folder / f"{name}.map"
        source.write_text("\n".join(["static char buffer[4096];", *(_stub(symbol) for symbol, _ in found)]))
        names: dict[str, list[str]] = {}
        for symbol, version in found:
            names.setdefault(version, []).append(symbol)
        names.pop("", None)
        versions.write_text(
            "".join(f"{version} {{ global: {'; '.join(each)}; }};\n" for version, each in names.items())
        )
        options = [f"-Wl,--version-script={versions}"] if names else []
        command = ["gcc", "-shared", "-fPIC", "-w", *options, f"-Wl,-soname,{library}", "-o", str(folder / library)]
        subprocess.run([*command, str(source)], check=True)


def _stub(name: str) -> str:
    if (known := _WITH_RESULTS.get(name)) is not None:
        return known.replace("F", name)
    if _TEXTS.search(name):
        return f'const char* {name}(void) {{ return "no GPU"; }}'
    result = 0 if name.startswith(("rocprofiler", "__hip", "_Z")) else 100  # hipErrorNoDevice
    return f"long {name}(void) {{ return {result}; }}"


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

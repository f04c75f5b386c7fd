"""Programs of frameworks, by objects with the methods of theirs; tests/test_from_jax.py has the real ones of JAX."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import hlo_cli
from dumps import FIXTURES

DUMP = FIXTURES / "tpu/v5p_scan/after_optimizations.txt"
SMALL = "HloModule small\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n"
LARGE = "HloModule large\n\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT n = f32[2] negate(p)\n}\n"
TORCH = "IR {\n  %0 = f32[] prim::Constant(), xla_shape=f32[], value=1\n}\n"


def proto_of(text: str) -> bytes:
    return hlo_cli.module_to_bytes(hlo_cli.parse_module(text))


class Proto:
    """An `HloModule` or an `XlaComputation`."""

    def __init__(self, text: str) -> None:
        self.text = text

    def as_serialized_hlo_module_proto(self) -> bytes:
        return proto_of(self.text)


class Executable:
    """A `LoadedExecutable`, perhaps of a runtime that does not keep its modules."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def hlo_modules(self) -> list[Proto]:
        if not self.texts:
            raise RuntimeError("UNIMPLEMENTED")
        return [Proto(text) for text in self.texts]


class Compiled:
    def __init__(self, executable: object, text: str | None) -> None:
        self.executable, self.text = executable, text

    def runtime_executable(self) -> object:
        return self.executable

    def as_text(self) -> str | None:
        return self.text


class Lowered:
    def compile(self) -> Compiled:
        return Compiled(Executable(LARGE), None)

    def compiler_ir(self, dialect: str) -> Proto:
        assert dialect == "hlo"
        return Proto(SMALL)


class Jitted:
    """A jitted function of one argument."""

    __name__ = "step"

    def __call__(self, x: object) -> object:
        raise AssertionError("executed")

    def lower(self, x: object) -> Lowered:
        assert x == "x"
        return Lowered()


class TensorFlow:
    """A `tf.function`, which returns a function of the stage."""

    def experimental_get_compiler_ir(self, *args: object) -> Callable[..., bytes | str]:
        assert args == ("x",)

        def compiler_ir_generator(stage: str = "hlo") -> bytes | str:
            return {"optimized_hlo_serialized": proto_of(LARGE), "hlo_serialized": proto_of(SMALL)}[stage]

        return compiler_ir_generator


@pytest.mark.parametrize(
    ("x", "arguments", "optimized", "lowered"),
    [
        (Jitted(), ("x",), "large", "small"),
        (partial(Jitted(), "x"), (), "large", "small"),
        (Lowered(), (), "large", "small"),
        (TensorFlow(), ("x",), "large", "small"),
        (TensorFlow().experimental_get_compiler_ir("x"), (), "large", "small"),
        (Proto(SMALL), (), "small", "small"),
        (SMALL, (), "small", "small"),
        (SMALL.encode(), (), "small", "small"),
        (bytearray(SMALL, "utf-8"), (), "small", "small"),
        (memoryview(proto_of(SMALL)), (), "small", "small"),
        (proto_of(SMALL), (), "small", "small"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_kinds(x: object, arguments: tuple[object, ...], optimized: str, lowered: str) -> None:
    assert hlo_cli.from_jax(x, *arguments).name == optimized
    assert hlo_cli.from_jax(x, *arguments, stage="lowered").name == lowered


@pytest.mark.parametrize(
    ("compiled", "name"),
    [
        (Compiled(Executable(SMALL), None), "small"),
        (Compiled(Executable(SMALL, LARGE, SMALL), None), "large"),
        (Compiled(Executable(), SMALL), "small"),
        (Compiled(None, SMALL + "\n" + LARGE), "large"),
        (Executable(SMALL, LARGE), "large"),
    ],
)
def test_compiled_programs_have_one_module_or_many(compiled: object, name: str) -> None:
    assert hlo_cli.from_jax(compiled).name == name
    assert hlo_cli.load(compiled).name == name
    with pytest.raises(hlo_cli.HloError, match="has only the optimized module"):
        hlo_cli.from_jax(compiled, stage="lowered")


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda: hlo_cli.from_jax(Jitted()), "do not fit function step: missing a required argument: 'x'", "f, x"),
        (lambda: hlo_cli.from_jax(Jitted(), "x", "y"), "do not fit function step: too many positional", "f, x"),
        (lambda: hlo_cli.from_jax(len, "x"), "given for function len, which is not a jitted", "jax.jit"),
        (lambda: hlo_cli.from_jax(len), "function len is not a jitted function", "jax.jit"),
        (lambda: hlo_cli.from_jax(Lowered), "class Lowered is not a program", "Lowered"),
        (lambda: hlo_cli.from_jax(Lowered(), "x"), "given for a value of type Lowered", "alone"),
        (lambda: hlo_cli.from_jax(object()), "a value of type object is not a program", "jitted function"),
        (lambda: hlo_cli.from_jax(TORCH), "this text is an IR graph of PyTorch/XLA", "_get_xla_tensors_hlo"),
        (lambda: hlo_cli.from_jax(b"ML\xefR\0\1"), "this text is an exported program that cannot be read", None),
        (lambda: hlo_cli.from_jax("digraph G { a -> b }"), "a Graphviz graph", ""),
        (lambda: hlo_cli.from_jax(""), "this text is empty", None),
        (lambda: hlo_cli.from_jax(Compiled(Executable(), None)), "does not keep the HLO of a value", "lowered"),
        (lambda: hlo_cli.from_jax(SMALL, stage="hlo"), "unknown stage 'hlo'", "optimized, lowered"),  # type: ignore[arg-type]
        (lambda: hlo_cli.load(object()), "a value of type object is not a program", "Compiled"),
        (lambda: hlo_cli.load([SMALL, LARGE]), "one input is expected", "scan"),
        (lambda: hlo_cli.load(Lowered(), stage="hlo"), "unknown stage 'hlo'", "lowered"),
        (lambda: hlo_cli.load(Lowered(), module="m"), "a value of type Lowered", "hlo_modules()"),
        (lambda: hlo_cli.load(SMALL + LARGE, module="medium"), "module 'medium' not found in this text", None),
        (lambda: hlo_cli.load("no_such_dump.txt"), "file 'no_such_dump.txt' not found", None),
    ],
)
def test_errors_name_what_was_given(call: Callable[[], object], message: str, hint: str | None) -> None:
    with pytest.raises(hlo_cli.HloError) as raised:
        call()
    assert message in str(raised.value)
    if hint is not None:
        assert hint in (raised.value.diagnostics[0].hint or "")


def test_errors_of_the_compiler_are_kept_and_name_the_way_out() -> None:
    class Failing(Lowered):
        def compile(self) -> Compiled:
            raise ValueError("out of memory")

    with pytest.raises(ValueError, match="out of memory") as raised:
        hlo_cli.from_jax(Failing())
    assert 'stage="lowered"' in raised.value.__notes__[0]
    assert hlo_cli.from_jax(Failing(), stage="lowered").name == "small"


def test_load_takes_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = DUMP.read_text()
    module = hlo_cli.load(DUMP)
    assert hlo_cli.load(module) is module
    for given in (str(DUMP), text, text.encode(), gzip.compress(text.encode()), proto_of(text)):
        assert hlo_cli.load(given).instruction_count == module.instruction_count
    assert hlo_cli.load("a = f32[2] negate(b)").entry.root is not None
    assert hlo_cli.load("HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }").name == "m"
    assert hlo_cli.load(SMALL + "\n" + LARGE).name == "large"
    assert hlo_cli.load(SMALL + "\n" + LARGE, module="small").name == "small"
    assert hlo_cli.load(Lowered(), stage="lowered").name == "small"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a = (b)").write_text(SMALL)  # an existing file is a path, whatever its name
    assert hlo_cli.load("a = (b)").name == "small"


def test_a_text_in_memory_has_places() -> None:
    module = hlo_cli.load("HloModule m\n\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT n = f32[3] negate(p)\n}\n")
    assert [found.where for found in hlo_cli.lint_module(module)] == ["-:5:12"]


def test_no_framework_is_imported() -> None:
    code = (
        "import sys, hlo_cli\n"
        f"module = hlo_cli.load({str(DUMP)!r})\n"
        f"hlo_cli.from_jax({SMALL!r}); hlo_cli.load({SMALL!r}.encode())\n"
        "for wrong in (print, object(), {'a': 1}):\n"
        "    try: hlo_cli.load(wrong)\n"
        "    except hlo_cli.HloError: pass\n"
        "print(sorted({'jax', 'jaxlib', 'tensorflow', 'torch', 'torch_xla'} & sys.modules.keys()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(hlo_cli.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_the_buffer_assignment_of_an_executable_is_used() -> None:
    """The proto has one allocation, of 8 bytes."""

    class Stats:
        serialized_buffer_assignment_proto = b"\x1a\x02\x10\x08"

    class WithStats(Executable):
        def get_compiled_memory_stats(self) -> Any:
            return Stats()

    found = hlo_cli.from_jax(WithStats(SMALL)).buffer_assignment
    assert found is not None
    assert [each.size_bytes for each in found.allocations] == [8]
    assert hlo_cli.from_jax(Executable(SMALL)).buffer_assignment is None


@pytest.mark.parametrize("given", [None, 3, 2.5, True])
def test_what_is_no_input_is_a_type_error(given: object) -> None:
    """As `hlo help python` promises of arguments of another type."""
    with pytest.raises(TypeError, match="expected a path, HLO text, or a program, found"):
        hlo_cli.load(given)

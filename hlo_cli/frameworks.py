"""Programs of JAX, TensorFlow, and PyTorch/XLA as modules: `from_jax`.

No framework is imported: objects are recognized by their methods.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MethodType
from typing import Final, Literal, Protocol, TypeAlias, TypeGuard, cast

from hlo_cli.inputs.input import read_content
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_input, read_module
from hlo_cli.source import HloError, Source

# --- what objects can do ---
# What objects of frameworks can do, by their methods: no framework is imported to ask for a type.


class HasProto(Protocol):
    """`HloModule` and `XlaComputation` of jaxlib."""

    def as_serialized_hlo_module_proto(self) -> bytes:
        """The bytes of the `HloModuleProto`."""


class HasModules(Protocol):
    """`LoadedExecutable` and `Executable` of jaxlib."""

    def hlo_modules(self) -> Sequence[HasProto]:
        """The optimized modules; an error of the runtime if it does not keep them."""


class HasCompilerIr(Protocol):
    """`Lowered` of JAX."""

    def compile(self) -> object:
        """The `Compiled`."""

    def compiler_ir(self, dialect: str) -> object:
        """The module as MLIR, or as `XlaComputation` for `hlo`."""


class HasText(Protocol):
    """`Compiled` of JAX; also of runtimes that return the HLO only as text."""

    def as_text(self) -> str | None:
        """The text of all modules; None if the runtime does not keep it."""


class Lowerable(Protocol):
    """A jitted function, or `Traced`, which has its arguments."""

    def lower(self, *args: object, **kwargs: object) -> object:
        """The `Lowered`."""


class HasTensorFlowIr(Protocol):
    """`tf.function` of TensorFlow."""

    def experimental_get_compiler_ir(self, *args: object, **kwargs: object) -> Callable[..., object]:
        """A function that returns the module of a stage, as text or as the bytes of a proto."""


def _has_proto(x: object) -> TypeGuard[HasProto]:
    """Whether it is a module or a computation of jaxlib."""
    return _has(x, "as_serialized_hlo_module_proto")


def _has_modules(x: object) -> TypeGuard[HasModules]:
    """Whether it is an executable of jaxlib."""
    return _has(x, "hlo_modules")


def _has_compiler_ir(x: object) -> TypeGuard[HasCompilerIr]:
    """Whether it is a `Lowered`."""
    return _has(x, "compile") and _has(x, "compiler_ir")


def _has_text(x: object) -> TypeGuard[HasText]:
    """Whether it is a `Compiled`, or else has the text of a program."""
    return _has(x, "as_text")


def _is_lowerable(x: object) -> TypeGuard[Lowerable]:
    """Whether it is a jitted function or a `Traced`; texts have a `lower` of another meaning."""
    return not isinstance(x, str | bytes | bytearray) and _has(x, "lower")


def _has_tensorflow_ir(x: object) -> TypeGuard[HasTensorFlowIr]:
    """Whether it is a `tf.function`."""
    return _has(x, "experimental_get_compiler_ir")


def _executable_of(compiled: object) -> object:
    """The `LoadedExecutable` of a `Compiled`; None for any other object."""
    return _result(compiled, "runtime_executable")


def _buffer_assignment_proto(executable: object) -> bytes:
    """The compiler's `BufferAssignmentProto`; empty if the runtime does not keep it."""
    try:
        stats = _result(executable, "get_compiled_memory_stats")
    except RuntimeError:  # a runtime that does not implement it
        return b""
    proto: object = getattr(stats, "serialized_buffer_assignment_proto", None)
    return proto if isinstance(proto, bytes) else b""


def _has(x: object, method: str) -> bool:
    return not isinstance(x, type) and callable(getattr(x, method, None))


def _result(x: object, method: str) -> object:
    bound = cast("Callable[[], object] | None", getattr(x, method, None))
    return bound() if callable(bound) and not isinstance(x, type) else None


# --- programs ---
# `from_jax`: the module of a JAX function, or of any object that JAX, TensorFlow, or PyTorch/XLA makes from one.


Stage: TypeAlias = Literal["optimized", "lowered"]

_STAGES: Final = ("optimized", "lowered")
_TENSORFLOW_STAGES: Final = {"optimized": "optimized_hlo_serialized", "lowered": "hlo_serialized"}
_GENERATOR: Final = "compiler_ir_generator"
"""The name of the function that `experimental_get_compiler_ir` returns."""
_ACCEPTED: Final = (
    "pass a jitted function with its arguments, a Traced, Lowered, or Compiled, an HLO text, or the bytes of a proto"
)
_Arguments: TypeAlias = tuple[tuple[object, ...], Mapping[str, object]]


def from_jax(x: object, /, *args: object, stage: Stage = "optimized", **kwargs: object) -> Module:
    """The module of a jitted function that is called with these arguments, or of what JAX makes from it.

    `x` is one of:

    - a function of `jax.jit`, with its arguments or with `jax.ShapeDtypeStruct`s; nothing is executed
    - a `Traced`, `Lowered`, or `Compiled` of `jax.stages`
    - an `HloModule`, `XlaComputation`, or `LoadedExecutable` of jaxlib
    - a `tf.function` of TensorFlow, compiled with `jit_compile=True`, with its arguments
    - HLO text or the bytes of a proto, such as `torch_xla._XLAC._get_xla_tensors_hlo([tensor])` returns

    `stage` selects the module that the compiler executes, `optimized`, or the one it starts from, `lowered`. Of several
    modules in one executable, it is the largest; pass another of its `hlo_modules()` to select that one. Modules are
    read from protos where the framework has them, so that large constants are complete and the compiler's own buffer
    assignment is used.

    HloError for other objects, for arguments that do not fit the function, for text that is not HLO, and for a
    `Compiled` with `stage="lowered"`. Errors of the framework are raised unchanged.

    >>> text = "HloModule m  ENTRY e { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }"
    >>> from_jax(text).entry.root
    <negate n>
    >>> from_jax(text.encode()).name
    'm'
    >>> from_jax(42)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: a value of type int is not a program
      help: pass a jitted function with its arguments, a Traced, ...
    """
    if stage not in _STAGES:
        raise HloError(f"unknown stage '{stage}'", hint=f"available: {', '.join(_STAGES)}")
    if isinstance(x, partial):
        return from_jax(x.func, *x.args, *args, stage=stage, **{**x.keywords, **kwargs})
    if isinstance(x, MethodType) and _is_lowerable(x.__func__):
        return from_jax(x.__func__, x.__self__, *args, stage=stage, **kwargs)
    arguments = (args, kwargs)
    if _is_lowerable(x):
        return _of_lowered(_lowered(x, arguments), stage)
    if _has_tensorflow_ir(x):
        return _of_tensorflow(x, arguments, stage)
    if args or kwargs:
        raise HloError(
            f"arguments were given for {_described(x)}, which is not a jitted function",
            hint="pass jax.jit(f) with the arguments of f" if callable(x) else "pass it alone",
        )
    return _of_program(x, stage)


def _of_program(x: object, stage: Stage) -> Module:
    """The module of an object that has its arguments already."""
    match x:
        case Module():
            return x
        case str() | bytes():
            return read_input(read_content(x))
        case bytearray() | memoryview():
            return read_input(read_content(bytes(x)))
    if _has_compiler_ir(x):
        return _of_lowered(x, stage)
    if _has_proto(x):
        return _of_proto(x.as_serialized_hlo_module_proto())
    if _has_modules(x) or _has_text(x):
        return _of_compiled(x, stage)
    if callable(x) and getattr(x, "__name__", "") == _GENERATOR:
        return _of_answer(cast("Callable[..., object]", x)(stage=_TENSORFLOW_STAGES[stage]))
    for text in _mlir_of(x):
        return read_input(read_content(text))
    if callable(x) and not isinstance(x, type):
        raise HloError(f"{_described(x)} is not a jitted function", hint="pass jax.jit(f) with the arguments of f")
    raise HloError(f"{_described(x)} is not a program", hint=_ACCEPTED)


def _mlir_of(x: object) -> Iterator[str]:
    """The text of a module of MLIR, or of a function that `jax.export` made, which holds one."""
    if "mlir" in type(x).__module__:
        yield str(x)
    module = getattr(x, "mlir_module", None)
    if callable(module) and not isinstance(x, type):
        yield str(module())


def _described(x: object) -> str:
    named = getattr(x, "__name__", "") if callable(x) else ""
    if isinstance(x, type):
        return f"class {named}"
    return f"function {named}" if isinstance(named, str) and named else f"a value of type {type(x).__qualname__}"


def _lowered(x: Lowerable, given: _Arguments) -> object:
    args, kwargs = given
    if callable(x):
        try:
            signature = inspect.signature(x)
        except (TypeError, ValueError):  # a callable without one
            signature = None
        try:
            if signature is not None:
                signature.bind(*args, **kwargs)
        except TypeError as error:
            hint = "pass the arguments after the function, such as from_jax(f, x)"
            raise HloError(f"the arguments do not fit {_described(x)}: {error}", hint=hint) from None
    return x.lower(*args, **kwargs)


def _of_lowered(x: object, stage: Stage) -> Module:
    """The module of a `Lowered`, which is compiled for the optimized one."""
    if not _has_compiler_ir(x):
        raise HloError(f"{_described(x)} has no HLO", hint=_ACCEPTED)
    return _of_answer(x.compiler_ir("hlo")) if stage == "lowered" else _of_compiled(_compiled(x), stage)


def _compiled(x: HasCompilerIr) -> object:
    try:
        return x.compile()
    except Exception as error:  # the framework's own error stays; only the way around it is added
        error.add_note('help: hlo_cli.from_jax(…, stage="lowered") reads the module before compilation')
        raise


def _of_compiled(x: object, stage: Stage) -> Module:
    """The largest module of a `Compiled` or of an executable; from its text if the runtime has no protos."""
    if stage == "lowered":
        hint = "pass the Lowered that it was compiled from, or the jitted function with its arguments"
        raise HloError(f"{_described(x)} has only the optimized module", hint=hint)
    executable = x if _has_modules(x) else _executable_of(x)
    protos = _protos(executable) if _has_modules(executable) else []
    if not protos:
        text = x.as_text() if _has_text(x) else None
        if not text:
            raise HloError(f"the runtime does not keep the HLO of {_described(x)}", hint='use stage="lowered"')
        return read_input(read_content(text))
    assignment = _buffer_assignment_proto(executable) if len(protos) == 1 else b""
    return _of_proto(max(protos, key=len), assignment)


def _protos(executable: HasModules) -> list[bytes]:
    try:
        return [hlo_module.as_serialized_hlo_module_proto() for hlo_module in executable.hlo_modules()]
    except RuntimeError:  # a runtime that does not implement it
        return []


def _of_proto(proto: bytes, assignment: bytes = b"") -> Module:
    module = read_module(Source("", ""), proto)
    if assignment:
        from hlo_cli.syntax.proto.read_buffers import buffer_assignment_of

        module.read_buffer_assignment = partial(buffer_assignment_of, assignment)
    return module


def _of_tensorflow(x: HasTensorFlowIr, given: _Arguments, stage: Stage) -> Module:
    args, kwargs = given
    return _of_answer(x.experimental_get_compiler_ir(*args, **kwargs)(stage=_TENSORFLOW_STAGES[stage]))


def _of_answer(answer: object) -> Module:
    """The module in what a framework returned: an `XlaComputation`, a text, or the bytes of a proto."""
    if isinstance(answer, str | bytes):
        return read_input(read_content(answer))
    if _has_proto(answer):
        return _of_proto(answer.as_serialized_hlo_module_proto())
    raise HloError(f"{_described(answer)} is not HLO", hint=_ACCEPTED)

"""What objects of frameworks can do, by their methods: no framework is imported to ask for a type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeGuard, cast


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


def has_proto(x: object) -> TypeGuard[HasProto]:
    """Whether it is a module or a computation of jaxlib."""
    return _has(x, "as_serialized_hlo_module_proto")


def has_modules(x: object) -> TypeGuard[HasModules]:
    """Whether it is an executable of jaxlib."""
    return _has(x, "hlo_modules")


def has_compiler_ir(x: object) -> TypeGuard[HasCompilerIr]:
    """Whether it is a `Lowered`."""
    return _has(x, "compile") and _has(x, "compiler_ir")


def has_text(x: object) -> TypeGuard[HasText]:
    """Whether it is a `Compiled`, or else has the text of a program."""
    return _has(x, "as_text")


def is_lowerable(x: object) -> TypeGuard[Lowerable]:
    """Whether it is a jitted function or a `Traced`; texts have a `lower` of another meaning."""
    return not isinstance(x, str | bytes | bytearray) and _has(x, "lower")


def has_tensorflow_ir(x: object) -> TypeGuard[HasTensorFlowIr]:
    """Whether it is a `tf.function`."""
    return _has(x, "experimental_get_compiler_ir")


def executable_of(compiled: object) -> object:
    """The `LoadedExecutable` of a `Compiled`; None for any other object."""
    return _result(compiled, "runtime_executable")


def buffer_assignment_proto(executable: object) -> bytes:
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
    found = cast("Callable[[], object] | None", getattr(x, method, None))
    return found() if callable(found) and not isinstance(x, type) else None

"""What failed outside of HLO? Errors of JAX and of the runtime, and flags that XLA or libtpu refuses.

The messages are those of jax/_src and of XLA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final
from unicodedata import name as character_name

from hlo_cli.commands.prints.text_report import around_message, text_report
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir import opcodes
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_count, format_percent, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from, rows_from_tuples
from hlo_cli.source import HloError, nearest
from hlo_cli.syntax.compiler_files.flags import CompilerFlag, compiler_flags
from hlo_cli.syntax.compiler_messages.compiler_errors import user_line
from hlo_cli.syntax.compiler_messages.message_facts import meaning_of
from hlo_cli.syntax.scanning.shape_reader import parse_shape

# --- errors of JAX and the runtime ---
# Errors of JAX and of the runtime that are not about HLO: what failed, with the numbers of the message, and the fix.
#
# The messages are those of jax/_src (array.py, pjit.py), xla/pjrt (common_pjrt_client.cc,
# abstract_tracked_device_buffer.cc), and xla/stream_executor.


# --- arguments and arrays at run time ---

_BUFFER: Final = lazy_regex(
    r"Executable(?:\((?P<program>[^()\s]+)\))? expected parameter (?P<number>\d{1,18}) of size (?P<expected>\d{1,18})"
    r"(?: \((?P<expected_shape>[^()]*(?:\([\d,]*\)[^()]*)*)\))? but got buffer with incompatible size "
    r"(?P<actual>\d{1,18})"
    r"(?: \((?P<actual_shape>[^()]*(?:\([\d,]*\)[^()]*)*)\))?"
)
_HOST: Final = lazy_regex(
    r"does not match host shape or layout of computation parameter (?P<number>\d{1,18}): want (?P<expected_shape>"
    r"[a-z]\w*\[[\d,]*\](?:\{[^{}]*\})?), got (?P<actual_shape>[a-z]\w*\[[\d,]*\](?:\{[^{}]*\})?)"
)
_SUPPLIED: Final = lazy_regex(
    r"Execution supplied (?P<actual>\d{1,18}) buffers but compiled program expected (?P<expected>\d{1,18})"
)
_COUNTS: Final = lazy_regex(
    r"(?:expected|requires|takes|compiled with) (?P<expected>\d{1,18}) (?:buffers?|arguments?|inputs?"
    r"|parameters?)[^.;]{0,80}?"
    r"(?:but|and) (?:got|received|was (?:given|called with)|called with) (?:only )?(?P<actual>\d{1,18})",
    re.IGNORECASE,
)


def argument_size_report(pasted: PastedText) -> Report | None:
    """The report on an argument that does not fit; None if it has none of its numbers."""
    text = around_message(pasted)
    match = _BUFFER.search(text) or _HOST.search(text)
    if match is None:
        return _argument_count(pasted, text)
    fields = match.groupdict()
    program = f" of {fields['program']}" if fields.get("program") else ""
    shapes = [shape for name in ("expected_shape", "actual_shape") if (shape := _shape(match[name])) is not None]
    if len(shapes) < 2 and "expected" not in fields:
        return None
    expected, actual = (
        int(fields[name]) if name in fields else shapes[at].logical_bytes
        for at, name in enumerate(("expected", "actual"))
    )
    words = f"{actual:,} bytes, compiled for {expected:,}"
    is_layout = False
    if len(shapes) == 2 and (difference := _difference(*shapes)):
        words, is_layout = difference, difference.startswith("its layout")
    others = [each["number"] for each in _BUFFER.finditer(text)][1:]
    fix = (
        "The sizes are equal and the layouts differ: let JAX lay out the array again (jax.device_put, or donate and "
        "return it), or compile with the layout of the array."
        if is_layout
        else "Pass an array of the compiled size, or compile again for the new size: a compiled program "
        "(jit(f).lower(x)"
        ".compile(), an exported or a cached one) takes only the shapes that it was lowered for."
    )
    columns = (
        Column("array", "array", of=lambda array, size, shape: array),
        Column("bytes", "size", "bytes", exact=True, of=lambda array, size, shape: size),
        Column("shape", "shape", "shape", of=lambda array, size, shape: shape),
    )
    arrays = (("compiled for", expected, match["expected_shape"]), ("passed", actual, match["actual_shape"]))
    return text_report(
        pasted,
        f"Argument {match['number']}{program} does not fit: {words}",
        means=("The program is compiled; the check is before it runs, so nothing was computed.",),
        tables=(Table("named_arguments", columns, rows_from_tuples(columns, arrays), noun="arrays"),),
        advice=(fix,),
        numbers={
            "program": fields.get("program"),
            "argument": int(match["number"]),
            "expected_bytes": expected,
            "actual_bytes": actual,
        },
        notes=[f"the text has messages on the arguments {', '.join(others)} too"] if others else [],
    )


def _argument_count(pasted: PastedText, text: str) -> Report | None:
    match = _SUPPLIED.search(text) or _COUNTS.search(text)
    if match is None:
        return None
    return text_report(
        pasted,
        f"The program takes {int(match['expected']):,} arguments, but {int(match['actual']):,} were passed",
        advice=(
            (
                "Pass the leaves of the same pytrees that the program was lowered with. Unused arguments are dropped "
                "by "
                "jit unless keep_unused=True."
            ),
        ),
        numbers={"expected": int(match["expected"]), "actual": int(match["actual"])},
    )


def _shape(text: str | None) -> Shape | None:
    if not text:
        return None
    try:
        return parse_shape(text)
    except HloError:
        return None


def _difference(expected: Shape, actual: Shape) -> str:
    """What an array has and what the program was compiled for, in words; empty if they are not arrays."""
    if not isinstance(expected, ArrayShape) or not isinstance(actual, ArrayShape):
        return ""
    if expected.element_type != actual.element_type:
        return f"it has the type {actual.element_type}, compiled for {expected.element_type}"
    if len(expected.dimensions) != len(actual.dimensions):
        return f"it has {format_count(len(actual.dimensions), 'dimensions')}, compiled for {len(expected.dimensions)}"
    pairs = zip(actual.dimensions, expected.dimensions, strict=True)
    differing = [
        f"dimension {at} is {one}, compiled for {other}" for at, (one, other) in enumerate(pairs) if one != other
    ]
    if differing or expected.layout == actual.layout:
        return ", ".join(differing)
    return "its layout differs"


_DELETED: Final = lazy_regex(r"[Aa]rray has been deleted with shape=(?P<shape>[a-z]\w*\[[\d,]*\])")

_PASSED: Final = lazy_regex(r"passed to Execute\(\) as argument (?P<number>\d{1,18})")
_TWICE: Final = lazy_regex(r"flattened argument (?P<second>\d{1,18}),[^()]{0,80}first use: (?P<first>\d{1,18})")


def donated_argument_report(pasted: PastedText) -> Report | None:
    """The report on an array that is gone; None if it has none of its numbers."""
    text = around_message(pasted)
    shape = _DELETED.search(text)
    name = f" {shape['shape']}" if shape else ""
    name += f" (argument {number['number']})" if (number := _PASSED.search(text)) else ""
    if re.search(r"donate the same buffer twice|same buffer[^.]{0,40}donat", text):
        twice = _TWICE.search(text)
        name += f" as arguments {twice['first']} and {twice['second']}" if twice else " twice"
        answer = f"The call donates the same array{name}, so both results would use one piece of memory"
        fix = "Pass two arrays (x.copy()), or donate only one of the arguments (donate_argnums)."
    else:
        answer = (
            f"The call reads an array{name} that was deleted: an earlier call donated it "
            "(donate_argnums), or delete() did"
        )
        fix = (
            "Use the array that the donating call returned, as in state = step(state); or leave the argument out of "
            "donate_argnums, or pass a copy. A common cause is a name that still holds the old array after a step."
        )
    return text_report(
        pasted,
        answer,
        means=("A donated argument gives its memory to a result, so its array is no longer there after the call.",),
        advice=(fix, "This error concerns arrays of Python: no dump is needed."),
        numbers={"shape": shape["shape"] if shape else None},
    )


# --- GPU kernels and libraries ---

_LAUNCH: Final = lazy_regex(
    r"[Ff]ailed to launch (?:CUDA|ROCm|HIP|ROCM) kernel:? (?P<kernel>[\w.$\-]+)"
    r"(?:;? (?:with )?block dim(?:ension)?s: (?P<block>\d{1,18}x\d{1,18}x\d{1,18}))?"
    r"(?:(?:;| and) grid dim(?:ension)?s: (?P<grid>\d{1,18}x\d{1,18}x\d{1,18}))?"
    r"(?:(?:;| and) (?:cluster dim(?:ension)?s: \d{1,18}x\d{1,18}x\d{1,18}(?:;| and) )?shared memory "
    r"size: (?P<shared>\d{1,18}))?"
)
_CUDA: Final = lazy_regex(
    r"\b(?P<code>CUDA_ERROR_[A-Z_]+|hipError_t\(\d{1,9}\)|hipError\w+|HIP_ERROR_\w+)(?:: (?P<why>[^;.\n]{1,120}))?"
)
_LATE: Final = (
    "Kernels run after they are launched, and errors are reported late: the access outside of memory may be of an "
    "earlier kernel."
)
_NUMBER_AT_END: Final = lazy_regex(r"_(\d{1,18})$")
_LIMIT_YZ: Final = 65_535
"""CUDA's limit of blocks along y and z; along x there may be 2^31 - 1."""
_MOST_SHARED: Final = 227 << 10
"""The most shared memory of a block on any NVIDIA GPU: that of H100 and B200 (CUDA Programming Guide)."""


_BAD_ACCESS: Final = ("ILLEGAL_ADDRESS", "LAUNCH_FAILED")
"""Errors of what a kernel did before, not of its launch."""


def kernel_launch_report(pasted: PastedText) -> Report | None:
    """The report on an error of a GPU kernel; None if it has none of its numbers."""
    text = around_message(pasted)
    launch, error = _LAUNCH.search(text), _CUDA.search(text)
    code = error["code"] if error else ""
    what = _CUDA_WORDS.get(code, "") or (
        "it accessed memory outside of its buffers" if "illegal memory" in text else ""
    )
    kernel = launch["kernel"] if launch else ""
    words = f": {what}" if what else f": {code}" if code else ""
    blocks = _dimensions(launch["grid"]) if launch else None
    threads = _dimensions(launch["block"]) if launch else None
    size = f" ({prod(blocks):,} × {prod(threads):,} threads)" if blocks and threads else ""
    if not kernel and code and code not in _CUDA_WORDS:
        why = f": {error['why'].strip()}" if error and error["why"] else ""
        meaning = meaning_of(code)
        return text_report(
            pasted,
            f"The GPU runtime reports {code}{why}{f' ({meaning.words})' if meaning else ''}",
            means=("This is an error at run time, of the device or its driver, not of the program's HLO.",),
            advice=(
                meaning.fix
                if meaning
                else "Look for the first error in the log: later ones follow from it. Compare the versions of driver "
                "and CUDA.",
            ),
            numbers={"error": code},
        )
    answer = f"A GPU kernel failed{words}" if not kernel else f"The kernel {kernel}{size} failed{words}"
    means = list[str]()
    if any(mark in code for mark in _BAD_ACCESS) or "illegal memory access" in text or "IllegalAddress" in what:
        means.append(_LATE)
    if blocks and max(blocks[1:]) > _LIMIT_YZ:
        means.append(f"The grid has {max(blocks[1:]):,} blocks along y or z; CUDA allows {_LIMIT_YZ:,} there.")
    if launch and launch["shared"] and int(launch["shared"]) > _MOST_SHARED and code.startswith("CUDA"):
        means.append(
            f"It requests {int(launch['shared']):,} bytes of shared memory; a block has {_MOST_SHARED:,} at most."
        )
    advice = list[str]()
    if kernel:
        guess = _NUMBER_AT_END.sub(r".\1", kernel)
        means.append(f"The kernel's name is that of its instruction with _ for each dot: {guess} or similar.")
        advice.append(f"To see it, set XLA_FLAGS=--xla_dump_to=DIR and run `hlo parse DIR --explain {guess}`.")
    if means and means[0] is _LATE:
        advice.append("To find the kernel that did it, run with CUDA_LAUNCH_BLOCKING=1 or under compute-sanitizer.")
    return text_report(
        pasted,
        answer,
        means=means,
        advice=advice,
        numbers={
            "kernel": kernel or None,
            "error": code or None,
            "blocks": prod(blocks) if blocks else None,
            "threads": prod(threads) if threads else None,
        },
    )


def _dimensions(text: str | None) -> tuple[int, ...] | None:
    return tuple(int(each) for each in text.split("x")) if text else None


_CUDA_WORDS: Final = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "an access outside of memory (CUDA_ERROR_ILLEGAL_ADDRESS)",
    "hipError_t(700)": "an access outside of memory (hipErrorIllegalAddress, 700)",
    "hipErrorIllegalAddress": "an access outside of memory (hipErrorIllegalAddress)",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "an access that is not aligned (CUDA_ERROR_MISALIGNED_ADDRESS)",
    "CUDA_ERROR_INVALID_VALUE": "the launch has a value that CUDA refuses (CUDA_ERROR_INVALID_VALUE)",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "it needs more registers or threads than a multiprocessor has "
    "(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)",
    "CUDA_ERROR_LAUNCH_FAILED": "it ended with an exception on the device (CUDA_ERROR_LAUNCH_FAILED)",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "it ran longer than the driver allows (CUDA_ERROR_LAUNCH_TIMEOUT)",
    "CUDA_ERROR_ASSERT": "an assertion in it failed (CUDA_ERROR_ASSERT)",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "it has an instruction that this GPU lacks (CUDA_ERROR_ILLEGAL_INSTRUCTION)",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "it was not compiled for this GPU (CUDA_ERROR_NO_BINARY_FOR_GPU)",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the driver is older than the compiler that made it "
    "(CUDA_ERROR_UNSUPPORTED_PTX_VERSION)",
}
_LIBRARY: Final = lazy_regex(
    r"Unable to launch (?P<what>[\w ]+?)(?: with| on|[;,.]|$)"
    r"|(?:[Ff]ailed to|[Cc]ould not) (?:create|initialize) (?P<handle>(?:cuBLAS|cublas|cuDNN|cudnn"
    r"|cusolver|DNN|dnn|BLAS|blas)[\w ]{0,20}?)(?:[:;,.]| support|$)"
)
_STATUS: Final = lazy_regex(r"\b(?:CUDNN|CUBLAS|CUSOLVER|CUFFT|HIPBLAS|rocblas|MIOPEN)_STATUS_\w+", re.IGNORECASE)
_SCOPE: Final = lazy_regex(r"tracing scope: (?P<scope>[\w.\-]+)")
_MODULE: Final = lazy_regex(r"#hlo_module=(?P<module>[^,#\s]+)")
_LIBRARIES: Final = (
    ("cudnn", "cuDNN"),
    ("dnn", "cuDNN"),
    ("cublas", "cuBLAS"),
    ("hipblas", "hipBLAS"),
    ("rocblas", "rocBLAS"),
    ("cusolver", "cuSOLVER"),
    ("cufft", "cuFFT"),
    ("gemm", "cuBLAS"),
    ("fft", "cuFFT"),
    (opcodes.CONVOLUTION, "cuDNN"),
)


def library_launch_report(pasted: PastedText) -> Report | None:
    """The report on an error of a GPU library; None if it has none of its numbers."""
    text = around_message(pasted)
    match, status, versions = _LIBRARY.search(text), _STATUS.search(text), _VERSIONS.search(text)
    if versions is not None and match is None and status is None:
        return _version_mismatch(pasted, versions)
    scope, module = _SCOPE.search(text), _MODULE.search(text)
    words = f"{match['what'] or match['handle']}" if match else status[0] if status else text
    library = next((name for mark, name in _LIBRARIES if mark in words.lower()), "a GPU library")
    subject = scope["scope"] if scope else (match["what"].strip() if match and match["what"] else "")
    of = f" of {module['module']}" if module else ""
    code = f" ({status[0]})" if status else ""
    if match and match["handle"] and not subject:
        answer = f"{library} could not be initialized{code} when the program ran"
    else:
        answer = f"{library} could not start {subject or 'a call'}{of}{code} when the program ran"
    meaning = meaning_of(status[0]) if status else None
    instruction = _INSTRUCTION_NAME.search(text)
    subject = subject or (instruction[0] if instruction else "")
    if not (match and match["handle"]):
        answer = f"{library} could not start {subject or 'a call'}{of}{code} when the program ran"
    answer += f": {meaning.words}" if meaning else ""
    is_full = status is None or status[0].upper().endswith(_NO_MEMORY)
    advice = [
        (
            "The usual cause is that GPU memory is full: end other processes on the GPU, or leave memory to "
            "the libraries with "
            "XLA_PYTHON_CLIENT_MEM_FRACTION=.70 or XLA_PYTHON_CLIENT_PREALLOCATE=false. Next, compare the versions of "
            "the driver, CUDA, and the library."
        )
        if is_full
        else (
            "The status alone does not show the cause: look for an earlier error in the log, and compare the versions "
            "of the driver, CUDA, and the library."
        )
    ]
    if meaning and not is_full:
        advice.append(meaning.fix)
    if scope:
        advice.append(
            "The program was compiled, so its dump exists: set XLA_FLAGS=--xla_dump_to=DIR and run "
            f"`hlo parse DIR --explain {scope['scope']}`."
        )
    return text_report(
        pasted,
        answer,
        means=("This is an error of the library at run time, not of the program's HLO.",),
        advice=advice,
        numbers={
            "library": library,
            "instruction": scope["scope"] if scope else None,
            "module": module["module"] if module else None,
            "error": status[0] if status else None,
        },
    )


_INSTRUCTION_NAME: Final = lazy_regex(
    r"(?<![\w./])(?:cublas-(?:lt-)?(?:gemm|matmul)|cudnn-\w{2,20}|custom-call|convolution|dot|fft)[\w\-]{0,40}\.\d{1,9}\b"
)
"""The name of an instruction that calls a library."""
_NO_MEMORY: Final = ("_ALLOC_FAILED", "_NOT_INITIALIZED", "_INTERNAL_ERROR")
"""Statuses that libraries return if they find no memory for their handle or workspace."""
_VERSIONS: Final = lazy_regex(
    r"Loaded (?:runtime )?(?P<library>\w+) library: (?P<loaded>[\d.]{1,20}) but source was compiled with: "
    r"(?P<built>\d[\d.]{0,20})"
)


def _version_mismatch(pasted: PastedText, versions: re.Match[str]) -> Report:
    """The report on a library of another version than the one that XLA was built for."""
    library = {"cudnn": "cuDNN"}.get(versions["library"].lower(), versions["library"])
    loaded, built = versions["loaded"].rstrip("."), versions["built"].rstrip(".")
    return text_report(
        pasted,
        f"{library} {loaded} is loaded, but XLA was compiled with {built}",
        means=("The loaded library needs the same major version, and at least the minor version.",),
        advice=(f"Install {library} {built} or later. An older one in LD_LIBRARY_PATH is loaded before that of pip.",),
        numbers={"library": library, "loaded": loaded, "compiled_with": built},
    )


_UNRESOLVED: Final = lazy_regex(r"runtime symbol: '?(?P<name>[\w.$@]+)'?|Symbols not found: \[ ?(?P<names>[^\]]+?) ?\]")


def missing_symbol_report(pasted: PastedText) -> Report | None:
    """The report on a function that a program lacks; None if it has none of its numbers."""
    text = around_message(pasted)
    names = dict.fromkeys(
        name.strip(" '\"")
        for match in _UNRESOLVED.finditer(text)
        for name in (match["name"] or match["names"]).split(",")
    )
    if not names:
        return None
    listed = ", ".join(names)
    noun = "custom call" if len(names) == 1 else "custom calls"
    return text_report(
        pasted,
        f"No function is registered for the {noun} {listed} on CPU",
        means=(
            (
                "The program was compiled; its machine code calls a function of this name, which the process does not "
                "have."
            ),
        ),
        advice=(
            (
                "Register the function before compiling: jax.ffi.register_ffi_target(name, capsule, "
                'platform="cpu"), or in C++ '
                "XLA_CPU_REGISTER_CUSTOM_CALL_TARGET. If it is registered for another platform, move the call there."
            ),
            "`hlo parse DUMP --where 'opcode == custom-call'` lists the custom calls of a dump.",
        ),
        numbers={"symbols": listed},
    )


# --- TensorFlow, before HLO exists ---

_CONSTANT: Final = lazy_regex(
    r"Input (?P<input>\d{1,18}) to (?:node|op) [`'\"](?P<node>[^`'\"]+)[`'\"](?: with op (?P<op>\w+))? must be "
    r"a compile-time constant"
)


def compile_time_constant_report(pasted: PastedText) -> Report | None:
    """The report on a value that TensorFlow must know; None if it has none of its numbers."""
    text = around_message(pasted)
    match = _CONSTANT.search(text)
    op = (match["op"] if match else None) or "an operation"
    name = f" ({match['node']})" if match else ""
    number = f", its input {match['input']}," if match else ""
    return text_report(
        pasted,
        f"The shape of {op}{name}{number} depends on data, so XLA cannot compile it",
        means=(
            (
                "HLO has fixed shapes: an input that gives a shape, an axis, or a size must be known when TensorFlow "
                "compiles. No HLO exists yet, so a dump does not help."
            ),
        ),
        advice=(
            (
                "Make the shape static (x.shape in place of tf.shape(x), or a fixed batch size), or compile "
                "another part: take "
                "this operation out of the function with jit_compile=True."
            ),
        ),
        numbers={"node": match["node"] if match else None, "op": match["op"] if match else None},
    )


# --- values that are not numbers ---

_NAN: Final = lazy_regex(r"invalid value \((?P<value>nan|inf)\) encountered in (?P<primitive>[\w ]{1,80}\w)")
_NAN_CAUSES: Final = {
    "log": "its argument is below 0",
    "log1p": "its argument is below -1",
    "sqrt": "its argument is below 0",
    "rsqrt": "its argument is below 0",
    "div": "0 / 0, or an infinite value divided by one",
    "sub": "the difference of two infinite values",
    "add": "the sum of infinite values of both signs",
    "reduce_sum": "a sum with infinite values of both signs, or with a NaN",
    "mul": "0 times an infinite value",
    "dot_general": "0 times an infinite value, or a sum of infinite values of both signs",
    "pow": "a fraction as the exponent of a negative number",
    "acos": "its argument is outside of -1 to 1",
    "asin": "its argument is outside of -1 to 1",
    "reduce_max": "an argument that is NaN already",
}
"""What makes a NaN of numbers, by the primitive of JAX (IEEE 754, section 7.2)."""
_INF_CAUSES: Final = {
    "exp": "its argument is above 88.7 in f32, 11.1 in f16",
    "log": "its argument is 0",
    "div": "a division by 0",
    "rsqrt": "its argument is 0",
}
"""What makes an infinite value of finite ones; exp overflows above ln(largest value)."""


def nan_report(pasted: PastedText) -> Report | None:
    """The report on a value that is not a number; None if it has none of its numbers."""
    text = around_message(pasted)
    match = _NAN.search(text)
    if match is None:
        return None
    value, primitive = {"nan": "NaN", "inf": "an infinite value"}[match["value"]], match["primitive"]
    cause = (_NAN_CAUSES if match["value"] == "nan" else _INF_CAUSES).get(primitive)
    line = user_line(pasted.text)
    words = f": {cause}" if cause else ""
    return text_report(
        pasted,
        f"{primitive}{f' at {line}' if line else ''} gives {value}{words}",
        means=(
            (
                "jax_debug_nans and jax_debug_infs check each result; the function is run again without jit, and the "
                "first operation with such a result is named."
            ),
        ),
        advice=(
            (
                "Print the range of its argument (jax.debug.print). If the value comes from a gradient, a "
                "jnp.where after the operation does not help: replace the argument with jnp.where(ok, x, 1) before it."
            ),
            "With a dump, `hlo run DUMP --args FILE.npz --at NAME` shows the value of any instruction.",
        ),
        numbers={"primitive": primitive, "value": match["value"], "source": line or None},
    )


# --- refused flags ---
# Flags that XLA or libtpu refuses: whether each exists, where it belongs, and what is wrong with it.
#
# The message is that of xla/parse_flags_from_env.cc or of absl.


_UNKNOWN: Final = lazy_regex(
    r"(?:Unknown|unknown) (?:command line )?flags?(?: in (?:the )?(?:env(?:ironment)? )?(?:var(?:iable)? "
    r")?(?P<variable>\w+))?:?\s+(?P<flags>[^\n]*)"
)
_VALUE: Final = lazy_regex(r"Couldn't interpret value (?P<value>\S*) for flag (?P<flag>[\w\-]+)")
_ABSL_VALUE: Final = lazy_regex(r"Illegal value '(?P<value>[^'\n]*)' specified for flag '?(?P<flag>[\w\-]+)")
_NOT_FLAGS: Final = lazy_regex(r"[.!]?\s+(?:Perhaps|Did you|Note|See|Please)\b.*$")
_END_OF_STRING: Final = lazy_regex(r"[\"'][}\],]")
"""Where a record of JSON goes on after the message."""
_HYPHENS: Final = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_FLAG: Final = lazy_regex(rf"(?P<dashes>[{_HYPHENS}]*)(?P<name>[A-Za-z]\w*)(?:=(?P<value>.*))?")
_QUOTES: Final = "'\"\u201c\u201d\u2018\u2019`"
"""Before a flag, shells did not remove them: XLA got them. Only after one, they end the sentence around the message."""
_NO_SPACES: Final = "Write each flag in the form --name=value: spaces separate flags, and none are around the = sign."
_COLUMNS: Final = (
    Column("flag", "flag", "name", role="name", of=lambda flag: flag.flag),
    Column("status", "status", of=lambda flag: flag.status),
    Column("help", "what to do", person=False, of=lambda flag: flag.help),
)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is wrong with a flag, as the end of a sentence, and what to do about it."""

    flag: str
    status: str
    words: str
    help: str


def flag_report(pasted: PastedText) -> Report:
    """The report on the flags that a message refuses; HloError if it names none."""
    text = pasted.text
    verdicts = list({each.flag: each for each in (*_values(text), *_unknown(text))}.values())
    if not verdicts:
        raise HloError(f"{pasted.name} names no flag", hint="paste the complete message")
    rows = rows_from(_COLUMNS, verdicts)
    notes = []
    if any(each.status in ("removed", "unknown", "not in this release") for each in verdicts):
        notes.append(
            "the table of flags is that of XLA in November 2026, jaxlib 0.10.2 and 0.12.0.1, and libtpu 0.0.52"
        )
    return text_report(
        pasted,
        _verdict_answer(verdicts),
        means=("XLA ends the process if XLA_FLAGS has a flag that it does not know.",) if "XLA_FLAGS" in text else (),
        tables=(Table("refused_flags", _COLUMNS, rows, noun="flags", person=len(rows) > 1),),
        advice=tuple(_advice(verdicts)),
        numbers={"flags": len(verdicts), "flag": verdicts[0].flag, "status": verdicts[0].status},
        notes=notes,
    )


def _advice(verdicts: list[_Verdict]) -> Iterator[str]:
    """What to do about each flag, which is named if there are others: sentences wrap, cells of a table do not."""
    for help in dict.fromkeys(each.help for each in verdicts):
        flags = [each.flag for each in verdicts if each.help == help]
        is_named = len(verdicts) == 1 or all(flag.lstrip(_HYPHENS) in help for flag in flags)
        yield help if is_named else f"{', '.join(flags)}: {help}"


def _verdict_answer(verdicts: list[_Verdict]) -> str:
    if len(verdicts) == 1:
        return f"{verdicts[0].flag} {verdicts[0].words}"
    if len({each.words for each in verdicts}) == 1 and verdicts[0].status == "removed":
        listed = ", ".join(each.flag for each in verdicts[:-1])
        return f"{listed} and {verdicts[-1].flag} were removed from XLA"
    kinds = dict.fromkeys(each.status for each in verdicts)
    count = format_count(len(verdicts), "flags")
    return f"{count} {verb(len(verdicts), 'is', 'are')} refused: " + "; ".join(
        f"{', '.join(each.flag for each in verdicts if each.status == kind)} ({kind})" for kind in kinds
    )


def _unknown(text: str) -> Iterator[_Verdict]:
    for match in _UNKNOWN.finditer(text):
        flags = _NOT_FLAGS.sub("", _END_OF_STRING.split(match["flags"])[0]).strip()
        is_absl = "command line" in match[0]  # absl names the flag without its hyphens
        if not is_absl and flags[:1] in tuple(_QUOTES):
            yield _verdict(flags, match["variable"] or "")  # the flags up to the other mark are not separate ones
            continue
        for word in (flags.replace("'", " ").replace('"', " ") if is_absl else flags).split():
            given = word.strip(",;.")
            given = given if given[:1] in _QUOTES else given.rstrip(_QUOTES + ",;.")
            if not given:
                continue
            yield _verdict(
                f"--{given.lstrip('-')}" if is_absl else given, "LIBTPU" if is_absl else match["variable"] or ""
            )


def _values(text: str) -> Iterator[_Verdict]:
    for match in (*_VALUE.finditer(text), *_ABSL_VALUE.finditer(text)):
        name = match["flag"].lstrip("-")
        known = compiler_flags().get(name)
        wants = f" of type {known.type}" if known and known.type else ""
        value = match["value"] or "nothing"
        words = f"does not take the value {value}"
        yield _Verdict(
            f"--{name}", "wrong value", words, f"Give {name} a value{wants}, as in --{name}={_example(known)}."
        )


def _example(flag: CompilerFlag | None) -> str:
    kind = flag.type if flag else ""
    return {"bool": "true", "string": "TEXT", "float": "1.0"}.get(kind, "1" if "int" in kind else "VALUE")


def _verdict(word: str, variable: str) -> _Verdict:
    """What is wrong with a flag as it was given."""
    if word[0] in _QUOTES:
        bare = word.strip(_QUOTES)
        return _Verdict(word, "quotes", "has a quotation mark, which XLA takes for a part of it",
                        f"Write {bare} without the quotation marks; inside of XLA_FLAGS, none are needed.")  # fmt: skip
    if ",--" in word:
        listed = " ".join(word.split(","))
        return _Verdict(word, "comma", "is several flags with commas between them, which XLA takes for one",
                        f"Write {listed}: spaces separate flags.")  # fmt: skip
    match = _FLAG.fullmatch(word)
    if match is None:
        return _Verdict(word, "no flag", "is not a flag", _NO_SPACES)
    name, dashes = match["name"], match["dashes"]
    odd = next(((at, each) for at, each in enumerate(dashes, 1) if each != "-"), None)
    if odd is not None:
        return _odd_hyphen(word, name, *odd)
    if dashes != "--":
        if not dashes and name not in compiler_flags():
            return _Verdict(word, "no flag", "is not a flag", _NO_SPACES)
        words = f"begins with {format_count(len(dashes), 'hyphens')}, not two" if dashes else "has no hyphens before it"
        return _Verdict(word, "hyphens", words, f"Write --{word.lstrip('-')}.")
    known = compiler_flags().get(name)
    if name.startswith("tf_"):
        return _Verdict(f"--{name}", "belongs in TF_XLA_FLAGS", "belongs in TF_XLA_FLAGS, not in XLA_FLAGS",
                        f"Set TF_XLA_FLAGS=--{name}.")  # fmt: skip
    if known is not None:
        return _known(known, variable)
    if name.startswith(("xla_tpu_", "xla_jf_", "libtpu_", "xla_sc_", "megascale_")):
        if "LIBTPU" in variable:
            return _Verdict(f"--{name}", "unknown", "is not a flag of this libtpu; libtpu 0.0.52 does not have "
                                                    "it either",
                            f"Remove --{name}, or correct its name.")  # fmt: skip
        return _of_libtpu(name, "; libtpu 0.0.52 does not have it")
    near = nearest(name, compiler_flags())
    if near is not None:
        return _Verdict(f"--{name}", "misspelled", f"is not a flag of XLA; the nearest is --{near}", f"Write --{near}.")
    return _Verdict(f"--{name}", "unknown", "is not a flag of XLA or libtpu", f"Remove --{name} from XLA_FLAGS.")


def _odd_hyphen(word: str, name: str, at: int, character: str) -> _Verdict:
    place = {1: "first", 2: "second"}.get(at, f"{at}th")
    what = character_name(character, "character").lower()
    known = compiler_flags().get(name)
    exists = "; the flag exists" if known and known.status not in ("removed", "field") else "; no such flag is known"
    return _Verdict(
        word,
        "hyphens",
        f"has {_article(what)} (U+{ord(character):04X}) as its {place} character, not a hyphen{exists}",
        f"Type --{name} again; documents and chats replace two hyphens by a dash.",
    )


def _article(words: str) -> str:
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


def _known(flag: CompilerFlag, variable: str) -> _Verdict:
    name, shown = flag.name, f"--{flag.name}"
    if flag.status.startswith("tpu"):
        if "TPU" in variable or "LIBTPU" in variable:
            return _Verdict(shown, "not in this release", "is a flag of libtpu 0.0.52, but not of this libtpu",
                            "Use the libtpu that has the flag, or remove it.")  # fmt: skip
        return _of_libtpu(name, "")
    if "LIBTPU" in variable and flag.status != "removed":
        return _Verdict(shown, "belongs in XLA_FLAGS", "is a flag of XLA: it belongs in XLA_FLAGS, not "
                                                       "in LIBTPU_INIT_ARGS",
                        f"Set XLA_FLAGS={shown}.")  # fmt: skip
    if flag.status == "removed":
        help = flag.replaced_by or f"Remove {shown} from XLA_FLAGS."
        since = " (jaxlib 0.10.2 still has it)" if flag.known[0] == "y" else ""
        return _Verdict(shown, "removed", f"was removed from XLA{since}", help)
    if flag.status == "field":
        return _Verdict(shown, "no flag", "is a setting of XLA that no flag sets",
                        "Set it as a compile option, as in "
                        "jit(f).lower(x).compile(compiler_options={...}).")  # fmt: skip
    if flag.status.startswith("alias:"):
        new = flag.status.partition(":")[2]
        return _Verdict(
            shown, "renamed", f"is the old name of --{new}", f"Use --{new}, or the old name before it existed."
        )
    if flag.known == "ny":
        return _Verdict(shown, "not in this release", "is newer than this XLA: jaxlib 0.10.2 does not "
                                                      "have it, 0.12 has it",
                        "Update jaxlib (or TensorFlow), or remove the flag.")  # fmt: skip
    return _Verdict(shown, "not in this release", "exists in XLA, but not in this build of it",
                    "Compare the version: the flag may be newer than this build, or its build may leave "
                    "it out; update or "
                    "remove it.")  # fmt: skip


def _of_libtpu(name: str, more: str) -> _Verdict:
    return _Verdict(
        f"--{name}",
        "belongs in LIBTPU_INIT_ARGS",
        f"is a flag of libtpu: it belongs in LIBTPU_INIT_ARGS, not in XLA_FLAGS{more}",
        f"Set LIBTPU_INIT_ARGS=--{name}=VALUE and remove it from XLA_FLAGS; without a TPU, remove it.",
    )


# --- results that differ from a reference ---

_COUNTED: Final = lazy_regex(
    r"Mismatched elements: (?P<wrong>\d{1,18}) / (?P<all>\d{1,18})"
    r"|Mismatch count (?P<count>\d{1,18}) \([\d.]{1,12}%\) in shape (?P<shape>[a-z]\w*\[[\d,]*\]\S*) "
    r"\((?P<elements>\d{1,18}) elements\)"
)
_NUMBER: Final = r"[-+]?[\d.]{1,40}(?:e[-+]?\d{1,4})?|inf|nan"
_COMPARED: Final = lazy_regex(
    r"^[^\n]{0,80}(?:Not equal to tolerance|Arrays are not|Tensor-likes are not|AssertionError)", re.MULTILINE
)
"""The first line of a comparison."""
_GREATEST: Final = lazy_regex(
    rf"(?:Max|Greatest) (?P<kind>absolute|relative) difference(?: among violations)?: (?P<value>{_NUMBER})"
    rf"(?: at index (?P<index>\([\d, ]{{0,200}}\)))?(?: \(up to (?P<most>{_NUMBER}) allowed\))?"
)
_TOLERANCE: Final = lazy_regex(
    r"(?P<kind>rtol|atol|abs bound|rel bound)[= ](?P<value>\d{1,9}(?:\.\d{1,20})?(?:e[-+]?\d{1,3})?)"
)
_PLACE: Final = lazy_regex(
    rf"^ *\[(?P<index>[\d, ]{{1,200}})\]: (?P<actual>{_NUMBER}) \(ACTUAL\), (?P<wanted>{_NUMBER}) \(DESIRED\)",
    re.MULTILINE,
)


def mismatch_report(pasted: PastedText) -> Report | None:
    """The report on arrays that differ (NumPy, torch.testing, XLA's literal comparison); None if it counts none."""
    text = pasted.text
    several = list(_COUNTED.finditer(text))
    if not several:
        return None
    counted = several[0]
    if len(several) > 1:  # each comparison has its own tolerance, above its count, and its own differences below it
        heads = [each.start() for each in _COMPARED.finditer(text, counted.end(), several[1].start())]
        text = text[: heads[-1] if heads else several[1].start()]
    wrong, total = int(counted["wrong"] or counted["count"]), int(counted["all"] or counted["elements"])
    greatest = {match["kind"]: match for match in _GREATEST.finditer(text)}
    tolerances = [
        f"{match['kind'].replace(' bound', '')} {float(match['value']):g}" for match in _TOLERANCE.finditer(text)
    ]
    places = [match.groupdict() for match in _PLACE.finditer(text)]
    shape = f" of {counted['shape']}" if counted["shape"] else ""
    share = f" ({format_percent(wrong / total)}%)" if total else ""
    differences = "".join(f", at most {match['value']} {kind}" for kind, match in greatest.items())
    columns: tuple[Column[dict[str, str]], ...] = (
        Column("index", "index", of=lambda each: each["index"]),
        Column("actual", "actual", of=lambda each: each["actual"]),
        Column("desired", "desired", of=lambda each: each["wanted"]),
    )
    wide = wrong / total >= _MOST_DIFFER if total else False
    return text_report(
        pasted,
        f"{wrong:,} of {total:,} elements{shape} differ{share}{differences}",
        means=(f"The tolerance is {', '.join(dict.fromkeys(tolerances))}.",) if tolerances else (),
        tables=(Table("mismatches", columns, rows_from(columns, places), noun="elements"),) if places else (),
        advice=(
            (
                "Most elements differ: look for other inputs, another order of dimensions, or a wrong result, not for "
                "rounding."
                if wide
                else "Few elements differ: compare the types of dots and sums first (jax_default_matmul_precision), as "
                "another order of a sum rounds differently."
            ),
            "`hlo diff BEFORE AFTER --exact` shows what differs in two programs; `hlo run DUMP` computes values.",
        ),
        numbers={
            "mismatches": wrong,
            "elements": total,
            **{f"largest_{kind}": match["value"] for kind, match in greatest.items()},
        },
        notes=[
            f"this is the first of {len(several)} comparisons; in the others, {_others(several[1:])} elements differ"
        ]
        if len(several) > 1
        else [],
    )


def _others(several: list[re.Match[str]]) -> str:
    """How many elements differ in other comparisons."""
    counts = [
        f"{int(each['wrong'] or each['count']):,} of {int(each['all'] or each['elements']):,}" for each in several
    ]
    return ", ".join(counts[:4]) + (f", and {len(counts) - 4} more" if len(counts) > 4 else "")


_MOST_DIFFER: Final = 0.5
"""The share of elements above which rounding is an unlikely cause: it rarely moves most elements past a tolerance."""

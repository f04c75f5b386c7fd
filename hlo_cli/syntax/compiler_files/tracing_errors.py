"""What do errors mean that JAX, Flax, Orbax, PyTorch, and TensorFlow raise about shapes and values, before HLO exists?

The messages are those of jax/_src (lax, numpy, core.py, api.py, export), of flax.errors, orbax, ATen, and TensorFlow's
kernels; in the patterns, a space stands for any white space. `sizes` are shapes in Python's form: where they differ is
computed (`size_difference`) and is the field `difference`.
"""

from __future__ import annotations

import re
from typing import Final

from hlo_cli.ir.compiler_messages import ErrorRule

_SIZES: Final = r"\([\w, *+\-]{0,200}\)"
"""A shape as Python prints it; dimensions may have names."""
_TYPE: Final = r"\w{1,40}\[[^\]\n]{0,200}\]"
_LONG: Final = r"[^~]{0,600}?"
"""What stands between two parts of a message; it has line breaks."""
_PLACE: Final = r"[^\s,]{1,300}:\d++"


def _rule(key: str, rule: str, violated: str, fix: str) -> ErrorRule:
    """A rule of a framework: the program breaks it before HLO exists."""
    return ErrorRule(key, rule, violated, fix, is_program=True, is_about_hlo=False)


_ELEMENTWISE: Final = "The operands of an elementwise operation have equal sizes; a dimension of 1 is repeated."
_STATIC: Final = "While jit traces a function, shapes and slices are Python numbers, not values of arrays."
_NAME_STATIC: Final = (
    "Pass it as a Python number that is named in static_argnums or static_argnames, or use jax.lax.dynamic_slice, "
    "which has a fixed size and a traced start."
)

TRACING_RULES: Final = (
    # --- sizes that do not fit ---
    (
        rf"(?P<operation>\w++) got incompatible shapes for broadcasting: (?P<sizes>{_SIZES}(?:, {_SIZES}){{1,8}})",
        _rule(
            "shapes of operands",
            _ELEMENTWISE,
            "{operation}: {difference}.",
            "Reshape or transpose one operand, or add a dimension with x[:, None].",
        ),
    ),
    (
        rf"Incompatible shapes for broadcasting: (?:shapes=\[)?+(?P<sizes>{_SIZES}(?:(?:,| and) {_SIZES}){{1,8}})",
        _rule(
            "shapes of operands",
            _ELEMENTWISE,
            "{difference}.",
            "Reshape or transpose one operand; shapes are compared from the last dimension.",
        ),
    ),
    (
        rf"Incompatible types for broadcasting: input type=(?P<found>{_TYPE}) and requested type=(?P<wanted>{_TYPE})",
        _rule(
            "broadcast",
            "A broadcast repeats dimensions of size 1 and adds dimensions in front; others keep their size.",
            "{found} cannot become {wanted}.",
            "Give the value the sizes of the place that it is written to.",
        ),
    ),
    (
        (
            r"Cannot concatenate arrays with shapes that differ in dimensions other than the one being concatenated: "
            rf"concatenating along dimension (?P<along>\d++) for shapes (?P<sizes>{_SIZES}(?:, {_SIZES}){{1,64}})"
        ),
        _rule(
            "sizes of a concatenation",
            "Concatenated arrays have equal sizes in all dimensions but one.",
            "Along dimension {along}, {difference}.",
            "Concatenate along the dimension that differs, or pad or slice the others.",
        ),
    ),
    (
        (
            rf"cannot reshape array of shape (?P<from>{_SIZES}) \(size (?P<elements_count>\d++)\) into shape "
            rf"(?P<to>{_SIZES}) because the product of specified axis sizes \((?P<product_count>\d++)\)"
        ),
        _rule(
            "reshape",
            "A reshape keeps the number of elements.",
            "{from} has {elements_count} elements, not a multiple of {product_count}, the product of {to}.",
            "Correct the sizes, or pad the array.",
        ),
    ),
    (
        (
            rf"cannot reshape array of (?:shape (?P<from>{_SIZES}) \(size (?P<elements_count>\d++)\)|size "
            rf"(?P<all_count>\d++)) into shape (?P<to>{_SIZES})"
        ),
        _rule(
            "reshape",
            "A reshape keeps the number of elements.",
            "{from} has {elements_count}{all_count} elements, {to} has another number.",
            "Correct the sizes, or pad the array.",
        ),
    ),
    (
        (
            r"(?P<function>\w++) got inconsistent sizes for array axes to be mapped:"
            r"[*\s]{1,20}(?:one axis|most axes|some axes)[^:\n]{0,80}? had size (?P<size>\w++)(?::|, e\.g\.) axis "
            r"(?P<axis>\d++) of (?P<argument>[^;\n]{1,200});?\s*+"
            r"(?:\* (?:one axis|some axes|most axes)[^:\n]{0,80}? had size (?P<other_size>\w++)(?::|, e\.g\.) axis "
            r"(?P<other_axis>\d++) of (?P<other>[^;\n]{1,200}))?+"
        ),
        _rule(
            "mapped axes",
            "All axes that vmap or pmap maps have one size.",
            "axis {axis} of {argument} has size {size}, axis {other_axis} of {other} has size {other_size}.",
            "Pass arrays with equal batch sizes, or None in in_axes for an argument that is not mapped.",
        ),
    ),
    (
        r"scan got values with different leading axis sizes: (?P<lengths>\d++(?:, \d++){1,64})",
        _rule(
            "length of a scan",
            "All arrays that a scan iterates over have the same first size, its number of iterations.",
            "The arrays have {lengths} elements along dimension 0.",
            "Slice or pad them to one length.",
        ),
    ),
    (
        (
            r"Size of label '(?P<label>\w)' for operand (?P<operand>\d++) \((?P<size>\d++)\) does not match previous "
            r"terms \((?P<other>\d++)\)"
        ),
        _rule(
            "letters of an einsum",
            "A letter of an einsum has one size.",
            "'{label}' is {size} in operand {operand} and {other} in an earlier one.",
            "Use another letter for one of them, or check the order of the dimensions.",
        ),
    ),
    (
        (
            r"conv_general_dilated lhs feature dimension size divided by feature_group_count must equal the rhs input "
            r"feature dimension size, but (?P<features>\d++) // (?P<groups>\d++) != (?P<expected>\d++)"
        ),
        _rule(
            "features of a convolution",
            "The input features of a convolution, divided by the number of groups, are those of its kernel.",
            "The input has {features} features in {groups} groups, the kernel expects {expected}.",
            "Check dimension_numbers: by default the input is NCHW and the kernel OIHW; Flax uses NHWC and HWIO.",
        ),
    ),
    (
        (
            r"The output of (?P<one>\w++) has type (?P<first>[^\n]{1,200}?) but the corresponding output of "
            r"(?P<other>\w++) has type (?P<second>[^\n]{1,200}?), so (?P<why>[^\n]{1,200}?)\.(?=\s|$)"
        ),
        _rule(
            "branches of a cond",
            "All branches of jax.lax.cond and switch return the same types: HLO has one type for the result.",
            "{one} returns {first}, {other} returns {second}: {why}.",
            "Cast one of them, as in y.astype(x.dtype).",
        ),
    ),
    (
        (
            r"(?P<one>\w++)(?: output)? and (?P<other>\w++)(?: output)? must have identical types, got "
            r"(?:DIFFERENT )?(?P<first>ShapedArray\([^()\n]{1,200}\))\s*+(?:vs\.|and)\s*+"
            r"(?P<second>ShapedArray\([^()\n]{1,200}\))"
        ),
        _rule(
            "branches of a cond",
            "All branches of jax.lax.cond and switch return the same types: HLO has one type for the result.",
            "{one} returns {first}, {other} returns {second}.",
            "Cast one of them, as in y.astype(x.dtype).",
        ),
    ),
    (
        (
            rf"Shape mismatch for (?P<place>[\w.\[\]'\"]{{1,200}}) \([^)\n]{{1,80}}\): expected "
            rf"(?P<wanted>{_SIZES}) and "
            rf"called with (?P<found>{_SIZES})"
        ),
        _rule(
            "argument of an exported program",
            "An exported program takes the shapes that it was exported for; symbolic dimensions (b) take any size.",
            "{place}: the program takes {wanted}, and was called with {found}.",
            "Pass that shape, or export with jax.export.symbolic_shape.",
        ),
    ),
    (
        (
            rf"Cannot divide evenly the sizes of shapes (?P<from>{_SIZES}) and (?P<to>{_SIZES})"
            r"(?:\.? The remainder (?P<remainder>[^\n]{1,200}?) should be 0)?"
        ),
        _rule(
            "symbolic sizes",
            "With symbolic dimensions, a reshape must be possible for every size.",
            "{from} may not fit {to}: whether {remainder} is 0 is unknown.",
            "Name a dimension that is a multiple, such as symbolic_shape('2*b'), or give the sizes as numbers.",
        ),
    ),
    (
        r"Number of devices (?P<devices>\d++) must be >= the product of mesh_shape (?P<mesh>\([\d, ]{1,80}\))",
        _rule(
            "devices of a mesh",
            "A mesh has as many devices as the product of its sizes.",
            "The mesh {mesh} needs {product}, and JAX has {devices}.",
            "On CPUs, XLA_FLAGS=--xla_force_host_platform_device_count=N gives N devices; on several hosts, call "
            "jax.distributed.initialize() first.",
        ),
    ),
    (
        rf"Requested shape: (?P<wanted>{_SIZES}) is not compatible with the stored shape: (?P<stored>{_SIZES})",
        _rule(
            "array of a checkpoint",
            "Orbax restores an array with the shape that it was saved with.",
            "The model needs {wanted}, the checkpoint has {stored}: {difference}.",
            "The model or its settings changed since the checkpoint: compare the configuration, or restore with "
            "strict=False to truncate or pad.",
        ),
    ),
    (
        (
            rf"Initializer expected to generate shape (?P<wanted>{_SIZES}) but got shape (?P<stored>{_SIZES}) instead "
            r"for parameter \"(?P<name>[^\"\n]{1,200})\" in \"(?P<scope>[^\"\n]{1,300})\""
        ),
        _rule(
            "parameter of a Flax module",
            "A parameter has the shape that the module computes from its input.",
            "{name} of {scope} is {stored}, the module needs {wanted}: {difference}.",
            "The parameters are of another model, or the input has other sizes than the one for init().",
        ),
    ),
    (
        (
            r"The size of tensor a \((?P<one>\d++)\) must match the size of tensor b \((?P<other>\d++)\) at "
            r"non-singleton dimension (?P<dimension>\d++)"
        ),
        _rule(
            "shapes of operands",
            _ELEMENTWISE,
            "dimension {dimension} is {one} in one tensor and {other} in the other.",
            "Reshape, slice, or transpose one tensor before the operation.",
        ),
    ),
    (
        (
            r"mat1 and mat2 shapes cannot be multiplied \((?P<rows_count>\d++)x(?P<left_count>\d++) and "
            r"(?P<right_count>\d++)x(?P<columns_count>\d++)\)"
        ),
        _rule(
            "dimensions of a matmul",
            "A matmul sums over the columns of the left matrix and the rows of the right one.",
            "The left matrix has {left_count} columns, the right one {right_count} rows ({rows_count} × "
            "{left_count} by "
            "{right_count} × {columns_count}).",
            "Check in_features of the layer, or transpose the weight.",
        ),
    ),
    (
        (
            r"(?:Node: '(?P<node>[^'\n]{1,300})'\s++)?+Incompatible shapes: (?P<first>\[[\d,?]{0,200}\]) vs\. "
            r"(?P<second>\[[\d,?]{0,200}\])"
        ),
        _rule(
            "shapes of operands",
            _ELEMENTWISE,
            "{first} and {second} in {node}.",
            "A gradient has the place of the layer or loss that it belongs to: compare labels and outputs.",
        ),
    ),
    # --- values that jit does not know ---
    (
        r"Slice entries must be static integers\. Got (?P<slice>[^\n]{1,300}?) at position (?P<position>\d++)",
        _rule("slice by a traced value", _STATIC, "The slice at position {position} is {slice}.", _NAME_STATIC),
    ),
    (
        (
            rf"Shapes must be 1D sequences of concrete values of integer type, got (?P<shape>[^\n]{{1,300}})(?:{_LONG}"
            rf"while tracing the function (?P<function>\S++) at (?P<place>{_PLACE}))?(?:{_LONG}depends on the values? "
            r"of the arguments? (?P<argument>[\w.\[\]', ]{1,200}?)\.(?=\s|$))?"
        ),
        _rule(
            "shape from a traced value",
            _STATIC,
            "{function} ({place}) takes a size from {argument}.",
            _NAME_STATIC,
        ),
    ),
    (
        (
            rf"Encountered an unexpected tracer\.{_LONG}with type (?P<type>{_TYPE})(?:{_LONG}leaked intermediate value "
            rf"was created on line (?P<place>[^\s(]{{1,300}}) \((?P<function>[^)\n]{{1,100}})\))?"
        ),
        _rule(
            "leaked tracer",
            "What a function computes while it is traced has no value and is gone when tracing ends.",
            "A {type} that {function} made ({place}) is used outside of it.",
            "Return the value instead of storing it in a list, a global, or self.",
        ),
    ),
    (
        (
            r"Non-hashable static arguments are not supported(?:[^~]{0,200}?object of type (?P<type><class "
            r"'[^'\n]{1,100}'>))?"
        ),
        _rule(
            "static argument",
            "A static argument is a key of the cache of compiled programs, so it is hashable.",
            "A static argument is {type}.",
            "Pass a tuple or a frozen dataclass, or pass the values as arrays in an argument that is not static.",
        ),
    ),
    (
        (
            r"Error interpreting argument to (?P<function>[^\n]{1,300}?) as an abstract array\. The problematic value "
            r"is of type (?P<type><class '[^'\n]{1,100}'>) and was passed to the function at path "
            r"(?P<path>[^\s]{1,200}?)\.?(?=\s|$)"
        ),
        _rule(
            "argument of jit",
            "jit takes arrays, numbers, and containers of them; other arguments are static.",
            "{path} is {type}.",
            "Name {path} in static_argnums or static_argnames, or do not pass it.",
        ),
    ),
    (
        r"(?P<function>\w++) requires real- or complex-valued inputs \([^)\n]{1,200}\), but got (?P<type>\w++)",
        _rule(
            "type of a gradient",
            "A gradient is with respect to floating-point values.",
            "{function} got {type}.",
            "Pass a float, as in 3.0 or x.astype(jnp.float32), or select other arguments with argnums.",
        ),
    ),
    (
        (
            r"Explicitly requested dtype (?P<wanted>\w++)(?: requested in (?P<function>\w++))? is not available, and "
            r"will be truncated to dtype (?P<found>\w++)"
        ),
        _rule(
            "64-bit types",
            "JAX has 32-bit types unless 64-bit types are switched on.",
            "{function} gives {found} where {wanted} was requested.",
            "Set jax_enable_x64 (JAX_ENABLE_X64=1) before any array exists; TPUs emulate 64-bit types, which is slow. "
            "Otherwise request {found}: the result is the same.",
        ),
    ),
    (
        (
            r"scatter inputs have incompatible types: cannot safely cast value from dtype=(?P<value>\w++) to "
            r"dtype=(?P<array>\w++)"
        ),
        _rule(
            "type of an update",
            "x.at[i].set(y) keeps the type of x.",
            "y is {value}, x is {array}, which has fewer bits or another kind.",
            "Cast it, as in y.astype(x.dtype); a later release of JAX makes it an error.",
        ),
    ),
    (
        r"was exported for platforms '(?P<exported>\([^)\n]{1,100}\))' but it is used on '(?P<used>\([^)\n]{1,100}\))'",
        _rule(
            "platform of an exported program",
            "An exported program runs on the platforms that it was exported for.",
            "It was exported for {exported}, and runs on {used}.",
            "Export it with platforms=[…], or disable the check "
            "(disabled_checks=[DisabledSafetyCheck.platform()]) if it has no kernels of one platform.",
        ),
    ),
    (
        (
            r"C[pu]\w{0,4}Callback error(?: calling callback)?:(?:(?!\n\S{0,80}Error\b)[^~]){0,20000}?\n"
            r"(?P<error>\w{1,80}(?:Error|Exception)): (?P<why>[^\n]{1,300})"
        ),
        _rule(
            "host callback",
            "A callback (pure_callback, io_callback, debug.callback) is Python that runs on the host during execution.",
            "It raised {error}: {why}.",
            "The error is in the Python function of the callback, not in the program.",
        ),
    ),
    (
        (
            r"\((?P<needed>[\d.]{1,12} [KMGT]iB) KV cache is needed, which is larger than the available KV cache "
            r"memory \((?P<free>[\d.]{1,12} [KMGT]iB)\)"
            r"(?:[^~]{0,200}?estimated maximum model length is (?P<length_count>\d++))?"
        ),
        _rule(
            "memory for the KV cache",
            "vLLM keeps keys and values of all tokens of a request in device memory.",
            "{needed} are needed for the longest request, {free} are free: enough for {length_count} tokens.",
            "Decrease max_model_len, increase gpu_memory_utilization, or use more devices.",
        ),
    ),
)
"""Patterns of messages and their rules."""


def size_difference(sizes: str, *, along: int | None = None) -> str:
    """Where the first of several shapes in Python's form differs from a later one, without the dimension `along`.

    A dimension of 1 differs from nothing, as it is repeated, unless all are compared (`along`). Empty if none does.

    >>> size_difference("(128, 512), (128, 256)"), size_difference("(8, 1), (8, 4)"), size_difference("(4, 8), (8,)")
    ('dimension 1 is 512 and 256', '', 'the shapes have 2 and 1 dimensions')
    """
    shapes = [[part.strip() for part in each.split(",") if part.strip()] for each in re.findall(r"\(([^()]*)\)", sizes)]
    for other in shapes[1:]:
        if len(other) != len(shapes[0]):
            return f"the shapes have {len(shapes[0])} and {len(other)} dimensions"
        differing = [
            f"dimension {at} is {one} and {two}"
            for at, (one, two) in enumerate(zip(shapes[0], other, strict=True))
            if one != two and at != along and (along is not None or "1" not in (one, two))
        ]
        if differing:
            return ", ".join(differing)
    return ""

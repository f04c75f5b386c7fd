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
_LONG: Final = r"[\s\S]{0,600}?"
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
    # --- calls of jax.lax and jax.numpy ---
    (
        r"NameError: unbound axis name:? ?(?P<axis>\w{1,60})",
        _rule(  # psum and the like name an axis of the vmap, pmap, or shard_map around them
            "name of an axis",
            "A collective names an axis of the vmap, pmap, or shard_map that it is called in.",
            "no axis {axis} is around the call.",
            "Call it inside of shard_map over a mesh with that axis, or give vmap the axis_name; in jit without "
            "shard_map, "
            "write jnp.sum: the partitioner adds collectives.",
        ),
    ),
    (
        (
            r"cond_fun must return a boolean scalar, but got output type\(s\) "
            r"\[?(?:ShapedArray\()?(?P<type>\w{1,20}(?:\[[\d, ]{0,80}\])?)"
        ),
        _rule(  # jax/_src/lax/control_flow/loops.py
            "condition of a loop",
            "The condition of a while_loop returns one truth value.",
            "it returns {type}.",
            "Reduce it, as in jnp.any(c) or jnp.all(c), and compare: c.sum() < n.",
        ),
    ),
    (
        r"Value (?P<value>[^\n]{1,80}) with dtype (?P<type>[^\s]{1,40}) is not a valid JAX array type",
        _rule(  # jax/_src/dtypes.py
            "type of an array",
            "Arrays of JAX hold numbers and truth values.",
            "{value} has the type {type}.",
            "Keep strings and objects outside of the function, or number them first.",
        ),
    ),
    (
        (
            r"Arguments to (?P<operation>\w{1,40}) must have equal shapes, got:? (?P<wanted>\([\d, ]{0,200}\)),? "
            r"(?P<stored>\([\d, ]{0,200}\))"
        ),
        _rule(  # jax/_src/lax
            "shapes of operands",
            "The operands of this operation have equal shapes.",
            "{operation} got {wanted} and {stored}[[: {difference}]].",
            "Broadcast or slice one of them first.",
        ),
    ),
    (
        (
            r"k argument to top_k must be no larger than size along axis; got k=(?P<k>\d{1,12}) with "
            r"shape=(?P<shape>[\[(][\d, ]{0,200}[\])])"
            r"(?: and axis=(?P<axis>-?\d{1,3}))?"
        ),
        _rule(  # jax/_src/lax/lax.py
            "top_k",
            "At most as many values are taken as the axis has.",
            "k is {k}, the shape {shape}[[ along axis {axis}]].",
            "Use a smaller k, such as min(k, x.shape[-1]).",
        ),
    ),
    (
        (
            r"(?P<function>jacfwd|jacrev|grad|value_and_grad|hessian|linearize|vjp|jvp) requires "
            r"(?:real|complex|float)[^\n]{0,120}?but got "
            r"(?P<type>\w{1,20})"
        ),
        _rule(  # jax/_src/api.py
            "type of a derivative",
            "Derivatives exist with respect to floating-point and complex values.",
            "{function} got {type}.",
            "Cast the argument (x.astype(jnp.float32)), or differentiate with respect to another one (argnums).",
        ),
    ),
    (
        r"No VJP defined for custom_vjp function (?P<function>[\w<>.]{1,100})",
        _rule(  # jax/_src/custom_derivatives.py
            "custom gradient",
            "A custom_vjp function has a forward and a backward function.",
            "{function} has none.",
            "Call {function}.defvjp(forward, backward) before it is used.",
        ),
    ),
    (
        r"(?:Unrecognized|Unknown) (?:JAX )?config(?:uration)? option:? '?(?P<option>\w{1,80})",
        _rule(  # jax.config.update
            "configuration option",
            "jax.config has the options of its own release.",
            "{option} is not one of them.",
            "Compare the name with jax.config.values; options are renamed between releases. No HLO is involved.",
        ),
    ),
    (
        (
            r"unsupported operand type\(s\) for (?P<operator>[^\s:]{1,12}): '(?P<left_type>[\w.]{1,80})' and "
            r"'(?P<right_type>[\w.]{1,80})'"
        ),
        _rule(  # Python
            "operands in Python",
            "An operator takes operands of types that it knows.",
            "{left_type} {operator} {right_type} is not defined.",
            "Print both at the line of the traceback: None is what a function without a return gives, or an argument "
            "that was not passed; a list or a tuple becomes an array by jnp.asarray. No HLO is involved.",
        ),
    ),
    # --- sizes that do not fit ---
    (
        (
            r"(?<!\w)(?P<operation>\w++) got incompatible shapes for broadcasting: "
            rf"(?P<sizes>{_SIZES}(?:, {_SIZES}){{1,8}})"
        ),
        _rule(
            "shapes of operands",
            _ELEMENTWISE,
            "{operation}[[: {difference}| has operands of {sizes}]].",
            "Reshape or transpose one operand, or add a dimension with x[:, None].",
        ),
    ),
    (
        rf"Incompatible shapes for broadcasting: (?:shapes=\[)?+(?P<sizes>{_SIZES}(?:(?:,| and) {_SIZES}){{1,8}})",
        _rule(
            "shapes of operands",
            _ELEMENTWISE,
            "[[{difference}|The shapes are {sizes}]].",
            "Reshape or transpose one operand; shapes are compared from the last dimension.",
        ),
    ),
    (
        rf"Incompatible types for broadcasting: input type=(?P<found>{_TYPE}) and requested type=(?P<wanted>{_TYPE})",
        _rule(
            "broadcast",
            "A broadcast repeats dimensions of size 1 and adds dimensions in front; others keep their size.",
            "[[{negative} in {wanted} is not a size|{found} cannot become {wanted}]].",
            "Give the value the sizes of the place that it is written to; only a reshape takes -1.",
        ),
    ),
    (
        (
            r"Cannot concatenate arrays with different numbers of dimensions: got "
            rf"(?P<shapes>{_SIZES}(?:, {_SIZES}){{1,64}})"
        ),
        _rule(
            "dimensions of a concatenation",
            "Concatenated arrays have equal numbers of dimensions.",
            "The shapes are {shapes}.",
            "Add the missing dimension, as in x[None] or x[:, None], or use jnp.stack for arrays of one shape. "
            "No HLO exists yet.",
        ),
    ),
    (
        (
            r"Cannot concatenate arrays with shapes that differ in dimensions other than the one being concatenated: "
            rf"concatenating along dimension (?P<along>\d{{1,9}}+) for shapes (?P<sizes>{_SIZES}(?:, {_SIZES}){{1,64}})"
        ),
        _rule(
            "sizes of a concatenation",
            "Concatenated arrays have equal sizes in all dimensions but one.",
            "Along dimension {along}, [[{difference}|the shapes are {sizes}]].",
            "Concatenate along the dimension that differs, or pad or slice the others.",
        ),
    ),
    (
        (
            rf"cannot reshape array of shape (?P<from>{_SIZES}) \(size (?P<elements_count>\d{{1,18}}+)\) into shape "
            rf"(?P<to>{_SIZES}) because the product of specified axis sizes \((?P<product_count>\d{{1,18}}+)\)"
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
            rf"cannot reshape array of (?:shape (?P<from>{_SIZES}) \(size (?P<elements_count>\d{{1,18}}+)\)|size "
            rf"(?P<all_count>\d{{1,18}}+)) into shape (?P<to>{_SIZES})"
        ),
        _rule(
            "reshape",
            "A reshape keeps the number of elements.",
            "[[{from}|The array]] has {elements_count}{all_count} elements, {to} has another number[[: {negative} "
            "is not a size]].",
            "Correct the sizes, or pad the array.",
        ),
    ),
    (
        (
            r"(?<!\w)(?P<function>\w++) got inconsistent sizes for array axes to be mapped:"
            r"[*\s]{1,20}(?:one axis|most axes|some axes)[^:\n]{0,80}? had size (?P<size>\w++)(?::|, e\.g\.) axis "
            r"(?P<axis>\d++) of (?P<argument>[^;\n]{1,200});?\s*+"
            r"(?:\* (?:one axis|some axes|most axes)[^:\n]{0,80}? had size (?P<other_size>\w++)(?::|, e\.g\.) axis "
            r"(?P<other_axis>\d++) of (?P<other>[^;\n]{1,200}))?+"
        ),
        _rule(
            "mapped axes",
            "All axes that vmap or pmap maps have one size.",
            "axis {axis} of {argument} has size {size}[[, axis {other_axis} of {other} has size {other_size}]].",
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
            "{from} may not fit {to}[[: whether {remainder} is 0 is unknown]].",
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
            "The model needs {wanted}, the checkpoint has {stored}[[: {difference}]].",
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
            "{name} of {scope} is {stored}, the module needs {wanted}[[: {difference}]].",
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
            r"mat1 and mat2 shapes cannot be multiplied \((?P<rows_count>\d{1,18}+)x(?P<left_count>\d{1,18}+) and "
            r"(?P<right_count>\d{1,18}+)x(?P<columns_count>\d{1,18}+)\)"
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
            "{first} and {second}[[ in {node}]].",
            "A gradient has the place of the layer or loss that it belongs to: compare labels and outputs.",
        ),
    ),
    (
        (
            rf"slice_sizes must be less than or equal to operand shape, got slice_sizes (?P<part>{_SIZES}) for "
            rf"operand "
            rf"shape (?P<within>{_SIZES})"
        ),
        _rule(
            "size of a slice",
            "A slice is at most as large as its array in each dimension.",
            "The slice is {part}, the array {within}[[: {difference}]].",
            "Take a smaller slice; dynamic_slice moves a start that is too large, but keeps the size.",
        ),
    ),
    (
        (
            r"transpose permutation isn't a permutation of operand dimensions, got permutation "
            rf"(?P<order>{_SIZES}) for operand shape (?P<shape>{_SIZES})"
        ),
        _rule(
            "order of a transpose",
            "A transpose names each dimension of its array once.",
            "The order is {order}, the array {shape}[[: {order_problem}]].",
            "Name every dimension once, such as (1, 0, 2) for three; a function that transposes by itself (as those of "
            "jnp.linalg) got an array with too few dimensions.",
        ),
    ),
    (
        rf"All input arrays must have the same shape\. Got (?P<sizes>{_SIZES}(?:, {_SIZES}){{1,64}})",
        _rule(
            "shapes of a stack",
            "Stacked arrays have one shape.",
            "[[{difference}|The shapes are {sizes}]].",
            "Pad or slice them to one shape, or concatenate them along the dimension that differs.",
        ),
    ),
    (
        (
            rf"select `which` must be scalar or have the same shape as cases, got `which` shape (?P<which>{_SIZES}) "
            rf"but "
            rf"case shape (?P<cases>{_SIZES})"
        ),
        _rule(
            "predicate of a select",
            "The predicate of a select is a scalar or has the shape of the values.",
            "The predicate is {which}, the values are {cases}.",
            "Use jnp.where, which repeats dimensions of size 1, with a predicate such as p[:, None].",
        ),
    ),
    (
        (
            r"operands could not be broadcast together with shapes (?P<sizes>\([\d,]{0,200}\)(?: "
            r"\([\d,]{0,200}\)){1,8})"
        ),
        _rule(
            "shapes of operands",
            _ELEMENTWISE,
            "[[{difference}|The shapes are {sizes}]].",
            "Reshape or transpose one array; shapes are compared from the last dimension.",
        ),
    ),
    (
        (
            r"(?<!\w)(?P<operation>\w++) requires arguments to have the same dtypes, got (?P<types>\w++(?:, "
            r"\w++){1,8})"
        ),
        _rule(
            "types of operands",
            "Functions of jax.lax do not convert types; those of jax.numpy do.",
            "{operation} got {types}.",
            "Use the function of jax.numpy, or cast one operand, as in y.astype(x.dtype).",
        ),
    ),
    (
        (
            r"vmap was requested to map its argument along axis (?P<axis>\d++), which implies that its rank should be "
            r"at least "
            rf"(?P<least>\d++), but is only (?P<rank>\d++) \(its shape is (?P<shape>{_SIZES})\)"
        ),
        _rule(
            "mapped axes",
            "vmap maps an axis that the array has.",
            "Axis {axis} of {shape} does not exist: the array has {rank} dimensions.",
            "Correct in_axes; it counts from 0.",
        ),
    ),
    (
        r"axis (?P<axis>-?\d++) is out of bounds for array of dimension (?P<rank>\d++)",
        _rule(
            "axis of an array",
            "An array of n dimensions has the axes 0 to n-1, and -1 to -n from the end.",
            "Axis {axis} is not one of an array with {rank} dimensions.",
            "Print x.shape before the call: a batch dimension may be missing, or was reduced before.",
        ),
    ),
    (
        (
            r"size mismatch for (?P<name>[\w.]{1,300}): copying a param with shape torch\.Size\((?P<from>\[[\d, "
            r"]{0,200}\])\) from "
            r"checkpoint, the shape in current model is torch\.Size\((?P<to>\[[\d, ]{0,200}\])\)"
        ),
        _rule(
            "parameter of a checkpoint",
            "A parameter is loaded into one of the same shape.",
            "{name} is {from} in the checkpoint, {to} in the model[[: {difference}]].",
            "The model was built with other sizes than the checkpoint, such as a padded vocabulary.",
        ),
    ),
    (
        (
            r"Input (?P<number>\d++) of layer \"(?P<layer>[^\"\n]{1,200})\" is incompatible with the layer: "
            r"expected axis "
            rf"(?P<axis>-?\d++) of input shape to have value (?P<size>\d++), but received input with shape "
            rf"(?P<shape>{_SIZES})"
        ),
        _rule(
            "input of a Keras layer",
            "A layer takes inputs with the number of features that it was built for.",
            "{layer} expects {size} along axis {axis}, its input is {shape}.",
            "Flatten or reshape the input before the layer, or build the layer for this input.",
        ),
    ),
    (
        r"expected key_data\.shape to end with (?P<wanted>\([\d,]{1,20}\)); got shape=(?P<found>\([\d, ]{0,100}\))",
        _rule(
            "random key",
            "Random functions take a key of jax.random.key, or the array of jax.random.PRNGKey.",
            "The key has the shape {found}, not {wanted}.",
            "Pass a key, not an array of numbers; jax.random.split gives several, one a row.",
        ),
    ),
    (
        (
            r"Index map function (?P<function>\S++) at (?P<place>\S++) for (?P<argument>\S++) must return "
            r"(?P<wanted>\d++) "
            r"values to match block_shape=(?P<block>[^\n]{1,300}?)\. Currently returning (?P<found>\d++) values"
        ),
        _rule(
            "index map of a Pallas kernel",
            "The index map of a block returns one block index for each dimension of the block.",
            "{function} ({place}) of {argument} returns {found} values, its block has {wanted} dimensions.",
            "Return an index for each dimension, such as lambda i: (i, 0).",
        ),
    ),
    (
        r"Found an unbound axis name: (?P<axis>\w++)\.(?: To fix this, please call (?P<operation>\w++))?",
        _rule(
            "named axis",
            "A collective such as psum names an axis of the shard_map, pmap, or vmap around it.",
            "[[{operation}|A collective]] names {axis}, which nothing around it binds.",
            "Call it inside of jax.shard_map with a mesh that has the axis, or of vmap(axis_name=…). Under plain jit, "
            "arrays are global: use jnp.sum.",
        ),
    ),
    (
        (
            r"Custom VJP bwd rule must produce [\s\S]{0,400}? but got bwd output structure "
            r"(?P<found>PyTreeDef\([^\n]{1,200}?\)) "
            r"for primal input structure (?P<wanted>PyTreeDef\([^\n]{1,200}?\))\.(?=\s|$)"
        ),
        _rule(
            "custom gradient",
            "The bwd function of a custom_vjp returns one cotangent for each argument.",
            "bwd returns {found}, the arguments are {wanted}.",
            "Return a tuple with one entry for each argument, and None for those without a gradient.",
        ),
    ),
    (
        (
            r"Gradient only defined for scalar-output functions\. Output (?:had shape|was): "
            r"(?P<shape>[^\n]{1,200}?)\.(?=\s|$)"
        ),
        _rule(
            "result of a gradient",
            "jax.grad takes the gradient of one number.",
            "The function returns {shape}.",
            "Sum or average the result, as in loss.mean(); for several numbers, use jax.jacrev or jax.vjp.",
        ),
    ),
    # --- values that jit does not know ---
    (
        r"Array boolean indices must be concrete; got (?:ShapedArray\()?(?P<type>\w{1,20}\[[\d,]{0,100}\])",
        _rule(
            "boolean index",
            "The size of x[mask] depends on values, which do not exist while jit traces.",
            "The mask is a traced {type}.",
            "Use jnp.where(mask, x, 0), or jnp.nonzero(mask, size=n) with a fixed size.",
        ),
    ),
    (
        r"Slice entries must be static integers\. Got (?P<slice>[^\n]{1,300}?) at position (?P<position>\d++)",
        _rule("slice by a traced value", _STATIC, "The slice at position {position} is {slice}.", _NAME_STATIC),
    ),
    (
        (
            rf"Shapes must be 1D sequences of concrete values of integer type, got "
            rf"(?P<shape>(?=[^\n]{{0,300}}[Tt]race)[^\n]{{1,300}})(?:{_LONG}"
            rf"while tracing the function (?P<function>\S++) at (?P<place>{_PLACE}))?(?:{_LONG}depends on the values? "
            r"of the arguments? (?P<argument>[\w.\[\]', ]{1,200}?)\.(?=\s|$))?"
        ),
        _rule(
            "shape from a traced value",
            _STATIC,
            "[[{function} ({place})|A function]] takes a size from [[{argument}|a traced value]].",
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
            "A {type} [[that {function} made ({place}) is used outside of it"
            "|is used outside of the function that made it]].",
            "Return the value instead of storing it in a list, a global, or self.",
        ),
    ),
    (
        (
            r"Non-hashable static arguments are (?:not supported|used)(?:[\s\S]{0,200}?(?:object of type|got) "
            r"(?P<type><class "
            r"'[^'\n]{1,100}'>))?"
        ),
        _rule(
            "static argument",
            "A static argument is a key of the cache of compiled programs, so it is hashable.",
            "A static argument is [[{type}|not hashable]].",
            "Pass a tuple or a frozen dataclass, or pass the values as arrays in an argument that is not static.",
        ),
    ),
    (
        (
            r"Error interpreting argument to [^\n]{1,300}? as an abstract array\. The problematic value "
            r"is of type <class 'numpy\.ndarray'> and was passed to the function at path "
            r"(?P<path>[^\s]{1,200}?)\.?(?=\s|$)"
        ),
        _rule(  # NumPy's arrays are refused for their element type alone
            "type of an array",
            "Arrays of JAX have elements of a number type.",
            "{path} is an array of NumPy whose elements are no numbers: texts or objects.",
            "Print {path}.dtype: object comes from lists of unequal lengths or from None in a list; keep texts "
            "outside of "
            "the function, or number them.",
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
        r"(?<!\w)(?P<function>\w++) requires real- or complex-valued inputs \([^)\n]{1,200}\), but got (?P<type>\w++)",
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
            "[[{function} gives {found} where {wanted} was requested"
            "|{wanted} was requested, and the result is {found}]].",
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
            r"C[pu]\w{0,4}Callback error(?: calling callback)?:(?:(?!\n\S{0,80}Error\b)[\s\S]){0,20000}?\n"
            r"(?P<error>\w{1,80}(?:Error|Exception)): (?P<why>[^\n]{1,300})"
        ),
        _rule(
            "host callback",
            "A callback (pure_callback, io_callback, debug.callback) is Python that runs on the host during execution.",
            "It raised {error}: {why}.",
            "The error is in the Python function of the callback, not in the program.",
        ),
    ),
    # --- other processes and frameworks ---
    (
        (
            r"Root Cause \(first observed failure\):[\s\S]{0,300}?host : (?P<host>\S++)\s++rank : "
            r"(?P<rank>\d++)[^\n]{0,60}\s++"
            r"exitcode : (?P<code>-?\d++)[\s\S]{0,300}?(?:Signal \d{1,3} \((?P<signal>\w++)\) received|$)"
        ),
        _rule(
            "process of a job",
            "torchrun ends all processes when one fails.",
            "Rank {rank} on {host} failed first, with exit code {code}[[ {signal}]].",
            "Read the log of that rank. SIGKILL is usually the out-of-memory killer of the host (dmesg), SIGSEGV a "
            "library, "
            "SIGTERM another failure.",
        ),
    ),
    (
        (
            r"torch\._dynamo hit config\.\w{1,40} \((?P<limit>\d++)\)[\s\S]{0,300}?function: "
            r"'(?P<function>[^'\n]{1,200})' "
            r"\((?P<place>[^)\n]{1,300})\)(?:[\s\S]{0,200}?last reason: (?P<why>[^\n]{1,300}))?"
        ),
        _rule(
            "recompilation",
            "torch.compile compiles a function again when a guard fails, up to a limit; after that it runs without.",
            "{function} ({place}) was compiled {limit} times[[; last: {why}]].",
            "Pad inputs to few sizes, or mark the dimension with torch._dynamo.mark_dynamic.",
        ),
    ),
    (
        (
            r"(?<!\d)(?P<retraced>\d++) out of the last (?P<calls>\d++) calls to <function (?P<function>\S++) "
            r"at [^>]{1,40}> triggered tf\.function retracing"
        ),
        _rule(
            "retracing",
            "tf.function traces again for each new shape, and for each new Python value.",
            "{retraced} of the last {calls} calls of {function} were traced again.",
            "Give it an input_signature with None for sizes that vary, or reduce_retracing=True, and pass tensors.",
        ),
    ),
    (
        (
            r"(?<!\w)(?P<kernel>\w++): block: \[(?P<block>[\d,]{1,40})\], thread: \[(?P<thread>[\d,]{1,40})\] "
            r"Assertion `(?P<check>[^`\n]{1,300})` failed"
        ),
        _rule(
            "assertion in a kernel",
            "A kernel of PyTorch checks its indices on the GPU; the error shows up at a later call.",
            "{kernel} found that `{check}` is false (block {block}, thread {thread}).",
            "An index is outside of its table, such as a token id above the vocabulary. CUDA_LAUNCH_BLOCKING=1 "
            "gives the "
            "line.",
        ),
    ),
    (
        (
            r"Failed to deserialize StableHLO_v(?P<found>[\d.]{1,20})[^\n]{0,200}?(?:at most|<=) "
            r"(?:v)?(?P<most>[\d.]{1,20}\d)"
        ),
        _rule(
            "version of StableHLO",
            "A program is read by versions of StableHLO that are not older than the one that wrote it.",
            "It is of version {found}, this jaxlib reads up to {most}.",
            "Update jaxlib, or export for an older version.",
        ),
    ),
    (
        r"Error opening \"(?P<driver>\w++)\" driver: (?:Metadata at )?(?P<path>\S{1,400}) does not exist",
        _rule(
            "array of a checkpoint",
            "A checkpoint has a folder or file for each array of the model.",
            "{path} does not exist.",
            "The model has an array that the checkpoint lacks (its name changed?), or the path or step is another one.",
        ),
    ),
    (
        (
            r"reading persistent compilation cache entry for '(?P<name>[^'\n]{1,300})': (?:\w++: "
            r")?(?P<why>[^\n]{1,300})"
        ),
        _rule(
            "entry of the compilation cache",
            "JAX reads compiled programs from its cache, and compiles again if it cannot.",
            "The entry of {name} is not usable: {why}.",
            "It is harmless; delete the entry, or use one folder for each number of devices and version.",
        ),
    ),
    (
        r"\[cudnn_frontend\] Error: (?P<why>[^\n]{1,200})",
        _rule(
            "cuDNN",
            "cuDNN selects an execution plan for each convolution, attention, or norm that XLA gives it.",
            "cuDNN: {why}.",
            "Use another type or size (head dimensions that are multiples of 8), a newer cuDNN, or switch the "
            "fusion off: "
            "--xla_gpu_enable_cudnn_fmha=false for attention.",
        ),
    ),
    (
        (
            r"(?:UNAVAILABLE|UNKNOWN): [^\n]{0,300}?(?:ipv[46]:)?(?P<peer>[\w.\-\[\]:]{3,80}:\d{2,5}): "
            r"(?P<why>[^\n]{1,200})"
        ),
        _rule(
            "connection",
            "The processes of a job talk to the coordinator, which process 0 runs.",
            "{peer}: {why}.",
            "Look in the log of process 0: if it ended, its error is the cause; else check the address and the "
            "firewall.",
        ),
    ),
    (
        (
            r"\((?P<needed>[\d.]{1,12} [KMGT]iB) KV cache is needed, which is larger than the available KV cache "
            r"memory \((?P<free>[\d.]{1,12} [KMGT]iB)\)"
            r"(?:[\s\S]{0,200}?estimated maximum model length is (?P<length_count>\d{1,18}+))?"
        ),
        _rule(
            "memory for the KV cache",
            "vLLM keeps keys and values of all tokens of a request in device memory.",
            "{needed} are needed for the longest request, {free} are free[[: enough for {length_count} tokens]].",
            "Decrease max_model_len, increase gpu_memory_utilization, or use more devices.",
        ),
    ),
)
"""Patterns of messages and their rules."""


def size_difference(sizes: str, *, along: int | None = None) -> str:
    """Where the first of several shapes in Python's form differs from a later one, without the dimension `along`.

    Without `along`, shapes are those of a broadcast: a dimension of 1 differs from nothing, and shapes of several ranks
    are compared from the last dimension. A dimension of -1 stands for any. Empty if none does.

    >>> size_difference("(128, 512), (128, 256)"), size_difference("(8, 1), (8, 4)"), size_difference("(3, 4), (5,)")
    ('dimension 1 is 512 and 256', '', 'dimension -1 is 4 and 5')
    >>> size_difference("(4, 8), (4, 9)", along=1), size_difference("[4, 8], [4]", along=-1)
    ('', 'the shapes have 2 and 1 dimensions')
    """
    first, *others = (
        tuple(part.strip() for part in each.split(",") if part.strip())
        for each in re.findall(r"[(\[]([^()\[\]]*)[)\]]", sizes)
    )
    for other in others:
        if len(other) != len(first) and along is not None:
            return f"the shapes have {len(first)} and {len(other)} dimensions"
        common = min(len(first), len(other))
        start = 0 if len(first) == len(other) else -common
        pairs = zip(first[len(first) - common :], other[len(other) - common :], strict=True)
        differing = [
            f"dimension {start + at} is {one} and {two}"
            for at, (one, two) in enumerate(pairs)
            if one != two and at != along and (along is not None or "1" not in (one, two)) and "-1" not in (one, two)
        ]
        if differing:
            return ", ".join(differing)
    return ""

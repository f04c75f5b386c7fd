"""What do errors mean that JAX raises for calls with wrong arguments, before anything is traced or lowered?

The messages are those of jax/_src (lax, numpy, api, stages, tree_util, pallas, xla_bridge); in the patterns, a space
stands for any white space.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.compiler_messages import ErrorRule

_SIZES: Final = r"\([\w, *+\-]{0,200}\)"
_SPEC: Final = r"\([^()\n]{0,200}(?:\([^()\n]{0,100}\)[^()\n]{0,100}){0,8}\)"
"""A shape, and a sharding of its dimensions, as Python prints them."""
_REST: Final = r"(?P<why>[^\n]{1,300}?)\.?(?=\n|$)"


def _rule(key: str, rule: str, violated: str, fix: str) -> ErrorRule:
    """A rule of a call: the program breaks it before HLO exists."""
    return ErrorRule(key, rule, violated, fix, is_program=True, is_about_hlo=False)


_CAST: Final = "Cast one operand, as in y.astype(x.dtype)."
_TREES: Final = (
    "Print jax.tree.structure() of both. Usually one has a key more, such as batch_stats or a new layer, or one is a "
    "list and the other a tuple."
)
_SAME_TREE: Final = "Functions on several pytrees need the same containers, keys, and lengths in all of them."
_EXPLICIT: Final = (
    "On a mesh with Explicit axes, the sharding of an array is part of its type, and operations check it."
)
_PASS_ARRAY: Final = (
    "Pass an array or a number: jnp.asarray(x) for a list; None is usually a function without a return; texts "
    "and objects "
    "stay outside of the function (static_argnums), or are numbered first."
)
_NO_VALUES: Final = "jit takes and returns arrays, numbers, and containers of them."

PYTHON_RULES: Final = (
    # messages of numpy, jnp, and lax differ in names alone, so a rule names the function as it is in the text
    # --- values that are not arrays ---
    (
        (
            r"Error interpreting argument to (?P<function>[\w.]{1,80}) as a JAX value\. The problematic value is "
            r"of type "
            r"<class '(?P<value_type>[^'\n]{1,100})'> and was passed to [\w.]{1,80} at position (?P<at>\d{1,4})"
        ),
        _rule(  # core.py: what an operation of jax.lax gets
            "type of an argument",
            "Operations take arrays and numbers, and convert no lists, texts, or None.",
            "argument {at} of {function} is of type {value_type}[[: {kind_of_value}]].",
            _PASS_ARRAY,
        ),
    ),
    (
        (
            r"Shapes must be 1D sequences of concrete values of integer type, got (?P<shape>[^\n]{1,200}?)\.?"
            r"(?: argument of '(?P<argument>\w{1,40})' (?P<function>[\w.]{1,60})\(\))?\.?(?=\n|$)"
        ),
        _rule(  # core.py; those with traced values have a rule of their own, which is asked first
            "sizes of an array",
            "The sizes of an array are whole numbers of Python.",
            "[[{argument} of {function} is ]]{shape}: [[{odd_entries}|an entry]] is not a whole number.",
            "Divide by // in place of /, round by int(x), and take sizes from x.shape; an array of one element "
            "is not a "
            "number of Python.",
        ),
    ),
    (
        (
            r"(?:JAX only supports number, bool, and string dtypes, got dtype (?P<one>\S{1,80}) in "
            r"(?P<function>\w{1,60})"
            r"|data type '(?P<two>[^'\n]{1,80})' not understood|Cannot interpret '(?P<three>[^'\n]{1,80})' as a "
            r"data type)"
        ),
        _rule(
            "name of a type",
            "A dtype is a type of NumPy or jax.numpy, or its name, such as jnp.float32 or 'bfloat16'.",
            "{one}{two}{three} is not the name of a type[[ (in {function})]].",
            "Look which argument is taken as the dtype: arguments in another order are usual; NumPy alone knows no "
            "'bfloat16' (use jnp.bfloat16).",
        ),
    ),
    (
        r"error: unknown: invalid tensor dimension size",
        _rule(  # MLIR checks the types that JAX makes of sizes
            "sizes of an array",
            "The sizes of an array are 0 or larger.",
            "an array with a negative size was asked for.",
            "Look how the size is computed at the line of the traceback: a difference of two sizes, or a -1 that only "
            "reshape takes.",
        ),
    ),
    (
        (
            r"(?:only integers, slices \(`:`\), ellipsis \(`\.\.\.`\), numpy\.newaxis \(`None`\) and integer or "
            r"boolean "
            r"arrays are valid indices|arrays used as indices must be of integer \(or boolean\) type)"
        ),
        _rule(  # NumPy, whose arrays and lists of sizes JAX indexes with the arguments of a call
            "index",
            "An index is an integer, a slice, None, Ellipsis, or an array of integers or truth values.",
            "the index is a floating-point number, a text, or an array of another type.",
            "Cast it: int(i), i.astype(jnp.int32), or // in place of /; an axis or a size that is 2.5 or "
            "an array ends here, too.",
        ),
    ),
    (
        r"[Tt]he truth value of an array with more than one element is ambiguous",
        _rule(
            "truth value of an array",
            "if, and, or, not, and `in` need one truth value, and an array has one for each element.",
            "an array of several elements is used as a condition.",
            "Write x.any() or x.all(), jnp.where for a choice of each element, & and | for `and` and `or`, or "
            "x is None for a test of None. An array in place of a flag or a number ends here, too.",
        ),
    ),
    (
        (
            r"'(?P<operator>[<>=!]{1,2})' not supported between instances of '(?P<left>[\w.]{1,60})' and "
            r"'(?P<right>[\w.]{1,60})'"
        ),
        _rule(
            "operands in Python",
            "An operator takes operands of types that it knows.",
            "{left} {operator} {right} is not defined.",
            "Look where the value that is not a number comes from: a tuple in place of one size or axis, or None of an "
            "argument that was not passed. No HLO is involved.",
        ),
    ),
    (
        (
            r"(?P<function>[\w.]{1,60})(?:: |'s | )(?P<name>\w{1,40})(?: and (?P<other>\w{1,40}))? arguments? "
            r"(?:should|must) be (?:a )?callable"
        ),
        _rule(
            "function as an argument",
            "A transformation takes a function, and calls it itself.",
            "[[{name} or {other}|{name}]] of {function} is not a function.",
            "Pass the function itself, not what it returns: body, not body(c); compare the order of the arguments.",
        ),
    ),
    (
        r"cond_fun must return a boolean scalar, but got (?P<found>[^\n]{1,200}?)\.?(?=\n|$)",
        _rule(  # loops.py of jax.lax
            "condition of a loop",
            "The condition of a while_loop returns one truth value: a bool[] in HLO.",
            "it returns {found}.",
            "Reduce it by jnp.any or jnp.all, compare (c < n) in place of returning a number, and return it at all: "
            "PyTreeDef(None) is a function without a return.",
        ),
    ),
    (
        r"ZeroDivisionError: [^\n]{1,80}",
        _rule(
            "division by zero",
            "Python divides sizes and counts while the program is traced.",
            "a size or a count is 0.",
            "Print the shapes at the line of the traceback: an empty batch, a dimension of 0, or a number of "
            "steps that "
            "was rounded down to 0. No HLO is involved.",
        ),
    ),
    (
        (
            r"struct\.error: (?:unpack(?:_from)? requires a buffer of (?:at least )?(?P<bytes>\d{1,12}) bytes"
            r"|'(?P<format>\w)' format requires (?P<range>[^\n]{1,80}))"
        ),
        _rule(
            "packed number",
            "struct reads and writes numbers of a fixed number of bytes.",
            "[[the format takes {bytes} bytes, and the data have fewer or more]][[a number is outside of {range} "
            "of the "
            "format '{format}']].",
            "A file that is cut, or of another kind, gives too few bytes: compare its size, and read with "
            "open(path, 'rb'). "
            "No HLO is involved.",
        ),
    ),
    (
        (
            r"RuntimeWarning: (?P<what>overflow|underflow|divide by zero|invalid value) encountered in "
            r"(?P<function>[\w.]{1,60})"
        ),
        _rule(
            "warning of NumPy",
            "NumPy goes on with inf or nan, and warns; JAX does not warn of it.",
            "{what} in {function}.",
            "It is on the host, outside of compiled programs: np.seterr(all='raise') shows the place. Look for a type "
            "that is too small (float16, int32), a log or a division of 0.",
        ),
    ),
    (
        r"iteration over a 0-d array",
        _rule(
            "iteration",
            "A loop, list(x), and `a, b = x` take the elements of the first dimension, and a number has none.",
            "an array of no dimensions is iterated over.",
            "Look where a number is given in place of a sequence: an axis or a shape that is an array, or a "
            "result that "
            "was summed already.",
        ),
    ),
    # --- arrays and their sizes ---
    (
        (
            r"(?P<function>[\w.]{1,60}) requires (?P<name>\w{1,40})\.ndim (?P<relation>[<>=]{1,2}) (?P<least>\d{1,3}), "
            r"got \w{1,40}\.ndim ==? (?P<found>\d{1,3})"
        ),
        _rule(
            "number of dimensions",
            "A function takes arrays of a certain number of dimensions.",
            "{name} of {function} has {found}, required is {relation} {least}.",
            "Add a dimension (x[None], jnp.atleast_1d(x)), or drop one (x[0], x.reshape(-1)).",
        ),
    ),
    (
        (
            r"(?:to (?P<function>\w{1,60}) )?must have at least as many (?P<more>rows|columns) as "
            r"(?P<fewer>rows|columns), got "
            r"shape \((?:[\d, ]{0,80}, )?(?P<rows>\d{1,12}), (?P<columns>\d{1,12})\)"
        ),
        _rule(
            "matrix",
            "This function takes tall matrices (or wide ones): one of the last two dimensions is not the smaller one.",
            "the matrix[[ of {function}]] has {rows} rows and {columns} columns.",
            "Transpose it (x.mT), or take its first columns.",
        ),
    ),
    (
        (
            r"inconsistent size for core dimension '(?P<name>\w{1,20})': (?P<one>\d{1,12}) vs (?P<other>\d{1,12})"
            r"(?: on vectorized function with [^\n]{0,200}?signature='(?P<signature>[^'\n]{1,120})')?"
        ),
        _rule(  # vectorize.py of jax.numpy
            "sizes that differ",
            "A letter of a signature is one size in all arguments.",
            "{name} is {one} in one argument and {other} in another[[, of the signature {signature}]].",
            "Print the shapes of the arguments: their last dimensions are those of the signature.",
        ),
    ),
    (
        (
            r"(?P<function>\w{1,60}) got inconsistent (?P<one>\w{1,40}) and (?P<other>\w{1,40}): got \w{1,40} "
            rf"(?P<wanted>{_SIZES}) and \w{{1,40}} (?P<stored>{_SIZES})"
        ),
        _rule(  # windows.py and convolution.py of jax.lax
            "length of a list",
            "Lists that belong together have one entry for each dimension of the window.",
            "{one} of {function} is {wanted}, {other} is {stored}.",
            "Give both one entry for each dimension, 1 for those that have no stride or dilation.",
        ),
    ),
    (
        (
            r"pad_width with n[d]=(?P<rank>\d{1,3}) has unsupported shape \((?P<found>\d{1,3})(?:, "
            r"?(?P<each>\d{1,3}))?,?\)"
        ),
        _rule(
            "padding",
            "A padding has one pair (before, after) for each dimension, or one pair or number for all.",
            "pad_width has {found} entries[[ of {each}]] for an array of {rank} dimensions.",
            "Write ((before, after), …) with (0, 0) for the dimensions that are not padded.",
        ),
    ),
    (
        r"Unsupported block dimension type: <class '(?P<type>[\w.]{1,60})'>",
        _rule(  # pallas/core.py
            "block of a Pallas kernel",
            "An entry of a block shape is a number, None, pl.Squeezed(), pl.Blocked(n), or pl.Element(n).",
            "an entry is of type {type}.",
            "Write one number for each dimension of the array, as in (8, 128).",
        ),
    ),
    (
        (
            r"(?P<what>in_specs|out_specs) argument must refer to an axis marked as manual \((?:frozenset\()?\{?"
            r"(?P<manual>[^(){}\n]{0,200})\}?\)?\), but: in_specs refers to (?P<axis>'[^'\n]{1,60}')"
        ),
        _rule(  # shard_map.py
            "axes of a mesh",
            "The specs of shard_map name axes of its mesh that it maps (axis_names).",
            "{what} names {axis}; the mapped axes are {manual}.",
            "Write one of them, or add the axis to the mesh or to axis_names.",
        ),
    ),
    # --- arrays and their sizes, by one function each ---
    (
        (
            r"(?<!\w)(?P<operation>\w++) requires lhs and rhs ndim to be equal, got (?P<left>\d{1,3}+) and "
            r"(?P<right>\d{1,3}+)"
        ),
        _rule(
            "dimensions of operands",
            "Both operands of this operation have the same number of dimensions.",
            "{operation} got {left} and {right} dimensions.",
            "Add the missing dimension, such as x[None] for one image without a batch.",
        ),
    ),
    (
        (
            r"dot_general requires lhs batch dimensions and rhs batch dimensions to have the (?:same|consistent) "
            rf"(?P<what>shape|sharding), got (?P<wanted>{_SIZES}) and (?P<stored>{_SIZES})"
        ),
        _rule(
            "batch dimensions of a dot",
            "The batch dimensions of both operands of a dot are equal.",
            "The {what} of the batch dimensions is {wanted} on the left and {stored} on the right.",
            "Broadcast or repeat one operand, such as the keys and values of grouped attention heads, first.",
        ),
    ),
    (
        (
            r"(?<!\w)(?P<operation>dynamic_slice|slice|dynamic_update_slice) start_indices must have length "
            r"equal to the "
            rf"(?:number of dimensions|rank) of (?:the )?operand, got indices (?P<indices>\([^)\n]{{0,200}}\)) "
            rf"for operand "
            rf"shape (?P<shape>{_SIZES})"
        ),
        _rule(
            "start of a slice",
            "A slice has one start for each dimension of its array.",
            "{operation} got the starts {indices} for {shape}.",
            "Pass a start for each dimension, 0 where all of it is taken.",
        ),
    ),
    (
        (
            r"dynamic_update_slice update shape must be smaller than operand shape, got update shape "
            rf"(?P<part>{_SIZES}) for operand shape (?P<within>{_SIZES})"
        ),
        _rule(
            "size of an update",
            "An update is at most as large as its array in each dimension.",
            "The update is {part}, the array {within}[[: {difference}]].",
            "Check the order of the arguments (operand, update, start), and the size of the cache that is written.",
        ),
    ),
    (
        (
            r"Argument to (?P<function>\w++)(?:\(\))? must have shape (?P<wanted>\[[^\]\n]{1,40}\]), got "
            r"(?P<found>\((?:\d{1,12},?)?\))"
        ),
        _rule(
            "matrix",
            "This function takes square matrices: the last two dimensions are equal, those before are a batch.",
            "{function} needs {wanted} and got {found}, which is not a matrix.",
            "Print the shape where the argument is made: a sum, an index, or a squeeze has dropped a dimension, or "
            "another argument was meant.",
        ),
    ),
    (
        (
            r"Argument to (?P<function>\w++)(?:\(\))? must have shape (?P<wanted>\[[^\]\n]{1,40}\]), got "
            r"(?P<found>\([\d, "
            r"]{0,200}\))"
        ),
        _rule(
            "matrix",
            "This function takes square matrices: the last two dimensions are equal, those before are a batch.",
            "{function} needs {wanted} and got {found}.",
            "Use jnp.linalg.pinv, lstsq, or svd for matrices that are not square.",
        ),
    ),
    (
        (
            r"(?P<base>function|module|method)\(\) (?:argument 1 must be (?:code|str), not \w{1,40}"
            r"|takes at most 2 arguments)"
        ),
        _rule(  # type(base)(name, bases, namespace) is what Python calls for a class statement
            "base of a class",
            "A class is derived from classes.",
            "the base is a {base}.",
            "Look at the class statement in the traceback: a release made the name a function (a module where a class "
            "of the same name is in it); install the release that the code was written for. No HLO is involved.",
        ),
    ),
    (
        (
            r"safe_(?:map|zip)\(\) argument (?P<one>\d{1,3}) is (?P<relation>longer|shorter) than arguments? "
            r"(?P<other>[\d\-]{1,7})"
        ),
        _rule(  # util.py of JAX: a function of JAX walks through several lists at once
            "length of a list",
            "JAX walks through several lists at once, such as the starts and the sizes of a slice.",
            "list {one} is {relation} than list {other}.",
            "The line of the traceback in your code has them: give each list one entry for each dimension, operand, or "
            "leaf of a pytree.",
        ),
    ),
    (
        r"Replacement index (?P<index>\d{1,3}) out of range for positional args tuple",
        _rule(  # str.format of Python
            "text of a message",
            "A text with places in braces takes a value for each.",
            "a text has a place {index}, and fewer values.",
            "If the text is that of an error of a library, it hides another error: check the arguments of the call "
            "(shapes, axes, types). No HLO is involved.",
        ),
    ),
    (
        (
            r"setting an array element with a sequence\."
            r"(?: The requested array has an inhomogeneous shape after (?P<dimensions>\d{1,3}) dimensions?)?"
        ),
        _rule(  # NumPy: np.asarray of nested lists
            "element of an array",
            "An element of an array is one number.",
            "[[the lists inside of the outer {dimensions} have unequal lengths|a list or an array is passed where one "
            "number is expected]].",
            "Look for lists of unequal lengths, an array in a tuple of sizes or axes, or two values for one place.",
        ),
    ),
    (
        (
            r"(?:Arguments to )?(?P<function>[\w.]{1,80}) must have at most (?P<most>\d{1,2}) dimensions, got "
            r"\w{1,30}\((?P<type>\w{1,20}\[[\d,]{0,100}\])[^\n]{0,40}\) at argument (?P<position>\d{1,3})"
        ),
        _rule(
            "number of dimensions",
            "A function takes arrays of a certain number of dimensions.",
            "argument {position} of {function} is {type}, and may have {most} dimensions.",
            "Map the function over the others with vmap, or flatten it (x.reshape(-1)).",
        ),
    ),
    (
        (
            r"Einstein sum subscript '(?P<subscript>\w{1,40})' does not contain the correct number of indices for "
            r"operand (?P<operand>\d{1,3})"
        ),
        _rule(  # opt_einsum's parser
            "subscripts of a product",
            "A subscript of einsum has a letter for each dimension of its operand.",
            "'{subscript}' has {letters}, operand {operand} has another number of dimensions.",
            "Print the shape of each operand, add or remove letters, or write ... for the dimensions that are kept.",
        ),
    ),
    (
        r"zero-size arrays not supported in (?P<operation>\w{1,40}), got shapes (?P<shapes>\([^\n]{1,200}?)\.?(?=\n|$)",
        _rule(
            "empty array",
            "The operation needs at least one element of each operand.",
            "the shapes are {shapes}: a dimension is 0.",
            "Look where the empty array comes from: a slice x[a:b] with a >= b, a filter that keeps nothing, or data "
            "that are used up.",
        ),
    ),
    (
        r"ValueError: expected (?P<name>\w{1,30}) (?P<relation>[<>]=?|==) (?P<limit>-?\d{1,9})\b",
        _rule(
            "value of an argument",
            "A function checks its arguments before anything is computed.",
            "{name} is not {relation} {limit}.",
            "Look how {name} is computed, and compare the order of the arguments with help(f). No HLO is involved.",
        ),
    ),
    (
        (
            r"too many indices for array: array is (?P<dimensions>\d{1,3})-dimensional, but (?P<indices>\d{1,3}) were "
            r"indexed"
        ),
        _rule(
            "index",
            "An array has at most one index for each dimension.",
            "{indices} indices are given for {dimensions} dimensions.",
            "Print x.shape at that line: a dimension was removed (by a sum, an index, or vmap) or never added.",
        ),
    ),
    (
        r"duplicate value in '(?P<name>\w{1,30})': (?P<axes>\([-\d, ]{1,80}\))",
        _rule(
            "axis of an array",
            "A list of axes names each axis once.",
            "{name} is {axes}: one is given twice.",
            "Remove it; a negative axis and the axis that it counts from the end are the same.",
        ),
    ),
    (
        r"Passing an array as a dtype argument is no longer supported",
        _rule(
            "type of a result",
            "dtype= takes a type, not an array that has it.",
            "an array is passed where a type is expected.",
            "Pass x.dtype, and check the order of the arguments.",
        ),
    ),
    (
        r"Invalid argument to dtype: (?P<value>[^\n]{1,120}?)\.(?=\s|$)",
        _rule(  # dtypes.py of JAX: the type of a Python value
            "type of a value",
            "JAX derives the type of a result from its arguments: arrays, numbers, and types.",
            "{value} has no type of an array.",
            "Print the arguments of the call: None is what was not passed or not returned.",
        ),
    ),
    (
        r"coordinates must be a sequence of length input\.ndim, but (?P<count>\d{1,4}) != (?P<dimensions>\d{1,4})",
        _rule(  # jax/_src/scipy/ndimage.py
            "number of dimensions",
            "map_coordinates takes one array of coordinates for each dimension of the input.",
            "it got {count} for {dimensions} dimensions.",
            "Pass [rows, columns, …] with an array for each dimension, or one array with that first dimension.",
        ),
    ),
    (
        r"array split does not result in an equal division: rest is (?P<rest>\d{1,12}+)",
        _rule(
            "split",
            "jnp.split cuts an axis into equal parts.",
            "The parts leave a rest of {rest}.",
            "Pass the places to cut at, as in jnp.split(x, [4, 8]), or use jnp.array_split, which allows a rest.",
        ),
    ),
    (
        (
            r"cannot select an axis to squeeze out which has size not equal to one, got shape=(?P<shape>\([\d, "
            r"]{0,200}\)) "
            r"and dimensions=(?P<axes>\([\d, \-]{0,80}\))"
        ),
        _rule(
            "squeeze",  # pmap drops the mapped axis this way, so its message is about an axis that is too large
            "Only a dimension of size 1 can be dropped.",
            "Dimensions {axes} of {shape} are to be dropped, and are not 1.",
            "In pmap this means that the mapped axis is larger than the number of devices: reshape it to "
            "(devices, rest), "
            "or use jit with a NamedSharding. Elsewhere, index or reduce the dimension.",
        ),
    ),
    (
        (
            r"Too many indices: (?:array is )?(?P<rank>\d{1,3}+)-dimensional,?(?: array indexed with|(?: array)? "
            r"but) (?P<count>\d{1,3}+)"
        ),
        _rule(
            "indices",
            "An array is indexed by at most one index for each dimension.",
            "{count} indices for an array with {rank} dimensions.",
            "Print x.shape before: a batch dimension may be missing, as inside of vmap.",
        ),
    ),
    (
        r"Indexer must have integer or boolean type, got indexer with type (?P<type>\w++)",
        _rule(
            "index",
            "An index is an integer or a boolean mask.",
            "The index is {type}.",
            "Cast it with .astype(jnp.int32), or use // in place of / where it is computed.",
        ),
    ),
    (
        r"JAX arrays are immutable and do not support in-place item assignment",
        _rule(
            "assignment",
            "Arrays of JAX never change.",
            "The program assigns to elements of an array.",
            "Use x = x.at[index].set(value), or .add; inside of jit it is done in place where possible.",
        ),
    ),
    (
        (
            r"Invalid shape for `(?P<operation>\w++)`\. Ref shape: (?P<wanted>\([\d, ]{0,200}\))\.(?: Expected shape: "
            r"(?P<expected>\([\d, ]{0,200}\))\.)? Value shape: (?P<stored>\([\d, ]{0,200}\))"
        ),
        _rule(
            "store in a Pallas kernel",
            "A kernel stores a value with the shape of the part of the reference that it writes to.",
            "The reference is {wanted}, the value {stored}[[: {difference}]].",
            "Keep the reduced dimension (keepdims=True), reshape the value, or write to a part, as in o_ref[0, :] = v.",
        ),
    ),
    (
        (
            r"Block shape for (?P<argument>\S{1,100}) \(= (?P<block>[^\n]{1,300}?)\) must have the same number "
            r"of dimensions "
            r"as the array shape (?P<shape>\([\d, ]{0,200}\))"
        ),
        _rule(
            "block of a Pallas kernel",
            "The shape of a block has one entry for each dimension of its array.",
            "The block {block} of {argument} is for the array {shape}.",
            "Add the missing entries; None drops a dimension of size 1 from the block in the kernel.",
        ),
    ),
    (
        (
            r"kernel function(?: in the)?[^\n]{0,40} pallas_call (?P<kernel>[^\n]{1,200}?) captures constants "
            r"\[(?P<types>[^\]\n]{1,300}(?:\][^\]\n]{0,80}){0,8}?)\]\."
        ),
        _rule(
            "constant in a Pallas kernel",
            "A kernel reads arrays only through its references.",
            "The kernel {kernel} closes over {types}.",
            (
                "Pass the array as an input with a BlockSpec, or build it in the kernel, such as by "
                "jax.lax.broadcasted_iota."
            ),
        ),
    ),
    (
        r"Only interpret mode is supported on (?P<platform>\w++) backend",
        _rule(
            # the CPU here is often a fallback: the accelerator was not found
            # the CPU here is often a fallback: the accelerator was not found
            "platform of a Pallas kernel",
            "Pallas compiles kernels for TPUs and GPUs only.",
            "The backend is {platform}.",
            (
                "Pass interpret=True to pallas_call for tests, or run on the accelerator: look whether "
                "jax.devices() has it."
            ),
        ),
    ),
    # --- types ---
    (
        (
            r"Input dtypes (?P<types>\('[^)\n]{1,200}'\)) have no available implicit dtype promotion path "
            r"when jax_numpy_dtype_promotion=strict"
        ),
        _rule(
            "types of operands",
            "With jax_numpy_dtype_promotion=strict, JAX converts no array to another type by itself.",
            "The operands are {types}.",
            _CAST,
        ),
    ),
    (
        (
            r"`preferred_element_type` must (?P<why>[^\n,]{1,120}), got preferred_element_type of (?P<found>\w++) for "
            r"(?:result|input) type of (?P<type>\w++)"
        ),
        _rule(
            # for integers a narrower type would overflow, for floats it would round twice
            # a narrower type would overflow for integers, and round twice for floats
            "result type of a dot",
            "A dot accumulates and returns at least the precision of its operands.",
            "preferred_element_type is {found}, the operands give {type}.",
            "Leave it out, or name a wider type such as float32 or int32, and cast the result.",
        ),
    ),
    (
        r"lower and upper arguments to fori_loop must have equal types, got (?P<lower>\w++) and (?P<upper>\w++)",
        _rule(
            # a float bound is usually an argument of grad, which needs floats
            # a float bound is usually an argument of grad, which needs floats
            "bounds of a loop",
            "Both bounds of a fori_loop are integers of one type.",
            "The lower bound is {lower}, the upper one {upper}.",
            (
                "Cast the bound, as in n.astype(jnp.int32); a gradient with respect to a number of iterations does "
                "not exist."
            ),
        ),
    ),
    (
        r"Python int(?:eger)? (?P<value>-\d{1,40}+) out of bounds for (?P<type>uint\d{1,2})",
        _rule(
            "integer",
            "Unsigned numbers are 0 or larger.",
            "{value} does not fit in {type}.",
            "Pass a number from 0 on, such as abs(x) or x % 2**32, or use a signed type.",
        ),
    ),
    (
        r"Python int(?:eger)? (?P<value>-?\d{1,40}+) (?:too large to convert to|out of bounds for) (?P<type>\w++)",
        _rule(
            "integer",
            "A Python number becomes an array of 32 bits, unless 64-bit types are switched on.",
            "{value} does not fit in {type}.",
            "Use uint32 or float32, split the number, or set jax_enable_x64 (JAX_ENABLE_X64=1).",
        ),
    ),
    (
        (
            r"(?<!\w)(?P<function>\w++) requires ndarray(?:,? scalar,?)?(?: or (?:scalar|None))? arguments?, got "
            r"<class '(?P<value_type>[^'\n]{1,100})'> "
            r"at position (?P<position>\d{1,3}+)"
        ),
        _rule(
            "argument of a function",
            "Functions of jax.numpy take arrays and numbers, and do not convert lists by themselves.",
            "Argument {position} of {function} is [[{kind_of_value}|of type {value_type}]].",
            "Print it at the line of the traceback. A list becomes an array by jnp.asarray (of arrays: jnp.stack); "
            "None is what was not passed or not returned.",
        ),
    ),
    (
        r"unexpected PRNG key type (?P<type><class '[^'\n]{1,100}'>)",
        _rule(
            "random key",
            "Random functions take a key of jax.random.key or jax.random.PRNGKey.",
            "The key is {type}.",
            "Create one by jax.random.key(seed) and split it for each use.",
        ),
    ),
    # --- values that jit takes and returns ---
    (
        (
            r"(?P<function>[\w.<>\-]{1,100}) at (?P<place>\S{1,300}:\d{1,7}+) traced for (?P<by>\w++) returned a "
            r"value of type "
            r"(?P<type><class '[^'\n]{1,100}'>)(?: at output component (?P<part>[^\s,]{1,200}))?, which is not a "
            r"valid JAX type"
        ),
        _rule(
            "result of jit",
            _NO_VALUES,
            "{function} ({place}) returns {type}[[ in {part}]].",
            "Return strings, configurations, and functions outside of jit, or leave them out of the result.",
        ),
    ),
    (
        (
            r"(?:Argument '(?P<name>[^'\n]{1,200})' of type (?P<type><class '[^'\n]{1,100}'>) is not a valid JAX type"
            r"|Cannot interpret value of type (?P<other><class '[^'\n]{1,100}'>) as an abstract array)"
        ),
        _rule(
            "argument of a transformation",
            _NO_VALUES,
            "[[{name} is {type}]][[An argument is {other}]].",
            "Name it in static_argnums or static_argnames, close over it, or use functools.partial for it.",
        ),
    ),
    (
        (
            r"Reverse-mode differentiation does not work for lax\.while_loop or lax\.fori_loop with dynamic "
            r"start/stop values"
        ),
        _rule(
            "gradient of a loop",
            "A gradient keeps the values of all iterations, so their number is known when the function is traced.",
            "A while_loop, or a fori_loop whose bounds are traced, has no gradient.",
            "Use jax.lax.scan, or fori_loop with Python numbers as bounds; mask iterations that are too many.",
        ),
    ),
    (
        (
            r"Leaked trace (?P<trace>\w++)\. Leaked tracer\(s\):\s*(?P<tracer>[^\n]{1,200})(?:[\s\S]{0,400}?while "
            r"tracing the function (?P<function>\S++) at (?P<place>\S++))?[\s\S]{0,600}?(?:is referred to by "
            r"(?P<holder>[a-zA-Z_][\w.]{0,200})|$)"
        ),
        _rule(
            # the last line of the chain of references names the variable, which is what one looks for
            # the last line of the chain of references names the variable, which is what one looks for
            "leaked tracer",
            "What a function computes while it is traced has no value and is gone when tracing ends.",
            "[[{function} ({place}) keeps|Something keeps]] {tracer}[[ in {holder}]].",
            "Return the value instead of storing it in a list, a global, or self.",
        ),
    ),
    (
        (
            r"(?P<what>Disallowed) (?P<direction>host-to-device|device-to-host|device-to-device) transfer: "
            r"(?:aval=(?:ShapedArray\()?(?P<type>\w{1,20}\[[\d,]{0,100}\]))?"
        ),
        _rule(
            "transfer",
            "jax_transfer_guard='disallow' refuses transfers that the program does not ask for by jax.device_put.",
            "A {direction} transfer[[ of {type}]].",
            "Move the array before by jax.device_put or jax.device_get, or allow it with "
            "jax.transfer_guard('allow') around "
            "the call.",
        ),
    ),
    # --- pytrees ---
    (
        (
            r"pytree structure error: (?P<what>different [^\n]{1,60}?|[^\n]{1,80}?) at key "
            r"path\s*(?P<path>[^\n]{1,200})"
            r"[\s\S]{0,600}?with (?P<one>\d{1,9}+) child[\s\S]{0,300}? but with (?P<other>\d{1,9}+) "
            r"child(?:[\s\S]{0,200}?"
            r"so the symmetric difference on key sets is\s*(?P<keys>[^\n]{1,300}))?"
        ),
        _rule(
            "structure of pytrees",
            _SAME_TREE,
            "At {path}, one tree has {one} children and another {other}[[: {keys} differ]].",
            _TREES,
        ),
    ),
    (
        (
            r"pytree structure error: (?P<what>different [^\n]{1,60}?|[^\n]{1,80}?) at key "
            r"path\s*(?P<path>[^\n]{1,200})"
        ),
        _rule("structure of pytrees", _SAME_TREE, "{path}: {what}.", _TREES),
    ),
    (
        (
            r"(?P<why>Dict key mismatch; expected keys: [^\n]{1,300}|(?:Tuple|List|Named[ ]?tuple) arity "
            r"mismatch: [^\n]{1,200}"
            r"|(?:Custom node|Named tuple) type mismatch: [^\n]{1,300}|Expected (?:list|tuple|dict|None|named "
            r"tuple), got "
            r"(?=[^\n]{0,300}[\[({])[^\n]{1,300})"
        ),
        _rule("structure of pytrees", _SAME_TREE, "{why}", _TREES),
    ),
    # --- shardings ---
    (
        (
            r"(?<!\w)(?P<operation>\w++) got incompatible shardings for broadcasting: "
            rf"(?P<specs>{_SPEC}(?:, {_SPEC}){{1,8}})"
        ),
        _rule(
            "shardings of operands",
            _EXPLICIT,
            "{operation} has operands with the shardings {specs}.",
            "Bring one to the sharding of the other: jax.sharding.reshard(y, jax.typeof(x).sharding.spec).",
        ),
    ),
    (
        (
            r"ShardingTypeError: (?P<why>[^\n]{0,200}?(?:ambiguous|out_sharding|output "
            r"sharding)[^\n]{0,120}?)\.?(?=\n|$)"
        ),
        _rule(
            "sharding of a result",
            _EXPLICIT,
            "{why}.",
            (
                "Name the result's sharding in the call, as in jnp.dot(a, b, out_sharding=P('x', None)), or reshard "
                "an operand."
            ),
        ),
    ),
    (
        (
            r"Scan carry input and output got mismatched varying manual axes (?P<one>[^\n]{1,200}?) and "
            r"(?P<other>[^\n.]{1,200})"
        ),
        _rule(
            # jnp.zeros makes a value that is equal on all devices, so the first carry is usually the one to change
            # jnp.zeros makes a value that is equal on all devices, so the first carry is usually the one to change
            "carry in shard_map",
            "In shard_map, a value that differs between devices has another type than one that does not.",
            "The carry begins as {one} and becomes {other}.",
            "Begin with a value that varies: jax.lax.pcast(x, axis_name, to='varying'), or pass check_vma=False.",
        ),
    ),
    (
        (
            r"all_to_all requires the size of the mapped axis axis_name to equal x\.shape\[split_axis\], but they are "
            r"(?P<devices>\d{1,9}+) and (?P<size>\d{1,12}+) respectively"
        ),
        _rule(
            # jax.lax has the tiled form as an option, for the older form of pmap is the default
            "all_to_all",
            "Without tiled=True, all_to_all splits a dimension whose size is the number of devices.",
            "The axis has {devices} devices, the dimension {size} elements.",
            "Pass tiled=True and a dimension that is a multiple of the devices, or reshape it.",
        ),
    ),
    (
        (
            r"(?P<operation>(?:psum|reduce)_scatter) operand scatter dimension size (?P<size>\d{1,12}+) must "
            r"(?:match shard "
            r"count|be divisible by shard_?count)(?: of)? (?P<devices>\d{1,9}+)"
        ),
        _rule(
            "psum_scatter",
            "Without tiled=True, psum_scatter takes a dimension whose size is the number of devices.",
            "The dimension has {size} elements, the axis {devices} devices.",
            "Pass tiled=True and a dimension that is a multiple of the devices.",
        ),
    ),
    (
        r"(?<!\w)(?P<operation>\w++) sources and destinations must be unique, got (?P<pairs>\[[^\]\n]{1,400}\])",
        _rule(
            "pairs of a permutation",
            "Each device sends to at most one device, and receives from at most one.",
            "{operation} has {pairs}.",
            "Send in rounds, one permutation each, or use all_gather to send one value to many.",
        ),
    ),
    # --- platforms ---
    (
        (
            r"(?:Unknown backend:? '?(?P<backend>\w++)'?(?: requested, but no platforms that are instances of \w++ are "
            r"present\. Platforms present are: |\. Available backends are )(?P<known>[\w, \[\]']{1,200})"
            r"|Backend '(?P<failed>\w++)' failed to initialize: (?:[A-Z_]{4,30}: )?(?P<why>[^\n]{1,300}?)\.? "
            r"Available backends "
            r"are (?P<others>\[[^\]\n]{0,200}\]))"
        ),
        _rule(
            "platform",
            "JAX has the platforms whose plugins are installed and whose devices are visible.",
            "[[{backend} is not there; there are {known}]][[{failed} did not start: {why}; there are {others}]].",
            "Install the plugin of the version of jax (jax[cuda12], jax[tpu]), look whether the device is visible "
            "(nvidia-smi, tpu-info), and read the first warning of the log.",
        ),
    ),
    (
        (
            rf"(?P<call>jax\.distributed\.initialize(?:\(\))?) (?:must be called before|should (?:only )?be "
            rf"called|has to be called){_REST}"
        ),
        _rule(
            # the platform of one process is fixed once it has started
            # the platform of one process is fixed once it has started
            "start of a job with several processes",
            "jax.distributed.initialize() comes before anything that starts a platform.",
            "{call} was called too late or twice.",
            "Call it first in the program, before jax.devices(), any array, and imports that create arrays.",
        ),
    ),
)
"""Patterns of messages and their rules."""

"""What do errors mean that JAX raises about how its own functions are called: functions, axes, meshes, and exports?

The messages are those of jax/_src (api.py, lax, sharding_impls.py, mesh.py, custom_derivatives.py, export, nn). No HLO
exists when they are raised. In the patterns, a space stands for any white space.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.compiler_messages import ErrorRule

_SIZES: Final = r"\([\d, ]{0,200}\)"
_TYPE: Final = r"\w{1,20}\[[^\]\n]{0,200}\]"
_LONG: Final = r"[\s\S]{0,900}?"
"""What stands between two parts of a message; it has line breaks."""
_NO_VALUE: Final = "While jit traces a function, its arrays have shapes and types but no values. No HLO exists yet."


def _rule(key: str, rule: str, violated: str, fix: str) -> ErrorRule:
    """A rule that the program breaks before HLO exists."""
    return ErrorRule(key, rule, violated, fix, is_program=True, is_about_hlo=False)


CALL_RULES: Final = (
    # --- values that jit does not know, by what asks for them ---
    (
        (
            r"numpy\.ndarray conversion method __array__\(\) was called on traced array with shape "
            rf"(?P<type>{_TYPE})(?:{_LONG}while tracing the function (?P<function>\S++) at (?P<place>\S++))?"
            r"(?:[\s\S]{0,600}?depends on the values? of the arguments? (?P<argument>[\w.\[\]', ]{1,200}?)\.(?=\s|$))?"
        ),
        _rule(  # its most usual cause: a function of NumPy or SciPy in place of that of jax.numpy
            "value of a traced array",
            _NO_VALUE,
            "[[{function} ({place})|The function]] gives {type} to NumPy[[; it depends on {argument}]].",
            "Call the function of jax.numpy or jax.scipy in place of NumPy's; for code that needs values, use "
            "jax.pure_callback.",
        ),
    ),
    (
        (
            r"Abstract tracer value encountered where concrete value is expected: traced array with shape "
            rf"(?P<type>{_TYPE})[^\n]{{0,40}}\s(?:It arose in |The size argument of )?(?:the )?"
            r"(?P<call>jnp\.(?:nonzero|unique|where|argwhere|flatnonzero|union1d|intersect1d|setdiff1d|arange"
            r"|linspace|repeat)"
            r"|\w{1,40}\(\) `\w{1,40}` argument)"
            rf"(?:{_LONG}while tracing the function (?P<function>\S++) at (?P<place>\S++))?"
            r"(?:[\s\S]{0,600}?depends on the values? of the arguments? (?P<argument>[\w.\[\]', ]{1,200}?)\.(?=\s|$))?"
        ),
        _rule(  # sizes of results must be numbers: HLO has fixed shapes
            "size of a result",
            "HLO has fixed shapes, so the size of each result is known while the function is traced.",
            "{call}: the size of the result depends on {type}[[, which depends on {argument}]][[, in {function} "
            "({place})]].",
            "Pass size= (nonzero, unique, argwhere), total_repeat_length= (repeat), or num_segments= as a "
            "Python number; "
            "name the argument in static_argnums if it rarely changes.",
        ),
    ),
    (
        (
            r"unsupported operand type\(s\) for (?P<operator>[^\s:]{1,12}): "
            r"'(?:(?P<left>list|tuple|str|range)' and '(?P<tracer>\w{0,40}Tracer)"
            r"|(?P<tracer_too>\w{0,40}Tracer)' and '(?P<right>list|tuple|str|range))'"
        ),
        _rule(  # list * n and the like need a number in Python
            "value of a traced array",
            _NO_VALUE,
            "[[{left} {operator} a traced number]][[a traced number {operator} {right}]].",
            "Name the number in static_argnums or static_argnames, or use jnp.repeat, jnp.tile, or jax.lax.fori_loop.",
        ),
    ),
    # --- functions that are given to transformations ---
    (
        (
            r"(?P<loop>scan|while_loop|fori_loop|associative_scan)\b[^\n]{0,40}? carry input and carry output "
            "must have the "
            r"same pytree structure, but they differ:\s*(?:The input carry )?(?P<why>[^\n]{1,300}?)\.?(?=\n|$)"
        ),
        _rule(  # loops.py of jax.lax
            "carry of a loop",
            "The carry of a loop keeps its containers: what the body returns has the structure of what it takes.",
            "{loop}: {why}.",
            "Return the same containers with the same keys, such as a dict for a dict.",
        ),
    ),
    # --- branches ---
    (
        (
            r"[Tt]he output of (?P<one>branch ?\d{1,4}|\w{1,40})(?: at path (?P<path>\S{1,200}?))? has type "
            rf"(?P<first>{_TYPE}(?:\{{[^}}\n]{{0,80}}\}})?) (?:but|and|while) (?:the )?(?:corresponding )?output of "
            rf"(?P<other>branch ?\d{{1,4}}|\w{{1,40}}) has type (?P<second>{_TYPE}(?:\{{[^}}\n]{{0,80}}\}})?)"
            r"(?:, so (?P<why>[^\n]{1,200}?)\.(?=\s|$))?"
        ),
        _rule(  # conditionals.py of jax.lax, and functions of libraries with branches of their own
            "branches of a cond",
            "All branches of jax.lax.cond and switch return the same types: HLO has one type for the result.",
            "[[{path} of ]]{one} returns {first}, {other} returns {second}[[: {why}]].",
            "Cast, pad, or slice one of them, as in y.astype(x.dtype).",
        ),
    ),
    (
        (
            r"(?<!\w)(?P<one>\w++)(?: output)? and (?P<other>\w++)(?: output)? must have identical types, got "
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
            r"outputs must have the same pytree structure, but they differ:[\s\S]{0,600}?[\s*]{1,80}"
            r"(?P<why>(?![*\s])[^\n]{1,120}? output is [^\n]{1,300}?)\.?(?=\n|$)"
        ),
        _rule(
            "branches of a cond",
            "All branches of jax.lax.cond and switch return one structure (pytree) with the same types.",
            "{why}.",
            "Return the same containers from all branches.",
        ),
    ),
    (
        (
            r"Pred must be a scalar, got (?P<value>\S[\s\S]{0,200}?)(?: of (?:shape|type) (?P<shape>\([\d, ]{0,80}\)"
            r"|\w{1,20}\[[\d,]{0,80}\]|<class '[^'\n]{1,80}'>))\.?(?=\s|$)"
        ),
        _rule(  # the value is printed whole, so it may have line breaks
            "condition of a cond",
            "The condition of jax.lax.cond is one truth value.",
            "It is {value} of {shape}.",
            "Reduce it with jnp.any or jnp.all, or use jnp.where to choose for each element.",
        ),
    ),
    (
        r"Gradient only defined for scalar-output functions\. Output was:? (?P<output>\([^\n]{1,200}\))\.(?=\s|$)",
        _rule(
            "result of a gradient",
            "jax.grad takes the gradient of one number.",
            "The function returns a tuple, {output}.",
            "Return the loss alone, or pass has_aux=True if the function returns (loss, more).",
        ),
    ),
    (
        (
            r"expected function with aux output to return a two-element tuple, but got type (?P<type><class "
            "'[^'\n]{1,120}'>)"
        ),
        _rule(
            "result of a gradient",
            "With has_aux=True, the function returns (loss, more).",
            "It returns {type}.",
            "Return a tuple of two, or remove has_aux=True.",
        ),
    ),
    (
        (
            r"primal and tangent arguments to jax\.jvp do not match; (?P<why>[^\n]{0,160}?)(?:\.|;) ?Got "
            r"(?P<found>[^\n]{1,200})"
        ),
        _rule(  # api.py
            "tangent of a jvp",
            "A tangent has the shape and the type of its primal; that of an integer has the type float0.",
            "{found}",
            "Cast the tangent, as in t.astype(x.dtype), or make it with jnp.ones_like(x).",
        ),
    ),
    (
        rf"argument to VJP function: got (?P<found>{_TYPE}), but expected (?P<wanted>{_TYPE})",
        _rule(
            "cotangent of a vjp",
            "The function that jax.vjp returns takes a cotangent with the type of the function's result.",
            "The cotangent is {found}, the result {wanted}.",
            "Pass jnp.ones_like(result), or a cotangent of that type.",
        ),
    ),
    (
        (
            r"vmap (?P<what>in_axes|out_axes) must be an int, None, or a tuple of entries[^\n]{0,120}?but got "
            r"len\(in_axes\)=(?P<found>\d{1,4}), len\(args\)=(?P<wanted>\d{1,4})"
        ),
        _rule(
            "axes of a transformation",
            "The axes are given once for all arguments, or once for each.",
            "{what} has {found} entries for {wanted} arguments.",
            "Give one entry for each argument, None for those that are not mapped; bind others with functools.partial.",
        ),
    ),
    (
        (
            r"(?P<function>(?<![\w.<>])[\w.<>]{0,120}?<lambda>\(\)|(?:index_map|kernel|body)\w{0,60}\(\)) takes "
            r"(?P<wanted>from \d{1,3} to "
            r"\d{1,3}|\d{1,3}) positional arguments? but (?P<found>\d{1,3}) (?:was|were) given"
        ),
        _rule(  # an index map of Pallas has an argument for each dimension of the grid, and one for each prefetch
            "arguments of a function",
            "A function is called with as many arguments as it has.",
            "{function} takes {wanted}, and is called with {found}.",
            "In Pallas, an index_map takes one argument for each dimension of the grid, and one for each scalar "
            "that is "
            "prefetched; the body of a scan takes (carry, x), that of a fori_loop (i, carry).",
        ),
    ),
    (
        (
            r"(?P<function>(?<![\w.<>])[\w.<>]{0,120}?(?:<lambda>|index_map|kernel|body)\w{0,60}\(\)) missing "
            r"(?P<count>\d{1,3}) required positional arguments?: (?P<names>'[^\n]{1,200})"
        ),
        _rule(
            "arguments of a function",
            "A function is called with as many arguments as it has.",
            "{function} is called with {count} fewer than it takes: without {names}.",
            "In Pallas, an index_map takes one argument for each dimension of the grid, and one for each scalar that "
            "is "
            "prefetched; the body of a scan takes (carry, x), that of a fori_loop (i, carry), a branch of cond the "
            "operands.",
        ),
    ),
    # --- calls of jax.lax and jax.numpy ---
    (
        (
            rf"(?<!\w)(?P<operation>\w++) update must have the same rank as operand, got update shape "
            rf"(?P<wanted>{_SIZES}) for "
            rf"operand shape (?P<stored>{_SIZES})"
        ),
        _rule(
            "dimensions of an update",
            "An update has as many dimensions as its array.",
            "{operation}: the update is {wanted}, the array {stored}[[: {difference}]].",
            "Add the missing dimension, such as update[None], and a start for it.",
        ),
    ),
    (
        (
            r"length of padding_config must equal the number of axes of operand, got padding_config "
            r"(?P<config>\([\d, ()\-]{0,200}\)) for operand shape (?P<shape>\([\d, ]{0,200}\))"
        ),
        _rule(  # slicing.py of jax.lax
            "padding",
            "A pad has one entry (low, high, interior) for each dimension of its array.",
            "The entries {config} are for the array {shape}.",
            "Add (0, 0, 0) for the dimensions that are not padded.",
        ),
    ),
    (
        rf"select cases must have the same shapes, got \[(?P<sizes>{_SIZES}(?:, {_SIZES}){{1,16}})\]",
        _rule(
            "shapes of operands",
            "Both cases of jax.lax.select have one shape.",
            "The cases are {sizes}[[: {difference}]].",
            "Broadcast one of them first, or use jnp.where, which broadcasts.",
        ),
    ),
    (
        (
            rf"Operands could not be broadcast together for (?P<operation>\w++) on shapes (?P<shapes>{_SIZES}"
            rf"(?:,? {_SIZES}){{1,8}}) and with the config option jax_numpy_rank_promotion='raise'"
        ),
        _rule(
            "dimensions of operands",
            "With jax_numpy_rank_promotion='raise', JAX adds no dimension to an operand by itself.",
            "{operation} has operands of {shapes}.",
            "Add the dimension, such as y[None], or set jax_numpy_rank_promotion='allow'.",
        ),
    ),
    (
        (
            r"convolution dimension_numbers\[(?P<at>\d)\] must contain the characters '(?P<one>\w)' and "
            r"'(?P<other>\w)' "
            r"exactly once, got (?P<found>[\w]{1,12})"
        ),
        _rule(
            "dimensions of a convolution",
            "dimension_numbers has three texts: the input (N and C), the kernel (O and I), and the result (N and C).",
            "Text {at} is {found}, without one {one} and one {other}.",
            "Write it as in ('NHWC', 'HWIO', 'NHWC').",
        ),
    ),
    (
        (
            r"number of query heads must be a multiple of key/value heads, but got (?P<queries>\d{1,9}) vs "
            r"(?P<keys>\d{1,9})"
        ),
        _rule(  # jax.nn.dot_product_attention
            "heads of an attention",
            "Each key and value head serves the same number of query heads.",
            "{queries} query heads are not a multiple of {keys} key and value heads.",
            "Compare the order of dimensions (batch, length, heads, size) and the number of heads in the model's "
            "configuration.",
        ),
    ),
    (
        r"JAX does not support string indexing; got idx='?(?P<index>[^'\n]{1,80})",
        _rule(  # a pytree that lost its dictionary is indexed so
            "index",
            "An array of JAX is indexed by integers, slices, and masks.",
            "The index is '{index}'.",
            "The value is an array where a dictionary is expected: look at what the function returns or was passed.",
        ),
    ),
    # --- meshes, shardings, and layouts ---
    (
        r"with_sharding_constraint requires a non-empty mesh in context if you are passing `?PartitionSpec",
        _rule(
            "mesh",
            "A PartitionSpec names axes of a mesh, so a mesh is known where it is used.",
            "with_sharding_constraint got a PartitionSpec, and no mesh is set.",
            "Call it within `with jax.set_mesh(mesh):`, or pass NamedSharding(mesh, spec).",
        ),
    ),
    (
        (
            r"Mesh requires the ndim of its first argument \(`devices`\) to equal the length of its second argument "
            r"\(`axis_names`\), but got devices\.ndim == (?P<dimensions>\d{1,3}) and len\(axis_names\) == "
            r"(?P<names>\d{1,3})"
        ),
        _rule(  # mesh.py of JAX
            "axes of a mesh",
            "A mesh has one name for each dimension of its array of devices.",
            "The devices have {dimensions} dimensions; the number of names is {names}.",
            "Name each dimension, or reshape the devices, as in np.array(jax.devices()).reshape(4, 2).",
        ),
    ),
    (
        r"Insufficient devices for (?P<dimensions>\d)D mesh: found (?P<found>\d{1,9}), expected (?P<wanted>\d{1,9})",
        _rule(  # vllm's and MaxText's own words
            "devices of a mesh",
            "A mesh has as many devices as the product of its sizes.",
            "The mesh needs {wanted} devices, and JAX has {found}.",
            "Look whether JAX sees the TPU at all (`python -c 'import jax; print(jax.devices())'`): one device is "
            "usually the CPU. Then compare the sizes of the mesh with the number of chips.",
        ),
    ),
    (
        r"AssertionError: \((?P<dimensions>\d{1,2}), (?P<spec>P(?:artitionSpec)?\([^\n]{0,200}\))\)",
        _rule(  # NamedSharding and shard_map assert that a spec is not longer than the array's dimensions
            "dimensions of a spec",
            "A PartitionSpec has at most one entry for each dimension of its array.",
            "{spec} is for an array with {dimensions} dimensions.",
            "Drop the last entries, or add the dimension to the array.",
        ),
    ),
    (
        (
            r"Length of major_to_minor and the rank of the value should match\. Got "
            r"major_to_minor=(?P<order>\([\d, ]{0,80}\)) "
            r"and shape=(?P<shape>\([\d, ]{0,200}\))"
        ),
        _rule(  # layout.py of JAX; major_to_minor is the reverse of XLA's order
            "layout of an array",
            "major_to_minor of a layout names each dimension of the array once.",
            "{order} is for an array of shape {shape}.",
            "Give one entry for each dimension, the slowest first, as in (0, 1) for two.",
        ),
    ),
    (
        (
            r"compiled for input shardings that disagree with the shardings of arguments passed to it\. Here are the "
            r"(?:first )?(?P<count>\d{1,9}+) mismatches(?:[^:\n]{0,40}): Argument (?P<name>[^\n]{1,200}?) with shape "
            r"(?P<shape>\w{1,20}\[[^\]\n]{0,200}\]): Passed sharding: (?P<found>\w{1,40}Sharding\([^\n]{0,300}) "
            r"Required sharding: (?P<wanted>\w{1,40}Sharding\([^\n]{0,300})"
        ),
        _rule(  # jit itself moves arguments; what is compiled ahead of time does not
            "sharding of an argument",
            "A compiled program takes arguments with the shardings that it was compiled for.",
            "{name} ({shape}) has {found}, compiled for {wanted}.",
            "Move it first: jax.device_put(x, compiled.input_shardings[0][i]), or call jit(f) itself.",
        ),
    ),
    (
        (
            r"device_put's first argument must be a fully addressable array, but got value with devices "
            r"(?P<devices>\{[^}\n]{1,4000}\})"
        ),
        _rule(  # process_index tells which devices are of other processes
            "arrays of several processes",
            "device_put moves arrays whose devices all belong to this process.",
            "The array has parts on devices of other processes: {devices}.",
            "Pass it through jit with out_shardings in all processes, which moves it between them; or make it from "
            "local parts by jax.make_array_from_process_local_data.",
        ),
    ),
    (
        r"Multiprocess computations aren't implemented on the (?P<platform>\w++) backend",
        _rule(  # jaxlib before 0.5 had no collectives between CPU processes by default
            "job with several processes",
            "On CPUs, a program of several processes needs a library that connects them.",
            "The backend is {platform}, and has none.",
            "Set jax_cpu_collectives_implementation='gloo' (JAX_CPU_COLLECTIVES_IMPLEMENTATION=gloo) before anything "
            "else. If a GPU or TPU was expected, JAX does not see it.",
        ),
    ),
    # --- calls of compiled and exported programs ---
    (
        (
            r"(?:Attempt to use|use of) a buffer that was previously donated in the same call to Execute\(\) "
            r"\(flattened "
            r"argument (?P<argument>\d{1,9})[^)\n]{0,60}?(?:first use: (?P<first>\d{1,9}))?\)"
        ),
        _rule(  # common_pjrt_client.cc
            "donated argument",
            "A donated array is given to the program once, as one argument.",
            "Argument {argument} is the array that argument {first} is, and is donated.",
            "Pass a copy (x.copy()) for one of them, or remove one from donate_argnums; equal leaves of a "
            "tree, such as "
            "tied weights, are the usual cause.",
        ),
    ),
    (
        (
            r"Symbolic dimension comparison '(?P<one>[^'\n]{1,80})' (?P<relation>[<>=!]{1,2}) "
            r"'(?P<other>[^'\n]{1,80})' is "
            r"inconclusive"
        ),
        _rule(  # shape_poly.py
            "symbolic sizes",
            "With symbolic dimensions, what the program compares must hold for every size.",
            "Whether {one} {relation} {other} depends on the size.",
            "State it as a constraint, as in jax.export.symbolic_shape('b', constraints=['b >= 8']), or compare arrays "
            "by jnp.where in place of sizes in Python.",
        ),
    ),
    (
        r"(?P<option>jax_\w{1,60}) config should be updated before backends are initialized",
        _rule(  # xla_bridge.py
            "configuration option",
            "Options of platforms are set before JAX starts one.",
            "{option} was set after the first array or jax.devices().",
            "Set {option} right after `import jax`, or as an environment variable in capitals.",
        ),
    ),
    (
        (
            r"(?:unknown vhlo (?:type|attribute|op\w*) code: (?P<code>\d{1,6})|failed to deserialize portable artifact)"
            r"(?:[\s\S]{0,400}?bytecode version (?P<version>\d{1,3}) produced by: (?P<producer>\w{1,60}[\w.]{0,20}))?"
        ),
        _rule(  # StableHLO is read by releases within its window of compatibility
            "version of StableHLO",
            "StableHLO bytecode is read by compilers that are as new as what wrote it, or newer.",
            "The compiler does not know code {code}[[, written by {producer}]].",
            "Use a newer compiler (jaxlib, libtpu, or the plugin), or write for an older one: jax.export and jaxlib "
            "have the target version, plugins report theirs.",
        ),
    ),
    (
        (
            r"The sharded dimension must be equal to the number of devices passed to PmapSharding\. Got sharded "
            r"dimension "
            r"(?P<at>\d{1,3}) with value (?P<found>\d{1,9}) in shape (?P<shape>\([\d, ]{0,200}\)) and the number of "
            r"devices=(?P<devices>\d{1,9})"
        ),
        _rule(  # PmapSharding.default
            "sharding of pmap",
            "pmap gives one element of the mapped dimension to each device.",
            "Dimension {at} of {shape} has {found} elements, for {devices} devices.",
            "Reshape the array to (devices, rest), or replicate it (flax.jax_utils.replicate); a checkpoint of another "
            "number of devices has another first dimension.",
        ),
    ),
    (
        r"scan got value with no leading axis to scan over: (?P<value>[^\n]{1,200}?)\.?(?=\n|$)",
        _rule(  # xs of lax.map come here, too
            "input of a scan",
            "A scan takes slices of arrays along their first dimension; a number has none.",
            "It got {value}.",
            "Pass numbers in the carry or close over them; xs takes arrays, and length= their common first size.",
        ),
    ),
    (
        r"You must pass a non-None PRNGKey to init and/or apply",
        _rule(  # hk.transform raises it at the first draw
            "random key",
            "Haiku gives random numbers to a function by the key of its call.",
            "The function draws random numbers, and init or apply got None for the key.",
            "Pass jax.random.PRNGKey(seed), or use hk.without_apply_rng if the function draws none.",
        ),
    ),
)
"""Patterns of messages and their rules."""

"""What do errors of a family mean, whatever their words: which rule is broken, what follows, what helps?

A family is a way to be wrong that many functions share: an axis that an array lacks, sizes that differ, a type that is
not a number. `message_index` has the family of each message of JAX and of the libraries on it; messages of other
releases and libraries are assigned by their words here. What follows from the values is computed from the message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.compiler_messages import ErrorRule
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.syntax.compiler_messages.message_facts import comparison_of, sentence_of, system_of, telling_line
from hlo_cli.syntax.compiler_messages.message_index import LEAST_WORDS, IndexedMessage, indexed_message
from hlo_cli.syntax.compiler_messages.message_values import (
    differing_sizes,
    element_counts,
    kinds_of_types,
    missing_axis,
    nearest_option,
    negative_number,
    not_broadcast,
    not_divided,
    not_square,
    out_of_bounds,
    rank_found,
    repeated_entry,
)

# --- families ---


@dataclass(frozen=True, slots=True)
class Family:
    """A way to be wrong: its rule, the words of its messages, and what follows from the values in one of them.

    >>> family_of("axis 3 is out of bounds for array of dimension 2").rule.key
    'axis of an array'
    """

    code: str
    rule: ErrorRule
    words: re.Pattern[str]
    consequence: Callable[[str], str]


def _family(
    code: str, key: str, rule: str, fix: str, words: str, consequence: Callable[[str], str] | None = None
) -> Family:
    violated = "[[{operation}: ]]{what}[[ ({consequence})]]"
    about = ErrorRule(key, rule, violated, fix, is_program=True, is_about_hlo=False)
    return Family(code, about, lazy_regex(words, re.IGNORECASE), consequence or comparison_of)


# --- advice ---

_PRINT: Final = "Print x.shape and x.dtype (under jit too: they are known) at the line of the traceback"
_CAST: Final = "Cast it, as in x.astype(jnp.float32), where it is made"
_NO_GRADIENT: Final = (
    "Write the rule by jax.custom_vjp or jax.custom_jvp, or take the value out of the gradient by "
    "jax.lax.stop_gradient."
)

_GOT: Final = r"[^\n]{0,160}?"

FAMILIES: Final[tuple[Family, ...]] = (
    # --- values while tracing ---
    _family(
        "tc",  # JAX has one page of its documentation for these (errors.html), and many words for them
        "value of a traced array",
        "While jit, grad, or vmap trace a function, arrays have shapes and types but no values.",
        "Compute it outside of the traced function and pass it as a Python value (static_argnums), or use jnp.where, "
        "jax.lax.cond, or jax.lax.while_loop; functions whose result size depends on values take a size=.",
        r"\btrace[dr]\b[^\n]{0,80}?\b(?:value|array|convert|encounter|concrete|leak|bool|index|hash)"
        r"|\bconcrete\b(?! values of int)"
        r"|Abstract tracer"
        r"|must be (?:known|static|available) (?:at|during|when) |is not k[n]own at (?:compile|trace)|\bunder `?jit\b"
        r"|leaked trac",
    ),
    _family(
        "st",  # jit hashes static arguments: api_util.py of JAX
        "static argument",
        "A static argument is a key of the compilation cache, so it is hashable and compares equal to its like.",
        "Pass arrays as ordinary arguments; make static ones tuples, strings, numbers, or frozen dataclasses.",
        r"\b(?:un|non-?)?hashable\b|\bhash\b|static_arg\w*|static arg",
    ),
    _family(
        "dn",
        "donated argument",
        "A donated array is gone after the call: its memory is that of a result.",
        "Use the result in its place (x = f(x)), pass a copy, or take the argument out of donate_argnums.",
        r"\bdonat\w+",
    ),
    # --- sharding ---
    _family(
        "dv",  # XLA pads only inside of a program, so JAX checks arguments: sharding_impls.py
        "size that does not divide",
        "A dimension is divided into equal parts, among devices, groups, or blocks.",
        "Pad the dimension to a multiple, choose a number of parts that divides it, or leave it whole (None).",
        r"\bdivisib\w+|\bevenly\b|multiple of|\bdivid(?:es?|ed)\b(?! by zero)|not (?:a )?(?:power|multiple)",
        not_divided,
    ),
    _family(
        "an",  # axis names are bound by transformations: core.py of JAX
        "name of an axis",
        "A collective names an axis that an enclosing shard_map, pmap, or vmap(axis_name=...) has.",
        "Compare the name with those of the mesh or of axis_name; call the function within the transformation.",
        r"unbound axis|axis[ _]names?\b|named axis|collective_axes",
    ),
    _family(
        "ms",  # before devices: a sharding is of devices, too
        "mesh or sharding",
        "A sharding names axes of its mesh, each once, and has at most one entry for each dimension of its array.",
        "Print the mesh (mesh.shape) and the sharding (jax.typeof(x), x.sharding): compare names, sizes, and devices. "
        "`hlo shard SHAPE --sharding SPEC` shows what each device holds.",
        r"\bmesh\w*\b|\b\w*shard\w*|PartitionSpec|\bspecs?\b(?! for)|in_specs|out_specs|\breplicat\w+|\bunreduced\b"
        r"|\bvarying\b"
        r"|\bvma\b|\bpcast\b|addressable|\bmanual axes\b",
    ),
    _family(
        "dc",
        "devices or processes",
        "A program runs on devices that its process sees, in the order that its sharding has.",
        "Print jax.devices(), jax.local_devices(), and jax.process_count(); a job of several processes calls "
        "jax.distributed.initialize() first, and JAX_PLATFORMS selects the platform.",
        r"\b(?:no|number of|local|available|unknown|visible|multiple|same|different|per|incompatible|global|all|one"
        r"|single)[- ]"
        r"(?:\w+ )?(?:devices?|backends?|platforms?|process(?:es)?)\b|\bbackend\b|\bplatforms? \b|coordinator"
        r"|jax\.distributed"
        r"|\bdevice (?:id|kind|order|assign)|per-device|\bplugin",
    ),
    # --- derivatives and transformations ---
    _family(
        "cd",  # before gradients, which are in all messages of custom rules: custom_derivatives.py
        "custom gradient",
        "A custom_vjp has a forward function (result, residuals) and a backward function, which returns one "
        "cotangent of "
        "the type of each argument; a rule of custom_jvp returns a result and a tangent of equal types.",
        "Compare what the rules return with the types that the message names: sum over broadcast dimensions, cast to "
        "the "
        "argument's type, return a tuple, and None for arguments without a gradient.",
        r"(?<!jax\.)custom[ _](?:vjp|jvp|gradient|linear|root|transpose|vmap|batching|dce|partition)\w*|\b(?:bwd|fwd"
        r"|def(?:vjp"
        r"|jvp|fwd|bwd)\w*) ",
    ),
    _family(
        "na",  # the words are those of Python, and of argnums: api_util.py of JAX
        "number of arguments",
        "A function is called with as many arguments as it takes.",
        "Compare the signature with the call: one argument too many or too few, a tuple in place of arguments, or "
        "self.",
        r"positional arguments?|keyword arguments?|required arguments?|\btakes (?:\d|from|no)"
        r"|number of (?:\w+ )?arguments"
        r"|\bargnums?\b|\bargnames?\b|(?:expected|got) \d+ (?:arguments|inputs|outputs)|keyword-only",
    ),
    _family(
        "lp",  # HLO has one type for a carry, and one for the results of all branches: control_flow/loops.py
        "loop or branch",
        "The body of a loop returns its carry with the types that it gets (a scan: a pair of carry and output), a "
        "condition "
        "returns one truth value, and all branches return one structure.",
        "Cast in the body, as in c.astype(x.dtype), or begin with the type that the body returns; return (carry, y) "
        "from the "
        "body of a scan, and the same containers from all branches.",
        r"\b(?:scan|while_loop|fori_loop|cond|switch|associative_scan)\b[^\n]{0,300}?\b(?:body|carry|init|branch\w*"
        r"|pred\w*"
        r"|cond_fun\w*|body_fun\w*|output|pair|length|index|axis|operand|callable)|\bcarry\b|\bbranch(?:es)?\b"
        r"|cond_fun|body_fun",
    ),
    _family(
        "pt",  # before gradients and loops, whose arguments are trees: tree_util.py of JAX
        "structure of pytrees",
        "Functions on several pytrees need the same containers, keys, and lengths in all of them.",
        "Print jax.tree.structure() of both: usually one has a key more, or one is a list and the other a tuple.",
        r"\bpy ?tree|\btree(?: |_)?(?:structure|def|prefix|map)|treedef|\btree\b|\bleaf\b|\bleaves\b|tree structures?",
    ),
    _family(
        "ry",  # before types: a key is an array of uint32
        "random key",
        "Random functions take a key, made by jax.random.key(seed) and used once.",
        "Create keys by jax.random.key(seed), and new ones by key, subkey = jax.random.split(key).",
        r"\bPRNG\w*|\bkey (?:array|data|reuse|type|impl)|random key|\brngs?\b|\bseed\b|\bkeys? (?:must|with|was"
        r"|has been)",
    ),
    _family(
        "gr",
        "gradient",
        "A gradient needs inputs of floating-point type, one real number as result, and a rule for each operation.",
        "Cast inputs to float, reduce the result (jnp.sum, jnp.mean), return more by has_aux=True. " + _NO_GRADIENT,
        r"\b(?:grad|jvp|vjp|jac(?:obian|fwd|rev)|hessian|linearize|linear_transpose)\b[^\n]{0,200}|differentia\w+"
        r"|\btangents?\b"
        r"|\bcotangents?\b|\bprimals?\b|\btranspose rule|\breverse-mode|\bforward-mode",
        kinds_of_types,
    ),
    _family(
        "mp",
        "mapped axes",
        "vmap, pmap, and scan take slices along one axis of each argument: the axis exists, and has one size in all.",
        "Give one entry of in_axes for each argument (None for those that are not mapped), and compare the sizes.",
        r"\b(?:vmap|pmap|xmap)\b|in_axes|out_axes|axis_size|\bmapped (?:ax|arg|out)|\bbatching rule"
        r"|(?<!un-)\bbatched\b",
    ),
    # --- control flow ---
    # --- pytrees and functions ---
    _family(
        "fn",
        "function as an argument",
        "A transformation takes a function, which it calls with arrays.",
        "Pass the function itself, not what it returns: jit(f), not jit(f(x)); bind arguments by functools.partial.",
        r"\bcallable\b|must be a function|expected a function|\bdecorator\b|generator function|coroutine",
    ),
    _family(
        "cb",
        "host callback",
        "A callback is Python that runs on the host: it returns arrays of the shapes and types that were declared.",
        "Compare what the function returns with result_shape_dtypes; print in it, or call it with NumPy arrays first.",
        r"callback|io_callback|pure_callback",
    ),
    _family(
        "ef",
        "effects",
        "Effects, such as callbacks and writes to references, are kept in order, which some transformations cannot do.",
        "Take the effect out of the transformed function, or use the ordered=False form.",
        r"\beffects?\b|\bordered\b",
    ),
    # --- export and formats ---
    _family(
        "sy",
        "symbolic sizes",
        "With symbolic dimensions, what the program compares must hold for every size.",
        "State it as a constraint, as in jax.export.symbolic_shape('b', constraints=['b >= 8']), or make the size "
        "constant.",
        r"symbolic|polymorphi\w+|\bdim(?:ension)? var|inconclusive|shape_poly",
    ),
    _family(
        "ex",
        "exported program",
        "An exported program is called with the types, platforms, and number of devices that it was exported for.",
        "Compare them with exported.in_avals, exported.platforms, and exported.nr_devices; export again with newer "
        "versions.",
        r"\bexport\w*|serializ\w+|calling[ _]convention|deserializ\w+|compiled for|lowered for|pickl\w+",
    ),
    # --- kernels ---
    _family(
        "pk",  # after control flow, as kernels have loops; before shapes, as blocks have them
        "Pallas kernel",
        "A kernel reads and writes references: blocks of its arguments and results, in a memory space, of tiles that "
        "the "
        "hardware has.",
        "Compare block shapes, grid, and index maps with the arrays; interpret=True runs the kernel on the CPU, and "
        "`hlo kernel DUMP` shows blocks and memory of one that compiles.",
        r"pallas|\bBlock ?Specs?\b|block[ _](?:shape|spec|size|mapping|index)|index[ _]map|\bgrid\b|\bkernel\b"
        r"|memory[ _]space|memref"
        r"|\brefs?\b|\bSMEM\b|\bVMEM\b|\bGMEM\b|\bTMEM\b|\bsmem\b|\bvmem\b|semaphore|\bbarrier|\bDMA\b|\bMosaic\b"
        r"|\bTriton\b|swizzl\w+"
        r"|wgmma|tcgen|\bscratch\b|\bprefetch|\bpipeline\b|warpgroup|\bwarps?\b|\btil(?:e|es|ed|ing)\b|\bmma\b"
        r"|\btransforms?\b",
    ),
    # --- shapes ---
    _family(
        "rp",
        "repeated entry",
        "Each axis, name, or index is given once.",
        "Remove the entry that is there twice; -1 and the last axis are the same.",
        r"\brepeated\b|\bduplicat\w+|\bunique\b|\bdistinct\b|more than once|specified twice|\bexactly once\b"
        r"|not a permutation"
        r"|must be a permutation|\bdisjoint\b|\boverlap\w*",
        repeated_entry,
    ),
    _family(
        "sq",  # lax/linalg.py: decompositions are of square matrices
        "square matrix",
        "The function takes a square matrix, or a stack of them in the last two dimensions.",
        "Transpose or slice the matrix; for one that is not square, use lstsq, pinv, svd, or qr.",
        r"\bsquare\b",
        not_square,
    ),
    _family(
        "ax",
        "axis of an array",
        "An array of n dimensions has the axes 0 to n-1, or -n to -1 from the end.",
        "Print x.shape at that line: a dimension was removed (by a sum, an index, or vmap) or never added; see "
        "keepdims=True "
        "and x[:, None].",
        r"(?:\bax[ei]s|\bdim(?:ension)?s?)\b"
        + _GOT
        + r"(?:out[- ]of[- ](?:bounds?|range)|\bless than\b"
        + _GOT
        + r"(?:rank|ndim|dim)"
        r"|must be (?:in|between|within|>=|at least)|in (?:the )?range|not (?:in|valid|exist|within)|exceed)"
        r"|out[- ]of[- ](?:bounds?|range)"
        + _GOT
        + r"\b(?:ax[ei]s|dim\w*|rank|ndim)|\bmust (?:all )?be less than operand ndim"
        r"|invalid (?:axis|axes|dimension)|\b(?:source|destination) axis|\bdimension numbers?\b" + _GOT + r"range",
        missing_axis,
    ),
    _family(
        "ng",  # before bounds: a size below 0 is out of bounds, too
        "negative or zero number",
        "Sizes, counts, strides, and limits are at least 0, some at least 1.",
        "Look how the number is computed: a difference of two sizes, a -1 that only reshape takes, or an empty input.",
        r"non-?negative|\bnegative\b|\bpositive\b|(?:greater|larger|bigger) than (?:or equal to )?(?:0|1|zero|one)\b"
        r"|>=? ?[01]\b"
        r"|at least (?:0|1|one|zero)\b(?!-d)|\bzero-size|\bnon-?empty\b|\bempty\b|nonzero|not be zero|nonnegative"
        r"|need at least",
        negative_number,
    ),
    _family(
        "bd",
        "bounds of a slice",
        "The start and the end of a slice, and an index, are within the array.",
        "Compare the sizes: dynamic slices move inwards, but have at most the size of the array.",
        r"\b(?:slice|start|limit|index|indices|offset|k|stop)\w*\b"
        + _GOT
        + r"(?:out[- ]of[- ]bounds?|less than or equal|<=|exceed"
        r"|greater than|larger than|must be (?:less|smaller|at most)|in the range|out of range)"
        r"|out[- ]of[- ](?:bounds|range)"
        r"|\bgather\b"
        + _GOT
        + r"\b(?:slice|offset|index|indices|start|collapsed|bound)|\bscatter\b"
        + _GOT
        + r"\b(?:update|window|index|indices|inserted|bound)",
        out_of_bounds,
    ),
    _family(
        "rs",  # one size of -1 is computed, as in NumPy: lax_numpy.py
        "number of elements",
        "A reshape keeps the number of elements; one size may be -1, and is computed.",
        "Compare the products of both shapes; use x.reshape(n, -1) with an n that divides the number of elements.",
        r"reshape|number of (?:output |input )?elements|same (?:number of elements|total size)"
        r"|unknown (?:axis )?size|`?-1`? value",
        element_counts,
    ),
    _family(
        "bc",  # NumPy aligns shapes from the last dimension, HLO has no implicit broadcast
        "shapes that do not broadcast",
        "Shapes are aligned from the last dimension: two sizes are equal, or one of them is 1.",
        "Add a dimension where one is missing (x[:, None]), transpose one operand, or reduce with keepdims=True.",
        r"broadcast\w*",
        not_broadcast,
    ),
    _family(
        "dt",  # before convolutions, which have dimension_numbers, too
        "dimensions of a product",
        "A product sums over dimensions of equal size, and pairs batch dimensions of equal size.",
        "Transpose one operand (x @ y.T), add a batch dimension, or name the dimensions with jnp.einsum.",
        r"\btypes for (?:matmul|dot)|\bEinstein sum|\bsubscripts?\b|\b(?:dot\w*|matmul|vecdot|matvec|einsum"
        r"|tensordot|contract\w*|ragged_dot)\b"
        + _GOT
        + r"(?:dim|shape|size|rank|ax[ei]s|subscript|types? for|operand|equal|same|length)|contract\w+ dim\w+",
        differing_sizes,
    ),
    _family(
        "cv",  # lax/convolution.py: the three texts of dimension_numbers
        "convolution",
        "A convolution takes an input (batch, features, space), a kernel, and a result in the order of "
        "dimension_numbers; features of the kernel times groups are those of the input.",
        "Write dimension_numbers=('NHWC', 'HWIO', 'NHWC') for the order of your arrays, and compare features, "
        "strides, and "
        "groups.",
        r"\bconv(?:olution\w*|_\w+)?\b"
        + _GOT
        + r"(?:dim|feature|group|rank|window|stride|padding|shape|kernel|lhs|rhs|rank)|window_strides"
        r"|feature_group_count|batch_group_count|dimension_numbers",
        differing_sizes,
    ),
    _family(
        "rk",
        "number of dimensions",
        "A function takes arrays of a certain number of dimensions.",
        "Add a dimension (x[None], x[:, None]), flatten (x.reshape(-1)), or map the function over the others with "
        "vmap.",
        r"\bndim\b|\brank\b|number of dimensions|\b\d-?d(?:imensional)?\b|(?:one|two|three)[- ]dimension\w*"
        r"|\bscalars?\b|\bvectors?\b"
        r"|\bmatri(?:x|ces)\b|dimensions? (?:array|input)|dimensional|0-d|too (?:many|few) (?:ind|dim)"
        r"|non-scalar",
        rank_found,
    ),
    _family(
        "ss",
        "sizes that differ",
        "Operands, updates, and weights of one operation have the shapes that it pairs.",
        "Look where the first of them is made: another batch size, a transposed matrix, a missing dimension, or the "
        "weights "
        "of another model.",
        r"\bshapes?\b"
        + _GOT
        + r"\b(?:match|same|equal|incompatible|inconsistent|compatible|differ\w*|mismatch|agree|=="
        r"|expected|correspond\w*|must|got|but)|(?:match|same|equal|incompatible|inconsistent|compatible|differ\w*"
        r"|mismatch\w*|agree|consistent|expected"
        r"|invalid|unexpected)\b"
        + _GOT
        + r"\b(?:shapes?|sizes?|dimensions?|length|batch)\b|\b(?:sizes?|dimensions?)\b"
        + _GOT
        + r"\b(?:match|must equal|must be equal|same|!=|==|mismatch|agree|differ)"
        r"|ragged|inhomogeneous",
        differing_sizes,
    ),
    # --- types ---
    _family(
        "td",  # jax.lax has no promotion, which is in jax.numpy: dtypes.py
        "types that differ",
        "Functions of jax.lax, loops, references, and strict promotion do not convert types.",
        "Cast one operand, as in y.astype(x.dtype), or use the function of jax.numpy, which converts.",
        r"\bd?types?\b"
        + _GOT
        + r"\b(?:same|match|equal|incompatible|mismatch\w*|differ\w*|promot\w+|agree|identical|consistent|cast)"
        r"|(?:same|match\w*|equal|incompatible|mismatch\w*|differ\w*|promot\w+|agree|identical|inconsistent)\b"
        + _GOT
        + r"\bd?types?\b|promotion"
        r"|bit ?width",
        kinds_of_types,
    ),
    _family(
        "tk",
        "type of a number",
        "A function takes numbers of certain types: integers, floating-point numbers, or truth values.",
        _CAST + " (jnp.int32 for indices, bool for masks), or change the constant or dtype= that gives the type.",
        r"\bdtypes?\b|\b(?:integers?|floating(?:[- ]point)?|complex|boolean|bool|real|inexact|numeric|unsigned"
        r"|signed)\b" + _GOT + r"\b(?:type|dtype|input|arg\w*|got|array|valued|number|value|key|only)"
        r"|\b(?:must|should) be (?:an? )?(?:int\w*|float\w*|bool\w*|complex|real)"
        r"|precision|\b(?:u?int|b?float|complex)\d{1,2}\b|element type|data ?type",
        kinds_of_types,
    ),
    _family(
        "ix",
        "index",
        "An array of JAX is indexed by integers, slices, None, Ellipsis, and arrays of integers or truth values.",
        "Convert lists to arrays (jnp.array), cast indices to int, and use jnp.where for masks under jit.",
        r"\bindex(?:ing|er|ers|ed)?\b|\bindices\b|\bslices?\b|\bslicing\b|\bgather\b|\bscatter\b",
    ),
    _family(
        "im",
        "array that cannot change",
        "Arrays of JAX are values: they do not change in place.",
        "Use x.at[i].set(y), which returns the new array.",
        r"immutable|in-?place|read-?only|\bfrozen\b|cannot (?:set|assign|modify|delete)|item assignment"
        r"|assignment destination|mutat\w+",
    ),
    # --- calls ---
    _family(
        "op",
        "unknown option",
        "An option takes one of a few values, which its function lists.",
        "Compare it with the values in the message or in help() of the function; names change between releases.",
        r"\bunknown\b|unrecognized|not recognized|one of\b|\bvalid (?:values|options|choices|modes?)|not a valid"
        r"|invalid (?:value(?![^\n]{0,40} encountered)|option|mode|method|choice)"  # NaN, in words of NumPy
        r"|expected (?:either|one)|is invalid|\boptions? (?:are|is)|\bnot among\b|must be (?:either )?['\"`]"
        r"|\bmode\b|supported (?:values|modes|options)|\bmethod\b",
        nearest_option,
    ),
    _family(
        "co",
        "arguments that exclude each other",
        "Of some arguments only one may be given, or only together with another one.",
        "Remove one of them, or give the one that is missing.",
        r"\bboth\b|\bonly one of\b|\bexactly one\b|mutually exclusive|\beither\b"
        + _GOT
        + r"\bor\b|cannot (?:be )?(?:specify|specified|pass|set|used?|combine)"
        r"|can ?not be (?:used|specified|combined|None)|must (?:be )?(?:specify|specified)|\brequires?\b"
        + _GOT
        + r"\bto be (?:set|specified|given|True|False)"
        r"|\bif \w+ is\b|when \w+ is|together with|must not be (?:specified|set|None)|is (?:required|None)\b"
        r"|must be (?:provided|set|specified|given|passed)|\bneither\b",
    ),
    _family(
        "ln",
        "length of a list",
        "Lists that belong together, such as arguments and their axes, have equal lengths.",
        "Compare the two lengths that the message names; add the missing entry, or remove one.",
        r"\blen(?:gth)?s?\b|\bnumber of\b|\bcount\b|exactly \d+|at (?:most|least) \d+|too (?:many|few)|not enough"
        r"|\bexpected \d+|one entry|\bas many\b|\bnum_\w+|\bnot equal\b",
    ),
    # --- the system ---
    _family(
        "un",  # a rule is missing for a primitive: interpreters/mlir.py, ad.py, batching.py
        "missing implementation",
        "The operation has no implementation for this platform, type, or transformation.",
        "Use an equivalent operation, another platform (JAX_PLATFORMS=cpu), or a newer release; search the issues of "
        "the "
        "project for its name.",
        r"not (?:yet )?(?:implement\w*|support\w*|available|handled|allowed)|unimplemented|unsupported"
        r"|does ?n[o']t support|do not support|only supports?"
        r"|no (?:\w+ )?(?:rule|handler|implementation|lowering|evaluation)|is only (?:supported|implemented"
        r"|available)|only \w+ (?:are|is) supported"
        r"|NotImplemented|missing (?:rule|lowering)|cannot (?:lower|handle|convert|interpret)|\bTODO\b"
        r"|can't (?:lower|handle)|only implemented",
    ),
    _family(
        "rm",
        "removed or deprecated name",
        "A release announces that a name or a behavior goes away, and removes it later.",
        "Use the replacement that the message names, or keep the release that has the old one; results do not change "
        "until "
        "it is removed.",
        r"deprecat\w+|\bremoved\b|no longer|\brenamed\b|\bwill be\b|obsolete|future release|has been (?:moved"
        r"|replaced)",
    ),
    _family(
        "cf",
        "configuration",
        "Options of JAX are set by jax.config.update or as environment variables, before the first array.",
        "Compare the name with jax.config.values; set it right after `import jax`, or as JAX_NAME in the environment.",
        r"\bjax_\w+|\bconfig\w*\b|environment variable|\bJAX_\w+|\bflags?\b|\bcontext manager|\bcompiler[ _]options?",
    ),
    _family(
        "pg",
        "missing package",
        "A part of the program needs a package that is not installed, or another version of it.",
        "Install it in the environment of this Python (`python -m pip install NAME`), in the version that belongs to "
        "jax.",
        r"\binstall\w*\b|\bimport\b|No module named|\bversions?\b",
    ),
    _family(
        "fl",
        "file or checkpoint",
        "A checkpoint or a file exists under the path, and has what is restored from it.",
        "List the folder, and compare its tree with that of the program (checkpointer.metadata(path)).",
        r"\bcheckpoint\w*|\bdirector(?:y|ies)\b|\bfile\w*\b|\bpath\b|\brestor\w+|\bsav(?:e|ed|ing)\b",
    ),
    _family(
        "nm",
        "name that is missing or there twice",
        "A module, a parameter, or a variable has one name in its scope.",
        "Print the names (jax.tree.map(jnp.shape, params)), and look for a submodule that is made twice, or not at "
        "all.",
        r"not found|does not exist|\bmissing\b|already (?:exists?|defined|in use|registered|has|been)|could not find"
        r"|\bno \w+ named|no such|not registered"
        r"|has no (?:attribute|field|member)|no attribute|unexpected keyword|not in scope|\bnot in \b|collection"
        r"|\bparameter\b|\bscope\b|cannot find|is undefined",
    ),
    _family(
        "or",
        "order of calls",
        "Some calls have an order: a setup once, before what needs it, and nothing after it is closed.",
        "Look which call comes first, and whether one is made twice; in notebooks, restart the kernel.",
        r"\balready\b|\bbefore\b|\bafter\b|\bonce\b|\binitialized?\b|has not been|was not called"
        r"|must (?:first )?(?:be )?called?|\bclosed\b|\bactive\b|\boutside\b|\binside\b|\bwithin\b|\bcontext\b",
    ),
    _family(
        "nn",
        "not a number",
        "A value became infinite or not a number.",
        "Set jax_debug_nans=True to find the operation; look for log and division near 0, large exponents, and "
        "float16.",
        r"\bnans?\b|\binf(?:inity|s)?\b|non-?finite|\bdivision by zero",
    ),
    _family(
        "bg",  # the library checks itself, so the program is not at fault
        "internal error",
        "A function of the library met a state that its authors excluded.",
        "Reduce the program, try a newer release, and report it with the traceback (JAX_TRACEBACK_FILTERING=off).",
        r"\binternal\b|\bbug\b|unreachable|should (?:not|never)|please (?:file|report|open)|\bunexpected\b|assert\w*"
        r"|impossible|(?:inconsistent|inconsistency)|this is an error in",
    ),
    _family(
        "ty",  # last: most messages name a type
        "type of an argument",
        "A function takes arguments of certain Python types; arrays are numbers, not lists or texts.",
        "Look what was passed: a list in place of an array (jnp.asarray), None, a text, a tuple, or a function.",
        r"\btype\b|\binstance\b|\b(?:must|should|expected?|has to|needs?)\b"
        + _GOT
        + r"\b(?:an? \w+|int\w*|tuples?|sequences?|lists?|dict\w*|str\w*|arrays?|None|bool\w*|objects?|iterable)"
        r"|\bnot an? \w+|\barray-?like\b|\bstrings?\b|got",
    ),
)
"""The families, the most specific first: the words of a later one may be in a message of an earlier one."""


GENERAL: Final = _family(
    "ag",
    "arguments of a call",
    "A function checks its arguments when it is traced, before HLO exists.",
    "Look at the line of the traceback, and print the arguments: their types, jax.typeof(x), and their structure.",
    r"(?!)",
)
"""The family of messages that the index has, and of which no word tells more."""
PYTHON: Final = _family(
    "py",
    "type of a value",
    "An operation of Python needs a value of another type: the message is of Python, not of a compiler.",
    "Print type(x) at the line of the traceback: often None that a function returns without `return`, a tuple in place "
    "of an array, a float in place of a size, or the result of a function in place of the function.",
    r"(?!)",
)
"""The family of Python's own exceptions."""
FAMILY_OF: Final = {each.code: each for each in (*FAMILIES, GENERAL)}
"""The families by the code in the index."""
_NOT_IMPLEMENTED: Final = lazy_regex(
    r"\bNotImplementedError\b|\bnot (?:yet )?(?:implemented|supported)\b", re.IGNORECASE
)


def family_of(message: str) -> Family | None:
    """The family of a message by its words; None if they are of no family."""
    if _OF_TYPES.search(message) and "shape" not in message:
        return FAMILY_OF["tk"]
    if _OF_OPTIONS.search(message):
        return FAMILY_OF["op"]
    found = next((each for each in FAMILIES if each.words.search(message)), None)
    # what is not implemented may be about anything, and its family has no advice for that
    is_missing = _NOT_IMPLEMENTED.search(message) and (found is None or found.code not in _EVEN_IF_MISSING)
    return FAMILY_OF["un"] if is_missing else found


_OF_TYPES: Final = lazy_regex(r"\b(?:integ\w+|float\w*|bool\w*|complex|inexact|numeric)\b[^\n]{0,12}\bdtypes?\b")
"""The words about types that messages of all functions have, whatever else they name."""
_OF_OPTIONS: Final = lazy_regex(
    r"\benum value|must be (?:None or )?(?:one of|in) [\[({]['\"]|[Vv]alid values for \w+ are"
    r"|Error: (?:\w+: )?(?:[Ii]nvalid|(?:Unknown|unknown)"
    r"|[Uu]nrecognized|[Uu]nsupported) (?:(?!axis|ax)[A-Za-z]\w* ){1,3}['\"`:=]"
)
"""A value in quotes that an option does not have."""
_NAMED_VALUE: Final = lazy_regex(r"['\"][^'\"\n]{1,60}['\"]")
_VAGUE: Final = ("ag", "ty", "ln", "op", "nm", "or", "tk")
"""Families whose words tell little."""
_EVEN_IF_MISSING: Final = ("tc", "dv", "gr", "cd", "ry")
"""Families whose advice helps where something is not implemented, too."""

# --- messages ---

FoundMessage = tuple[ErrorRule, int, int, dict[str, str]]
"""A rule, where its message begins and ends in a text, and the fields of the message."""
_MOST_TRIED: Final = 3
"""Exceptions of a text that are looked at: the last one is what the program ended with."""
_MOST_READ: Final = 1500
"""Characters of a message whose values are read."""
_END: Final = lazy_regex(r"\n\n(?:The above exception|During handling of)|\n-{10,}|\nTraceback \(|\n[ \t]*File \"")
_WARNING: Final = lazy_regex(r"\b\w{0,40}Warning: (?=\S)")
_OF_AN_OPERATION: Final = lazy_regex(
    r"(?:TypeError|ValueError|IndexError|NotImplementedError): (?:(?:jax\.)?(?:lax|jnp|numpy|nn|random"
    r"|scipy)\.[\w.]{2,40}"
    r"|[a-z]{2,30}_\w{1,40}|scan|vmap|pmap|grad|dot|einsum|clamp|pad|sort|cond|gather|scatter|psum|iota|convolution"
    r"|conj|clip"
    r"|stack|split|take|where|eigh|svd|qr|rev|reduce)(?:\(\))? (?:requires|expects|expected|got|takes|needs|must"
    r"|does not|only"
    r"|cannot|received|arguments?|input) "
)
"""The words of jax.lax and jax.numpy, where a message names no system."""


_OF_PYTHON: Final = lazy_regex(
    r"(?:TypeError|AttributeError|ValueError|IndexError): (?:'[\w.]{1,60}' object (?:is not (?:callable|iterable"
    r"|subscriptable)|cannot be interpreted as an integer|has no attribute|does not support)"
    r"|\w{1,40} indices must be integers|'[<>=!]{1,2}' not supported between instances|unsupported operand type"
    r"|can't multiply sequence by non-int|int\(\) argument must be|invalid literal for int"
    r"|object of type '\w{1,60}' has"
    r"|safe_\w+\(\) argument \d|data type '[^'\n]{1,40}' not understood|Cannot interpret '[^'\n]{1,60}' as a data type"
    r"|must be real number, not|cannot unpack non-iterable|(?:not enough|too many) values to unpack)"
)
"""The words of Python's own exceptions, and of NumPy's types, in which calls with a wrong value end."""
_OF_NAMES: Final = lazy_regex(r"(?:NameError|KeyError|ImportError|ModuleNotFoundError|SyntaxError|AssertionError): ")
"""Exceptions whose words are of the program that raises them."""
_OF_JAX: Final = lazy_regex(r"\b(?:jax|jnp|lax|flax|nnx|optax|orbax|pallas|pltpu|plgpu|shard_map|pjit|eqx|haiku)\b")


def family_messages(text: str, exceptions: Iterable[int], *, has_cause: bool = False) -> list[FoundMessage]:
    """The message of a text whose family is known, of these places of exceptions or of its warnings; empty if none is.

    A message of the index comes first; others need a call of JAX or a traceback through a system around a program, as
    the words of a family may be in any text. Where the text has a cause, they are not looked for.

    >>> [(rule, *_, fields)] = family_messages("ValueError: repeated axis in lax.expand_dims: (0, 0)", [0])
    >>> rule.key, fields["consequence"]
    ('repeated entry', '0 is there twice')
    """
    places = [
        *islice(exceptions, _MOST_TRIED),
        *(match.start() for match in islice(_WARNING.finditer(text), _MOST_TRIED)),
    ]
    messages = {start: _message_at(text, start) for start in places}
    others = {text.index(line): line} if not places and (line := telling_line(text)) else {}
    for start, message in (messages | others).items():
        found = indexed_message(message)
        if found is not None and (found.words > LEAST_WORDS or _OF_JAX.search(text)):
            family = FAMILY_OF[found.family]
            # a word that tells more may be the value of a hole
            is_vague = family.code in _VAGUE or (family.code == "un" and not _NOT_IMPLEMENTED.search(message))
            is_vague = is_vague or _OF_OPTIONS.search(message) is not None
            exact = (family_of(message) or family) if is_vague else family
            return [_found(exact, start, message, found)]
    messages = {start: message for start, message in messages.items() if not _OF_NAMES.match(message.lstrip())}
    has_traceback = "Traceback (most recent call last)" in text and system_of(text) is not None
    for start, message in messages.items() if not has_cause else ():
        if _OF_PYTHON.match(message.lstrip()):
            return [_found(PYTHON, start, message, None)]
        is_of_a_system = (
            has_traceback
            or _OF_AN_OPERATION.search(message)
            or _OF_JAX.search(message)
            or (_OF_OPTIONS.search(message) and _NAMED_VALUE.search(message))
        )
        by_words = family_of(message) if is_of_a_system and not _WARNING.match(message) else None
        if by_words is not None:
            return [_found(by_words, start, message, None)]
    return []


def _message_at(text: str, start: int) -> str:
    message = text[start : start + _MOST_READ]
    return message[: end.start()] if (end := _END.search(message)) is not None else message


def _found(family: Family, start: int, message: str, indexed: IndexedMessage | None) -> FoundMessage:
    fields = {"consequence": family.consequence(message), "operation": "", "system": "", "what": _sentence(message)}
    if indexed is not None:
        fields |= {"operation": indexed.function, "system": indexed.system}
        fields["consequence"] = fields["consequence"] or _by_roles(indexed.holes, family)
        for role, value in indexed.holes:
            fields.setdefault(role, value)
    first_line = len(message.partition("\n")[0])
    return family.rule, start, start + first_line, fields


_LEAST: Final = 60
"""Characters of a line that is a sentence of its own: a shorter one is a heading, and the next line has the message."""


def _sentence(message: str) -> str:
    """What a message says: its first line, and the next ones while it is a heading.

    >>> _sentence("ValueError: unexpected tree structure.\\n\\nThe argument to a VJP function has another one.")
    'unexpected tree structure. The argument to a VJP function has another one'
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    found = ""
    for line in lines:
        if len(found) >= _LEAST and found.endswith((".", ")", "]")):  # JAX wraps its messages at 80 columns
            break
        found = f"{found} {line}".strip()
    return sentence_of(found)


def _by_roles(holes: Iterable[tuple[str, str]], family: Family) -> str:
    """What follows from the values of a message by what they are, where its words do not tell.

    >>> _by_roles([("count", "3"), ("count", "5")], GENERAL), _by_roles([("axis", "2"), ("rank", "1")], GENERAL)
    ('3 is 2 less than 5', 'an array of 1 dimension has the axis 0')
    """
    values: Mapping[str, list[str]] = {role: [value for each, value in holes if each == role] for role, _ in holes}
    counts = [int(each) for each in values.get("count", ()) if each.isdigit()]
    ranks = [each for each in values.get("rank", ()) if each.isdigit()]
    if "axis" in values and len(ranks) == 1:
        return missing_axis(f"ndim {ranks[0]}")
    if len(shapes := values.get("shape", ())) == 2:
        return differing_sizes(" and ".join(shapes))
    if len(counts) == 2 and counts[0] != counts[1]:
        one, other = counts
        return f"{one:,} is {abs(one - other):,} {'more' if one > other else 'less'} than {other:,}"
    is_of_types = family.consequence is kinds_of_types and values.get("type")
    return kinds_of_types(f"got {values['type'][0]}") if is_of_types else ""

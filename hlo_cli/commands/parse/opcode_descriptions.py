"""What every opcode does, in a few words: the sentence that an explanation begins with, and a little more."""

from __future__ import annotations

from typing import Final, NamedTuple

from hlo_cli.ir.opcode import wrapped_opcode


class Words(NamedTuple):
    """An opcode in words: `does` begins a sentence about an instruction, `about` says how it works."""

    does: str
    about: str


_EACH: Final = "elementwise: one operand, shaped like the result"
_BOTH: Final = "elementwise: operands shaped like the result"
_BITS: Final = "elementwise, on bits; on pred it is logic"
_STATS: Final = "means and variances run over all dimensions but the feature dimension"
_ASYNC: Final = "what runs meanwhile stands between this and its -done"
_WAIT: Final = "gives the result; nothing that needs it can run before"
_GROUPS: Final = "devices work together in replica groups"

_ELEMENTWISE: Final[dict[str, Words]] = {
    "abs": Words("Takes absolute values", "elementwise; of a complex number its magnitude"),
    "acos": Words("Takes inverse cosines", _EACH),
    "acosh": Words("Takes inverse hyperbolic cosines", _EACH),
    "add": Words("Adds two arrays", _BOTH),
    "and": Words("Ands two arrays", _BITS),
    "asin": Words("Takes inverse sines", _EACH),
    "asinh": Words("Takes inverse hyperbolic sines", _EACH),
    "atan2": Words("Takes the angle of two coordinates", "elementwise: the angle of the point (second, first)"),
    "atanh": Words("Takes inverse hyperbolic tangents", _EACH),
    "bitcast-convert": Words("Reads the same bits as another type", "elementwise; a wider type takes a dimension away"),
    "cbrt": Words("Takes cube roots", _EACH),
    "ceil": Words("Rounds up", _EACH),
    "clamp": Words("Holds values between two limits", "elementwise: operands are lower limit, values, upper limit"),
    "compare": Words("Compares two arrays", "elementwise; the result is pred, direction says which comparison"),
    "complex": Words("Makes complex numbers", "elementwise: real parts, then imaginary parts"),
    "convert": Words("Converts to another type", "elementwise; values are rounded or cut to the new type"),
    "cosine": Words("Takes cosines", _EACH),
    "cosh": Words("Takes hyperbolic cosines", _EACH),
    "count-leading-zeros": Words("Counts leading zero bits", _EACH),
    "divide": Words("Divides two arrays", f"{_BOTH}; integers round towards zero"),
    "erf": Words("Takes error functions", _EACH),
    "exponential": Words("Takes exponentials", f"{_EACH}; e to the power of each"),
    "exponential-minus-one": Words("Takes exponentials less one", f"{_EACH}; exact near zero"),
    "floor": Words("Rounds down", _EACH),
    "imag": Words("Takes imaginary parts", "elementwise; the result is real"),
    "is-finite": Words("Asks which values are finite", "elementwise; the result is pred, false for inf and nan"),
    "log": Words("Takes natural logarithms", _EACH),
    "log-plus-one": Words("Takes logarithms of one more", f"{_EACH}; exact near zero"),
    "logistic": Words("Takes logistic functions", f"{_EACH}; 1 / (1 + e^-x), the sigmoid"),
    "maximum": Words("Takes the larger of two arrays", f"{_BOTH}; nan wins"),
    "minimum": Words("Takes the smaller of two arrays", f"{_BOTH}; nan wins"),
    "mulhi": Words("Takes the high halves of products", "elementwise, on integers: the upper bits of the full product"),
    "multiply": Words("Multiplies two arrays", _BOTH),
    "negate": Words("Changes signs", _EACH),
    "not": Words("Inverts bits", _BITS),
    "or": Words("Ors two arrays", _BITS),
    "popcnt": Words("Counts bits that are set", _EACH),
    "power": Words("Raises to powers", "elementwise: the first operand to the power of the second"),
    "real": Words("Takes real parts", "elementwise; the result is real"),
    "reduce-precision": Words("Rounds to fewer bits", "elementwise; the type stays, values become those of a smaller"),
    "remainder": Words("Takes remainders", f"{_BOTH}; the sign is that of the dividend"),
    "round-nearest-afz": Words("Rounds to whole numbers", f"{_EACH}; halves go away from zero"),
    "round-nearest-even": Words("Rounds to whole numbers", f"{_EACH}; halves go to the even neighbour"),
    "rsqrt": Words("Takes inverse square roots", f"{_EACH}; 1 / sqrt(x)"),
    "select": Words("Chooses between two arrays", "elementwise: the second where the first is true, else the third"),
    "shift-left": Words("Shifts bits left", f"{_BOTH}; zeros come in"),
    "shift-right-arithmetic": Words("Shifts bits right", f"{_BOTH}; copies of the sign bit come in"),
    "shift-right-logical": Words("Shifts bits right", f"{_BOTH}; zeros come in"),
    "sign": Words("Takes signs", f"{_EACH}; -1, 0 or 1"),
    "sine": Words("Takes sines", _EACH),
    "sinh": Words("Takes hyperbolic sines", _EACH),
    "sqrt": Words("Takes square roots", _EACH),
    "stochastic-convert": Words("Converts, rounding at random", "elementwise: values, then random bits that decide"),
    "subtract": Words("Subtracts two arrays", _BOTH),
    "tan": Words("Takes tangents", _EACH),
    "tanh": Words("Takes hyperbolic tangents", _EACH),
    "xor": Words("Xors two arrays", _BITS),
}

_SHAPING: Final[dict[str, Words]] = {
    "bitcast": Words("Sees the same bytes as another shape", "moves nothing; both shapes lie in memory alike"),
    "broadcast": Words("Repeats an array", "dimensions say where the operand's go; the others repeat it"),
    "concatenate": Words("Joins arrays end to end", "along one dimension; all other sizes agree"),
    "constant": Words("A constant", "its value stands between the parentheses"),
    "copy": Words("Copies an array", "the same elements, perhaps in another layout or memory"),
    "dynamic-reshape": Words("Regroups an array", "as reshape, with sizes given when the program runs"),
    "dynamic-slice": Words("Cuts out a block", "at a place known when the program runs: one start a dimension"),
    "dynamic-update-slice": Words("Overwrites a block", "operands: array, block, a start a dimension; often in place"),
    "gather": Words("Collects slices", "the second operand holds where each slice of the first begins"),
    "get-dimension-size": Words("Asks for a size", "of one dimension, as it is when the program runs"),
    "iota": Words("Counts up from zero", "along one dimension; the others repeat it"),
    "pad": Words("Puts padding around an array", "the second operand fills edges and gaps; negative edges cut"),
    "reshape": Words("Regroups an array", "the elements keep their row-major sequence, the sizes change"),
    "reverse": Words("Turns an array round", "along the dimensions that are listed"),
    "scatter": Words("Writes slices into an array", "operands: array, places, updates; to_apply joins old and new"),
    "set-dimension-size": Words("Sets a size", "of one dimension that is dynamic; what lies beyond is ignored"),
    "slice": Words("Cuts out a block", "at a fixed place: start, limit and stride of each dimension"),
    "sort": Words("Sorts", "along one dimension; further operands move with the first, to_apply compares"),
    "topk": Words("Finds the k largest", "along the last dimension; gives values and their positions"),
    "transpose": Words("Reorders dimensions", "result dimension i is operand dimension dimensions[i]"),
}

_COMPUTING: Final[dict[str, Words]] = {
    "batch-norm-grad": Words("Differentiates batch normalization", f"for operand, scale and offset; {_STATS}"),
    "batch-norm-inference": Words("Normalizes a batch", "with given means and variances, one of each a feature"),
    "batch-norm-training": Words("Normalizes a batch", f"and gives its statistics; {_STATS}"),
    "cholesky": Words("Decomposes matrices", "symmetric ones in the last two dimensions, as Cholesky did"),
    "convolution": Words("Convolves", "dim_labels name the dimensions of input, kernel and result"),
    "dot": Words("Multiplies matrices", "sums over the contracting dimensions, once for each batch index"),
    "fft": Words("Transforms to frequencies", "or back, by Fourier, over the last dimensions: one for each fft_length"),
    "map": Words("Applies a computation to every element", "to_apply takes one element of each operand"),
    "ragged-dot": Words("Multiplies matrices of unequal sizes", "the third operand holds the size of each group"),
    "reduce": Words("Reduces dimensions", "to_apply joins two values; the last operands are what it starts with"),
    "reduce-window": Words("Reduces windows", "a window slides over the array; to_apply joins what is in it"),
    "rng": Words("Draws random numbers", "uniform or normal; the operands are the distribution's parameters"),
    "rng-bit-generator": Words("Draws random bits", "from a state; gives the next state and the bits"),
    "rng-get-and-update-state": Words("Takes and advances a random state", "the state belongs to the module"),
    "scaled-dot": Words("Multiplies scaled matrices", "operands: both matrices, each followed by its block scales"),
    "scan": Words("Runs along a dimension, carrying values", "to_apply takes carries and a slice, and gives new ones"),
    "select-and-scatter": Words("Scatters to chosen elements of windows", "select chooses, scatter adds up"),
    "triangular-solve": Words("Solves triangular systems", "of equations; the first operand is the triangular matrix"),
}

_CONTROL: Final[dict[str, Words]] = {
    "add-dependency": Words("Passes a value on", "the second operand is a token that has to come first"),
    "after-all": Words("Joins tokens", "what needs it runs after everything that its operands stand for"),
    "call": Words("Calls a computation", "the operands are its arguments"),
    "conditional": Words("Runs one of several branches", "the first operand chooses; each branch has one argument"),
    "custom-call": Words("Calls code outside of XLA", "custom_call_target names it; XLA cannot look inside"),
    "domain": Words("Marks a border", "between instructions that differ in an attribute, as sharding"),
    "fusion": Words("One kernel", "several instructions made into one kernel"),
    "get-tuple-element": Words("Takes an element of a tuple", "moves nothing"),
    "infeed": Words("Reads from the host", "gives the data and a token"),
    "opt-barrier": Words("Passes values on", "optimizations do not look through it"),
    "outfeed": Words("Writes to the host", "the last operand is a token"),
    "parameter": Words("Takes an argument", "of the computation; its number says which"),
    "partition-id": Words("Asks for the partition", "that runs this: a number from 0"),
    "replica-id": Words("Asks for the replica", "that runs this: a number from 0"),
    "tuple": Words("Bundles values", "moves nothing but makes a table of where they lie"),
    "while": Words("Loops", "body runs while condition gives true; both take what the loop carries"),
}

_COMMUNICATING: Final[dict[str, Words]] = {
    "all-gather": Words("Gathers parts from devices", f"joined along one dimension; {_GROUPS}"),
    "all-gather-start": Words("Starts to gather parts from devices", _ASYNC),
    "all-gather-done": Words("Waits for an all-gather", _WAIT),
    "all-reduce": Words("Reduces across devices", f"every device gets the result; {_GROUPS}"),
    "all-reduce-start": Words("Starts to reduce across devices", _ASYNC),
    "all-reduce-done": Words("Waits for an all-reduce", _WAIT),
    "all-to-all": Words("Exchanges parts between devices", f"part i goes to device i of the group; {_GROUPS}"),
    "async-start": Words("Starts a computation in the background", _ASYNC),
    "async-update": Words("Goes on with a computation in the background", _ASYNC),
    "async-done": Words("Waits for a computation in the background", _WAIT),
    "collective-broadcast": Words("Sends from one device to many", "the first of each group sends"),
    "collective-permute": Words("Sends between pairs of devices", "who is nobody's target gets zeros"),
    "collective-permute-start": Words("Starts to send between pairs of devices", _ASYNC),
    "collective-permute-done": Words("Waits for a collective-permute", _WAIT),
    "copy-start": Words("Starts a copy in the background", "the result is (target, source, context)"),
    "copy-done": Words("Waits for a copy", _WAIT),
    "ragged-all-to-all": Words("Exchanges parts of unequal sizes", f"the operands hold offsets and sizes; {_GROUPS}"),
    "recv": Words("Starts to receive", _ASYNC),
    "recv-done": Words("Waits for what is received", _WAIT),
    "reduce-scatter": Words("Reduces across devices", f"every device gets one part of the result; {_GROUPS}"),
    "send": Words("Starts to send", _ASYNC),
    "send-done": Words("Waits until it is sent", "gives a token"),
}

OPCODES: Final[dict[str, Words]] = {**_ELEMENTWISE, **_SHAPING, **_COMPUTING, **_CONTROL, **_COMMUNICATING}
"""Every opcode of XLA, in words."""


def words_of(opcode: str) -> Words:
    """What an opcode does: one of XLA's, one that wraps it to run in the background, or an unknown one.

    >>> words_of("tanh").does, words_of("slice-start").does, words_of("frob").does
    ('Takes hyperbolic tangents', 'Starts a slice in the background', 'An operation that XLA did not have')
    """
    if (known := OPCODES.get(opcode)) is not None:
        return known
    wrapped = wrapped_opcode(opcode)
    if wrapped is None:
        return Words("An operation that XLA did not have", "when this was written; its text is kept as it is")
    about = OPCODES[wrapped].about
    if opcode.endswith("-done"):
        return Words(f"Waits for a {wrapped}", _WAIT)
    if opcode.endswith("-update"):
        return Words(f"Goes on with a {wrapped} in the background", _ASYNC)
    return Words(f"Starts a {wrapped} in the background", about)

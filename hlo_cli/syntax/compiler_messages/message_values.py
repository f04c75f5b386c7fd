"""What follows from the values in a message: which axes an array has, where sizes differ, what a size leaves over?

Families ask it of a whole message, rules of the fields that their patterns found. What does not follow is the empty
text: a wrong consequence is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Final

from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.syntax.compiler_messages.message_facts import code_meanings, comparison_of
from hlo_cli.syntax.compiler_messages.tracing_errors import size_difference

# --- the values of a message ---

_NUMPY_NUMBER: Final = lazy_regex(r"\bnp\.\w{3,10}\((-?[\w.+\-]{1,40})\)")
_SIZES: Final = lazy_regex(
    r"(?<![\w)\]])[(\[](?:-?\d{1,18}(?:, ?-?\d{1,18})*,?)?[)\]]|(?<=\w)\[\d{1,18}(?:, ?\d{1,18})*\]"
)
_TYPE: Final = lazy_regex(
    r"\b(?:(?P<bool>bool_?|pred)|(?P<complex>complex(?:64|128)|c64|c128)|(?P<unsigned>uint\d{1,2}|u\d{1,2})"
    r"|(?P<integer>int\d{1,2}|s\d{1,2})|(?P<float>b?float\d{1,2}\w{0,12}|bf16|f\d{1,2}\w{0,12})|(?P<key>key<\w{1,20}>)"
    r"|(?P<text><U\d{1,5}|str_?)|(?P<object>object))(?!\w)"
)
_KINDS: Final = {
    "bool": "a truth value",
    "complex": "complex",
    "unsigned": "an unsigned integer",
    "integer": "an integer",
    "float": "a floating-point number",
    "key": "a random key",
    "text": "a text",
    "object": "a Python object",
}
_MAX_VALUES: Final = 8  # a message that quotes a program has thousands


def _plain(message: str) -> str:
    """The message with NumPy's scalars as plain numbers."""
    return _NUMPY_NUMBER.sub(r"\1", message)


def _sizes_in(message: str) -> list[tuple[int, ...]]:
    """The tuples and lists of numbers in a message, without repetition.

    >>> _sizes_in("got (np.int64(-1), np.int64(4)) for float32[2,3] and (3,)")
    [(-1, 4), (2, 3), (3,)]
    """
    found = list[tuple[int, ...]]()
    for match in _SIZES.finditer(_plain(message)):
        sizes = tuple(int(each) for each in re.findall(r"-?\d+", match[0]))
        if sizes not in found:
            found.append(sizes)
        if len(found) == _MAX_VALUES:
            break
    return found


_ARRAY: Final = lazy_regex(
    r"(?:\b\w{2,20}|[Ss]hape[=: ]{1,2}(?:of )?|\b\w+\.shape[=: ]{1,2})(?P<sizes>[\[(](?:\d[\d, ]*)?[\])])"
)
_AXIS: Final = lazy_regex(
    r"\b(?:ax[ie]s|dim(?:ension)?s?|in_axes|out_axes|permutation)\b[^\w\-(\[]{0,4}(?:(?:number|index|of) ){0,2}"
    r"(?P<axes>-?\d{1,6}(?![\w.])|[(\[]-?\d{1,6}(?:, ?-?\d{1,6})*,?[)\]])"
)
_RANK: Final = lazy_regex(
    r"\b(?:ndim|rank)\b[^\w]{0,4}(?:(?:is|of|only|got|being) ){0,2}(?P<a>\d{1,2})\b|\b(?P<b>\d{1,2})[- ](?:D\b|dim)"
    r"|array of dimension (?P<c>\d{1,2})\b|\b(?:of|got|has|have|with) (?P<d>\d{1,2}) (?:dim|ax[ie]s)"
)


def _dimensions(count: int) -> str:
    return f"{count} dimension" if count == 1 else f"{count} dimensions"


def _rank_in(message: str) -> int | None:
    """The number of dimensions of the array of a message."""
    if (match := _ARRAY.search(message)) is not None and "[" in match[0]:
        return len(re.findall(r"\d+", match["sizes"]))
    if (match := _RANK.search(message)) is not None:
        return int(next(each for each in match.groups() if each))
    return None if (match := _ARRAY.search(message)) is None else len(re.findall(r"\d+", match["sizes"]))


def missing_axis(message: str) -> str:
    """Which axes an array has, of a message that names one that it lacks.

    >>> missing_axis("axis 3 is out of bounds for array of dimension 2")
    'an array of 2 dimensions has the axes 0 and 1'
    >>> missing_axis("reduction axes (1,) contains out-of-bounds indices for float64[3].")
    'an array of 1 dimension has the axis 0'
    """
    rank = _rank_in(_plain(message))
    if rank is None:
        return ""
    if not rank:
        return "a scalar has no axes"
    axes = {1: "the axis 0", 2: "the axes 0 and 1"}.get(rank, f"the axes 0 to {rank - 1}")
    return f"an array of {_dimensions(rank)} has {axes}"


def repeated_entry(message: str) -> str:
    """Which entry of a list is there twice.

    >>> repeated_entry("repeated axis in lax.expand_dims: (0, 0)")
    '0 is there twice'
    """
    repeated = (each for sizes in _sizes_in(message) for each in sizes if sizes.count(each) > 1)
    first = next(repeated, None)
    return "" if first is None else f"{first} is there twice"


def not_square(message: str) -> str:
    """The two sizes of a matrix that is not square.

    >>> not_square("must be a square matrix. Got shape (3, 4).")
    'its last two dimensions are 3 and 4'
    """
    shapes = _sizes_in(message)
    for sizes in shapes:
        if len(sizes) > 1 and sizes[-1] != sizes[-2]:
            return f"its last two dimensions are {sizes[-2]} and {sizes[-1]}"
    return f"it has {_dimensions(len(shapes[0]))}" if shapes else ""


_PRODUCT: Final = lazy_regex(r"\b(?:matmul|dot|vecdot|matvec|matrix product|contract\w*|einsum)", re.IGNORECASE)


def differing_sizes(message: str) -> str:
    """Where the shapes of a message differ: of a product, in the summed or the batch dimensions.

    >>> differing_sizes("shapes (4,) and (3,) must match"), differing_sizes("matmul of f32[2,3,4] and f32[3,4,5]")
    ('dimension 0 is 4 and 3', 'the batch dimensions are 2 and 3')
    """
    shapes = _sizes_in(message)
    if len(shapes) < 2:
        return comparison_of(message)
    one, other = shapes[:2]
    if _PRODUCT.search(message) and one and other:
        summed = other[-2] if len(other) > 1 else other[-1]
        if one[-1] != summed:
            return f"the summed dimensions are {one[-1]} and {summed}"
        left, right = ", ".join(map(str, one[:-2])), ", ".join(map(str, other[:-2]))
        return f"the batch dimensions are {left} and {right}" if left != right and left and right else ""
    return size_difference(f"({', '.join(map(str, one))}) ({', '.join(map(str, other))})", along=-1)


def not_broadcast(message: str) -> str:
    """Where two shapes cannot be broadcast, aligned from the last dimension.

    >>> not_broadcast("Incompatible shapes for broadcasting: (3, 4) and (5,)"), not_broadcast("arr_shape=(4,) shape=()")
    ('dimension -1 is 4 and 5', 'the shapes have 1 and 0 dimensions')
    """
    shapes = _sizes_in(message)
    if len(shapes) < 2:
        return comparison_of(message)
    texts = " ".join(f"({', '.join(map(str, each))})" for each in shapes)
    if difference := size_difference(texts):
        return difference
    ranks = [len(each) for each in shapes[:2]]
    return f"the shapes have {ranks[0]} and {ranks[1]} dimensions" if ranks[0] != ranks[1] else ""


def element_counts(message: str) -> str:
    """How many elements two shapes have, or what a size of -1 cannot be.

    >>> element_counts("cannot reshape array of shape (3, 4) (size 12) into shape (5, 2) (size 10)")
    '12 and 10 elements'
    >>> element_counts("cannot reshape array of shape (6,) into shape (4, -1)")
    '6 elements are not a multiple of 4'
    """
    shapes = _sizes_in(message)
    if len(shapes) < 2:
        return comparison_of(message)
    counts = [prod(abs(each) for each in sizes) for sizes in shapes[:2]]
    if -1 in shapes[1]:
        return (
            f"{counts[0]:,} elements are not a multiple of {counts[1]:,}" if counts[1] and counts[0] % counts[1] else ""
        )
    return f"{counts[0]:,} and {counts[1]:,} elements" if counts[0] != counts[1] else ""


def out_of_bounds(message: str) -> str:
    """In which dimension a part is larger than the whole.

    >>> out_of_bounds("slice_sizes must be less than or equal to operand shape, got (4, 4) for operand shape (3, 4)")
    'dimension 0 is 4, of 3'
    """
    shapes = _sizes_in(message)
    if len(shapes) < 2 or len(shapes[0]) != len(shapes[1]):
        return comparison_of(message)
    pairs = enumerate(zip(shapes[0], shapes[1], strict=True))
    return ", ".join(f"dimension {at} is {one}, of {two}" for at, (one, two) in pairs if one > two)


def rank_found(message: str) -> str:
    """How many dimensions the array of a message has.

    >>> rank_found("Argument to fft2 must have ndim >= 2; got shape (3,)")
    'it has 1 dimension'
    """
    shapes = _sizes_in(message)
    if len(shapes) == 1:
        return f"it has {_dimensions(len(shapes[0]))}"
    if len(shapes) > 1 and len(shapes[0]) != len(shapes[1]):
        return f"the lengths are {len(shapes[0])} and {len(shapes[1])}"
    return comparison_of(message)


def negative_number(message: str) -> str:
    """Which number of a message is negative.

    >>> negative_number("got slice_sizes of (np.int64(-1), np.int64(4))"), negative_number("step 0 is not allowed")
    ('-1 is negative', '')
    """
    match = re.search(r"(?<![\w\-.)])-\d[\d.]*(?![\w\-])", _plain(message))
    return f"{match[0].rstrip('.')} is negative" if match else ""


def kinds_of_types(message: str) -> str:
    """What kind of number the type is that a function got.

    >>> kinds_of_types("logical reduction requires operand dtype bool or int, got float64.")
    'float64 is a floating-point number'
    >>> kinds_of_types("requires arguments to have the same dtypes, got int32, float32.")
    'int32 is an integer, float32 a floating-point number'
    """
    after = re.split(r"\b(?:got|but|found|given|received|is of type|has)\b", _plain(message))
    after[-1] = after[-1].partition("; must")[0]
    found = dict[str, str]()
    for match in _TYPE.finditer(after[-1] if len(after) > 1 else message):
        found.setdefault(match[0], _KINDS[match.lastgroup or ""])
        if len(found) == 2:
            break
    words = list(found.items())
    if not words:
        return ""
    first = f"{words[0][0]} is {words[0][1]}"
    return f"{first}, {words[1][0]} {words[1][1]}" if len(words) > 1 else first


def not_divided(message: str) -> str:
    """What a size leaves over, and what to pad it to.

    >>> not_divided("split_axis (3) has to be divisible by the size of the named axis x (4)")
    '3 = 0 × 4 + 3: pad it to 4'
    >>> not_divided("the product of sizes (4) does not evenly divide 6")
    '6 = 1 × 4 + 2: pad it to 8'
    """
    message = _plain(message)
    match = re.search(r"divisib\w+|multiple of|evenly divided|(?P<active>\bdivides?\b)", message)
    before = re.findall(r"(?<![\w.\-])\d{1,15}(?![\w.])", message[: match.start()]) if match else []
    after = re.search(r"(?<![\w.\-])\d{1,15}(?![\w]|\.\d)", message[match.end() :]) if match else None
    if match is None or not before or after is None:
        return comparison_of(message)
    size, parts = int(before[-1]), int(after[0])
    if match["active"]:  # the divisor is named first
        size, parts = parts, size
    if parts < 1 or not size % parts:
        return ""
    return f"{size:,} = {size // parts:,} × {parts:,} + {size % parts:,}: pad it to {-(-size // parts) * parts:,}"


_LISTED: Final = lazy_regex(
    r"\b(?:one of|in|are|valid \w+|supported \w+|expected|either)\b:?[^'\"\n]{0,12}(?P<list>['\"][^\n]{1,300})"
)
_GOT_VALUE: Final = lazy_regex(
    r"\b(?:got|but|found|received|given|not)\b:?(?: \w{1,12}){0,2}[ =:]{1,3}['\"]?(?P<value>[\w.\-]{1,40})['\"]?"
)
_QUOTED: Final = lazy_regex(r"['\"]([^'\"\n]{1,40})['\"]")
_NEAR: Final = 0.6  # the cutoff of difflib: letters in common


def nearest_option(message: str) -> str:
    """The value of a list that is nearest to the one that was passed.

    >>> nearest_option("Valid values for indexing are 'xy' and 'ij', got i")
    "'i' is nearest to 'ij'"
    >>> nearest_option("mode must be one of ['full', 'same'], got 'samee'"), nearest_option("Unknown mode 'a'")
    ("'samee' is nearest to 'same'", '')
    """
    listed = _LISTED.search(message)
    values = list(_QUOTED.findall(listed["list"])) if listed else []
    got = _GOT_VALUE.search(message, listed.start("list")) if listed else None
    if got is None or not values:
        return comparison_of(message)
    from difflib import get_close_matches  # few messages have a list

    near = get_close_matches(got["value"], [each for each in values if each != got["value"]], 1, _NEAR)
    return f"'{got['value']}' is nearest to '{near[0]}'" if near else ""


# --- the fields of a rule ---

_OPENING: Final = ("(", "[")


def computed_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """What follows from the fields of a message: where shapes differ, and the devices of a mesh.

    >>> computed_fields({"sizes": "(4, 8), (4, 16)"}), computed_fields({"mesh": "(4, 2)"})
    ({'difference': 'dimension 1 is 8 and 16'}, {'product': '8'})
    """
    if tasks := re.findall(r"task:([0-9]{1,9})", fields.get("tasks", "")):
        return {"missing": f"task{'s' if len(tasks) > 1 else ''} {', '.join(sorted(tasks, key=int))}"}
    if processes := re.findall(r"local_topology/\w+/([0-9]{1,9})", fields.get("announced", "")):
        return {"missing": f"process{'es' if len(processes) > 1 else ''} {', '.join(sorted(processes, key=int))}"}
    if "argument" in fields and fields.get("shape", "")[:1] == "(" and (odd := _odd_entries(fields["shape"])):
        return {"odd_entries": odd}
    if kind := _KINDS_OF_VALUES.get(fields.get("value_type", "")):
        return {"kind_of_value": kind}
    if explicit := _explicit_axes(fields):
        return {"explicit": explicit}
    if problem := _order_problem(fields.get("order", ""), fields.get("shape", "")):
        return {"order_problem": problem}
    if negative := _no_size(fields):
        return {"negative": negative}
    if subscript := fields.get("subscript"):
        return {"letters": f"{len(subscript)} letter{'' if len(subscript) == 1 else 's'}"}
    if mesh := fields.get("mesh"):
        return {"product": str(prod(int(each) for each in re.findall(r"[0-9]{1,9}", mesh)))}
    if "multiple" in fields and "block" in fields:
        sides = re.findall(r"([0-9]{1,9})x", fields["block"])
        return {"elements": str(prod(int(each) for each in sides))} if sides else {}
    if "rank" in fields and fields.get("dimensions"):
        return {"sizes_of_proto": f"[{','.join(re.findall(r'[0-9]{1,12}', fields['dimensions']))}]"}
    if meanings := code_meanings(fields):
        return meanings
    along = fields.get("along", "")
    if sizes := fields.get("sizes"):
        return {"difference": size_difference(sizes, along=int(along) if along.isdigit() else None)}
    if "within" in fields and "part" in fields:
        return {"difference": _too_large(fields["part"], fields["within"])}
    for one, other in (("wanted", "stored"), ("from", "to")):
        if fields.get(one, "")[:1] in _OPENING and fields.get(other):
            return {"difference": size_difference(f"{fields[one]} {fields[other]}", along=-1)}
    return {}


_KINDS_OF_VALUES: Final = {
    "numpy.ndarray": "an array of texts or objects, not of numbers",
    "NoneType": "None, such as the result of a function without a return",
    "str": "a text",
    "list": "a list, which is not converted",
    "tuple": "a tuple, not one array",
    "dict": "a dictionary, not one array",
    "function": "a function, not its result",
}
"""What a value is that no array can be made of, by its type: NumPy's arrays are refused for their element type "
"alone."""


def _odd_entries(shape: str) -> str:
    """The entries of a printed shape that are not whole numbers, at most three.

    >>> _odd_entries("(np.float64(2.0), 8, None)"), _odd_entries("(2, 8)")
    ('np.float64(2.0), None', '')
    """
    entries = re.findall(r" ?[\w.]+\((?:[^()]|\([^()]*\))*\)?|[^,()]+", shape[1:])
    odd = [
        each.strip()
        for each in dict.fromkeys(map(str.strip, entries))
        if each.strip() and not re.fullmatch(r"\s*(?:np\.int\d\d\()?-?\d+\)?\s*", each)
    ]
    return ", ".join(odd[:3])


def _order_problem(order: str, shape: str) -> str:
    """Why an order is none of the dimensions of a shape; empty if it is one, or if either is missing.

    >>> _order_problem("(0, -1)", "(4,)"), _order_problem("(1, 0, 1)", "(8, 4, 2)"), _order_problem("(1, 0)", "(2, 3)")
    ('2 entries for 1 dimension', '1 is twice in it', '')
    >>> _order_problem("(0, 2)", "(8, 4)")
    '2 is not a dimension'
    """
    if not order or not shape:
        return ""
    entries = [int(each) for each in re.findall(r"-?[0-9]{1,9}", order)]
    rank = len(re.findall(r"[0-9]{1,18}", shape))
    if len(entries) != rank:
        numbers = f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
        return f"{numbers} for {rank} dimension{'' if rank == 1 else 's'}"
    outside = next((each for each in entries if not -rank <= each < rank), None)
    if outside is not None:
        return f"{outside} is not a dimension"
    twice = next((each for at, each in enumerate(entries) if each % rank in (e % rank for e in entries[:at])), None)
    return "" if twice is None else f"{twice} is twice in it"


def _no_size(fields: Mapping[str, str]) -> str:
    """The negative size of a wanted shape; a reshape takes -1 for the size that follows from the others.

    >>> _no_size({"from": "(8, 4)", "to": "(4, -11)"}), _no_size({"from": "(8, 4)", "to": "(4, -1)"})
    ('-11', '')
    >>> _no_size({"found": "f32[1,4]", "wanted": "f32[8,-1]"})
    '-1'
    """
    sizes = re.findall(r"-[0-9]{1,18}", fields.get("to", "") if "from" in fields else "")
    wanted = fields.get("wanted", "") if "found" in fields else ""
    sizes = [each for each in sizes if each != "-1"] + re.findall(r"-[0-9]{1,18}(?=[,\])])", wanted)
    return sizes[0] if sizes else ""


def _explicit_axes(fields: Mapping[str, str]) -> str:
    """The axes of a spec that are not Auto in a mesh, with their types.

    >>> _explicit_axes({"spec": "P('a', 'b')", "mesh_axes": "'a': 4, 'b': 2", "axis_types": "Explicit, Auto"})
    'a (Explicit)'
    """
    axes = re.findall(r"'(\w{1,60})'", fields.get("mesh_axes", ""))
    types = dict(zip(axes, fields.get("axis_types", "").split(", "), strict=False))
    named = dict.fromkeys(re.findall(r"'(\w{1,60})'", fields.get("spec", "")))
    return ", ".join(f"{axis} ({types[axis]})" for axis in named if types.get(axis, "Auto") != "Auto")


def _too_large(part: str, whole: str) -> str:
    """The dimensions in which a part is larger than the whole.

    >>> _too_large("(4, 16)", "(8, 8)")
    'dimension 1 is 16, of 8'
    """
    sizes = [[int(each) for each in re.findall(r"[0-9]{1,18}", text)] for text in (part, whole)]
    pairs = enumerate(zip(*sizes, strict=False))
    return ", ".join(f"dimension {at} is {one}, of {other}" for at, (one, other) in pairs if one > other)

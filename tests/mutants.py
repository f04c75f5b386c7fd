"""Mutants of a module: its text with one plausible bug each, made from its syntax tree.

Comparisons lose or gain their bound, numbers are off by one, `and` becomes `or`, `not` goes, conditions are always or
never true, sums become differences, results are lost. What only types, documents, explains or remembers is left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_SKIPPED = (ast.AnnAssign, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)

Edit = tuple[ast.expr, ast.expr]
"""An expression of a text, and what is put in its place."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """The whole text with a bug, the line it is on, and that line before and after."""

    line: int
    before: str
    after: str
    text: str


def mutants_of(text: str) -> list[Mutant]:
    """Every mutant of a text, in its order.

    >>> [each.after for each in mutants_of("def f(a, b):\\n    return a < b\\n")]
    ['    return None', '    return a <= b', '    return a >= b']
    """
    found: dict[tuple[int, str], Mutant] = {}
    for edit in edits_of(text):
        if (mutant := planted(text, edit)) is not None:
            found.setdefault((mutant.line, mutant.after), mutant)
    return sorted(found.values(), key=lambda each: each.line)


def edits_of(text: str) -> list[Edit]:
    """What could be changed in a text: expressions, each with one to put in its place.

    >>> [ast.unparse(new) for _, new in edits_of("x = a + 1")]
    ['a - 1', '2', '0']
    >>> edits_of("x = a + 1  # only faster")
    []
    """
    lines = text.splitlines()
    return [edit for edit in _changes(ast.parse(text)) if not lines[edit[0].lineno - 1].endswith(_ONLY_FASTER)]


_ONLY_FASTER = "# only faster"
"""Ends a line without which the result is the same."""


def planted(text: str, edit: Edit) -> Mutant | None:
    """The text with one expression replaced, those over several lines become one; None where nothing changes."""
    old, new = edit
    lines = text.splitlines(keepends=True)
    if old.end_lineno is None or old.end_col_offset is None:
        return None
    encoded = [line.encode() for line in lines]
    start = sum(map(len, encoded[: old.lineno - 1])) + old.col_offset
    end = sum(map(len, encoded[: old.end_lineno - 1])) + old.end_col_offset
    data = text.encode()
    bare = ast.unparse(new)
    written = bare if isinstance(new, ast.Constant | ast.Name) else f"({bare})"
    around = data[:start].decode().rsplit("\n", 1)[-1]
    if around.strip().startswith("return") and around.strip() == "return":
        written = bare
    changed = (data[:start] + written.encode() + data[end:]).decode()
    try:
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text)):
            return None
    except SyntaxError:
        return None
    before = lines[old.lineno - 1].rstrip("\n")
    return Mutant(old.lineno, before, changed.splitlines()[old.lineno - 1], changed)


def _changes(node: ast.AST) -> Iterator[Edit]:
    """An expression and what to put in its place, for all below a node that run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _SKIPPED) or _is_of_types(node, child) or _is_text(child) or _is_only_for_speed(child):
            continue
        if isinstance(child, ast.If) and _is_for_types(child.test):
            for other in child.orelse:
                yield from _changes(other)
            continue
        if isinstance(child, ast.expr):
            yield from ((child, new) for new in _instead(child))
        if isinstance(child, ast.Return) and child.value is not None and not _is_false(child.value):
            yield child.value, ast.Constant(None)
        if isinstance(child, ast.If | ast.IfExp | ast.While):
            yield child.test, ast.Constant(False)
            if not isinstance(child, ast.While) and not _is_remembered(node, child):
                yield child.test, ast.Constant(True)
        if isinstance(child, ast.comprehension):
            yield from ((test, ast.Constant(True)) for test in child.ifs)
        yield from _changes(child)


def _instead(old: ast.expr) -> Iterator[ast.expr]:
    match old:
        case ast.Compare(ops=[operator, *_]):
            for other in _COMPARED.get(type(operator), ()):
                new = copy.deepcopy(old)
                new.ops[0] = other()
                yield new
        case ast.BinOp(op=operator) if type(operator) in _CALCULATED:
            new_sum = copy.deepcopy(old)
            new_sum.op = _CALCULATED[type(operator)]()
            yield new_sum
        case ast.BoolOp(op=joined):
            other_join = copy.deepcopy(old)
            other_join.op = ast.Or() if isinstance(joined, ast.And) else ast.And()
            yield other_join
            for left_out in range(len(old.values)):
                kept = [value for at, value in enumerate(old.values) if at != left_out]
                yield kept[0] if len(kept) == 1 else ast.BoolOp(joined, kept)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(number)):
            yield from (ast.Constant(number + 1), *((ast.Constant(number - 1),) if number else ()))


def _is_of_types(node: ast.AST, child: ast.AST) -> bool:
    """Whether a part of a function or of an argument is about types, or makes a class."""
    match node:
        case ast.FunctionDef():
            return child is node.returns or child in node.decorator_list
        case ast.arg():
            return True
        case ast.ClassDef():
            return child in node.decorator_list or child in node.bases
    return False


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _is_only_for_speed(node: ast.AST) -> bool:
    """Whether a part says how much is remembered, what is believed, or which names a class or a module has."""
    match node:
        case ast.keyword(arg="maxsize"):
            return True
        case ast.keyword(arg="strict", value=ast.Constant(True)):  # believed, as by an assert
            return True
        case ast.Assign(targets=[ast.Name("__slots__" | "__all__" | "TYPE_CHECKING")]):
            return True
    return False


def _is_remembered(around: ast.AST, condition: ast.AST) -> bool:
    """Whether a condition asks for a result that is kept next, and returned: made again each time, it is the same.

    >>> kept = "def f(k):\\n    if k not in d:\\n        d[k] = made(k)\\n    return d[k]\\n"
    >>> function = ast.parse(kept).body[0]
    >>> _is_remembered(function, function.body[0])
    True
    >>> [ast.unparse(new) for _, new in edits_of(kept) if isinstance(new, ast.Constant)]
    ['False', 'None']
    >>> [ast.unparse(new) for _, new in edits_of(kept.replace("return d[k]", "d[k].add(k)")) if isinstance(new, ast.Constant)]
    ['False', 'True']
    """
    body: list[ast.stmt] = getattr(around, "body", [])
    if not isinstance(condition, ast.If) or condition.orelse or condition not in body[:-1]:
        return False
    match condition.body[-1], body[body.index(condition) + 1]:
        case ast.Assign(targets=targets), ast.Return(value=ast.expr() as returned):
            pass
        case _:
            return False
    written = [ast.unparse(target) for target in targets]
    match condition.test:
        case ast.Compare(left=key, ops=[ast.NotIn()], comparators=[store]):
            place = f"{ast.unparse(store)}[{ast.unparse(key)}]"
            return place in written and ast.unparse(returned) == place
        case ast.Compare(
            left=ast.NamedExpr(ast.Name(name), ast.Call(ast.Attribute(store, "get"), [key])), ops=[ast.Is()]
        ):
            places = {name, f"{ast.unparse(store)}[{ast.unparse(key)}]"}
            return places == {*written} and ast.unparse(returned) == name
    return False


def _is_false(value: ast.expr) -> bool:
    """Whether a result is None, or the False for which None does as well."""
    return isinstance(value, ast.Constant) and (value.value is None or value.value is False)

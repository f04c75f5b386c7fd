"""Names in the user's program: the scope in an op_name, and names of repeated layers made equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Final

from hlo_cli.lazy_regex import lazy_regex

_NUMBERED: Final = lazy_regex(r"(?<![A-Za-z0-9])([0-9]+)(?![A-Za-z0-9])|(?<=[A-Za-z]_)([0-9]+)(?![A-Za-z0-9])")
_ADDED: Final = frozenset(
    "checkpoint closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr pjit remat remat2 "
    "rematted_computation shard_map while".split()
)
"""Parts of op_names that JAX adds for its own functions, which are no scopes of the user."""
_ADDED_AFTER: Final = frozenset(("while", part) for part in ("body", "body_fun", "body_pred", "cond", "cond_fun"))
_DIGITS: Final = lazy_regex(r"[0-9]+")
_BRANCH: Final = lazy_regex(r"branch_[0-9]+_fun")
_WRAPPERS: Final = ("jit(", "pjit(", "jvp(", "transpose(", "vmap(", "remat(", "checkpoint(", "xmap(", "pmap(")


@cache
def scope_of(op_name: str) -> str:
    """The named scopes in an op_name, without the operation and what JAX adds: `jit(…)`, loops, and rematerialization.

    >>> scope_of("jit(step)/transpose(jvp(layers))/attention/dot_general"), scope_of("jit(f)/add"), scope_of("x")
    ('layers/attention', '', '')
    >>> scope_of("jit(f)/transpose(jvp(mlp))/jvp(mlp)/checkpoint/while/body/closed_call/norm/mul")
    'mlp/norm'
    >>> scope_of("jit(f)/mlp/cond/branch_1_fun/mul"), scope_of("jit(f)/cond/mul")
    ('mlp', 'cond')
    """
    scopes: list[str] = []
    before = ""
    for part in _split(op_name.partition(";")[0])[:-1]:
        inner = _unwrapped(part)
        is_branch = _BRANCH.fullmatch(inner) is not None
        is_added = is_branch or inner in _ADDED or (before, inner) in _ADDED_AFTER
        if is_branch and before == "cond" and scopes[-1:] == ["cond"]:
            scopes.pop()
        if inner and not is_added and inner not in scopes[-1:]:
            scopes.append(inner)
        before = inner
    return "/".join(scopes)


def _split(op_name: str) -> list[str]:
    """The parts between slashes that are outside parentheses and brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(op_name):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "/" and depth <= 0:
            parts.append(op_name[start:at])
            start = at + 1
    return [*parts, op_name[start:]]


def _unwrapped(part: str) -> str:
    """The scope inside of transformations: `jvp(layers)` is `layers`; of `jit(f)` nothing is left."""
    while part.endswith(")"):
        wrapper = next((each for each in _WRAPPERS if part.startswith(each)), None)
        if wrapper is None:
            return part
        if wrapper in ("jit(", "pjit("):
            return ""
        part = part[len(wrapper) : -1]
    return part


def generalize(name: str) -> str:
    """A name with `*` for the numbers of layers, so that names in repeated layers are equal.

    >>> generalize("params['layers'][3]['w1']"), generalize("layers_7/attention"), generalize("jit(f)/block/2/add")
    ("params['layers'][*]['w1']", 'layers_*/attention', 'jit(f)/block/*/add')
    """
    return _NUMBERED.sub("*", name)


def with_scope(op_name: str, scope: str) -> str:
    """An op_name in another scope: one with as many parts, such as that of the next layer, or one further out.

    Returns the op_name as it is if its scope is neither.

    >>> with_scope("jit(f)/transpose(jvp(layers))/4/add", "layers/5")
    'jit(f)/transpose(jvp(layers))/5/add'
    >>> with_scope("jit(f)/jvp(decoder)/layer_4/mlp/dot_general", "decoder")
    'jit(f)/jvp(decoder)/dot_general'
    """
    here = scope_of(op_name)
    old, new = here.split("/"), scope.split("/")
    parts = _split(op_name)
    if len(old) == len(new) and scope:
        names = dict(zip(old, new, strict=True))
        return "/".join(_renamed(part, names) for part in parts)
    if scope and here.startswith(f"{scope}/"):
        cut = ("/".join((*parts[:count], parts[-1])) for count in range(len(parts) - 1, 0, -1))
        return next((name for name in cut if scope_of(name) == scope), op_name)
    return op_name


def common_scope(scopes: Sequence[str]) -> str:
    """What several scopes have in common: one of repeated layers with `*` for its number, else the outer scope.

    >>> common_scope(["decoder/layer_1/mlp", "decoder/layer_2/mlp"]), common_scope(["decoder/layer_1", "decoder/norm"])
    ('decoder/layer_*/mlp', 'decoder')
    """
    parts = [scope.split("/") for scope in scopes]
    if len({tuple(map(all_general, each)) for each in parts}) == 1:
        return "/".join(each[0] if len(set(each)) == 1 else all_general(each[0]) for each in zip(*parts, strict=True))
    shared = zip(*parts, strict=False)
    return "/".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, shared))


@cache
def all_general(name: str) -> str:
    """A name with `*` for all numbers.

    >>> all_general("block0/layers_3/conv2d")
    'block*/layers_*/conv*d'
    """
    return _DIGITS.sub("*", name)


def _renamed(part: str, other: Mapping[str, str]) -> str:
    inner = _unwrapped(part)
    return part.replace(inner, other[inner]) if inner in other else part

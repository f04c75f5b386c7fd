"""Memory spaces have one home: every name finds its number, and no other file knows a number or a name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from hlo_cli.ir.memory_space import (
    CpuMemorySpace,
    GpuMemorySpace,
    MemorySpace,
    NamedSpace,
    TpuMemorySpace,
    describe_memory_space,
    memory_space,
    space_name,
    space_number,
    space_words,
)
from parsed import nodes_of, parsed_files
from test_architecture import MODULES

TARGETS: dict[str | None, type[NamedSpace]] = {
    "tpu": TpuMemorySpace, "gpu": GpuMemorySpace, "cpu": CpuMemorySpace, None: MemorySpace
}  # fmt: skip
HOME = "hlo_cli.ir.memory_space"
HOLDERS = {"memory_space", "space", "from_space", "to_space"}
each_space = pytest.mark.parametrize(
    ("target", "space"),
    [(target, space) for target, spaces in TARGETS.items() for space in spaces],
    ids=lambda value: value.label if isinstance(value, NamedSpace) else str(value),
)


@each_space
def test_every_name_finds_its_space(target: str | None, space: NamedSpace) -> None:
    assert memory_space(space.number, target) is space
    for name in (space.label, space.label.lower(), *space.aliases, f"S({space})", str(space)):
        assert space_number(name, target) == space.number
    assert space_name(space.number, target) == space.label
    assert space.label in describe_memory_space(space.number, target) or space.is_unnamed


@pytest.mark.parametrize("target", TARGETS)
def test_names_are_told_apart(target: str | None) -> None:
    names = [name for space in TARGETS[target] for name in (space.label.lower(), *space.aliases)]
    assert len(set(names)) == len(names)


def test_xla_gives_the_main_memory_and_that_of_the_host_one_number_each() -> None:
    # kDefaultMemorySpace and kHostMemorySpace of xla/layout.h
    assert [space.number for space in MemorySpace] == [0, 5]
    for target in TARGETS:
        assert memory_space(MemorySpace.MAIN, target) is not None
        assert memory_space(MemorySpace.HOST, target) is not None


@pytest.mark.parametrize("text", ["", "x", "S()", "S(x)", "²", "-1", "S(-1)", "1.0"])
def test_what_names_no_space(text: str) -> None:
    assert space_number(text, "tpu") is None


def test_words_for_assertions_are_single_ones() -> None:
    assert all(word.isalpha() and word.islower() for word in space_words())
    assert {"hbm", "vmem", "collective", "ram"} <= set(space_words())


@pytest.mark.code
def test_no_other_file_knows_a_memory_space() -> None:
    labels = {space.label for spaces in TARGETS.values() for space in spaces if space.label.isupper()}
    parsed_files()
    elsewhere = [
        f"{path}:{line}: {said}"
        for module, path in MODULES.items()
        if module != HOME
        for line, said in _known(nodes_of(path), labels)
    ]
    assert not elsewhere, "\n".join([*elsewhere, f"the home of memory spaces is {HOME}"])


def _known(nodes: Iterable[ast.AST], labels: set[str]) -> Iterator[tuple[int, str]]:
    """Where a name stands alone as a text, or a number other than that of the main memory is compared with a space."""
    for node in nodes:
        match node:
            case ast.Constant(value=str() as text) if text in labels:
                yield node.lineno, text
            case ast.Compare(left=ast.Attribute(attr=name) | ast.Name(id=name), comparators=[other]):
                numbers = [part.value for part in ast.walk(other) if isinstance(part, ast.Constant)]
                if name in HOLDERS and any(isinstance(number, int) and number for number in numbers):
                    yield node.lineno, ast.unparse(node)
            case _:
                pass

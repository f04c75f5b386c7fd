"""StableHLO read here and by XLA: programs that JAX lowers are the same in all forms, with the same work.

XLA simplifies what it reads: constants are folded, loops lose what does not change. So where the modules differ, both
are read and simplified by XLA, which takes our text for a module of its own.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from hlo_cli import Module, diff, load, parse_module
from hlo_cli.analysis.cost.cost_analysis import module_cost

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.oracle
pytest.importorskip("jaxlib")

SIMPLIFY = """
import pathlib, sys
from jaxlib import _hlo, _jax
for path in pathlib.Path(sys.argv[1]).glob("*.before"):
    try:
        module = _hlo.hlo_module_from_text(path.read_text())
        program = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
        program = _jax.mlir.xla_computation_to_mlir_module(program)
        read = _jax.mlir.mlir_module_to_xla_computation(program, use_tuple_args=False, return_tuple=False)
        options = _hlo.HloPrintOptions()
        options.print_metadata = False  # names of instructions, which XLA makes names of operations
        path.with_suffix(".after").write_text(read.get_hlo_module().to_string(options))
    except Exception as error:
        path.with_suffix(".failed").write_text(str(error))
"""
"""XLA's own reading of HLO: to MLIR and back, with what it simplifies on the way."""


def run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


PROGRAMS = 250
"""At least so many programs are lowered for `make judge`."""


@pytest.fixture(scope="module", params=[8, pytest.param(1, marks=pytest.mark.long)], ids=["every eighth", "all"])
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The programs as JAX prints them, and what XLA makes of our reading."""
    made = tmp_path_factory.mktemp("lowered")
    run(str(ROOT / "fixtures" / "lowered_programs.py"), "cpu", str(made), str(request.param))
    assert len(names(made)) > PROGRAMS / request.param
    return made


@cache
def names(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(".located.mlir") for path in folder.glob("*.located.mlir"))


@cache
def read(folder: Path, name: str) -> Module:
    """The module of a program; functions that XLA unfolds are unfolded by it before."""
    unfolded = folder / f"{name}.unfolded.mlir"
    return load(unfolded if unfolded.exists() else folder / f"{name}.mlir")


@cache
def judged(path: Path) -> Module:
    return parse_module(path.read_text())


@cache
def is_same(folder: Path, name: str) -> bool:
    """Whether a program as we read it is that which XLA reads."""
    return are_same(read(folder, name), judged(folder / f"{name}.hlo"))


def are_same(one: Module, two: Module) -> bool:
    """Whether two modules are one program; the number of devices is in the text of JAX and not in XLA's."""
    return diff(one, two).without(("num_partitions",)).is_same_program


def test_serialized_programs_are_those_of_jaxlib(folder: Path) -> None:
    """What `jax.export` would serialize, read here, is the program that jaxlib reads."""
    differing = [
        name
        for name in names(folder)
        if not diff(load(folder / f"{name}.bytecode"), load(folder / f"{name}.deserialized.mlir")).is_same_program
    ]
    assert not differing


def test_programs_are_those_of_xla(folder: Path, tmp_path: Path) -> None:
    differing = []
    for name in names(folder):
        ours, theirs = read(folder, name), judged(folder / f"{name}.hlo")
        assert ours.notes == ours.errors == (), name
        if not is_same(folder, name):
            differing.append(name)
            (tmp_path / f"{name}.ours.before").write_text(str(ours))
            (tmp_path / f"{name}.theirs.before").write_text(str(theirs))
    run("-c", SIMPLIFY, str(tmp_path))
    assert not [path.read_text() for path in tmp_path.glob("*.failed")]
    wrong = [
        name
        for name in differing
        if not are_same(*(parse_module((tmp_path / f"{name}.{side}.after").read_text()) for side in ("ours", "theirs")))
    ]
    assert not wrong
    assert len(differing) <= MOST_SIMPLIFIED, differing


MOST_SIMPLIFIED = 16
"""Programs that XLA simplifies in other ways than we do."""


def structure(module: Module) -> list[object]:
    """All of a module but names and metadata."""
    numbers = {each: number for number, each in enumerate(module.computations)}
    return [
        (
            *(numbers[i.computation], i.opcode, str(i.shape), *[o.index for o in i.operands], i.text.argument),
            *(numbers[each] for each in i.called_computations),
            *(str(a) for a in i.attributes if a.name != "metadata" and "%" not in a.value),
        )
        for i in module.instructions
    ]


def test_all_forms_are_one_program(folder: Path) -> None:
    for name in names(folder):
        plain, located, generic = (load(folder / f"{name}{form}.mlir") for form in ("", ".located", ".generic"))
        assert structure(plain) == structure(generic), name
        assert structure(plain) == structure(located), name


def test_the_work_is_that_of_xla(folder: Path) -> None:
    """Programs that XLA does not simplify need the same flops and bytes as XLA's own module."""
    compared = 0
    for name in names(folder):
        ours, theirs = read(folder, name), judged(folder / f"{name}.hlo")
        if is_same(folder, name):
            one, two = module_cost(ours), module_cost(theirs)
            assert (one.flops, one.transcendentals) == (two.flops, two.transcendentals), name
            assert one.bytes_accessed == two.bytes_accessed, name
            compared += 1
    assert compared >= len(names(folder)) - MOST_SIMPLIFIED

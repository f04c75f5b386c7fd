"""Faults that a compiler could make, put into modules; and modules that run fast enough to put many into each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from random import Random

import numpy as np
import pytest

from hlo_cli import HloError, Module, Source, load, parse_module, run
from hlo_cli.analysis.evaluate.arguments import made_up_arguments, whole_arguments
from hlo_cli.analysis.evaluate.devices import runs_on_devices
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.typed_values import Value
from hlo_cli.ir.instruction import Attribute
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.syntax.strict_reader import check_strictly
from hlo_cli.transform.reduction.cuts import Question, cuts, together
from hlo_cli.transform.reduction.draft import Body, Draft, Line, draft_of
from hlo_cli.transform.reduction.search import Case, Reduction, Search, stages_of

FIXTURES = Path(__file__).parents[1] / "fixtures"
LIMITS = Limits(max_bytes=1 << 30, max_operations=200_000_000, max_iterations=2000, max_seconds=5)
_OPCODES = {
    "add": "subtract", "subtract": "add", "multiply": "add", "maximum": "minimum", "minimum": "maximum",
    "divide": "multiply", "exponential": "tanh", "tanh": "logistic", "sine": "cosine", "cosine": "sine", "sqrt": "rsqrt",
    "rsqrt": "sqrt", "negate": "abs", "log": "exponential", "and": "or", "or": "and",
}  # fmt: skip
_NUMBER_OF = {"0": "1", "1": "2", "2": "3", "-inf": "0", "0.5": "0.25", "-1": "1"}


def models(names: tuple[str, ...] = ("",), limit: int = 4000) -> Iterator[tuple[str, Module]]:
    """Modules of the fixtures at every stage, as far as they run on one device within the limits.

    `names` are how their names begin.
    """
    for folder in sorted(path for kind in ("cpu", "gpu", "tpu") for path in (FIXTURES / kind).iterdir()):
        for stage in ("before_optimizations", "after_optimizations"):
            name = f"{folder.parent.name}/{folder.name}/{stage}"
            if not name.startswith(names):
                continue
            try:
                module = load(folder, stage=stage)
                if len(module) > limit or module.num_partitions * module.replica_count > 1:
                    continue
                run(module, limits=LIMITS)
            except HloError:
                continue
            yield name, module


def arguments_of(module: Module) -> dict[str, Value]:
    """Made-up arguments by the names of the parameters."""
    make = whole_arguments if runs_on_devices(module) else made_up_arguments
    return {each.name: value for each, value in zip(module.entry.parameters, make(module), strict=True)}


# --- faults ---


def _changed(draft: Draft, body: Body, line: Line, new: Line) -> Draft:
    changed = body.replaced({line.name: new})
    bodies = tuple(changed if each is body else each for each in draft.bodies)
    return replace(draft, bodies=bodies)


def _wrong_opcode(draft: Draft, body: Body, line: Line) -> Draft | None:
    return _changed(draft, body, line, replace(line, opcode=_OPCODES[line.opcode])) if line.opcode in _OPCODES else None


def _operand_order(draft: Draft, body: Body, line: Line) -> Draft | None:
    if line.opcode not in ("subtract", "divide", "power", "dot", "concatenate", "compare"):
        return None
    return _changed(draft, body, line, replace(line, operands=(line.operands[1], line.operands[0], *line.operands[2:])))


def _dropped_term(draft: Draft, body: Body, line: Line) -> Draft | None:
    if line.opcode not in ("add", "multiply", "subtract", "maximum") or line.name == body.root:
        return None
    changed = body.replaced({line.name: None}).redirected({line.name: line.operands[0]})
    return replace(draft, bodies=tuple(changed if each is body else each for each in draft.bodies))


def _wrong_dimension(draft: Draft, body: Body, line: Line) -> Draft | None:
    names = ("dimensions", "lhs_contracting_dims", "rhs_contracting_dims", "iota_dimension")
    attribute = next((each for each in line.attributes if each.name in names), None)
    if attribute is None or line.opcode not in ("transpose", "broadcast", "reduce", "dot", "iota", "concatenate"):
        return None
    digits = {"0": "1", "1": "0", "2": "1"}
    value = "".join(digits.get(letter, letter) for letter in attribute.value)
    new = tuple(Attribute(each.name, value) if each is attribute else each for each in line.attributes)
    return _changed(draft, body, line, replace(line, attributes=new))


def _wrong_constant(draft: Draft, body: Body, line: Line) -> Draft | None:
    if line.opcode != "constant" or line.argument not in _NUMBER_OF:
        return None
    return _changed(draft, body, line, replace(line, argument=_NUMBER_OF[line.argument]))


def _lost_update(draft: Draft, body: Body, line: Line) -> Draft | None:
    if line.opcode not in ("dynamic-update-slice", "scatter", "select") or line.name == body.root:
        return None
    if not isinstance(line.shape, ArrayShape):
        return None
    kept = line.operands[1] if line.opcode == "select" else line.operands[0]
    changed = body.replaced({line.name: None}).redirected({line.name: kept})
    return replace(draft, bodies=tuple(changed if each is body else each for each in draft.bodies))


FAULTS: dict[str, Callable[[Draft, Body, Line], Draft | None]] = {
    "wrong opcode": _wrong_opcode,
    "operand order": _operand_order,
    "dropped term": _dropped_term,
    "wrong dimension": _wrong_dimension,
    "wrong constant": _wrong_constant,
    "lost update": _lost_update,
}


def seeded(module: Module, kind: str, random: Random, tries: int = 12) -> Case | None:
    """The module with a fault that shows in its result, as the second of a pair with its arguments; None without one."""
    draft = draft_of(module)
    good = parse_module(draft.to_string())
    arguments = arguments_of(good)
    places = [(body, line) for body in draft.bodies for line in body.lines]
    random.shuffle(places)
    for body, line in places:
        wrong = FAULTS[kind](draft, body, line)
        if wrong is None or check_strictly(Source("m", wrong.to_string())):
            continue
        case = Case((draft, wrong.pruned()), arguments)
        try:
            if QUESTION.fails(case):
                return case
        except HloError:
            pass
        tries -= 1
        if not tries:
            return None
    return None


QUESTION = Question(parse_module, limits=LIMITS)


def judge(cases: Sequence[Case]) -> Iterator[bool]:
    """Whether each pair is valid and differs."""
    for case in cases:
        if any(check_strictly(Source("m", text)) for text in case.texts):
            yield False
            continue
        try:
            yield QUESTION.fails(case)
        except HloError:
            yield False


def reduce_pair(case: Case, *, max_seconds: float = 60) -> Reduction:
    """The smallest pair that still differs."""
    search = Search(judge, max_steps=2000, max_seconds=max_seconds)
    return search.reduce(case, (*cuts(QUESTION), *together(stages_of(pairs=True))))


# --- what XLA says ---


def in_xla(cases: Sequence[Case]) -> list[str]:
    """Of each pair, whether XLA:CPU computes results that `differ` or are the `same`, or its error."""
    if find_spec("jax") is None:
        pytest.skip("jax is not installed")
    asked = [
        {
            "texts": case.texts,
            "arguments": [
                (str(np.asarray(value).dtype), list(map(str, np.ravel(np.asarray(value)))))
                for value in ((case.arguments or {})[each.name] for each in case.draft.entry.parameters)
            ],
            "sizes": [np.shape(np.asarray((case.arguments or {})[each.name])) for each in case.draft.entry.parameters],
            "types": [str(each.shape).partition("[")[0] for each in case.draft.entry.parameters],
        }
        for case in cases
    ]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "reduced_in_xla.py")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "JAX_PLATFORMS": "cpu"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(map(str, json.loads(done.stdout)))

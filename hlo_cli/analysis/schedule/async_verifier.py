"""XLA's rules for asynchronous operations, and where a module breaks them.

Mirrors `VerifyAsyncOps`, `CheckAsyncOpComputation…`, and the verifier's rules for send, recv and the native pairs, of
xla/service/hlo_verifier.cc. Not looked at: whether all devices of a collective come to it, and what only several
modules together tell, such as two programs that meet on one channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from hlo_cli.analysis.dataflow.computation_contexts import contexts_of
from hlo_cli.analysis.dataflow.users import users_among
from hlo_cli.analysis.problem import Problem
from hlo_cli.analysis.schedule import async_aliasing as aliasing
from hlo_cli.analysis.schedule import async_chain_rules as chain
from hlo_cli.analysis.schedule import async_computation_rules as computation
from hlo_cli.analysis.schedule import async_shapes as shapes
from hlo_cli.analysis.schedule.async_deadlock import deadlocks
from hlo_cli.analysis.schedule.async_diagnostics import Asynchronous, Rule
from hlo_cli.analysis.schedule.async_pairs import AsyncPairs, async_pairs
from hlo_cli.ir.module import Module
from hlo_cli.source import Diagnostic

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "async-unfinished": chain.unfinished,
        "async-taken-twice": chain.taken_twice,
        "async-in-flight": chain.taken_in_flight,
        "async-over": chain.taken_when_over,
        "async-kind": chain.of_another_kind,
        "async-done-operands": chain.with_more_operands,
        "async-channel": chain.of_another_channel,
        "async-computation": computation.another_computation,
        "async-shared": computation.shared_computation,
        "async-thread": computation.another_thread,
        "async-group": computation.several_operations,
        "async-shape": shapes.no_async_shape,
        "async-rebound": shapes.less_bound,
        "async-operands": shapes.other_operands,
        "async-output": shapes.other_output,
        "async-unbound": shapes.not_bound,
        "async-aliasing": aliasing.wrong_aliasing,
    }
)
"""The rules of a pair by their codes; the docstring of each says what it is."""
ORPHAN: Final = "async-orphan"
"""The code of updates and dones that belong to no pair."""
DEADLOCK: Final = "async-deadlock"
"""The code of sends and receives that cannot meet."""


def verify_async(module: Module, pairs: AsyncPairs | None = None) -> Iterator[Diagnostic]:
    """Every place at which the module breaks a rule, with the rule's code; `pairs` are the module's, if at hand.

    Where not every XLA minds, that is a warning, or where only older does, a note. A text with errors, or that leaves
    out operands or what tells names apart, says too little to be judged.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[4] parameter(0) ROOT s = (f32[4], f32[4], u32[]) copy-start(p) }"
    >>> found = next(verify_async(parse_module(text)))
    >>> print(found.code, found.message)
    async-unfinished nothing waits for s: it has no copy-done
    """
    return (problem.diagnostic(module.source) for problem in async_problems(module, pairs))


def async_problems(module: Module, pairs: AsyncPairs | None = None) -> Iterator[Problem]:
    """What `verify_async` says, each with the instruction that breaks the rule: a proto has no text to find it in.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[4] parameter(0) ROOT s = (f32[4], f32[4], u32[]) copy-start(p) }"
    >>> [(problem.at.name, problem.code) for problem in async_problems(parse_module(text))]
    [('s', 'async-unfinished')]
    """
    found = pairs or async_pairs(module)
    if module.errors or not _says_enough(found):
        return
    for problem, code in _problems(module, found).items():
        yield problem._replace(code=code)


def _problems(module: Module, found: AsyncPairs) -> dict[Problem, str]:
    """What is wrong, each once with the code of the first rule that says so."""
    problems: dict[Problem, str] = {}
    for orphan in found.orphans:
        words = "waits for nothing: its operand is no asynchronous operation"
        problems[Problem(orphan, f"{orphan.name} {words}")] = ORPHAN
    if not found.pairs:
        return problems
    computations = dict.fromkeys(member.computation for pair in found.pairs for member in pair.members)
    users = users_among([i for computation in computations for i in computation.instructions])
    within = Asynchronous(module, found, users, contexts_of(module).callers)
    for pair in found.pairs:
        for code, rule in RULES.items():
            for problem in rule(pair, within):
                problems.setdefault(problem, code)
    for problem in deadlocks(module):
        problems.setdefault(problem, DEADLOCK)
    return problems


def _says_enough(found: AsyncPairs) -> bool:
    """Whether each update and done has operands, and each start a name of its own."""
    starts = [(pair.start.computation, pair.start.name) for pair in found.pairs]
    return len(set(starts)) == len(starts) and all(end.operands for end in found.continues)

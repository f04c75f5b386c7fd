"""Verifier of async operations.

Mirrors `VerifyAsyncOps`, `CheckAsyncOpComputation…`, and the rules for send, recv, and native pairs of
xla/service/hlo_verifier.cc. Not checked: whether all devices of a collective reach it, and properties of several
modules together, such as programs that share a channel.
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
from hlo_cli.analysis.schedule.async_diagnostics import AsyncContext, Rule
from hlo_cli.analysis.schedule.async_pairs import AsyncPairs, async_pairs
from hlo_cli.ir.module import Module
from hlo_cli.source import Diagnostic

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "async-no-done": chain.check_has_done,
        "async-duplicate-use": chain.check_single_use,
        "async-in-flight": chain.check_in_flight_use,
        "async-after-done": chain.check_use_after_done,
        "async-kind": chain.check_kind,
        "async-done-operands": chain.check_operands,
        "async-channel": chain.check_channel,
        "async-computation": computation.check_same_computation,
        "async-shared-computation": computation.check_exclusive_computation,
        "async-thread": computation.check_thread,
        "async-group": computation.check_single_operation,
        "async-shape": shapes.check_async_shape,
        "async-bound-prefix": shapes.check_bound_prefix,
        "async-operands": shapes.check_bound_operands,
        "async-output": shapes.check_output,
        "async-unbound": shapes.check_all_bound,
        "async-aliasing": aliasing.check_aliasing,
    }
)
"""The rules for pairs, by code."""
ORPHAN: Final = "async-no-start"
"""The code for updates and dones without a start."""
DEADLOCK: Final = "async-deadlock"
"""The code for sends and recvs that cannot be matched."""


def verify_async(module: Module, pairs: AsyncPairs | None = None) -> Iterator[Diagnostic]:
    """Yields the violations in a module, each with the code of its rule; `pairs` are the module's pairs if known.

    A warning applies to some XLA releases, a note only to older ones. Modules with syntax errors, without operands,
    or with ambiguous names, and parts of modules, are not checked.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[4] parameter(0) ROOT s = (f32[4], f32[4], u32[]) copy-start(p) }"
    >>> found = next(verify_async(parse_module(text)))
    >>> print(found.code, found.message)
    async-no-done s has no copy-done
    """
    return (problem.diagnostic(module.source) for problem in async_problems(module, pairs))


def async_problems(module: Module, pairs: AsyncPairs | None = None) -> Iterator[Problem]:
    """Yields the diagnostics of `verify_async` with their instructions, because a proto has no text to locate them in.

    >>> from hlo_cli import parse_module
    >>> text = "HloModule m  ENTRY e { p = f32[4] parameter(0) ROOT s = (f32[4], f32[4], u32[]) copy-start(p) }"
    >>> [(problem.at.name, problem.code) for problem in async_problems(parse_module(text))]
    [('s', 'async-no-done')]
    """
    found = pairs or async_pairs(module)
    if module.errors or module.is_part or not _is_checkable(found):
        return
    for problem, code in _problems(module, found).items():
        yield problem._replace(code=code)


def _problems(module: Module, found: AsyncPairs) -> dict[Problem, str]:
    """Returns each violation once, with the code of the first rule that reports it."""
    problems: dict[Problem, str] = {}
    for orphan in found.orphans:
        words = "has no start: its operand is not an async operation"
        problems[Problem(orphan, f"{orphan.name} {words}")] = ORPHAN
    if not found.pairs:
        return problems
    computations = dict.fromkeys(member.computation for pair in found.pairs for member in pair.members)
    users = users_among([i for computation in computations for i in computation.instructions])
    within = AsyncContext(module, found, users, contexts_of(module).callers)
    for pair in found.pairs:
        for code, rule in RULES.items():
            for problem in rule(pair, within):
                problems.setdefault(problem, code)
    for problem in deadlocks(module):
        problems.setdefault(problem, DEADLOCK)
    return problems


def _is_checkable(found: AsyncPairs) -> bool:
    """Returns whether updates and dones have operands, and starts have unique names."""
    starts = [(pair.start.computation, pair.start.name) for pair in found.pairs]
    return len(set(starts)) == len(starts) and all(end.operands for end in found.continues)

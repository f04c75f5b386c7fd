"""Runs a module: the values of its results, and of any instruction, for given arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from hlo_cli.analysis.evaluate.arguments import check_count, checked, made_up_arguments
from hlo_cli.analysis.evaluate.clock import start
from hlo_cli.analysis.evaluate.device_choice import chosen_devices, runs_on_devices
from hlo_cli.analysis.evaluate.devices import DeviceProgram
from hlo_cli.analysis.evaluate.host import Host, Stub
from hlo_cli.analysis.evaluate.limits import Estimate, check
from hlo_cli.analysis.evaluate.omitted_constants import omitted_constants
from hlo_cli.analysis.evaluate.program import Observer, Program
from hlo_cli.analysis.evaluate.refusals import hint_of, refusals, unneeded
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.evaluate.sharded import assembled, device_arguments, whole_arguments
from hlo_cli.analysis.evaluate.unknown_functions import UnknownFunctions
from hlo_cli.analysis.semantics.number_types import Array, Floats
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.analysis.sharding.device_groups import Devices, devices_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run, the values of the instructions that were asked for, and what it took.

    `watched` are values of device 0. `unknown` are the arrays of the result of several devices whose place on them is
    unknown: the part of device 0. `outfed` are the values of outfeeds of device 0, and `unread` is the number of arrays
    for infeeds that were not used.
    """

    result: Value
    watched: Mapping[Instruction, tuple[Value, ...]]
    executed: int
    estimate: Estimate
    unknown: frozenset[ShapeIndex] = frozenset()
    devices: int = 1
    outfed: tuple[tuple[Instruction, Value], ...] = ()
    unread: int = 0


def run(
    module: Module,
    args: Sequence[Value] | None = None,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    devices: int | None = None,
    watch: Iterable[Instruction] = (),
    observe: Observer | None = None,
    limits: Limits | None = None,
    progress: Callable[[int], None] | None = None,
    stubs: Mapping[str, Stub] | None = None,
    feed: Sequence[Array] | None = None,
    rounds: list[int] | None = None,
    unknown: UnknownFunctions | None = None,
) -> Run:
    """Runs a module: on one device, or on simulated ones if it is partitioned or its devices exchange data.

    `args` are those of the whole program, made-up ones by default; `devices` is the number of devices if the
    module does not state it. Of several devices, `watch` keeps the values of
    device 0. `stubs` are functions for custom calls by target, called with arrays, and with `shape` and `instruction`
    if they have parameters of these names. `feed` are the arrays for infeeds, in the order in which they run. While
    `observe` is called, `rounds` holds the iterations of the loops around the instruction. `unknown` makes up results
    of functions that two programs have in common. Values of constants that the text omits are taken from the proto or
    the dump before optimizations next to it. HloError as for `evaluate` and `evaluate_on_devices`.

    >>> from hlo_cli import parse_module
    >>> run(parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] negate(p) }"), [[1, 2]]).result.tolist()
    [-1.0, -2.0]
    """
    host = Host(stubs, feed, rounds=rounds, unknown=unknown)
    if not runs_on_devices(module):
        return evaluate(
            module,
            args,
            seed=seed,
            floats=floats,
            watch=watch,
            observe=observe,
            limits=limits,
            progress=progress,
            host=host,
        )
    chosen = chosen_devices(module, devices)
    return evaluate_on_devices(
        module,
        args,
        seed=seed,
        floats=floats,
        devices=chosen,
        watch=watch,
        observe=observe,
        limits=limits,
        progress=progress,
        host=host,
    )


def evaluate(
    module: Module,
    arguments: Sequence[Value] | None = None,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    watch: Iterable[Instruction] = (),
    observe: Observer | None = None,
    limits: Limits | None = None,
    progress: Callable[[int], None] | None = None,
    host: Host | None = None,
) -> Run:
    """Runs the entry of a module on arguments, made-up ones by default, on one device.

    With floats `widen`, every float is an f64 that is never rounded, so that two compilations of one program agree
    even if they round at different places. `watch` are instructions whose values are kept, one for each time that they
    run. HloError, before anything runs, for instructions that cannot be evaluated and for modules beyond the limits;
    while running, for loops and times beyond them.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] add(p, p) }")
    >>> evaluate(module, [np.float32([1, 2])]).result.tolist()
    [2.0, 4.0]
    """
    limits = limits or Limits()
    host = _with_constants(host, module)
    _check_module(module, host=host)
    found = check(module, floats, limits)
    clock = start(module, limits, makes_arguments=arguments is None)
    with _exhaustion(module):
        values = (
            made_up_arguments(module, seed=seed, floats=floats, before_each=clock) if arguments is None else arguments
        )
    check_count(values, module)
    held = tuple(
        checked(value, parameter.shape, f"argument {at}", floats)
        for at, (value, parameter) in enumerate(zip(values, module.entry.parameters, strict=True))
    )
    program = Program(
        floats,
        watch=frozenset(watch),
        observe=observe,
        clock=clock,
        limits=limits,
        progress=progress,
        host=host,
    )
    with _exhaustion(module):
        result = program.function(module.entry)(held)
    return Run(
        result, _kept(program), program.executed, found, outfed=tuple(program.host.outfed), unread=program.host.unused
    )


def _with_constants(host: Host | None, module: Module) -> Host:
    host = host or Host()
    if host.constants is None:
        host.constants = omitted_constants(module)
    return host


def _check_module(module: Module, *, has_devices: bool = False, host: Host | None = None) -> None:
    if module.errors:
        raise HloError.of(module.errors)
    numbers = sorted(parameter.parameter_number or 0 for parameter in module.entry.parameters)
    if numbers != list(range(len(numbers))):
        listed = ", ".join(map(str, numbers))
        raise HloError(f"the parameters of the entry have the numbers {listed}, not 0 to {len(numbers) - 1}")
    refused = refusals(module, has_devices=has_devices, host=host)
    if refused and host is not None:
        host.skipped = unneeded(module)
    for instruction, reason in refused:
        if host is not None and instruction in host.skipped:
            continue
        raise HloError(
            f"cannot evaluate {instruction.name}: {reason}",
            instruction.span,
            source=module.source,
            hint=hint_of(instruction),
        )


@contextmanager
def _exhaustion(module: Module) -> Iterator[None]:
    """Ignores overflows and the like, tells what exhausts the stack or the memory, and adds places to errors."""
    try:
        with np.errstate(all="ignore"):
            yield
    except HloError as error:
        placed = [replace(each, source=each.source or module.source) for each in error.diagnostics]
        raise HloError.of(placed) from error
    except RecursionError as error:
        raise HloError("computations call each other too deeply to be evaluated") from error
    except MemoryError as error:
        raise HloError("not enough memory to evaluate the module", hint="use smaller shapes") from error


def _kept(program: Program) -> dict[Instruction, tuple[Value, ...]]:
    return {instruction: tuple(values) for instruction, values in program.watched.items()}


def evaluate_on_devices(
    module: Module,
    arguments: Sequence[Value] | None = None,
    *,
    seed: int = 0,
    floats: Floats = "exact",
    devices: Devices | None = None,
    watch: Iterable[Instruction] = (),
    observe: Observer | None = None,
    limits: Limits | None = None,
    progress: Callable[[int], None] | None = None,
    host: Host | None = None,
) -> Run:
    """Runs a partitioned module on simulated devices, on arguments of the whole program.

    Arguments are cut by the shardings of the parameters, and results are put together by theirs; those of TPU programs
    are in the dump before optimizations. Without shardings, all devices get the same. HloError as for `evaluate`, and
    if devices go different ways where a collective waits.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m, num_partitions=2
    ... f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    ... ENTRY e { p = f32[2] parameter(0), sharding={devices=[2]<=[2]}
    ...   ROOT r = f32[2] all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true,
    ...     to_apply=f }'''
    >>> evaluate_on_devices(parse_module(text), [np.float32([1, 2, 3, 4])]).result.tolist()
    [4.0, 6.0]
    """
    limits = limits or Limits()
    devices = devices or devices_of(module)
    host = _with_constants(host, module)
    _check_module(module, has_devices=True, host=host)
    found = check(module, floats, limits, devices.count)
    clock = start(module, limits, devices.count, makes_arguments=arguments is None)
    with _exhaustion(module):
        whole = whole_arguments(module, seed=seed, floats=floats, before_each=clock) if arguments is None else arguments
    check_count(whole, module)
    program = Program(
        floats,
        watch=frozenset(watch),
        observe=observe,
        clock=clock,
        limits=limits,
        progress=progress,
        host=host,
    )
    with _exhaustion(module):
        given = [
            [
                checked(value, parameter.shape, f"argument {at}", floats)
                for at, (value, parameter) in enumerate(zip(each, module.entry.parameters, strict=True))
            ]
            for each in device_arguments(module, whole, devices.count)
        ]
        results = DeviceProgram(program, devices, module).function(module.entry)(given)
    result, unknown = assembled(module, results)
    outfed, unread = tuple(program.host.outfed), program.host.unused
    return Run(result, _kept(program), program.executed, found, unknown, devices.count, outfed, unread)

"""Runs a module: the values of its results, and of any instruction, for given arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from hlo_cli.analysis.evaluate.arguments import Ranges, check_count, checked, made_up_arguments
from hlo_cli.analysis.evaluate.clock import start
from hlo_cli.analysis.evaluate.device_choice import chosen_devices, runs_on_devices
from hlo_cli.analysis.evaluate.devices import DeviceProgram
from hlo_cli.analysis.evaluate.host import Host, Stub
from hlo_cli.analysis.evaluate.limits import Estimate, check
from hlo_cli.analysis.evaluate.omitted_constants import omitted_constants
from hlo_cli.analysis.evaluate.program import Noise, Observer, Program
from hlo_cli.analysis.evaluate.refusals import hint_of, refusals, unneeded
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.evaluate.sharded import assembled, device_arguments, whole_arguments
from hlo_cli.analysis.evaluate.unknown_functions import UnknownFunctions
from hlo_cli.analysis.semantics.number_types import Array, Floats
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.analysis.sharding.device_groups import Devices
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run, the values of the instructions that were asked for, and what it took.

    `watched` are values of device 0. `ran` are the computations that ran one instruction after another, such as bodies
    of loops and branches, and `met` the comparisons that met equal whole numbers, if that was asked for. `unknown` are
    the arrays of the result of several devices whose place on them is unknown: the part of device 0. `outfed` are the
    values of outfeeds of device 0, and `unread` is the number of arrays for infeeds that were not used.
    """

    result: Value
    watched: Mapping[Instruction, tuple[Value, ...]]
    executed: int
    estimate: Estimate
    unknown: frozenset[ShapeIndex] = frozenset()
    ran: frozenset[Computation] = frozenset()
    met: frozenset[Instruction] = frozenset()
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
    iterations: list[int] | None = None,
    unknown: UnknownFunctions | None = None,
    noise: Noise | None = None,
    ranges: Ranges | None = None,
    with_met: bool = False,
) -> Run:
    """Runs a module: on one device, or on simulated ones if it is partitioned or its devices exchange data.

    `args` are those of the whole program, made-up ones by default; `devices` is the number of devices if a module does
    not state it. Of several devices, `watch` keeps the values of device 0. `stubs` are functions for custom calls by
    target, called with arrays, and with `shape` and `instruction` if they have parameters of these names. `feed` are
    the arrays for infeeds, in the order in which they run. While `observe` is called, `iterations` has those of the
    loops around the instruction. `unknown` makes up results of functions that two programs have in common. `noise` is
    an error of every float that an instruction rounds. `ranges` are those of made-up arguments, by default what the
    module needs. `with_met` asks which comparisons met equal whole numbers. Values of constants that the text omits are
    taken from the proto or the dump before optimizations next to it. HloError as for `evaluate`.

    >>> from hlo_cli import parse_module
    >>> run(parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] negate(p) }"), [[1, 2]]).result.tolist()
    [-1.0, -2.0]
    """
    host = Host(stubs, feed, iterations=iterations, unknown=unknown, met=set() if with_met else None)
    return evaluate(
        module,
        args,
        seed=seed,
        floats=floats,
        devices=chosen_devices(module, devices) if runs_on_devices(module) else None,
        watch=watch,
        observe=observe,
        limits=limits,
        progress=progress,
        host=host,
        noise=noise,
        ranges=ranges,
    )


def evaluate(
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
    noise: Noise | None = None,
    ranges: Ranges | None = None,
) -> Run:
    """Runs the entry of a module on arguments, made-up ones by default: on one device, or on simulated `devices`.

    With floats `widen`, every float is an f64 that is never rounded, so that two compilations of one program agree
    even if they round at different places. `watch` are instructions whose values are kept, one for each time that they
    run. On devices, arguments are those of the whole program: the shardings of the parameters divide them, and those of
    the results assemble the results; without shardings, all devices get the same. HloError, before anything runs, for
    instructions that cannot be evaluated and for modules beyond the limits; while running, for loops and times beyond
    them, and if devices go different ways where a collective waits.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT r = f32[2] add(p, p) }")
    >>> evaluate(module, [np.float32([1, 2])]).result.tolist()
    [2.0, 4.0]
    >>> text = '''HloModule m, num_partitions=2
    ... f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    ... ENTRY e { p = f32[2] parameter(0), sharding={devices=[2]<=[2]}
    ...   ROOT r = f32[2] all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true,
    ...     to_apply=f }'''
    >>> evaluate(parse_module(text), [np.float32([1, 2, 3, 4])], devices=Devices(1, 2)).result.tolist()
    [4.0, 6.0]
    """
    limits, host = limits or Limits(), _with_constants(host, module)
    count = 1 if devices is None else devices.count
    _check_module(module, has_devices=devices is not None, host=host)
    found = check(module, floats, limits, count)
    clock = start(module, limits, count, makes_arguments=arguments is None)
    with _exhaustion(module):
        if arguments is None:
            made = made_up_arguments if devices is None else whole_arguments
            arguments = made(module, seed=seed, floats=floats, ranges=ranges, before_each=clock)
    check_count(arguments, module)
    program = Program(
        floats, watch=frozenset(watch), observe=observe, clock=clock, limits=limits, progress=progress, host=host,
        noise=noise,
    )  # fmt: skip
    unknown: frozenset[ShapeIndex] = frozenset()
    with _exhaustion(module):
        if devices is None:
            result = program.function(module.entry)(_held(arguments, module, floats))
        else:
            given = [_held(each, module, floats) for each in device_arguments(module, arguments, count)]
            result, unknown = assembled(module, DeviceProgram(program, devices, module).function(module.entry)(given))
    kept = {instruction: tuple(values) for instruction, values in program.watched.items()}
    outfed, unread, met = tuple(program.host.outfed), program.host.unused, frozenset(program.host.met or ())
    return Run(result, kept, program.executed, found, unknown, frozenset(program.ran), met, count, outfed, unread)


def _held(arguments: Sequence[Value], module: Module, floats: Floats) -> list[Value]:
    """Arguments in the carriers of the parameters."""
    return [
        checked(value, parameter.shape, f"argument {at}", floats)
        for at, (value, parameter) in enumerate(zip(arguments, module.entry.parameters, strict=True))
    ]


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

"""How does the time of each command grow with a module that grows in one way only?

`python tests/bench/growing.py [WORD …]` measures only generators and commands that contain one of the words.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from math import inf, isfinite, isnan, log, nan
from pathlib import Path
from random import Random

from fusion_growth import GENERATORS as FUSION_GENERATORS

from hlo_cli.cli import main as run_hlo

SIZES = (500, 2000, 8000)
"""Instructions or so; a fourfold step shows an exponent through the noise of a shared machine."""
_SECONDS = 60
"""Processor time after which a command is given up."""
_LEAST_SECONDS = 0.2  # of the largest module; below, the time of what is done once decides

_A = "f32[8,128]{1,0}"
_ENTRY = "\n\nENTRY e {\n  "
_BODY = "a { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }"

# --- texts ---


def arguments(count: int, header: str = "") -> str:
    """Arguments of equal shapes, each updated to a result."""
    lines = [f"p{k} = {_A} parameter({k})" for k in range(count)]
    lines += [f"n{k} = {_A} add(p{k}, p{k})" for k in range(count)]
    names = ", ".join(f"n{k}" for k in range(count))
    lines.append(f"ROOT r = ({', '.join([_A] * count)}) tuple({names})")
    return f"HloModule m, is_scheduled=true{header}{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def donated_arguments(count: int) -> str:
    """Arguments of equal shapes whose buffers results may take."""
    pairs = ", ".join(f"{{{k}}}: ({k}, {{}}, may-alias)" for k in range(count))
    return arguments(count, f", input_output_alias={{ {pairs} }}")


def deep_stacks(count: int) -> str:
    """Each instruction is one call deeper in the Python program than the one before."""
    lines = ["HloModule m, is_scheduled=true", "", "FileNames"]
    lines += ['1 "f.py"', "", "FunctionNames", '1 "g"', "", "FileLocations"]
    lines += [
        f"{k} {{file_name_id=1 function_name_id=1 line={k} end_line={k} column=1 end_column=9}}"
        for k in range(1, count + 1)
    ]
    lines += ["", "StackFrames", "1 {file_location_id=1 parent_frame_id=0}"]
    lines += [f"{k} {{file_location_id={k} parent_frame_id={k - 1}}}" for k in range(2, count + 1)]
    lines += ["", "ENTRY e {", f"  v0 = {_A} parameter(0)"]
    lines += [
        f'  v{k} = {_A} add(v{k - 1}, v0), metadata={{op_name="jit(f)/add" stack_frame_id={k}}}'
        for k in range(1, count)
    ]
    lines += [f"  ROOT r = {_A} negate(v{count - 1})", "}", ""]
    return "\n".join(lines)


def branches(count: int) -> str:
    """One conditional of many branches."""
    bodies = [f"b{k} {{ p = {_A} parameter(0)  ROOT n = {_A} negate(p) }}" for k in range(count)]
    called = ", ".join(f"b{k}" for k in range(count))
    operands = ", ".join(["p"] * count)
    lines = ["i = s32[] parameter(0)", f"p = {_A} parameter(1)"]
    lines.append(f"ROOT c = {_A} conditional(i, {operands}), branch_computations={{{called}}}")
    return "HloModule m\n\n" + "\n\n".join(bodies) + _ENTRY + "\n  ".join(lines) + "\n}\n"


def results(count: int) -> str:
    """One value is a result many times."""
    shape = ", ".join([_A] * count)
    lines = [f"p = {_A} parameter(0)", f"n = {_A} negate(p)"]
    lines.append(f"ROOT r = ({shape}) tuple({', '.join(['n'] * count)})")
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def wide(count: int) -> str:
    """One value has many users, and all of those one."""
    lines = [f"p = {_A} parameter(0)", *(f"n{k} = {_A} multiply(p, p)" for k in range(count))]
    names = ", ".join(f"n{k}" for k in range(count))
    lines.append(f'ROOT r = {_A} custom-call({names}), custom_call_target="t"')
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def tuples(count: int) -> str:
    """Tuples of eight are taken apart and made again, one after another."""
    shape = f"({', '.join([_A] * 8)})"
    lines = [f"t0 = {shape} parameter(0)"]
    for k in range(count // 9):
        lines += [f"g{k}.{e} = {_A} get-tuple-element(t{k}), index={e}" for e in range(8)]
        lines.append(f"t{k + 1} = {shape} tuple({', '.join(f'g{k}.{(e + 1) % 8}' for e in range(8))})")
    lines.append(f"ROOT r = {shape} copy(t{count // 9})")
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def loops(count: int) -> str:
    """While loops, one after another, of a few instructions each."""
    parts, lines = [], ["p = (s32[], f32[8,128]{1,0}) parameter(0)"]
    last = "p"
    for k in range(count // 10):
        parts.append(
            f"c{k} {{ x = (s32[], {_A}) parameter(0)  i = s32[] get-tuple-element(x), index=0  n = s32[] constant(7)\n"
            f"  ROOT l = pred[] compare(i, n), direction=LT }}"
        )
        parts.append(
            f"b{k} {{ x = (s32[], {_A}) parameter(0)  i = s32[] get-tuple-element(x), index=0  n = s32[] constant(1)\n"
            f"  j = s32[] add(i, n)  v = {_A} get-tuple-element(x), index=1  w = {_A} negate(v)\n"
            f"  ROOT t = (s32[], {_A}) tuple(j, w) }}"
        )
        lines.append(f"w{k} = (s32[], {_A}) while({last}), condition=c{k}, body=b{k}")
        last = f"w{k}"
    lines.append(f"ROOT r = {_A} get-tuple-element({last}), index=1")
    return "HloModule m\n\n" + "\n\n".join(parts) + _ENTRY + "\n  ".join(lines) + "\n}\n"


def calls(count: int) -> str:
    """Many computations are called, one after another."""
    parts = [f"body{k} {{ p = {_A} parameter(0)  ROOT n = {_A} negate(p) }}" for k in range(count // 3)]
    lines = [f"v0 = {_A} parameter(0)"]
    lines += [f"v{k + 1} = {_A} call(v{k}), to_apply=body{k}" for k in range(count // 3)]
    lines.append(f"ROOT r = {_A} negate(v{count // 3})")
    return "HloModule m\n\n" + "\n\n".join(parts) + _ENTRY + "\n  ".join(lines) + "\n}\n"


def fusions(count: int) -> str:
    """Kernels of two operations, each of which reads the one before."""
    parts = [
        f"body{k} {{ p = {_A} parameter(0)  n = {_A} negate(p)  ROOT e = {_A} exponential(n) }}"
        for k in range(count // 4)
    ]
    lines = [f"v0 = {_A} parameter(0)"]
    lines += [f"v{k + 1} = {_A} fusion(v{k}), kind=kLoop, calls=body{k}" for k in range(count // 4)]
    lines.append(f"ROOT r = {_A} copy(v{count // 4})")
    return "HloModule m, is_scheduled=true\n\n" + "\n\n".join(parts) + _ENTRY + "\n  ".join(lines) + "\n}\n"


def collectives(count: int) -> str:
    """All-reduces with groups and channels, each of which reads the one before."""
    lines = [f"v0 = {_A} parameter(0)"]
    lines += [
        f"v{k + 1} = {_A} all-reduce(v{k}), channel_id={k + 1}, replica_groups={{{{0,1}},{{2,3}}}},"
        f" use_global_device_ids=true, to_apply=a"
        for k in range(count)
    ]
    lines.append(f"ROOT r = {_A} negate(v{count})")
    return f"HloModule m, num_partitions=4\n\n{_BODY}{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def copies_in_flight(count: int) -> str:
    """Asynchronous copies that all start before the first is waited for."""
    lines = [f"p = {_A} parameter(0)"]
    fast = "f32[8,128]{1,0:S(1)}"
    third = count // 3
    lines += [f"start{k} = ({fast}, {_A}, u32[]) copy-start(p)" for k in range(third)]
    lines += [f"d{k} = {fast} copy-done(start{k})" for k in range(third)]
    lines += [f"n{k} = {_A} add(d{k}, {f'n{k - 1}' if k else 'p'})" for k in range(third)]
    lines.append(f"ROOT r = {_A} negate(n{third - 1})")
    return f"HloModule m, is_scheduled=true{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def transposes(count: int) -> str:
    """A chain of transposes, reshapes, and bitcasts."""
    lines = ["v0 = f32[64,64]{1,0} parameter(0)"]
    for k in range(count):
        what = ("transpose", "dimensions={1,0}"), ("reshape", ""), ("bitcast", "")
        opcode, attribute = what[k % 3]
        lines.append(f"v{k + 1} = f32[64,64]{{1,0}} {opcode}(v{k})" + (f", {attribute}" if attribute else ""))
    lines.append(f"ROOT r = f32[64,64]{{1,0}} negate(v{count})")
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def controls(count: int) -> str:
    """Each operation waits for the one before by a control dependency."""
    lines = [f"p = {_A} parameter(0)", f"v0 = {_A} negate(p)"]
    lines += [f"v{k} = {_A} negate(p), control-predecessors={{v{k - 1}}}" for k in range(1, count)]
    names = ", ".join(f"v{k}" for k in range(count))
    lines.append(f'ROOT r = {_A} custom-call({names}), custom_call_target="t"')
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def shardings(count: int) -> str:
    """Each value has a sharding of its own."""
    lines = [f"v0 = {_A} parameter(0), sharding={{devices=[2,2]<=[4]}}"]
    for k in range(count):
        devices = [(d + k) % 4 for d in range(4)]
        tiled = f'{{devices=[2,2]{",".join(map(str, devices))} metadata={{op_name="n{k}"}}}}'
        lines.append(f"v{k + 1} = {_A} negate(v{k}), sharding={tiled}")
    lines.append(f"ROOT r = {_A} negate(v{count})")
    return f"HloModule m, num_partitions=4{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def custom_calls(count: int) -> str:
    """Custom calls with a configuration each."""
    lines = [f"v0 = {_A} parameter(0)"]
    for k in range(count):
        config = f'"{{\\"gemm\\":{{\\"alpha\\":{k},\\"beta\\":0}}}}"'
        lines.append(
            f'v{k + 1} = {_A} custom-call(v{k}, v0), custom_call_target="__cublas$gemm", backend_config={config}'
        )
    lines.append(f"ROOT r = {_A} negate(v{count})")
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def literals(count: int) -> str:
    """Arrays of constants."""
    row = "{ " + ", ".join(map(str, range(8))) + " }"
    lines = [f"v0 = f32[8]{{0}} constant({row})"]
    for k in range(count // 2):
        lines += [f"c{k} = f32[8]{{0}} constant({row})", f"v{k + 1} = f32[8]{{0}} add(v{k}, c{k})"]
    lines.append(f"ROOT r = f32[8]{{0}} negate(v{count // 2})")
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def one_literal(count: int) -> str:
    """One long constant."""
    row = "{" + ", ".join(map(str, range(count * 8))) + "}"
    lines = [f"c = f32[{count * 8}]{{0}} constant({row})", f"ROOT r = f32[{count * 8}]{{0}} negate(c)"]
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def reduces(count: int) -> str:
    """Reductions and broadcasts in turn."""
    lines = [f"v0 = {_A} parameter(0)", "z = f32[] constant(0)"]
    for k in range(count // 2):
        lines.append(f"sum{k} = f32[8]{{0}} reduce(v{k}, z), dimensions={{1}}, to_apply=a")
        lines.append(f"v{k + 1} = {_A} broadcast(sum{k}), dimensions={{0}}")
    lines.append(f"ROOT r = {_A} negate(v{count // 2})")
    return f"HloModule m\n\n{_BODY}{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def dots(count: int) -> str:
    """Matrix products, each with the weights of an argument."""
    lines = ["v0 = f32[128,128]{1,0} parameter(0)"]
    for k in range(count // 2):
        lines.append(f"p{k} = f32[128,128]{{1,0}} parameter({k + 1})")
        contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        lines.append(f"v{k + 1} = f32[128,128]{{1,0}} dot(v{k}, p{k}), {contracted}")
    lines.append(f"ROOT r = f32[128,128]{{1,0}} negate(v{count // 2})")
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def long_names(count: int) -> str:
    """Scopes of op_name nest deeper and deeper, up to a hundred."""
    lines = [f"v0 = {_A} parameter(0)"]
    for k in range(count):
        scope = "/".join(f"s{d}" for d in range(k % 100))
        lines.append(
            f'v{k + 1} = {_A} negate(v{k}), metadata={{op_name="jit(f)/{scope}/neg" source_file="f.py" source_line={k + 1}}}'
        )
    lines.append(f"ROOT r = {_A} negate(v{count})")
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def transfers(count: int) -> str:
    """Sends and receives with tokens."""
    lines = [f"p = {_A} parameter(0)", "k = token[] after-all()"]
    for k in range(count // 4):
        common = f"channel_id={k + 1}"
        lines += [
            f"send{k} = ({_A}, u32[], token[]) send(p, k), {common}",
            f"sd{k} = token[] send-done(send{k}), {common}",
            f"r{k} = ({_A}, u32[], token[]) recv(k), {common}",
            f"rd{k} = ({_A}, token[]) recv-done(r{k}), {common}",
        ]
    lines.append(f"ROOT r = {_A} negate(p)")
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


def deep_loops(count: int) -> str:
    """Loops in loops; a tenth as deep as the others are long, and at most 400."""
    depth = min(400, count // 20)
    parts = [f"b0 {{ x = {_A} parameter(0)  ROOT n = {_A} negate(x) }}"]
    for k in range(1, depth):
        parts.append(f"c{k} {{ x = {_A} parameter(0)  ROOT l = pred[] constant(false) }}")
        parts.append(f"b{k} {{ x = {_A} parameter(0)  ROOT n = {_A} while(x), condition=c{k}, body=b{k - 1} }}")
    lines = [f"p = {_A} parameter(0)", f"ROOT r = {_A} call(p), to_apply=b{depth - 1}"]
    return "HloModule m\n\n" + "\n\n".join(parts) + _ENTRY + "\n  ".join(lines) + "\n}\n"


def pads_and_slices(count: int) -> str:
    """A shuffled graph of values of many shapes."""
    random, lines = Random(2), [f"v0 = {_A} parameter(0)"]
    for k in range(count // 2):
        other = random.randrange(max(0, k - 50), k + 1)
        size = 8 * random.randint(1, 40)
        lines.append(f"b{k} = f32[{size},128]{{1,0}} pad(v{other}, z), padding=0_{size - 8}x0_0")
        lines.append(f"v{k + 1} = {_A} slice(b{k}), slice={{[0:8], [0:128]}}")
    lines.insert(1, "z = f32[] constant(0)")
    lines.append(f"ROOT r = {_A} negate(v{count // 2})")
    return f"HloModule m{_ENTRY}" + "\n  ".join(lines) + "\n}\n"


GENERATORS: dict[str, Callable[[int], str]] = {
    **FUSION_GENERATORS,
    **{
        function.__name__.replace("_", " "): function
        for function in (
            *(arguments, donated_arguments, deep_stacks, branches, results, wide, tuples, loops, calls, fusions),
            *(collectives, copies_in_flight, transposes, controls, shardings, custom_calls, literals, one_literal),
            *(reduces, dots, long_names, transfers, deep_loops, pads_and_slices),
        )
    },
}

# --- commands ---


COMMANDS: tuple[str, ...] = (
    *("FILE", "parse FILE", "parse --instructions FILE", "parse --json --instructions FILE", "parse --tree FILE"),
    *(
        "parse --desugar --format hlo FILE",
        "parse -o OUT.pb FILE",
        "layout FILE",
        "layout --by source FILE",
        "memspace FILE",
    ),
    *("memspace --by source FILE", "memspace --traffic FILE", "schedule FILE", "schedule --chip v5e FILE"),
    *("schedule --sequence FILE", "schedule --critical-path bytes FILE", "schedule --reorder memory FILE"),
    *("schedule --reorder latency FILE", "fuse FILE", "fuse --cost FILE", "fuse --run-pass FILE"),
    *("fuse --run-pass --chip h100 FILE", "fuse --why-not --chip h100 FILE", "fuse --unfuse all FILE"),
    *("shard FILE", "shard --comms FILE", "diff FILE OTHER", "diff --rows FILE OTHER", "graph -o OUT.svg FILE"),
    *("graph -o OUT.html FILE", "report -o OUT.html FILE", "lint FILE", "lint --chip v5e FILE"),
)


def seconds_of(words: Sequence[str], limit: int = _SECONDS) -> float:
    """Processor time of a command in a process that has the package loaded; infinite if it was given up.

    Not a number if the command refuses its input.
    """
    process = os.fork()
    if not process:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        code = 2
        try:
            code = run_hlo(words, standalone=False)
        finally:
            os._exit(code)
    _, status, used = os.wait4(process, 0)
    if not os.WIFEXITED(status):
        return inf
    return used.ru_utime if os.WEXITSTATUS(status) < 2 else nan  # 1 is for findings and differences


def measured(words: Sequence[str] = ()) -> Iterator[tuple[str, str, list[float], float]]:
    """For each generator and command the seconds at each size, and the exponent of the last step."""
    matching = [name for name in GENERATORS if any(word in name for word in words)]
    asked = [command for command in COMMANDS if any(word in command for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder, "small.hlo")
        small.write_text("HloModule m\n\nENTRY e {\n  ROOT p = f32[2]{0} parameter(0)\n}\n", encoding="utf-8")
        for command in asked or COMMANDS:  # loads what the command needs, before the forks
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                run_hlo(_words(command, small, small, folder), standalone=False)
        base = {command: seconds_of(_words(command, small, small, folder)) for command in asked or COMMANDS}
        for name in matching or GENERATORS:
            files = []
            for size in SIZES:
                pair = Path(folder, f"a{size}.hlo"), Path(folder, f"b{size}.hlo")
                text = GENERATORS[name](size)
                pair[0].write_text(text, encoding="utf-8")
                pair[1].write_text(_edited(text), encoding="utf-8")
                files.append(pair)
            for command in asked or COMMANDS:
                spent: list[float] = []
                for file, other in files:
                    spent.append(seconds_of(_words(command, file, other, folder)) - base[command])
                    if not isfinite(spent[-1]):
                        break
                if not isnan(spent[-1]):
                    yield name, command, spent, exponent_of(spent)


def exponent_of(spent: Sequence[float]) -> float:
    """Growth of the last step; 0 where that is too short to tell, infinite if a command was given up."""
    if spent[-1] == inf:
        return inf
    if spent[-1] < _LEAST_SECONDS:
        return 0.0
    return log(spent[-1] / max(spent[-2], 0.01)) / log(SIZES[-1] / SIZES[-2])


def _edited(text: str) -> str:
    """The text with every seventh negation another operation, and a name changed."""
    parts = text.split(" negate(")
    return "".join(part + (" abs(" if at % 7 == 3 else " negate(") for at, part in enumerate(parts[:-1])) + parts[-1]


def _words(command: str, file: Path, other: Path, folder: str) -> list[str]:
    names = {"FILE": str(file), "OTHER": str(other)}
    return [names.get(word, word.replace("OUT", f"{folder}/out")) for word in command.split()]


def main() -> None:
    """Prints each row as it is measured, slow and steep ones marked."""
    for name, command, spent, exponent in measured(sys.argv[1:]):
        mark = "*" if exponent > 1.2 else " "
        times = " ".join(f"{each:7.2f}" for each in spent)
        print(f"{mark} {exponent:5.2f} {times}  {name}: hlo {command}", flush=True)


if __name__ == "__main__":
    main()

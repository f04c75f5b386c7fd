"""Modules that would take forever, or all memory, to evaluate; each with the limit that stops it and its place.

Sizes and names are drawn with a seed, so that no rule fits one module alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Final

PLUS: Final = "plus { pa = f32[] parameter(0)  pb = f32[] parameter(1)  ROOT pc = f32[] add(pa, pb) }\n"
ODD: Final = """odd { oa = f32[] parameter(0)  ob = f32[] parameter(1)  oc = f32[] sine(oa)  od = f32[] cosine(ob)
  ROOT oe = f32[] atan2(oc, od) }
less { la = f32[] parameter(0)  lb = f32[] parameter(1)  lc = f32[] sine(la)  ld = f32[] sine(lb)
  ROOT le = pred[] compare(lc, ld), direction=LT }
"""


def entry(*lines: str, before: str = "") -> str:
    """A module whose entry has these instructions, one a line."""
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule m\n{before}ENTRY e {{\n{body}\n}}\n"


def endless(random: Random) -> str:
    shape = f"f32[{random.randrange(1, 9)}]"
    return f"""HloModule m
c {{ cp = {shape} parameter(0)  ROOT ct = pred[] constant(true) }}
b {{ bp = {shape} parameter(0)  ROOT bn = {shape} negate(bp) }}
ENTRY e {{ p = {shape} parameter(0)
  ROOT bad = {shape} while(p), condition=c, body=b }}
"""


def loop_in_loop(random: Random) -> str:
    trips = random.randrange(90_000, 110_000)
    return f"""HloModule m
c {{ cp = s32[] parameter(0)  cn = s32[] constant({trips})  ROOT ct = pred[] compare(cp, cn), direction=LT }}
inner {{ ip = s32[] parameter(0)  io = s32[] constant(1)  ROOT ij = s32[] add(ip, io) }}
outer {{ op = s32[] parameter(0)  oz = s32[] constant(0)
  bad = s32[] while(oz), condition=c, body=inner
  oo = s32[] constant(1)  ROOT oj = s32[] add(op, oo) }}
ENTRY e {{ p = s32[] constant(0)
  ROOT w = s32[] while(p), condition=c, body=outer }}
"""


def calls(random: Random) -> str:
    """2^60 runs of one instruction: each computation calls the one before it twice."""
    depth = random.randrange(58, 64)
    text = "f0 { p = f32[] parameter(0)  ROOT bad = f32[] negate(p) }\n"
    for at in range(1, depth):
        called = f"to_apply=f{at - 1}"
        text += f"f{at} {{ p = f32[] parameter(0)  q = f32[] call(p), {called}  ROOT r = f32[] call(q), {called} }}\n"
    return entry("p = f32[] parameter(0)", f"ROOT r = f32[] call(p), to_apply=f{depth - 1}", before=text)


def branches(random: Random) -> str:
    """Conditionals in branches of conditionals, and work in the last of them."""
    depth = random.randrange(50, 60)
    text = "f0 { p = f32[] parameter(0)  ROOT bad = f32[] negate(p) }\n"
    for at in range(1, depth):
        branch = f"true_computation=f{at - 1}, false_computation=f{at - 1}"
        text += (
            f"f{at} {{ p = f32[] parameter(0)  t = pred[] constant(true)\n  q = f32[] conditional(t, p, p), {branch}\n"
            f"  ROOT r = f32[] conditional(t, q, q), {branch} }}\n"
        )
    return entry("p = f32[] parameter(0)", f"ROOT r = f32[] call(p), to_apply=f{depth - 1}", before=text)


def deep(random: Random) -> str:
    depth = random.randrange(300, 2000)
    text = "f0 { p = f32[] parameter(0)  ROOT r = f32[] negate(p) }\n"
    for at in range(1, depth):
        name = "bad" if at == depth - 99 else "r"
        text += f"f{at} {{ p = f32[] parameter(0)\n  ROOT {name} = f32[] call(p), to_apply=f{at - 1} }}\n"
    return entry("p = f32[] parameter(0)", f"ROOT r = f32[] call(p), to_apply=f{depth - 1}", before=text)


def tera(random: Random) -> int:
    return random.randrange(2**40, 2**41)


def one_line(make: Callable[[int], str], before: str = "", *lines: str) -> Callable[[Random], str]:
    """A module whose root is the instruction that takes too much."""
    return lambda random: entry(*lines, f"ROOT bad = {make(tera(random))}", before=before)


def fused(random: Random) -> str:
    size = tera(random)
    body = f"f {{ p = f32[] parameter(0)  w = f32[{size}] broadcast(p), dimensions={{}}\n  s = f32[{size}] sine(w)\n"
    body += "  z = f32[] constant(0)\n  ROOT bad = f32[] reduce(s, z), dimensions={0}, to_apply=plus }\n"
    return entry("p = f32[] parameter(0)", "ROOT r = f32[] fusion(p), kind=kLoop, calls=f", before=PLUS + body)


def reshaped(random: Random) -> str:
    rows, columns = random.randrange(2**19, 2**20), random.randrange(2**19, 2**20)
    return entry(
        "p = f32[] parameter(0)",
        f"w = f32[{rows},{columns}] broadcast(p), dimensions={{}}",
        f"ROOT bad = f32[{rows * columns}] reshape(w)",
    )


def windows(opcode: str) -> Callable[[Random], str]:
    def make(random: Random) -> str:
        side = random.randrange(1_000_000, 1_100_000)
        lines = ("p = f32[4,4] parameter(0)", "z = f32[] constant(0)")
        pad = f"pad={side}_{side}x{side}_{side}"
        if opcode == "convolution":
            return entry(
                "x = f32[1,1,4] parameter(0)",
                "k = f32[1,1,4] parameter(1)",
                f"ROOT bad = f32[1,1,{side * 10**6 - 5}] convolution(x, k), "
                f"window={{size=4 pad={side * 10**6 // 2}_{side * 10**6 - 6 - side * 10**6 // 2}}}, dim_labels=bf0_oi0->bf0",
            )
        return entry(
            *lines,
            f"ROOT bad = f32[5,5] reduce-window(p, z), window={{size={2 * side}x{2 * side} {pad}}}, to_apply=plus",
            before=PLUS,
        )

    return make


def dilated(random: Random) -> str:
    hole = random.randrange(2**38, 2**39)
    return entry(
        "p = f32[8] parameter(0)",
        "z = f32[] constant(0)",
        f"ROOT bad = f32[{7 * hole + 1}] reduce-window(p, z), window={{size=1 lhs_dilate={hole}}}, to_apply=plus",
        before=PLUS,
    )


def far(random: Random) -> str:
    """A dilated operand of terabytes under a window that is as large, so that the result is small."""
    hole = random.randrange(2**38, 2**39)
    return entry(
        "p = f32[8] parameter(0)",
        "z = f32[] constant(0)",
        f"ROOT bad = f32[2] reduce-window(p, z), "
        f"window={{size=2 rhs_dilate={7 * hole - 1} lhs_dilate={hole}}}, to_apply=plus",
        before=PLUS,
    )


def sorted_oddly(random: Random) -> str:
    size = random.randrange(200_000_000, 210_000_000)
    return entry(
        "z = f32[] parameter(0)",
        f"w = f32[{size}] broadcast(z), dimensions={{}}",
        f"ROOT bad = f32[{size}] sort(w), dimensions={{0}}, to_apply=less",
        before=ODD,
    )


def gathered(random: Random) -> str:
    count = random.randrange(2**28, 2**29)
    return entry(
        "p = f32[4096] parameter(0)",
        "i = s32[] parameter(1)",
        f"j = s32[{count},1] broadcast(i), dimensions={{}}",
        f"ROOT bad = f32[{count},4096] gather(p, j), offset_dims={{1}}, collapsed_slice_dims={{}}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={4096}",
    )


def padded(random: Random) -> str:
    inside = tera(random)
    return entry(
        "p = f32[2] parameter(0)",
        "z = f32[] constant(0)",
        f"ROOT bad = f32[{inside + 2}] pad(p, z), padding=0_0_{inside}",
    )


def multiplied(random: Random) -> str:
    side = random.randrange(30_000, 31_000)
    return entry(
        "z = f32[] parameter(0)",
        f"w = f32[{side},{side}] broadcast(z), dimensions={{}}",
        f"ROOT bad = f32[{side},{side}] dot(w, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
    )


def factored(random: Random) -> str:
    side = random.randrange(16_000, 17_000)
    return entry(
        "z = f32[] parameter(0)",
        f"w = f32[{side},{side}] broadcast(z), dimensions={{}}",
        f"ROOT bad = f32[{side},{side}] cholesky(w), lower=true",
    )


def growing(random: Random) -> str:
    """A loop whose trip count is unknown, with much work in each iteration."""
    size = random.randrange(1_000_000, 1_100_000)
    return f"""HloModule m
c {{ cp = f32[{size}] parameter(0)  ROOT ct = pred[] constant(true) }}
b {{ bp = f32[{size}] parameter(0)
  ROOT bn = f32[{size}] negate(bp) }}
ENTRY e {{ p = f32[{size}] parameter(0)
  ROOT bad = f32[{size}] while(p), condition=c, body=b }}
"""


def outfed(random: Random) -> str:
    size = random.randrange(40_000, 50_000)
    return f"""HloModule m
c {{ cp = (f32[{size}], token[]) parameter(0)  ROOT ct = pred[] constant(true) }}
b {{ bp = (f32[{size}], token[]) parameter(0)  bx = f32[{size}] get-tuple-element(bp), index=0
  bt = token[] get-tuple-element(bp), index=1
  bo = token[] outfeed(bx, bt), outfeed_shape=f32[{size}]
  ROOT r = (f32[{size}], token[]) tuple(bx, bo) }}
ENTRY e {{ p = f32[{size}] parameter(0)  t = token[] after-all()  s = (f32[{size}], token[]) tuple(p, t)
  bad = (f32[{size}], token[]) while(s), condition=c, body=b
  ROOT r = f32[{size}] get-tuple-element(bad), index=0 }}
"""


MEMORY: Final = "of memory, above the limit of"
WORK: Final = "scalar operations"

PROGRAMS: Final[Mapping[str, tuple[Callable[[Random], str], str]]] = MappingProxyType(
    {
        "endless loop": (endless, "runs more than 1,000 iterations"),
        "loop in a loop": (loop_in_loop, f"{WORK}|runs more than 1,000 iterations"),
        "calls in calls": (calls, WORK),
        "branches in branches": (branches, WORK),
        "deep calls": (deep, "too deeply"),
        "iota": (one_line(lambda n: f"f32[{n}] iota(), iota_dimension=0"), MEMORY),
        "random bits": (
            one_line(
                lambda n: f"(u64[2], u32[{n}]) rng-bit-generator(p), algorithm=rng_philox",
                "",
                "p = u64[2] parameter(0)",
            ),
            MEMORY,
        ),
        "draws": (
            one_line(lambda n: f"f32[{n}] rng(p, p), distribution=rng_uniform", "", "p = f32[] parameter(0)"),
            MEMORY,
        ),
        "parameter": (one_line(lambda n: f"f32[{n}] parameter(0)"), MEMORY),
        "tuple of tuples": (
            one_line(lambda n: f"((f32[{n}], (f32[{n}], s32[])), pred[]) parameter(0)"),
            MEMORY,
        ),
        "broadcast in a fusion": (fused, MEMORY),
        "reshaped broadcast": (reshaped, MEMORY),
        "reduced broadcast": (
            lambda random: entry(
                "p = f32[] parameter(0)",
                f"w = f32[{tera(random)}] broadcast(p), dimensions={{}}",
                "ROOT bad = f32[] reduce(w, p), dimensions={0}, to_apply=odd",
                before=ODD,
            ),
            MEMORY,
        ),
        "mapped broadcast": (
            lambda random: entry(
                "p = f32[] parameter(0)",
                f"w = f32[{(size := tera(random))}] broadcast(p), dimensions={{}}",
                f"ROOT bad = f32[{size}] map(w, w), dimensions={{0}}, to_apply=odd",
                before=ODD,
            ),
            MEMORY,
        ),
        "window": (windows("reduce-window"), f"{MEMORY}|{WORK}"),
        "padding of a convolution": (windows("convolution"), MEMORY),
        "holes in an operand": (dilated, MEMORY),
        "holes in a window": (far, MEMORY),
        "odd comparison": (sorted_oddly, MEMORY),
        "slices": (gathered, MEMORY),
        "padding inside": (padded, MEMORY),
        "product": (multiplied, f"{MEMORY}|{WORK}"),
        "factors": (factored, f"{MEMORY}|{WORK}"),
        "unknown trip count": (growing, f"runs more than 1,000 iterations|{WORK}"),
        "outfeed in a loop": (outfed, "values to keep exceed|runs more than"),
    }
)
"""Modules by what is too much in them, and the message; the instruction to blame is `bad`."""

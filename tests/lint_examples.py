"""What stands around the example on each rule's page: with it, the example is a module that breaks the rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

from hlo_cli.lint.settings import LintSettings
from lint_cases import ADD, SCHEDULED
from lint_pallas_cases import COLUMN, GATHER, MATMUL
from lint_pallas_cases import whole as example_of

TILED = "t = f32[8,128]{1,0:T(8,128)} parameter(1)"
"""An argument in tiles, as modules for TPUs have them."""
EVERY = LintSettings(("ALL",))
FLIP = "f { p = f32[2] parameter(0)  ROOT q = f32[2] negate(p) }\n"
NEVER = "test {{ p = {} parameter(0)  ROOT no = pred[] constant(false) }}\n"
COUNTED = """
test {{ p = (s32[], {0}) parameter(0)  i = s32[] get-tuple-element(p), index=0  ten = s32[] constant(10)
  ROOT less = pred[] compare(i, ten), direction=LT }}
body {{ carried = (s32[], {0}) parameter(0)  i = s32[] get-tuple-element(carried), index=0
{{example}}
  {1}  one = s32[] constant(1)  j = s32[] add(i, one)  ROOT r = (s32[], {0}) tuple(j, w) }}
ENTRY e {{ z = s32[] constant(0)  a = {0} parameter(0)  s = (s32[], {0}) tuple(z, a)
  ROOT l = (s32[], {0}) while(s), condition=test, body=body }}
"""


@dataclass(frozen=True, slots=True)
class Around:
    """Lines of the entry before and behind the example, computations, the rest of the header; `whole` replaces all.

    `kernel` names the body of a Pallas kernel that the example cuts off.
    """

    before: tuple[str, ...] = ()
    _: KW_ONLY
    behind: tuple[str, ...] = ()
    computations: str = ""
    header: str = ""
    settings: LintSettings = EVERY
    whole: str = ""
    kernel: str = ""

    def text(self, example: str) -> str:
        """The module with the example in its place: in the entry, before it, or as all of it."""
        example = example_of(example, self.kernel) if self.kernel else example
        if self.whole:
            return f"HloModule m{self.header}\n{self.computations}{self.whole.replace('{example}', example)}"
        if "HloModule" in example:
            return example if "ENTRY" in example else f"{example}\n{self.computations}{self._entry('')}"
        if "ENTRY" in example:
            return f"HloModule m{self.header}\n{example}\n"
        lines = example.splitlines()
        at = max(
            (n + 1 for n, line in enumerate(lines) if line[:1] == "}" or line.endswith(" }") or " }, " in line),
            default=0,
        )
        head = "\n".join(lines[:at])
        return f"HloModule m{self.header}\n{self.computations}{head}\n{self._entry(chr(10).join(lines[at:]))}"

    def _entry(self, example: str) -> str:
        return "\n".join(("ENTRY e {", *self.before, example, *self.behind, "}\n"))


def around(*before: str, behind: str = "", computations: str = "", header: str = SCHEDULED) -> Around:
    """Lines before the example in a scheduled module, unless another header is given."""
    return Around(before, behind=(behind,), computations=computations, header=header)


def kernel(name: str, *operands: str) -> Around:
    """Arguments `x` and `y`, or the indices `i` and `x`, of a call of a Pallas kernel, whose body is given."""
    names = ("i", "x") if operands[0].startswith("s32") else ("x", "y")
    lines = [f"{each} = {shape} parameter({n})" for n, (each, shape) in enumerate(zip(names, operands, strict=False))]
    return Around(tuple(lines), kernel=name)


FOUR = f"{SCHEDULED}, replica_count=4"
X2, X4 = "x = f32[2] parameter(0)", "x = f32[4] parameter(0)"
WIDE = "x = f32[256,512]{1,0} parameter(0)"
INDICES = "i = s32[] constant(0)  z = s32[] constant(0)"
CONTEXTS: Mapping[str, Around] = {
    "HLO001": around(),
    "HLO003": around(X4),
    "HLO004": around(X4),
    "HLO010": around(X2),
    "HLO011": around(X2),
    "HLO012": around(X2, "h = f16[2] parameter(1)"),
    "HLO013": around(),
    "HLO014": around("x = f32[?] parameter(0)", header=""),
    "HLO015": around("x = f32[2,3] parameter(0)", header=""),
    "HLO016": around(X2),
    "HLO020": around(),
    "HLO021": around(X2, computations=ADD),
    "HLO022": around("x = f32[4,8]{1,0} parameter(0)", computations="f { p = f32[4,8]{1,0} parameter(0)  ROOT q = f32[4,8]{1,0} negate(p) }\n"),
    "HLO025": around(X2, computations=FLIP),
    "HLO030": around(X2, behind="y = f32[2] fusion(x), kind=kLoop, calls=f"),
    "HLO031": around(X2),
    "HLO032": around("x = f32[8] parameter(0)"),
    "HLO033": around(X2),
    "HLO034": around(),
    "HLO040": around(X4),
    "HLO041": around(X4),
    "HLO042": around(X4, 'b = b(f32[4]) custom-call(x), custom_call_target="Pin"'),
    "HLO050": around(X4, computations=ADD, header=", replica_count=3"),
    "HLO051": around(X4, computations=ADD, header=", replica_count=4"),
    "HLO052": around(X4, header=", replica_count=4"),
    "HLO053": around(X4, computations=ADD, header=", replica_count=2"),
    "HLO054": around(X4, computations=ADD),
    "HLO055": around("x = f32[8,8] parameter(0)", "out = f32[8,8] parameter(1)", "n = s32[] constant(0)", "at = (s32[], s32[], s32[]) tuple(n, n, n)", header=", replica_count=2"),
    "HLO060": around(X4),
    "HLO061": around(X2, "y = f32[4] parameter(1)", "t = token[] after-all()"),
    "HLO062": around(X2, "t = token[] after-all()"),
    "HLO063": around(X4, "t = token[] after-all()"),
    "HLO064": around(X4),
    "HLO070": around("x = f32[2]{0} parameter(0)", "ROOT y = f32[2]{0} negate(x)"),
    "HLO071": around(X2, "ROOT y = f32[2] negate(x)"),
    "HLO072": around(X2, "ROOT y = f32[2] negate(x)"),
    "HLO073": around(X2),
    "HLO074": around(X2, "y = f32[3] parameter(1)"),
    "HLO075": around(X2),
    "HLO080": around(header=", num_partitions=4"),
    "HLO082": around(header=""),
    "HLO083": around("x = f32[4] parameter(0)", computations=ADD, header=""),
    "HLO081": around("p = pred[] parameter(0)", "x = f32[4] parameter(1)", computations="a { v = f32[4] parameter(0)  ROOT m = f32[4] negate(v), sharding={replicated} }\nb { w = f32[4] parameter(0)  ROOT n = f32[4] copy(w) }\n", header=""),
    "HLO090": around("x = f32[4,8]{0,1} parameter(0)"),
    "HLO091": around("x = f32[4]{0} parameter(0)", INDICES),
    "HLO092": around("x = f32[4,6]{1,0} parameter(0)"),
    "HLO093": around(X2),
    "HLO094": around("x = f32[2,3]{0,1} parameter(0)", header=""),
    "HLO101": around("x = f32[65536,2]{1,0:T(8,128)} parameter(0)"),
    "HLO102": around("x = f32[256,256]{1,0} parameter(0)"),
    "HLO103": around("x = f32[512,256]{1,0} parameter(0)"),
    "HLO104": Around(settings=LintSettings(chip="v5e")),
    "HLO105": around("a = f32[256,512]{1,0} parameter(0)"),
    "HLO106": around("x = f32[1024,256]{1,0:T(8,128)} parameter(0)"),
    "HLO201": Around(settings=LintSettings(max_peak_bytes=16 << 30)),
    "HLO202": around("x = f32[] parameter(0)", behind="ROOT r = f32[1,1] slice(y), slice={[0:1], [0:1]}"),
    "HLO203": Around(),
    "HLO204": around(WIDE),
    "HLO205": around(),
    "HLO206": Around(header=SCHEDULED),
    "HLO207": around("x = f32[512,1024]{1,0:T(8,128)S(1)} parameter(0)"),
    "HLO208": around("x = f32[512,1024]{1,0:T(8,128)} parameter(0)"),
    "HLO209": Around(whole=COUNTED.format("f32[256,256]{1,0:T(8,128)}", "n = f32[256,256]{1,0:T(8,128)} negate(w)"), header=SCHEDULED),
    "HLO301": around("x = f32[65536] parameter(0)"),
    "HLO302": around(TILED, "x = f32[512,512] parameter(0)"),
    "HLO303": around(TILED, "x = bf16[512,512] parameter(0)"),
    "HLO304": around(TILED, "x = f32[512,512] parameter(0)", computations="f { p = f32[512,512] parameter(0)  ROOT q = f32[512,512] negate(p) }\n"),
    "HLO305": around("x = f32[512] parameter(0)", "v = f32[512,512] parameter(1)", behind="ROOT r = f32[512,512] add(v, y)"),
    "HLO401": around("x = f32[65536] parameter(0)", "z = f32[65536] parameter(1)", computations=ADD, header=FOUR),
    "HLO402": around("x = f32[65536] parameter(0)", computations=ADD, header=FOUR),
    "HLO403": around(TILED, "x = f32[65536] parameter(0)",  computations=ADD, header=FOUR),
    "HLO501": around("x = f32[2048,64] parameter(0)", INDICES, header=FOUR),
    "HLO502": around("x = f32[8192,64] parameter(0)", INDICES, computations=ADD, header=FOUR),
    "HLO503": around("x = f32[1024,64] parameter(0)", header=FOUR),
    "HLO504": around(header=", num_partitions=4"),
    "HLO505": Around(whole=COUNTED.format("f32[64,64]", "n = f32[256,64] negate(g)"), header=FOUR),
    "HLO506": around("x = f32[4,8] parameter(0)", computations=ADD, header=f"{SCHEDULED}, replica_count=2"),
    "HLO507": around(TILED, "x = bf16[8192,64] parameter(0)", header=FOUR),
    "HLO508": around("w = f32[8] parameter(0)", "x = f32[8] parameter(1)", "y = f32[8] parameter(2)", "z = f32[8] parameter(3)", computations=ADD, header=FOUR),
    "HLO509": around("x = f32[1024,64] parameter(0)", header=FOUR),
    "HLO510": around(header=", num_partitions=4"),
    "HLO601": around("x = f32[8] parameter(0)"),
    "HLO602": around("a = f32[8] parameter(0)", "l = f32[8] while(a), condition=test, body=body", computations=NEVER.format("f32[8]")),
    "HLO603": around("x = f32[8,8] parameter(0)", header=""),
    "HLO604": around("x = f32[8] parameter(0)", 'k = f32[8] custom-call(x), custom_call_target="__cublas$gemm"'),
    "HLO701": around(TILED, "x = f64[8,128] parameter(0)"),
    "HLO702": around("x = f32[1024] parameter(0)"),
    "HLO703": around("x = bf16[8,1024] parameter(0)", "zero = bf16[] constant(0)", computations=ADD.replace("f32", "bf16")),
    "HLO704": around("a = s8[8,8] parameter(0)", "b = s8[8,8] parameter(1)"),
    "HLO705": around("a = f32[8,8] parameter(0)", "b = f32[8,8] parameter(1)", TILED.replace("(1)", "(2)")),
    "HLO706": around("a = bf16[8,8] parameter(0)", "b = bf16[8,8] parameter(1)"),
    "HLO801": kernel("matmul", *MATMUL[1:]),
    "HLO802": kernel("column", *COLUMN[1:]),
    "HLO803": kernel("gather", *GATHER[1:]),
    "HLO804": kernel("matmul", *MATMUL[1:]),
    "HLO707": around("x = f32[512,512] parameter(0)"),
}  # fmt: skip

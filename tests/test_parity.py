"""A text, and the proto that we write of it, are the same to XLA in every field."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity import differences
from strategies import dump_text, dumps
from test_strict import ACCEPTED, with_line

pytestmark = pytest.mark.oracle

TEXTS = {
    "outfeed and payload": """HloModule m
ENTRY e {
 p = f32[9] parameter(0), frontend_attributes={_collectives_group="",b="x"}, metadata={op_name="a" metadata_payload="abc"}
 d = f32[] constant(-0.0)
 k = token[] after-all()
 o = token[] outfeed(p, k), outfeed_config="cfg"
 s = s4[2,2] constant({{1,2},{3,4}})
 ROOT t = tuple(p, d, s)
}""",
    "the end of an async operation speaks": """HloModule m
f {
 a = f32[8] parameter(0)
 ROOT n = f32[8] negate(a), frontend_attributes={r="0"}, metadata={op_name="R"}, backend_config="RR"
}
ENTRY e {
 x = f32[8] parameter(0)
 s = ((f32[8]), f32[8], s32[]) async-start(x), calls=f, frontend_attributes={a="1"}, backend_config="S"
 ROOT d = f32[8] async-done(s), metadata={op_name="D"}
}""",
    "sugar": """HloModule m
ENTRY e {
 x = f32[8] parameter(0)
 s = ((f32[8]), f32[2], s32[]) slice-start(x), slice={[0:2]}, frontend_attributes={a="1"}
 ROOT d = f32[2] slice-done(s), metadata={op_name="D"}
}""",
    "a scalar for an array": "HloModule m  ENTRY e { ROOT c = f32[9] constant(0.5) }",
    "a scalar for a small type": "HloModule m  ENTRY e { ROOT c = s4[5] constant(3) }",
    "a literal with tiles": "HloModule m  ENTRY e { ROOT c = f32[2]{0:T(256)} constant({1, 2}) }",
}
DATA = Path(__file__).parent / "data" / "parity"
UNLIKE = (" all-reduce(a), to_apply={ u", "constant({...})", "dim_labels=b0_0o->b0")
"""A body without a name, which XLA calls _ and we after its caller; values that are left out, which XLA makes up; a
convolution without a feature dimension, for which XLA writes the number 0."""


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_was_lost_is_kept(text: str) -> None:
    assert differences(text) == []


def test_what_xla_takes_is_the_same_as_a_proto() -> None:
    texts = [with_line(line) for line in ACCEPTED if not any(each in line for each in UNLIKE)]
    found = {text: found for text in texts if (found := differences(text))}
    assert not found


def test_what_parsers_are_tried_with_is_the_same_as_a_proto() -> None:
    head = (DATA / "head.hlo").read_text(encoding="utf-8")
    lines, modules = ((DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines() for name in ("lines", "modules"))
    texts = {line: f"{head}  {line}\n}}\n" for line in lines} | {line: line.replace("\\n", "\n") for line in modules}
    found = {name: found for name, text in texts.items() if (found := differences(text)) != []}
    assert not found


def test_dumps_are_the_same_as_protos() -> None:
    found, judged = {}, 0
    for path in dumps():
        text = dump_text(path)
        if "{...}" in text or len(text) > 100_000 or "passes" in str(path):
            continue
        judged += 1
        if of_this := differences(text):
            found[path.parent.name] = of_this[:3]
    assert judged > 5
    assert not found

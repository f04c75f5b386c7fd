"""What rewrites leave out of a module, and what they keep of it."""

from __future__ import annotations

import json

import pytest

from hlo_cli import parse_module
from hlo_cli.transform.fusion.gpu_fusion import BOTH, Pass, gpu_fuse
from hlo_cli.transform.module_time import with_trip_counts
from hlo_cli.transform.normalize import normalize

SHAPES = """HloModule m  ENTRY e {{ t = token[] parameter( 0 )  b = b(f32[8]{array}) parameter(1)
  p = (f32[8,4]{pair}, s32[]) parameter(2)  a = f32[8,4]{pair} get-tuple-element(p), index=0
  c = f32[] constant({constant})  ROOT r = (token[], f32[8,4]{pair}, f32[]) tuple(t, a, c) }}"""


@pytest.mark.parametrize(
    ("ignored", "array", "pair"),
    [
        (("layout",), "{0}", "{0,1}"),
        (("tiling",), "{0:T(128)}", "{1,0:T(8,128)}"),
        (("memory_space",), "{0:S(5)}", "{1,0:S(1)}"),
    ],
)
def test_ignored_parts_of_shapes_are_in_no_array_tuple_or_buffer(
    ignored: tuple[str, ...], array: str, pair: str
) -> None:
    plain = parse_module(SHAPES.format(array="{0}", pair="{1,0}", constant=1).replace("( 0 )", "(0)"))
    other = parse_module(SHAPES.format(array=array, pair=pair, constant=1))
    assert str(normalize(other, ignored)) == str(normalize(plain, ignored))
    assert str(normalize(other)) != str(normalize(plain)) or array == "{0}" == pair
    assert "token[]" in str(normalize(other, ignored))
    less = parse_module(SHAPES.format(array=array, pair=pair, constant=2))
    assert str(normalize(less, ignored)) != str(normalize(plain, ignored))


@pytest.mark.parametrize(
    ("config", "kept"),
    [("", {}), ('{"a":1}', {"a": 1}), ("[1]", {}), ("no JSON", {})],
)
def test_a_trip_count_is_added_to_the_configuration_of_its_loop(config: str, kept: dict[str, int]) -> None:
    more = f", backend_config={config}" if config.startswith("{") else f', backend_config="{config}"' if config else ""
    text = f"""HloModule m
more {{ i = s32[] parameter(0)  ROOT l = pred[] compare(i, i), direction=LT }}
body {{ i = s32[] parameter(0)  ROOT j = s32[] negate(i) }}
ENTRY e {{ p = s32[] parameter(0)  ROOT w = s32[] while(p), condition=more, body=body{more} }}"""
    loop = with_trip_counts(parse_module(text), {"w": 7}).instruction("w")
    assert json.loads(loop.attribute("backend_config") or "") == kept | {"known_trip_count": {"n": "7"}}


@pytest.mark.parametrize(("passes", "names"), [(("priority",), {"e", "spare"}), (BOTH, {"e"})])
def test_a_body_that_was_merged_is_no_computation_any_more(passes: tuple[Pass, ...], names: set[str]) -> None:
    """What nothing has called before goes with multi-output fusion, which removes dead computations."""
    made = gpu_fuse(
        parse_module("""HloModule m
f { x = f32[64] parameter(0)  ROOT y = f32[64] tanh(x) }
spare { x = f32[64] parameter(0)  ROOT y = f32[64] cosine(x) }
ENTRY e { p = f32[64] parameter(0)  a = f32[64] fusion(p), kind=kLoop, calls=f  ROOT b = f32[64] negate(a) }"""),
        "h100",
        passes=passes,
    ).module
    called = {each.name for i in made.instructions for each in i.called_computations}
    assert {each.name for each in made.computations} - called == names
    assert "f" not in called

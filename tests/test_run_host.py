"""`hlo run` with a host: stubs for custom calls, data of infeeds, values of outfeeds, and values followed through loops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlo_cli import HloError, cli, compare_runs, parse_module
from hlo_cli import run as run_module

CALL = """HloModule m
ENTRY e {
  p = bf16[3] parameter(0)
  q = (f32[3], s8[]) custom-call(p), custom_call_target="my_op"
  ROOT r = f32[3] get-tuple-element(q), index=0
}
"""
FEED = """HloModule m
c { s = (s32[], token[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
b { s = (s32[], token[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = token[] get-tuple-element(s), index=1
  f = ((s32[2], f32[]), token[]) infeed(k)
  d = (s32[2], f32[]) get-tuple-element(f), index=0
  x = s32[2] get-tuple-element(d), index=0
  y = s32[2] multiply(x, x)
  u = token[] get-tuple-element(f), index=1
  o = token[] outfeed(y, u), outfeed_shape=s32[2]
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], token[]) tuple(j, o) }
ENTRY e {
  z = s32[] constant(0)
  k = token[] after-all()
  t = (s32[], token[]) tuple(z, k)
  w = (s32[], token[]) while(t), condition=c, body=b
  ROOT r = s32[] get-tuple-element(w), index=0
}
"""
LOOPS = """HloModule m
cond { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(OUTER)
  ROOT l = pred[] compare(i, n), direction=LT }
inner_cond { s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(2)
  ROOT l = pred[] compare(i, n), direction=LT }
inner { s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[2] get-tuple-element(s), index=1
  y = f32[2] OPCODE(x, x)
  ROOT t = (s32[], f32[2]) tuple(j, y) }
body { s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[2] get-tuple-element(s), index=1
  z = s32[] constant(0)
  k = (s32[], f32[2]) tuple(z, x)
  w = (s32[], f32[2]) while(k), condition=inner_cond, body=inner
  v = f32[2] get-tuple-element(w), index=1
  ROOT t = (s32[], f32[2]) tuple(j, v) }
ENTRY e {
  p = f32[2] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[2]) tuple(z, p)
  w = (s32[], f32[2]) while(t), condition=cond, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1
}
"""


def loops(outer: int, opcode: str) -> str:
    return LOOPS.replace("OUTER", str(outer)).replace("OPCODE", opcode)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> int:
    return cli.main(["run", *arguments], standalone=False)


def test_stub_takes_the_place_of_a_custom_call() -> None:
    seen: list[tuple[object, str]] = []

    def double(x: np.ndarray, *, shape: object) -> tuple[np.ndarray, int]:
        seen.append((x.dtype, str(shape)))
        return 2 * x, 7

    module = parse_module(CALL)
    found = run_module(module, [np.array([1, 2, 3], np.float32)], stubs={"my_op": double})
    assert np.asarray(found.result).tolist() == [2, 4, 6]
    assert seen == [(np.float32, "(f32[3]{0}, s8[])")]
    assert compare_runs(module, module, stubs={"my_op": double}).verdict == "identical"
    assert seen[-1][0] == np.float64
    with pytest.raises(HloError, match="my_op is unknown"):
        run_module(module)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return x[:2], 1", "has sizes [2], expected f32[3]"),
        ("return x, 1.5", "has elements of type float64, expected s8"),
        ("return x, 200", "has integers that exceed the range of s8"),
        ("return x", "returned ndarray for q, expected a tuple of 2 values"),
        ("return x, 1, 2", "returned 3 values for q"),
        ("return {}, 1", "has elements of type object"),
        ("x[0] = 1", "failed in q: ValueError: assignment destination is read-only"),
        ("return 1 / 0", "failed in q: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "failed in q: SystemExit: 3"),
        ("return stub(x)", "failed in q: RecursionError"),
    ],
)
def test_wrong_stubs_are_told_with_the_place(
    body: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "m.hlo").write_text(CALL)
    (folder / "f.py").write_text(f"def stub(x):\n    {body}\n")
    assert run("m.hlo", "--stub", "my_op=f.py") == 2
    error = capsys.readouterr().err
    assert words in error
    assert "m.hlo:4:3" in error
    assert "Traceback" not in error
    if "failed" in words:
        assert "raised in f.py:2, in stub" in error


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("my_op", "--stub expects TARGET=FILE.py, found 'my_op'"),
        ("my_op=none.py", "cannot read none.py"),
        ("other=f.py", "no custom call has the target other"),
        ("my_op=f.py:nope", "f.py has no function nope"),
        ("my_op=bad.py", "bad.py:1 is not Python"),
        ("my_op=raises.py", "raises.py:2 failed: KeyError"),
    ],
)
def test_stubs_that_cannot_be_read(option: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.hlo").write_text(CALL)
    (folder / "f.py").write_text("def stub(x): return x, 1\n")
    (folder / "bad.py").write_text("def (\n")
    (folder / "raises.py").write_text("\n{}[1]\n")
    assert run("m.hlo", "--stub", option) == 2
    assert words in capsys.readouterr().err


def test_stub_prints_to_standard_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.hlo").write_text(CALL)
    (folder / "f.py").write_text("print('read')\ndef other(x):\n    print('called')\n    return x, 1\n")
    assert run("m.hlo", "--stub", "my_op=f.py:other", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["answer"]["results"] == 1
    assert "read\ncalled\n" in printed.err
    assert run("m.hlo", "--against", "m.hlo", "--stub", "my_op=f.py:other", "-q") == 0


@pytest.mark.parametrize("form", ["stacked", "one by one"])
def test_infeeds_read_and_outfeeds_write(form: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.hlo").write_text(FEED)
    rows = [[1, 2], [3, 4], [5, 6]]
    if form == "stacked":
        np.savez(folder / "feed.npz", a=np.array(rows, np.int32), b=np.array([1, 2, 3], np.float32))
    else:
        np.savez(folder / "feed.npz", *(part for row in rows for part in (np.array(row, np.int32), np.float32(0))))
    assert run("m.hlo", "--feed", "feed.npz", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["most"] for row in answer["tables"]["outfed"]["rows"]] == [4, 16, 36]
    assert run("m.hlo", "--feed", "feed.npz", "-o", "out.npz") == 0
    with np.load(folder / "out.npz") as found:
        assert [found[f"outfed_{at}"].tolist() for at in range(3)] == [[1, 4], [9, 16], [25, 36]]
    assert "not read" not in capsys.readouterr().err


def test_data_for_infeeds_is_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.hlo").write_text(FEED)

    def error_of(*arrays: object) -> str:
        np.savez(folder / "feed.npz", *map(np.asarray, arrays))
        assert run("m.hlo", "--feed", "feed.npz") == (0 if len(arrays) == 3 else 2)
        return capsys.readouterr().err

    assert "no data is left for infeed f (number 2 of all executions)" in error_of([[1, 2]] * 2, [1.0] * 2)
    assert "the data of --feed has sizes [3], []" in error_of([1, 2, 3], 1.0)
    assert "has elements of type float64, expected s32" in error_of([[1.5, 2]] * 3, [1.0] * 3)
    assert "3 arrays of --feed were not read to the end" in error_of([[1, 2]] * 4, [1.0] * 4, 0.0)
    assert run("m.hlo") == 2
    assert "help: use --feed FILE" in capsys.readouterr().err
    assert run("m.hlo", "--against", "m.hlo", "--feed", "feed.npz") == 2
    assert "cannot compare o: values of outfeed are not results" in capsys.readouterr().err


def watched(*arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert run("m.hlo", *arguments, "--args", "a.json", "--json") == 0
    return json.loads(capsys.readouterr().out)["tables"]


def test_a_value_is_followed_through_nested_loops(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.hlo").write_text(loops(3, "multiply"))
    (folder / "a.json").write_text("[[1, 10]]")
    rows = watched("--watch", "y", "--watch", "v", "--watch", "r", capsys=capsys)["iterations"]["rows"]
    assert [(row["iteration"], row["most"], row["event"]) for row in rows if row["value"] == "y"] == [
        ("0.0", 1e2, None),
        ("0.1", 1e4, None),
        ("1.0", pytest.approx(1e8), None),
        ("1.1", pytest.approx(1e16), None),
        ("2.0", pytest.approx(1e32), None),
        ("2.1", 1.0, "first Inf, overflow"),
    ]
    assert [(row["iteration"], row["execution"]) for row in rows if row["value"] == "v"] == [
        ("0", 0),
        ("1", 1),
        ("2", 2),
    ]
    assert [row["iteration"] for row in rows if row["value"] == "r"] == [None]


def test_parameters_and_tuples_are_followed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.hlo").write_text(loops(2, "add"))
    (folder / "a.json").write_text("[[1, 2]]")
    name = "carried"
    text = loops(2, "add").replace("body { s = ", f"body {{ {name} = ")
    before, rest = text.split("body {", 1)
    inside, after = rest.split("ENTRY", 1)
    (folder / "m.hlo").write_text(f"{before}body {{{inside.replace('(s)', f'({name})')}ENTRY{after}")
    rows = watched("--watch", name, capsys=capsys)["iterations"]["rows"]
    assert [(row["index"], row["iteration"], row["most"]) for row in rows] == [
        ("{0}", "0", 0),
        ("{0}", "1", 1),
        ("{1}", "0", 2),
        ("{1}", "1", 8),
    ]
    assert run("m.hlo", "--args", "a.json", "--watch", name, "-o", "x.npz", "-q") == 0
    with np.load(folder / "x.npz") as found:
        assert sorted(found) == [f"{name}_0", f"{name}_1", f"{name}_iterations"]
        assert found[f"{name}_1"].tolist() == [[1, 2], [4, 8]]


def test_long_loops_show_ends_and_events(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.hlo").write_text(loops(70, "add"))
    (folder / "a.json").write_text("[[1, -1]]")
    tables = watched("--watch", "y", capsys=capsys)
    assert len(tables["iterations"]["rows"]) == 140
    shown = [(row["iteration"], row["event"]) for row in tables["highlights"]["rows"]]
    assert [row for row in shown if row[1]] == [
        ("63.1", "first Inf, overflow, constant from here"),
    ]
    assert len(shown) == 11
    assert run("m.hlo", "--args", "a.json", "--watch", "y", "--format", "screen", "-q") == 0
    assert "129 iterations not shown" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--at", "--watch"])
def test_a_value_inside_a_reducer_is_missing(option: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "HloModule m\nf { a = f32[] parameter(0)  b = f32[] parameter(1)  c = f32[] sine(a)  ROOT d = f32[] atan2(c, b) }\n"
        "ENTRY e { p = f32[8] parameter(0)  z = f32[] constant(0)\n"
        "  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=f }\n"
    )
    (folder / "m.hlo").write_text(text)
    assert run("m.hlo", option, "c") == 0
    assert "c has no value: it does not run, or runs on whole arrays" in capsys.readouterr().err


def test_watched_values_are_saved(folder: Path) -> None:
    (folder / "m.hlo").write_text(loops(3, "add"))
    (folder / "a.json").write_text("[[1, 2]]")
    assert run("m.hlo", "--args", "a.json", "--watch", "y", "-o", "y.npz", "-q") == 0
    with np.load(folder / "y.npz") as found:
        assert found["y"][:, 0].tolist() == [2, 4, 8, 16, 32, 64]
        assert found["y_iterations"].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]


def test_what_is_kept_has_a_limit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.hlo").write_text(loops(90, "add"))
    limits = ("--max-memory", "1KiB", "-q")
    assert run("m.hlo", "--watch", "y", *limits) == 0
    for given in (("--at", "y"), ("--watch", "y", "-o", "y.npz")):
        assert run("m.hlo", *given, *limits) == 2
        assert "memory limit" in capsys.readouterr().err
    assert not (folder / "y.npz").exists()


def test_device_0_is_watched(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = loops(2, "add").replace("HloModule m", "HloModule m, num_partitions=2, replica_count=1")
    text = text.replace("ROOT t = (s32[], f32[2]) tuple(j, v)", "ROOT t = (s32[], f32[2]) tuple(j, a)")
    text = text.replace(
        "  v = f32[2] get-tuple-element(w), index=1",
        "  v = f32[2] get-tuple-element(w), index=1\n  a = f32[2] all-reduce(v), channel_id=1, "
        "replica_groups={{0,1}}, use_global_device_ids=true, to_apply=f",
    )
    text += "f { g = f32[] parameter(0)  h = f32[] parameter(1)  ROOT m = f32[] add(g, h) }\n"
    (folder / "m.hlo").write_text(text)
    (folder / "a.json").write_text("[[1, 2]]")
    assert run("m.hlo", "--args", "a.json", "--watch", "a", "--watch", "y", "--json") == 0
    printed = capsys.readouterr()
    rows = json.loads(printed.out)["tables"]["iterations"]["rows"]
    assert [(row["iteration"], row["least"]) for row in rows if row["value"] == "a"] == [("0", 8), ("1", 64)]
    assert [row["iteration"] for row in rows if row["value"] == "y"] == ["0.0", "0.1", "1.0", "1.1"]
    assert "values of --watch are those of device 0 of 2" in printed.err


def test_every_device_calls_a_stub_and_reads_the_feed() -> None:
    text = """HloModule m, num_partitions=2
f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  p = f32[2] parameter(0), sharding={devices=[2]<=[2]}
  k = token[] after-all()
  i = (f32[2], token[]) infeed(k)
  d = f32[2] get-tuple-element(i), index=0
  t = token[] get-tuple-element(i), index=1
  c = f32[2] custom-call(p, d), custom_call_target="my_op"
  o = token[] outfeed(c, t), outfeed_shape=f32[2]
  ROOT r = f32[2] all-reduce(c), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=f
}
"""
    seen = []

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        seen.append(x.tolist())
        return np.asarray(x * y)

    found = run_module(
        parse_module(text),
        [np.array([1, 2, 3, 4], np.float32)],
        stubs={"my_op": product},
        feed=[np.array([10, 100], np.float32)],
    )
    assert seen == [[1, 2], [3, 4]]
    assert np.asarray(found.result).tolist() == [40, 600]
    assert [(each.name, np.asarray(value).tolist()) for each, value in found.outfed] == [("o", [10, 200])]
    assert (found.devices, found.unread) == (2, 0)


def test_a_seed_makes_up_the_arguments_that_are_not_given(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "ENTRY e { p = f32[2] parameter(0)  q = f32[2] parameter(1)  ROOT r = f32[2] subtract(p, q) }"
    (folder / "m.hlo").write_text(text)
    (folder / "q.json").write_text('{"q": [0, 0]}')
    (folder / "both.json").write_text("[[1, 2], [0, 0]]")
    assert run("m.hlo", "--args", "q.json", "--seed", "3", "-o", "r.npz") == 0
    assert "random arguments for those that --args does not have (seed 3)" in capsys.readouterr().err
    whole = run_module(parse_module(text), seed=3, watch=[parse_module(text).entry.parameters[0]])
    assert whole.executed == 1
    with np.load(folder / "r.npz") as found:
        first = found["result"].tolist()
    assert run("m.hlo", "--args", "q.json", "--seed", "4", "-o", "r.npz", "-q") == 0
    with np.load(folder / "r.npz") as found:
        assert found["result"].tolist() != first
    assert run("m.hlo", "--args", "q.json") == 2
    assert "help: use --seed N to make up the others" in capsys.readouterr().err
    assert run("m.hlo", "--args", "both.json", "--seed", "1") == 2
    assert "--seed has no effect" in capsys.readouterr().err

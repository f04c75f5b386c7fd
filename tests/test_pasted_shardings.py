"""Errors of JAX about shardings, as JAX 0.4 to 0.10 words them: the axis, the sizes, and a sharding that fits."""

from __future__ import annotations

import pytest

from hlo_cli import cli

MESH = "Mesh('fsdp': 4, 'tensor': 2, axis_types=(Auto, Auto))"
PLACED = (
    "Received incompatible devices for jitted computation. Got {0} with device ids [0] on platform TPU and {1} with "
    "device ids [0, 1, 2, 3, 4, 5, 6, 7] on platform TPU"
)
IN_SPECS = """shard_map applied to the function 'loss' was given argument arrays with axis sizes that are not evenly divisible by the corresponding mesh axis sizes:

The mesh given has shape (4, 2) with corresponding axis names ('fsdp', 'tensor').

* the passed args[0] of shape float32[10,3], where args[0] is bound to loss's parameter 'x', corresponds to in_specs[0] of value P('fsdp',), which maps array axis 0 (of size 10) to mesh axis 'fsdp' (of size 4), but 4 does not evenly divide 10

* the passed args[1] of shape float32[8,3], where args[1] is bound to loss's parameter 'y', corresponds to in_specs[1] of value P('fsdp', 'tensor'), which maps array axis 1 (of size 3) to mesh axis 'tensor' (of size 2), but 2 does not evenly divide 3
"""
TOO_LONG = """shard_map applied to the function 'fwd' was given an in_specs entry which is too long to be compatible with the corresponding input value from the function:

in_specs is P('fsdp', None, 'tensor') which has length 3, but the passed args[0], where args[0] is bound to fwd's parameter 'x', has shape float32[8,4], which has rank 2 (and 2 < 3)
"""
REPLICATED = """shard_map applied to the function 'fwd' was given out_specs which require replication which can't be statically inferred given the mesh:

The mesh given has shape (4, 2) with corresponding axis names ('fsdp', 'tensor').

out_specs[0] is P() which implies that the corresponding output value is {0}
"""
RANK = f"NamedSharding(mesh={MESH}, spec=P('fsdp', None, 'tensor'), memory_kind=device)"
TILED = (
    f"Sharding NamedSharding(mesh={MESH}, spec=P('fsdp',), memory_kind=device) implies that array axis 0 is "
    "partitioned "
    "4 times, but the dimension size is {0} (full shape: {1}, per-dimension tiling factors: [4] should evenly divide "
    "the shape)"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TILED.format(50257, "(50257,)"), ("Dimension 0 (50,257)", "4 = fsdp", "Pad it to 50,260, or leave it whole")),
        (TILED.format(6, "(6, 12)"), ("Dimension 0 (6)", "Pad it to 8, or shard dimension 1 instead, which 4 divides")),
        (
            (
                "Sharding spec ('fsdp',) implies that array axis 0 is partitioned 4 times, but does not evenly "
                "divide the "
                f"dimension size 7. Got shape: (7, 8) and sharding NamedSharding(mesh=Abstract{MESH}, "
                "spec=P('fsdp', None))"
            ),
            ("Dimension 0 (7) is not divisible by 4 = fsdp", "dimension 1 instead"),
        ),
        (
            (
                "One of pjit arguments was given the resource assignment of PartitionSpec('data', None), which "
                "implies that the "
                "size of its dimension 0 should be divisible by 8, but it is equal to 30"
            ),
            ("Dimension 0 (30) is not divisible by 8", "Pad it to 32"),
        ),
        (
            IN_SPECS,
            ("args[0] x (float32[10,3]): axis 0 (10)", "Pad axis 1 of args[1] from 3 to 4, for 2 = tensor"),
        ),
        (TOO_LONG, ("The spec names 3 dimensions, args[0] (float32[8,4]) has 2", "The spec has tensor for dimensions")),
        (
            f"{RANK} is only valid for values of rank at least 3, but was applied to a value of rank 2.",
            ("The spec names 3 dimensions, the value has 2", "The spec has tensor for dimensions"),
        ),
        (
            (
                "A single NamedSharding spec specification can map every mesh axis to at most one positional "
                "dimension, but "
                "PartitionSpec('fsdp', 'tensor', 'fsdp') has duplicate entries for `fsdp`"
            ),
            ("The spec divides dimensions 0 and 2 by fsdp", "Name fsdp once"),
        ),
        (
            "Resource axis: dat of P(None, 'dat') is not found in mesh: ('data', 'model').",
            ("names the axis dat for dimension 1, but the mesh has data and model", "Write data in the spec"),
        ),
        (
            PLACED.format(
                "argument batch of train_step with shape float32[256,1024]",
                "argument params['w'] of train_step with shape bfloat16[1024,4096]",
            ),
            (
                "batch is on TPU device 0, params['w'] is on 8 TPU devices 0-7",
                "jax.device_put(batch, NamedSharding(mesh, P(...))), with the mesh of params['w']",
            ),
        ),
        (
            PLACED.format("ARG_SHARDING", "explicit output sharding"),
            ("An argument is on TPU device 0, the explicit output sharding is on 8 TPU devices 0-7",),
        ),
        (
            (
                f"Sharding passed to jit does not match the sharding on the respective arg. Got jit sharding: "
                "NamedSharding("
                f"mesh={MESH}, spec=P('fsdp',), memory_kind=device),\narg sharding: NamedSharding(mesh={MESH}, "
                "spec=P('tensor',), memory_kind=device) for arg type: float32[8@tensor]"
            ),
            (
                (
                    "The argument float32[8] is divided along dimension 0 by tensor, but jit expects it divided along "
                    "dimension 0 by fsdp"
                ),
            ),
        ),
        (
            REPLICATED.format(
                "only varying across mesh axes {} and not {fsdp}, but it was inferred to be possibly varying "
                "over {fsdp}"
            ),
            ("fwd: out_specs[0] = P()", "all devices along fsdp (4 devices) return the same value", "psum(y, 'fsdp')"),
        ),
        (
            REPLICATED.format("replicated across mesh axis 'tensor', but could not infer replication over any axes"),
            ("all devices along tensor (2 devices) return the same value", "put tensor into out_specs"),
        ),
    ],
)
def test_an_error_about_a_sharding_names_its_axis_and_a_fix(
    text: str,
    words: tuple[str, ...],
    tmp_path: object,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(str(tmp_path))
    with open("error.txt", "w", encoding="utf-8") as file:
        file.write(f"ValueError: {text}\n")
    code = cli.main(["error.txt", "--format", "screen"], standalone=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert [each for each in words if each not in shown] == [], shown
    assert code == 0


@pytest.mark.parametrize(
    "text",
    [
        "Received incompatible devices for jitted computation. Got argument x of f with shape float32[8] and with dev",
        "in_specs passed to shard_map: P('a') does not match the specs of the in",
        "shard_map was given out_specs which require replication which",
        "A single NamedSharding can map every mesh axis to one dimension, but P('a', 'a') has duplicate entries for `b`",
    ],
)
def test_an_error_that_is_cut_is_no_answer(text: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    with open("error.txt", "w", encoding="utf-8") as file:
        file.write(text)
    assert cli.main(["error.txt", "--format", "screen"], standalone=False) == 2

"""Shell completion: what each option offers, from what is typed so far and from the dump on the command line."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from glossary_columns import columns_in_code
from hlo_cli.cli import COMMANDS
from hlo_cli.commands.front.command_table import CommandTable

FIXTURES = Path(__file__).parent.parent / "fixtures"
TRACE = str(FIXTURES / "traces" / "cpu_steps")
CONV = str(FIXTURES / "tpu" / "v5e_conv")
PASSES = str(FIXTURES / "cpu" / "softmax" / "passes")


def completed(*typed: str) -> list[str]:
    """What the shell offers for the last word of a command line."""
    *before, incomplete = typed
    shell = ShellComplete(CommandTable(COMMANDS), {}, "hlo", "_HLO_COMPLETE")
    return [item.value for item in shell.get_completions(list(before), incomplete)]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("memspace", CONV, "--chip", "v5"), {"v5e", "v5p"}),
        (("layout", "--for", "v6"), {"v6e"}),
        (("memspace", CONV, "--space", "v"), {"vmem"}),
        (("lint", CONV, "--select", "HLO101,HLO10"), {"HLO101,HLO101", "HLO101,HLO106"}),
        (("lint", "--explain", "hlo20"), {"HLO201"}),
        (("lint", "--set", "min_padding"), {"min_padding_bytes="}),
        (("parse", CONV, "--explain", "fusion.1"), {"fusion.16", "fusion.17"}),
        (("memspace", CONV, "--value", "%copy"), {"copy.1"}),
        (("fuse", CONV, "--fuse", "copy.1,fusion.16"), {"copy.1,fusion.16"}),
        (("fuse", CONV, "fusion.16"), {"fusion.16"}),
        (("layout", f"{CONV}:fusion.1"), {f"{CONV}:fusion.16"}),
        (("parse", CONV, "--computation", "main"), {"main.7"}),
        (
            ("parse", PASSES, "--stage", "0020"),
            {"0020.HLO_passes_after_layout_assignment.after_fusion.before_fusion-wrapper"},
        ),
        (("diff", "--ignore", "meta"), {"metadata"}),
        (("fuse", CONV, "--fusion-rules", "multi"), {"multi-output"}),
        (("schedule", CONV, "--reorder", "lat"), {"latency"}),
        (("layout", CONV, "--sort", "padd"), {"padded_bytes", "padding"}),
        (("fuse", "--columns", "fusion,saved_"), {"fusion,saved_bytes", "fusion,saved_share"}),
        (("schedule", CONV, "--columns", "start,by"), {"start,bytes"}),
        (("profile", TRACE, "ynn"), {"ynn_fusion", "ynn_fusion.1"}),
        (("profile", TRACE, "--timeline", "--step", ""), {"0", "4"}),
        (("layout", CONV, "--sort", "sav"), {"saving_bytes"}),
        (("shard", str(FIXTURES / "tpu" / "v4_collectives"), "--mesh", ""), {"x=2,y=2"}),
        (("shard", str(FIXTURES / "tpu" / "v4_collectives"), "--mesh", "x=2,"), {"x=2,y=2"}),
        (("shard", "f32[8,8]", "{devices=[2,4]<=[8]}", "--to", "{d"), {"{devices=[8,1]<=[8]}", "{devices=[1,8]<=[8]}"}),
        (("shard", "f32[8,8]", "{devices=[2,4]<=[8]}", "--to", ""), {"{replicated}"}),
        (("help", "til"), {"tiling"}),
        (("help", "pars"), {"parse"}),
    ],
    ids=lambda value: value[-2] + " " + value[-1][-12:] if isinstance(value, tuple) else "",
)
def test_values(typed: tuple[str, ...], expected: set[str]) -> None:
    offered = completed(*typed)
    assert expected <= set(offered)
    assert all(each.lower().startswith(typed[-1].lower().lstrip("%")) for each in offered)


@pytest.mark.code
@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"help"}))
def test_columns_are_those_of_the_command(command: str) -> None:
    """Every column of a table of the command is offered, and none that only others show."""
    offered = completed(command, "--columns", "")
    assert {name for name, shown in columns_in_code().items() if command in shown.commands} == set(offered)
    assert completed(command, "--sort", "") == offered


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"help"}))
def test_inputs_and_outputs_are_files(command: str) -> None:
    shell = ShellComplete(CommandTable(COMMANDS), {}, "hlo", "_HLO_COMPLETE")
    assert [item.type for item in shell.get_completions([command], "du")] == ["file"]
    assert [item.type for item in shell.get_completions([command, "-o"], "out")] == ["file"]


@pytest.mark.parametrize("path", ["/no/such/file", "/dev/null", __file__])
def test_an_unreadable_dump_offers_nothing(path: str) -> None:
    assert completed("parse", path, "--explain", "f") == []


def test_every_option_with_a_value_is_completed_or_free() -> None:
    """A new option with a value needs a completer, or a place in the list of those whose values are free."""
    free = {"SIZE", "N", "SECONDS", "EXPR", "ADDRESS", "LIST", "AXES", "SHARDING"}
    table = CommandTable(COMMANDS)
    for name in COMMANDS:
        command = table.get_command(click.Context(table), name)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_flag and not isinstance(option.type, click.Choice):
                has_completer = option._custom_shell_complete is not None
                assert has_completer or option.metavar in free, f"hlo {name} {option.opts[0]} {option.metavar}"

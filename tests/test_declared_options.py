"""An option is declared once, as a field: help, completion, man page, value, and the errors of conflicts follow from it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

from hlo_cli.cli import COMMANDS
from hlo_cli.commands.front.command_table import CommandTable
from hlo_cli.commands.help.pages import man_pages
from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, Option, with_options
from hlo_cli.commands.options.declaring import Declaration, declarations, flag, option
from hlo_cli.commands.options.io_options import (
    InputOptions,
    OutputOptions,
    _options_in,
    check_options,
    given_about,
    io_of,
    io_options,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class SeaOptions:
    """Options of a command that does not exist."""

    fish: str | None = option(
        "--fish",
        "NAME",
        group="Catch",
        is_common=True,
        complete=partial(completion.one_of, lambda: ("cod", ("carp", "lives in ponds"))),
        about="one",
        help="Catch the fish NAME.",
    )
    depth: int | None = option(
        "--depth", "N", group="Catch", least=1, default_text="10", needs="--fish", help="Dive N fathoms."
    )
    bait: str = option("--bait", "KIND", group="Catch", choices=("worm", "fly"), default="worm", help="Use this bait.")
    nets: tuple[str, ...] = option("--net", "NAME", group="Catch", multiple=True, help="Throw the net NAME.")
    dry: bool = flag(
        "--dry",
        group="Catch",
        excludes={"--fish": "fish are wet", "--bait fly": "", "--json": ""},
        help="Stay on land.",
    )
    still: bool = flag("--still", group="Catch", one_of="mood", help="Wait.")
    loud: bool = flag("--loud", group="Catch", one_of="mood", help="Sing.")


@click.command(cls=Command, help="Show the sea.\n\nThere is no such command.", examples=("hlo sea --fish cod",))
@with_options(SeaOptions)
@io_options
def command(**given: Any) -> SeaOptions:
    """Answers with its options."""
    output, reading = io_of(given)
    options = SeaOptions(**given)
    check_options(options, output, reading)
    return options


TABLE = {"sea": ("a_sea", "Show the sea")}


@pytest.fixture(autouse=True)
def sea(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("a_sea")
    module.__dict__["command"] = command
    monkeypatch.setitem(sys.modules, "a_sea", module)


def run(line: str) -> SeaOptions:
    """The options that a command line comes to."""
    context = CommandTable(TABLE).make_context("hlo", ["sea", *line.split()])
    with context:
        found = context.command.invoke(context)
    assert isinstance(found, SeaOptions)
    return found


def test_the_value_has_its_type_and_its_default() -> None:
    assert run("") == SeaOptions()
    assert SeaOptions() == SeaOptions(fish=None, depth=None, bait="worm", nets=(), dry=False)
    found = run("--fish cod --depth 3 --bait fly --net a --net b")
    assert found == SeaOptions(fish="cod", depth=3, bait="fly", nets=("a", "b"))
    with pytest.raises(HloError, match="invalid value '0' for --depth: expected an integer of at least 1"):
        run("--fish cod --depth 0")


def test_it_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.exceptions.Exit):
        run("--help")
    page = capsys.readouterr().out
    assert re.search(r"^Catch:\n  --fish NAME +Catch the fish NAME\.\n", page, re.M)
    assert re.search(r"^  --depth N +Dive N fathoms. \[default: 10\]$", page, re.M)
    assert re.search(r"^  --bait KIND +Use this bait. \[default: worm\]$", page, re.M)
    assert re.search(r"^  --dry +Stay on land.$", page, re.M)


def test_it_is_in_the_man_page() -> None:
    page = man_pages(TABLE, ())["hlo-sea.1"]
    for words in (r"\-\-fish NAME", "Catch the fish NAME.", r"\-\-depth N", r"\-\-dry", "Catch"):
        assert words in page, page


def test_it_is_completed() -> None:
    shell = ShellComplete(CommandTable(TABLE), {}, "hlo", "_HLO_COMPLETE")
    assert {"--fish", "--depth", "--dry"} <= {item.value for item in shell.get_completions(["sea"], "--")}
    found = shell.get_completions(["sea", "--fish"], "c")
    assert [(item.value, item.help) for item in found] == [("cod", None), ("carp", "lives in ponds")]
    assert [item.value for item in shell.get_completions(["sea", "--bait"], "w")] == ["worm"]


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("--dry --fish cod", "--fish cannot be used with --dry", "fish are wet"),
        ("--dry --bait fly", "--bait fly cannot be used with --dry", "use only one of them"),
        ("--json --dry", "--json cannot be used with --dry", "use only one of them"),
        ("--depth 3", "--depth requires --fish", "add --fish"),
        ("--loud --still", "--still cannot be used with --loud", "use only one of them"),
        ("--quiet --verbose", "--quiet cannot be used with --verbose", "use only one of them"),
    ],
)
def test_it_is_in_the_error_of_a_conflict(line: str, message: str, hint: str) -> None:
    with pytest.raises(HloError) as raised:
        run(line)
    assert (raised.value.diagnostic.message, raised.value.diagnostic.hint) == (message, hint)


def test_what_is_no_conflict() -> None:
    assert run("--dry --bait worm").dry
    assert run("--depth 3 --fish cod --still").depth == 3
    assert given_about(SeaOptions(fish="cod", dry=True), "one") == ["--fish"]


# --- the commands that exist ---


def classes_of(name: str) -> list[type]:
    """The classes of options of a command, those of input and output included."""
    found = [each for each in vars(import_module(COMMANDS[name][0])).values() if isinstance(each, type)]
    return list(dict.fromkeys((*(each for each in found if is_dataclass(each) and declarations(each)), InputOptions,
                               OutputOptions)))  # fmt: skip


def declared(name: str) -> dict[str, Declaration]:
    """All declarations of a command, by the names of the options."""
    found = (each for options in classes_of(name) for each in declarations(options).values())
    return {each.name: each for each in found}


def names_in(option: Declaration) -> Iterator[str]:
    """The options that the rules of an option name."""
    rules = option.rules
    for words in (*rules.get("excludes", ()), rules.get("needs", ""), *rules.get("or_needs", ())):
        yield from re.findall(r"--[a-z-]+|^[A-Z]+$", words)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_need_is_met_by_what_its_error_asks_for(name: str) -> None:
    """A need that names nothing which can be given would refuse the option always."""
    known = declared(name)
    for each in known.values():
        if needed := each.rules.get("needs"):
            assert [words for words in _options_in(needed) if words.partition(" ")[0] in known], (each.name, needed)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_a_field(name: str) -> None:
    params = import_module(COMMANDS[name][0]).command.params
    options = {max(each.opts, key=len) for each in params if isinstance(each, Option) and each.expose_value}
    assert {each.replace("--apply", "--run-pass") for each in options} <= declared(name).keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_rules_name_options_that_exist(name: str) -> None:
    """A misspelled name would be a rule that never holds."""
    known = declared(name)
    assert {(each.name, other) for each in known.values() for other in names_in(each) if other not in known} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_types_of_fields_are_those_of_click(name: str) -> None:
    params = {each.name: each for each in import_module(COMMANDS[name][0]).command.params}
    for options in classes_of(name):
        for field in fields(options):
            param = params.get(field.name)
            if field.name not in declarations(options) or not isinstance(param, Option):
                continue
            is_list = param.multiple or param.nargs == 2 or field.name == "columns"
            kind = (
                "tuple" if is_list
                else "bool" if param.is_flag
                else "int" if isinstance(param.type, click.IntRange)
                else "float" if isinstance(param.type, click.FloatRange)
                else "str"
            )  # fmt: skip
            plain = str(field.type).removesuffix(" | None").partition("[")[0]
            assert plain == kind or (kind == "str" and isinstance(param.type, click.Choice)) or (
                (kind, plain) == ("int", "float")
            ), (field.name, field.type, kind)  # fmt: skip

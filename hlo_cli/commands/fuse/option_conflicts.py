"""Which options of `hlo fuse` go together: one that would change nothing is refused, not passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlo_cli.source import HloError

SWITCHES = ("multi-output", "no-copies", "guard-softmax", "wrap-transpose", "no-wrap")


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be fused, or taken apart."""

    apply: bool
    pair: tuple[str, ...]
    keep: bool
    into: str | None
    unfuse: tuple[str, ...]
    rules: tuple[str, ...]

    @property
    def is_asked(self) -> bool:
        """Whether anything is to be changed."""
        return self.apply or bool(self.pair or self.into or self.unfuse)

    @property
    def option(self) -> str:
        """The first of the options that ask for a change."""
        return "--apply" if self.apply else "--unfuse" if self.unfuse else "--fuse"


def check_together(asked: Mapping[str, bool], *, as_xla: bool, narrowed: bool) -> None:
    """HloError for two questions, or for an option that the one asked has no use for."""
    if len(two := [option for option, given in asked.items() if given]) > 1:
        raise HloError(f"{' and '.join(two)} do not go together", hint="ask them one after the other")
    if as_xla and not asked["--cost"]:
        raise HloError("--as-xla is about costs", hint="add --cost")
    if asked["NAME"] and narrowed:
        raise HloError("--where and --computation choose among many, and NAME is one", hint="leave one of them out")


def check_calls(*, chip: str | None, where: str | None, is_list: bool) -> None:
    """HloError for options that custom calls have no use for."""
    if chip is not None:
        raise HloError("--chip is about costs, not about custom calls", hint="leave out --chip")
    if where is not None and not is_list:
        raise HloError("--where chooses rows of a list", hint="hlo fuse DUMP --custom-calls --where EXPR lists calls")


def check_changes(changed: Changes, *, why_not: bool, is_part: bool) -> None:
    """HloError for options about a change where none is asked for, and for unknown rules."""
    if changed.into is not None and not changed.pair:
        raise HloError("--into says where something goes", hint="say what with --fuse")
    if changed.keep and not changed.pair:
        raise HloError("--keep says how what is fused is kept", hint="say what with --fuse")
    if changed.rules and not (changed.apply or why_not):
        raise HloError("--fusion-rules is about what is fused by rules", hint="add --apply or --why-not")
    if unknown := sorted(set(changed.rules) - set(SWITCHES)):
        raise HloError(f"no fusion rule is called {unknown[0]}", hint=f"there are {', '.join(SWITCHES)}")
    if changed.is_asked and is_part:
        raise HloError("a module is changed as a whole", hint="leave out --where and --computation")

"""`--verify`: the option of commands that rewrite modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hlo_cli.commands.shared.command import flag

_F = TypeVar("_F", bound=Callable[..., object])


def verify_option(group: str, requires: str) -> Callable[[_F], _F]:
    """`--verify`, passed to the command as `verify`; `requires` names the options that it can be used with."""
    return flag("--verify", group=group, help=f"Run the old and new module, and compare results (with {requires}).")

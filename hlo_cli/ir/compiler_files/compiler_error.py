"""An error of XLA or of a compiler next to it: the rule that is violated, and where it was raised."""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """What a kind of message means. `violated` is a template with the fields of the message; `fix` is advice.

    `shapes` are the fields that hold shapes to compare, the first of which is the expected one. `is_program` tells that
    the program or its options are wrong, not the compiler.

    >>> ErrorRule("reshape", "A reshape keeps the number of elements.", is_program=True).key
    'reshape'
    """

    key: str
    rule: str
    violated: str = ""
    fix: str = ""
    shapes: tuple[str, ...] = ()
    is_program: bool | None = None


@dataclass(frozen=True, slots=True)
class CompilerError:
    """One error message. `fields` are the parts of the message that its rule names, `line` is that of the text.

    `status` is the code of absl, such as INTERNAL; `context` is that of the check and `failed_after` the last pass
    before it; `raised_at` is the line of XLA, `condition` the check that failed, and `user_line` the line of the
    user's program in a traceback. All are empty if they are not in the text.

    >>> CompilerError(None, "no such option", {}, 1, status="INVALID_ARGUMENT").status
    'INVALID_ARGUMENT'
    """

    rule: ErrorRule | None
    message: str
    fields: Mapping[str, str]
    line: int
    status: str = ""
    context: str = ""
    failed_after: str = ""
    raised_at: str = ""
    condition: str = ""
    user_line: str = ""

"""The origin of an instruction: op_name, stack of calls, argument, and what told them."""

from __future__ import annotations

from hlo_cli.analysis.origin.scopes import scope_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.metadata import SourceLocation
from hlo_cli.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an instruction comes from, as far as known.

    - `op_name` is the name of the operation in the user's program, `stack` the calls that made it, innermost first.
      A scope in it such as `layers_*` is one of several layers, if it is not known which.
    - `argument` is the entry parameter whose value this is, moved or reshaped but not computed; None if there is none.
    - `teller` is the instruction whose metadata these are, None if they are the instruction's own; `relation` says
      what the instruction is to its teller, such as `prefetch of`.

    >>> origin = Origin("jit(step)/layers/7/attention/dot_general", (SourceLocation("model.py", 92, "attention"),))
    >>> origin.source, origin.scope, origin.is_inferred, origin.argument_name
    ('model.py:92', 'layers/7/attention', False, '')
    """

    op_name: str = ""
    stack: tuple[SourceLocation, ...] = ()
    argument: Instruction | None = None
    teller: Instruction | None = None
    relation: str = ""

    @property
    def is_inferred(self) -> bool:
        """Whether the facts are those of another instruction."""
        return self.teller is not None

    @property
    def location(self) -> SourceLocation | None:
        """The innermost place in the user's program."""
        return self.stack[0] if self.stack else None

    @property
    def source(self) -> str:
        """The innermost place as `file:line`; empty if unknown."""
        return str(self.stack[0]) if self.stack else ""

    @property
    def scope(self) -> str:
        """The named scope of the operation: `op_name` without transformations and the name of the operation."""
        return scope_of(self.op_name)

    @property
    def argument_name(self) -> str:
        """The argument as the user calls it, such as `params['w']`, else the name of its parameter; empty if none."""
        if self.argument is None:
            return ""
        return self.argument.metadata.op_name or self.argument.name


UNKNOWN = Origin()

"""Arguments of the entry that only one of the modules has, and arguments that are donated in only one."""

from __future__ import annotations

from hlo_cli.analysis.statements.arguments import argument_of
from hlo_cli.analysis.statements.evidence import Evidence
from hlo_cli.analysis.statements.statement import ArgumentChange, DonationChange
from hlo_cli.ir import opcodes

ARGUMENTS, DONATION = 40, 50
"""Ranks of the drafts."""


def find_arguments(evidence: Evidence) -> None:
    """A draft for the arguments that were added and for those that were removed."""
    for is_added in (True, False):
        found = [
            each
            for each in evidence.unowned(is_added=is_added)
            if each.opcode == opcodes.PARAMETER and each.computation.is_entry
        ]
        if found:
            statement = ArgumentChange(
                is_added,
                tuple(argument_of(each).label or each.name for each in found),
                str(found[0].shape.to_string(layout=False)) if len(found) == 1 else "",
                sum(each.shape.padded_bytes for each in found),
            )
            draft = evidence.draft(ARGUMENTS, statement)
            evidence.claim(draft, found)


def find_donation(evidence: Evidence) -> None:
    """A draft for arguments of both modules that share their memory with a result in only one of them."""
    if not evidence.header.keys() & {"input_output_alias", "buffer_donor"}:
        return
    old, new = evidence.diff.before.donated_parameters, evidence.diff.after.donated_parameters
    pairs = evidence.diff.pairs
    both = {one: two for one in evidence.diff.before.entry.parameters if (two := pairs.get(one)) is not None}
    changed = [one for one, two in both.items() if (one in old) != (two in new)]
    evidence.explain_header("input_output_alias", "buffer_donor")
    if changed:
        labels = tuple(argument_of(each).label or each.name for each in changed)
        size = sum(each.shape.padded_bytes for each in changed)
        statement = DonationChange(len(old), len(new), labels, size)
        evidence.draft(DONATION, statement)

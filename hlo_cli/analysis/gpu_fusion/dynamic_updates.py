"""Dynamic-update-slices whose kernel writes only the update, over an operand of the fusion.

Mirrors `CanEmitFusedDynamicUpdateSliceInPlace` of xla/codegen/ir_emission_utils.cc, without buffers.
"""

from __future__ import annotations

from hlo_cli.analysis.fusion.elements import is_elementwise
from hlo_cli.analysis.fusion.graph import Node
from hlo_cli.analysis.gpu_fusion.shapes import elements_of
from hlo_cli.analysis.gpu_fusion.view import View
from hlo_cli.ir import opcodes


def updates_in_place(view: View, roots: tuple[Node, ...]) -> Node | None:
    """The first dynamic-update-slice of a fusion all of whose results are updated in place, else None.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.fusion.graph import graph_of
    >>> text = "r = f32[9] dynamic-update-slice(f32[9] a, f32[2] b, s32[] i)"
    >>> from hlo_cli.analysis.gpu_fusion.parts import Part
    >>> view = View(Part(graph_of(parse_module(text).entry).root))
    >>> updates_in_place(view, tuple(view.roots))
    <node dynamic-update-slice r>
    """
    updates: list[Node] = []
    for root in roots:
        update = root
        if update.opcode == opcodes.BITCAST:
            (update,) = view.operands(update)
        if update.opcode != opcodes.DYNAMIC_UPDATE_SLICE or not view.contains(update):
            return None
        updates.append(update)
    shape = updates[0].operands[1].shape
    is_in_place = all(each.operands[1].shape == shape and _is_in_place(view, each) for each in updates)
    return updates[0] if is_in_place else None


def _is_in_place(view: View, update: Node) -> bool:
    """Whether no other operation reads elements of the operand that the update overwrites."""
    result = update
    while users := view.users(result):
        if len(users) > 1 or users[0].opcode != opcodes.BITCAST:
            return False
        result = users[0]
    overwritten = view.operands(update)[0]
    if view.contains(overwritten) and overwritten.opcode == opcodes.BITCAST:
        (overwritten,) = view.operands(overwritten)
    if view.contains(overwritten):
        return False
    waiting = [overwritten]
    seen = {overwritten, update}
    for node in waiting:
        for user in view.users(node):
            if not _reads_same_elements(view, user, update):
                return False
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return True


def _reads_same_elements(view: View, user: Node, update: Node) -> bool:
    if user is update:
        return True
    shape = update.operands[1].shape
    if (
        user.opcode == opcodes.DYNAMIC_SLICE
        and view.operands(user)[0] is view.operands(update)[0]
        and user.shape == shape
    ):
        return elements_of(shape) == 1 or user.operands[1:] == update.operands[2:]
    return is_elementwise(user) or user.opcode in (opcodes.BITCAST, opcodes.TUPLE)

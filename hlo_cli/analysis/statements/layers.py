"""Layers that only one of the modules has, told by the numbers in scopes and in the labels of arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hlo_cli.analysis.origin.scopes_and_moves import generalize, scope_of
from hlo_cli.analysis.statements.evidence import Draft, Evidence
from hlo_cli.analysis.statements.neighbors import signature
from hlo_cli.analysis.statements.statement import LayerChange
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import unquote
from hlo_cli.lazy_regex import lazy_regex

LAYERS: Final = 10
"""Rank of the drafts."""
_LAYER: Final = lazy_regex(r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z_]*?)(?:_|/|'\]\[|\]\[|\[|\.)([0-9]{1,4})(?![A-Za-z0-9.])")
_OP_NAME: Final = lazy_regex(r'op_name="([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_MAX_FAMILIES: Final = 4


@dataclass(frozen=True, slots=True)
class Layer:
    """One of the repeated parts of a model: `text` is how the program names it, such as `layers_7`."""

    family: str
    number: int
    text: str


def layer_of(name: str) -> Layer | None:
    """The outermost numbered part in a scope or a label.

    >>> layer_of("layers_7/attention"), layer_of("params['layers'][3]['w1']").text, layer_of("embed/dot")
    (Layer(family='layers', number=7, text='layers_7'), 'layers[3]', None)
    """
    found = _LAYER.search(name)
    if found is None:
        return None
    family, number = found[1], int(found[2])
    text = found[0] if found[0][len(family)] in "_/." else f"{family}[{number}]"
    return Layer(family, number, text)


class LayersOfModule:
    """The layer of each instruction of a module, by its scope or the label of the argument, and their sizes."""

    def __init__(self, module: Module) -> None:
        self._known: dict[str, Layer | None] = {}
        self.instructions: dict[str, Counter[int]] = {}
        self.texts: dict[tuple[str, int], str] = {}
        self.names: dict[str, set[str]] = {}
        for instruction in module.instructions:
            if (layer := self.of(instruction)) is not None:
                self.instructions.setdefault(layer.family, Counter())[layer.number] += 1
                text = self.texts.get((layer.family, layer.number))
                if text is None or (instruction.opcode != opcodes.PARAMETER and "[" in text):
                    self.texts[layer.family, layer.number] = layer.text

    def of(self, instruction: Instruction) -> Layer | None:
        """The layer that an instruction's own metadata name."""
        return self.named(op_name_of(instruction))

    def named(self, op_name: str) -> Layer | None:
        """The layer in an op_name: of an argument its label, else a scope."""
        if op_name not in self._known:
            self._known[op_name] = layer_of(scope_of(op_name) if "/" in op_name else op_name)
        return self._known[op_name]


def op_name_of(instruction: Instruction) -> str:
    """The op_name in an instruction's own metadata, empty if there is none."""
    text = instruction.raw[1]
    found = _OP_NAME.search(text, max(text.find("metadata={"), 0))
    if found is None:
        return ""
    return instruction.metadata.op_name if "\\" in found[1] else found[1]


def find_layers(evidence: Evidence) -> None:
    """A draft for the layers that were added and for those that were removed; it claims what is in them."""
    if not (evidence.diff.added or evidence.diff.removed):
        return
    layers = _numbers_in_text(evidence.diff.before)
    if layers is not None and layers == _numbers_in_text(evidence.diff.after):
        return
    old, new = LayersOfModule(evidence.diff.before), LayersOfModule(evidence.diff.after)
    for is_added, (one, two) in ((True, (old, new)), (False, (new, old))):
        for family, numbers in _families(one, two):
            _draft(evidence, one, two, family, numbers, is_added=is_added)


def _numbers_in_text(module: Module) -> frozenset[tuple[str, int]] | None:
    """The families and numbers of all layers that the text of a module names; None if a module has no text.

    Without a difference there is no other layer, and the layer of each instruction does not matter.
    """
    written = set(_OP_NAME.findall(module.source.text))
    if not written:
        return None
    names = (unquote(f'"{name}"') if "\\" in name else name for name in written)
    layers = (layer_of(scope_of(name) if "/" in name else name) for name in names)
    return frozenset((layer.family, layer.number) for layer in layers if layer is not None)


def _families(one: LayersOfModule, two: LayersOfModule) -> Iterator[tuple[str, list[int]]]:
    """Yields the families that have more layers in `two`, with the numbers of those layers."""
    found = []
    for family, sizes in two.instructions.items():
        known = one.instructions.get(family, Counter())
        more = sorted(sizes.keys() - known.keys())
        if known and more and not known.keys() - sizes.keys() and _are_alike(sizes, more):
            found.append((family, more))
    yield from sorted(found, key=lambda each: -two.instructions[each[0]].total())[:_MAX_FAMILIES]


def _are_alike(sizes: Mapping[int, int], more: Iterable[int]) -> bool:
    """Whether the new layers are about as large as the others."""
    others = [size for number, size in sizes.items() if number not in more]
    return all(min(others) <= 2 * sizes[number] and sizes[number] <= 2 * max(others) for number in more)


def _draft(
    evidence: Evidence, one: LayersOfModule, two: LayersOfModule, family: str, numbers: list[int], *, is_added: bool
) -> None:
    alone = evidence.unowned(is_added=is_added)
    theirs = {
        generalize(scope_of(op_name_of(each)) or op_name_of(each))
        for each in (evidence.diff.after if is_added else evidence.diff.before).instructions
        if (layer := two.of(each)) is not None and layer.family == family
    }
    seeds = [
        each
        for each in alone
        if (layer := two.of(each)) is not None
        and layer.family == family
        and generalize(scope_of(op_name_of(each)) or op_name_of(each)) in theirs
    ]
    if not seeds:
        return
    known = {signature(each) for each in (evidence.diff.before if is_added else evidence.diff.after).instructions}
    rows = evidence.connected(seeds, lambda each: signature(each) in known or not op_name_of(each), is_added=is_added)
    sizes = two.instructions[family]
    like = min(
        (number for number in one.instructions[family]),
        key=lambda number: (abs(sizes[number] - sizes[numbers[-1]]), -number),
    )
    texts = tuple(two.texts[family, number] for number in numbers)
    statement = LayerChange(is_added, texts, two.texts.get((family, like), ""))
    draft = evidence.draft(LAYERS, statement)
    evidence.claim(draft, rows)
    _claim_renumbered(evidence, draft, family)


def _claim_renumbered(evidence: Evidence, draft: Draft, family: str) -> None:
    """Metadata that differ only in the number of the layer."""
    for row, at, _, change in evidence.open_changes("metadata"):
        if change.name == "op_name" and generalize(change.before) == generalize(change.after):
            layer = layer_of(scope_of(change.after) if "/" in change.after else change.after)
            if layer is not None and layer.family == family:
                evidence.claim_change(draft, row, at)

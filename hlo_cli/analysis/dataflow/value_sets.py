"""Dataflow: the value at each place, either defined there or forwarded from elsewhere.

Mirrors xla/hlo/analysis/hlo_dataflow_analysis.cc in static single assignment form. A value is identified by the place
that defines it, a phi by the place where several values merge.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo_cli.analysis.dataflow.async_chains import AsyncChain
from hlo_cli.analysis.dataflow.forwarding import Sources
from hlo_cli.analysis.dataflow.phi_graph import simplify_phis
from hlo_cli.analysis.dataflow.positions import Positions
from hlo_cli.analysis.dataflow.post_order import instruction_post_order
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Computation, Instruction


@dataclass(frozen=True, slots=True)
class Dataflow:
    """The value at each place.

    `value[place]` is the value there. `values` lists all values in XLA's order; `rank` is the inverse. `phis` are the
    values that merge several. `position[n]` is the post-order position of instruction number n in its computation.
    The ranks of values of different computations are certain only if the input is a proto: texts list computations in
    another order than XLA numbers them.
    """

    places: Positions
    chains: Mapping[Instruction, AsyncChain]
    value: tuple[int, ...]
    values: tuple[int, ...]
    rank: Mapping[int, int]
    phis: frozenset[int]
    position: tuple[int, ...]
    is_rank_certain: bool = False


def dataflow_of(
    places: Positions, chains: Mapping[Instruction, AsyncChain], value_order: tuple[Computation, ...] = ()
) -> Dataflow:
    """Computes the values of a module; `value_order` are its computations in XLA's order, if known.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.dataflow.positions import places_of
    >>> text = "HloModule m  ENTRY e { p = f32[2] parameter(0) ROOT t = (f32[2], f32[2]) tuple(p, p) }"
    >>> dataflow_of(places_of(parse_module(text)), {}).value
    (0, 1, 0, 0)
    """
    sources = Sources(places, chains)
    resolved = _resolve(sources.source)
    inputs = {phi: tuple(resolved[way] for way in ways) for phi, ways in sources.phis.items()}
    final = simplify_phis(inputs)
    value = tuple(final.get(place, place) for place in resolved)
    phis = frozenset(phi for phi in inputs if phi not in final)
    # A rewritten module has other computations than its proto.
    known = tuple([computation for computation in value_order if computation in places.base])
    is_known = len(known) == len(places.base)
    position, ordered = _in_post_order(places, known if is_known else tuple(places.base))
    # hlo_dataflow_analysis.cc numbers values in the order of their definitions; phis are made, and numbered,
    # afterwards.
    values = (*(p for p in ordered if value[p] == p and p not in phis), *(p for p in ordered if p in phis))
    rank = {value: n for n, value in enumerate(values)}
    return Dataflow(places, chains, value, values, rank, phis, position, is_known)


def _resolve(source: list[int]) -> list[int]:
    """Returns the place where each chain of forwarding places begins; cycles of malformed modules are cut."""
    seen_from = [-1] * len(source)
    for place in range(len(source)):
        at, path = place, list[int]()
        while source[at] != at:
            if seen_from[at] == place:
                source[at] = at
                break
            seen_from[at] = place
            path.append(at)
            at = source[at]
        for passed in path:
            source[passed] = at
    return source


def _in_post_order(places: Positions, computations: tuple[Computation, ...]) -> tuple[tuple[int, ...], list[int]]:
    """Returns the post-order position of every instruction in its computation, and all places in XLA's order."""
    position = [0] * len(places.instructions)
    ordered: list[int] = []
    for computation in computations:
        base = places.base[computation]
        for n, index in enumerate(instruction_post_order(computation, text=places.text)):
            position[base + index] = n
            ordered.extend(range(places.first[base + index], places.first[base + index + 1]))
    return tuple(position), ordered

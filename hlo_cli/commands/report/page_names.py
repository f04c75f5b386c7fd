"""File names of the pages of several modules, next to their index."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hlo_cli.lazy_regex import lazy_regex

_UNUSUAL = lazy_regex(r"[^A-Za-z0-9._-]+")
_LONGEST = 80


def page_names(index: str, modules: Sequence[str]) -> list[str]:
    """A file name for each module: that of the index with the module's name, unlike all others in any case of letters.

    >>> page_names("out/all.html", ["jit_step", "Jit_Step", "../../x y<é>", "", "jit_step-2"])
    ['all.jit_step.html', 'all.Jit_Step-2.html', 'all.x_y.html', 'all.module.html', 'all.jit_step-2-2.html']
    """
    stem, ending = os.path.splitext(os.path.basename(index))
    taken = {os.path.basename(index).casefold()}
    names = list[str]()
    for module in modules:
        plain = _UNUSUAL.sub("_", module).strip("._-")[:_LONGEST] or "module"
        number, name = 1, f"{stem}.{plain}{ending}"
        while name.casefold() in taken:
            number += 1
            name = f"{stem}.{plain}-{number}{ending}"
        taken.add(name.casefold())
        names.append(name)
    return names

"""Names of XLA's dump files: module, stage, and the auxiliary files of a module."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, get_args

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, did_you_mean, nearest

SiblingKind = Literal["buffer-assignment", "buffer-assignment-values", "live-range", "memory-usage-report"]
SIBLING_KINDS: Final[tuple[SiblingKind, ...]] = get_args(SiblingKind)

_ENDINGS = ("", ".gz", ".xz", ".bz2", ".zst")
_COMPRESSED = re.compile(r"\.(?:gz|xz|bz2|zstd?)$", re.IGNORECASE)
_EXTENSION = re.compile(r"(?:\.hlo)?\.(txt|pb)$|\.(hlo)$")
_SIBLING = re.compile(rf".*-(?:{'|'.join(SIBLING_KINDS)})")
_MODULE = re.compile(r"(?:[^.]+\.)?module_(?P<id>\d+)(?:\.|$)")
_MODULE_FOLDER = re.compile(r"module_\d+\.[\w.]*")
_CHANGELIST = re.compile(r"(?:^|\.)cl_\d+$")
_STAGE = re.compile(
    r"(?:(?P<module>.*?)\.)?"
    r"(?:(?P<target>(?:(?:sm_\d+[a-z]?(?:\.\d+[a-z]?)?|gfx\w+?)_)?[a-z]+)_)?"
    r"(?P<stage>(?:before|after)_\w+)"
)
_PASS = re.compile(
    r"(?:(?P<module>.*?)\.)??(?P<stage>(?P<number>\d{4,5})\.(?!(?:[\w.]*_)?(?:before|after)_\w+$)[^.]+\..+)"
)
_ASIDE = re.compile(
    r"(?:^|[.\-_])(?:execution_options|target_arguments|thunk_sequence|hlo_module_config|tpu_comp_env|transfer_stats"
    r"|basic_compiler_metadata|autotune_results|gpu_target_config|debug_options|priority_fusion_dump)$"
)
_OTHER = lazy_regex(r"\.(?:ll|bc|ptx|cubin|o|s|dot|html|url|mlir|debug_options|textproto|pbtxt)$")
_PASSES = "passes"
_FUSION_DUMP = "priority_fusion_dump.txt"
_ORDER = {"before_optimizations": 0, "after_codegen": 3, "after_optimizations": 4}
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class DumpName:
    """The decoded name of a module's dump file; `order` grows with preference, mostly the time of the stage.

    Mirrors `FilenameFor` and its callers in xla/service/dump.cc.

    >>> name = parse_dump_name("module_0001.jit_step.sm_8.0_gpu_after_optimizations.txt.gz")
    >>> name.label, name.module, name.target, name.stage, name.is_text
    ('module_0001.jit_step', 'jit_step', 'sm_8.0_gpu', 'after_optimizations', True)
    """

    group: str
    label: str | None
    module: str | None
    target: str | None
    stage: str
    order: tuple[int, int]
    is_text: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names that select the module: its name, and the name with XLA's number."""
        return tuple(name for name in (self.module, self.label) if name)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names that select the stage: as printed, with its target, and the number of a pass.

        >>> parse_dump_name("0027.Layout_assignment.after_pipeline-start.before_layout-assignment.txt").aliases[1]
        '27'
        """
        first, _, rest = self.stage.partition(".")
        if first.isdigit():
            return (self.stage, str(int(first)), rest)
        return (self.stage, f"{self.target}_{self.stage}") if self.target else (self.stage,)


def parse_dump_name(file_name: str) -> DumpName | None:
    """The decoded file name, or None if it does not name a stage of a module.

    >>> parse_dump_name("module_0003.jit_f.cpu_after_optimizations-buffer-assignment.txt") is None
    True
    >>> parse_dump_name("1624.module_0065.pmap.186875.before_optimizations.hlo.pb").module
    'pmap.186875'
    """
    stem, extension = split_extension(file_name)
    if not extension or _SIBLING.fullmatch(stem):
        return None
    module = _MODULE.match(stem)
    rest = stem[module.end() :] if module else stem
    match = _PASS.fullmatch(rest) or _STAGE.fullmatch(rest)
    if match is None:
        return None
    parts = match.groupdict()
    stage, name = parts["stage"], _CHANGELIST.sub("", parts["module"] or "") or None
    label = ".".join(filter(None, (f"module_{module['id']}" if module else None, name))) or None
    order = (1, int(parts["number"])) if "number" in parts else (_ORDER.get(stage, 2), 0)
    group = stem[: len(stem) - len(rest)] + (name or "")
    return DumpName(group, label, name, parts.get("target"), stage, order, extension != "pb")


def split_extension(file_name: str) -> tuple[str, str]:
    """A file's name without its extension, and `txt`, `hlo`, or `pb`; extensions of compression are ignored.

    >>> split_extension("after_optimizations.hlo.pb.gz"), split_extension("a.ptx")
    (('after_optimizations', 'pb'), ('a.ptx', ''))
    """
    name = _COMPRESSED.sub("", file_name)
    match = _EXTENSION.search(name)
    return (name[: match.start()], match[1] or match[2]) if match else (name, "")


def select_stages(names: Sequence[DumpName], stage: str | None, place: str) -> list[tuple[int, str | None]]:
    """One dump of each module, as an index and a note on the choice: the requested stage, else the latest.

    >>> names = [parse_dump_name(f"{s}.txt") for s in ("before_optimizations", "after_optimizations")]
    >>> select_stages(names, None, "v5e_mlp/")
    [(1, 'the latest of 2 in v5e_mlp/')]
    """
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(name.group, []).append(index)
    chosen = []
    for members in groups.values():
        kept = members
        if stage is not None:
            kept = [members[i] for i in matching_stages(stage, [names[j].aliases for j in members])]
        if kept:
            best = max(kept, key=lambda index: names[index].order)
            among = place if stage is None else f"{place} named {stage}"
            chosen.append((best, _choice(names[best], [names[i] for i in kept], among)))
    if stage is not None and not chosen:
        raise not_found_error("stage", stage, [name.stage for name in names], place)
    return chosen


def not_found_error(kind: str, wanted: str, known: Iterable[str | None], place: str) -> HloError:
    """The error for a missing stage or module; its hint is the nearest of the existing ones, or all of them.

    >>> error = not_found_error("stage", "final", ["before_optimizations", "after_codegen"], "d/")
    >>> error.diagnostic.message, error.diagnostic.hint
    ("stage 'final' not found in d/", 'available: after_codegen, before_optimizations')
    """
    names = sorted({name for name in known if name})
    message = f"{kind} '{wanted}' not found in {place}"
    if not names:
        return HloError(f"{message}: file names do not contain a {kind}")
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    available = f"available: {', '.join(names[:_SHOWN])}{more}"
    return HloError(message, hint=did_you_mean(nearest(wanted, names)) or available)


def is_auxiliary_file(file_name: str) -> bool:
    """Whether a name is that of an auxiliary file that XLA writes for a module, not of a module's dump.

    >>> is_auxiliary_file("module_0004.jit_f.thunk_sequence.txt")
    True
    >>> is_auxiliary_file("module_0004.jit_f.before_optimizations.txt")
    False
    """
    stem, extension = split_extension(file_name)
    if extension:
        return bool(_SIBLING.fullmatch(stem) or _ASIDE.search(stem))
    return bool(_OTHER.search(stem) or _MODULE_FOLDER.fullmatch(stem))


def skip_auxiliary(paths: Sequence[str]) -> list[str]:
    """Paths, as a shell or a glob lists them, without auxiliary files and without protos that have a text.

    >>> skip_auxiliary(["m.txt", "m.pb", "m-buffer-assignment.txt"])
    ['m.txt']
    """
    texts = {split_extension(path)[0] for path in paths if split_extension(path)[1] != "pb"}
    kept = [
        path
        for path in paths
        if not is_auxiliary_file(os.path.basename(path))
        and not (split_extension(path)[1] == "pb" and split_extension(path)[0] in texts)
    ]
    return kept or list(paths)


def siblings_of(folder: str, file_name: str) -> Mapping[str, str]:
    """The files that XLA wrote about this dump, kind to path: its buffer assignment, live ranges, memory usage.

    >>> dict(siblings_of("/nowhere", "after_optimizations.txt"))
    {}
    """
    stem, _ = split_extension(file_name)
    # TPU compilers dump the module that the buffers are assigned a second time, without such files.
    stem = stem.removesuffix("_after_buffer_assignment")
    paths = {kind: present_file(os.path.join(folder, f"{stem}-{kind}.txt")) for kind in SIBLING_KINDS}
    return MappingProxyType({kind: path for kind, path in paths.items() if path is not None})


def fusion_dump_of(path: str, dump: DumpName) -> str | None:
    """The path of what priority fusion wrote about the same module, next to a dump or to its per-pass dumps.

    Mirrors `DumpPerModuleProtobufToFile` of xla/service/dump.cc, whose name for the file has no target.

    >>> fusion_dump_of("/no/such/after_optimizations.txt", parse_dump_name("after_optimizations.txt")) is None
    True
    """
    here = os.path.dirname(path)
    name = f"{dump.group}.{_FUSION_DUMP}" if dump.group else _FUSION_DUMP
    is_below = os.path.basename(os.path.abspath(here)) == _PASSES
    folders = (here, os.path.join(here, os.pardir if is_below else _PASSES))
    return next(filter(None, (present_file(os.path.join(folder, name)) for folder in folders)), None)


def present_file(path: str) -> str | None:
    """The path of a file, or of its compressed form; None if there is neither.

    >>> present_file("/nowhere/dump.txt")
    """
    return next(filter(os.path.isfile, (path + ending for ending in _ENDINGS)), None)


def proto_of(path: str) -> str | None:
    """The path of the proto that XLA wrote next to the text of a module; None if there is none.

    >>> proto_of("/no/such/after_optimizations.txt") is None
    True
    """
    stem, extension = split_extension(path)
    if extension == "pb":
        return None
    return next(filter(os.path.isfile, (f"{stem}.hlo.pb{ending}" for ending in _ENDINGS)), None)


def matching_stages(wanted: str, names: Sequence[Sequence[str]]) -> list[int]:
    """Indices of the items with a name equal to `wanted`, else with one that begins with it, else that contains it.

    >>> matching_stages("after", [("before_optimizations",), ("after_optimizations",), ("0003.dce.after_x",)])
    [1]
    """
    wanted = wanted.casefold()
    tests: tuple[Callable[[str], bool], ...] = (
        lambda name: name == wanted,
        lambda name: name.startswith(wanted),
        lambda name: wanted in name,
    )
    for test in tests:
        if found := [i for i, aliases in enumerate(names) if any(test(alias.casefold()) for alias in aliases)]:
            return found
    return []


def _choice(chosen: DumpName, names: Iterable[DumpName], place: str) -> str | None:
    """A note on the chosen stage and the number of stages; it is "the latest", unless `after_codegen` exists too."""
    stages = {name.stage for name in names}
    if len(stages) < 2:
        return None
    word = "one" if "after_codegen" in stages - {chosen.stage} else "the latest"
    return f"{word} of {len(stages)} in {place}"

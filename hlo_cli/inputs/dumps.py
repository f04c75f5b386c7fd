"""Which files of a directory are the dumps of which module, at which stage, after which pass."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.files import AS_TEXT, is_elsewhere, is_file, is_folder, names_in, open_bounded, opened, unreadable
from hlo_cli.inputs.forms import ELF, is_archive_name
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.source import HloError, did_you_mean, nearest

if TYPE_CHECKING:
    from hlo_cli.inputs.pasted.kinds import PastedKind

# --- names of dump files ---
# Names of XLA's dump files: module, stage, and the auxiliary files of a module.


SiblingKind = Literal["buffer-assignment", "buffer-assignment-values", "live-range", "memory-usage-report"]
SIBLING_KINDS: Final[tuple[SiblingKind, ...]] = get_args(SiblingKind)

# what people compress dumps with; XLA itself writes `.gz` for protos with --xla_dump_compress_protos
_ENDINGS = ("", ".gz", ".xz", ".bz2", ".zst")
_COMPRESSED = re.compile(r"\.(?:gz|xz|bz2|zstd?)$", re.IGNORECASE)
# `.hlo.pb` is a HloProto, `.hlo` what people call a text; XLA writes `.txt`
_EXTENSION = re.compile(r"(?:\.hlo)?\.(txt|pb)$|\.(hlo)$")
_SIBLING = re.compile(rf".*-(?:{'|'.join(SIBLING_KINDS)})")
_MODULE = re.compile(r"(?:[^.]+\.)?module_(?P<id>\d+)(?:\.|$)")
_MODULE_FOLDER = re.compile(r"module_\d+\.[\w.]*")
_CHANGELIST = re.compile(r"(?:^|\.)cl_\d+$")  # libtpu adds the number of its source version to the name of a module
_STAGE = re.compile(
    r"(?:(?P<module>.*?)\.)?"
    r"(?:(?P<target>(?:(?:sm_\d+[a-z]?(?:\.\d+[a-z]?)?|gfx\w+?)_)?[a-z]+)_)?"
    r"(?P<stage>(?:before|after)_\w+)"
)
# `FilenameFor` of xla/service/dump.cc counts passes with four digits; large modules have more than 9,999
_PASS = re.compile(
    r"(?:(?P<module>.*?)\.)??(?P<stage>(?P<number>\d{4,5})\.(?!(?:[\w.]*_)?(?:before|after)_\w+$)[^.]+\..+)"
)
_ASIDE = re.compile(  # files of a module that are no HLO, of XLA and of libtpu
    r"(?:^|[.\-_])(?:execution_options|target_arguments|thunk_sequence|hlo_module_config|tpu_comp_env|transfer_stats"
    r"|basic_compiler_metadata|autotune_results|gpu_target_config|debug_options|priority_fusion_dump)$"
)
# code and drawings of --xla_dump_hlo_as_dot, _as_html, and of the backends
_OTHER = lazy_regex(r"\.(?:ll|bc|ptx|cubin|o|s|dot|html|url|mlir|debug_options|textproto|pbtxt)$")
# the key is a SHA-256 (`LRUCache.put` of jax/_src/lru_cache.py)
_CACHE_ENTRY = re.compile(r"(?P<module>.*)-(?P<key>[0-9a-f]{64})-cache")
_PASSES = "passes"
_FUSION_DUMP = "priority_fusion_dump.txt"
# stages of a module as XLA runs through them; passes, between 0 and 3, have numbers of their own
_ORDER = {"before_optimizations": 0, "after_codegen": 3, "after_optimizations": 4}
_SHOWN_NAMES = 8  # what an error lists fits in about two lines of a terminal; the rest is counted


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
    def id(self) -> str | None:
        """XLA's number of the module, as written; None if the file name has none.

        >>> parse_dump_name("module_0062.jit_step.cpu_after_optimizations.txt").id
        '0062'
        """
        match = _MODULE.match(self.label or "")
        return match["id"] if match else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names that select the module: its name, the name with XLA's number, and the number."""
        return tuple(name for name in (self.module, self.label, self.id) if name)

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
    stem, extension = _split_extension(file_name)
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


def cache_entry(file_name: str) -> tuple[str, str] | None:
    """The module and the key in the name of an entry of JAX's compilation cache; None for another name.

    >>> cache_entry(f"jit_step-{'0' * 64}-cache") == ("jit_step", "0" * 64), cache_entry("jit_step.txt")
    (True, None)
    """
    match = _CACHE_ENTRY.fullmatch(file_name)
    return None if match is None else (match["module"], match["key"])


def _split_extension(file_name: str) -> tuple[str, str]:
    """A file's name without its extension, and `txt`, `hlo`, or `pb`; extensions of compression are ignored.

    >>> _split_extension("after_optimizations.hlo.pb.gz"), _split_extension("a.ptx")
    (('after_optimizations', 'pb'), ('a.ptx', ''))
    """
    name = _COMPRESSED.sub("", file_name)
    match = _EXTENSION.search(name)
    return (name[: match.start()], match[1] or match[2]) if match else (name, "")


def stage_named(module: str, target: str, stage: str) -> DumpName:
    """The name of a stage that is stored without a file of its own, as in an executable; `target` may be empty.

    >>> stage_named("jit_f", "cpu", "after_optimizations").aliases
    ('after_optimizations', 'cpu_after_optimizations')
    """
    return DumpName(module, None, module, target or None, stage, (_ORDER[stage], 0), is_text=False)


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
    more = f", and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    available = f"available: {', '.join(names[:_SHOWN_NAMES])}{more}"
    return HloError(message, hint=did_you_mean(nearest(wanted, names)) or available)


def is_auxiliary_file(file_name: str) -> bool:
    """Whether a name is that of an auxiliary file that XLA writes for a module, not of a module's dump.

    >>> is_auxiliary_file("module_0004.jit_f.thunk_sequence.txt")
    True
    >>> is_auxiliary_file("module_0004.jit_f.before_optimizations.txt")
    False
    """
    stem, extension = _split_extension(file_name)
    if extension:
        return bool(_SIBLING.fullmatch(stem) or _ASIDE.search(stem))
    return bool(_OTHER.search(stem) or _MODULE_FOLDER.fullmatch(stem))


def skip_auxiliary(paths: Sequence[str]) -> list[str]:
    """Paths, as a shell or a glob lists them, without auxiliary files and without protos that have a text.

    >>> skip_auxiliary(["m.txt", "m.pb", "m-buffer-assignment.txt"])
    ['m.txt']
    """
    texts = {_split_extension(path)[0] for path in paths if _split_extension(path)[1] != "pb"}
    kept = [
        path
        for path in paths
        if not is_auxiliary_file(os.path.basename(path))
        and not (_split_extension(path)[1] == "pb" and _split_extension(path)[0] in texts)
    ]
    return kept or list(paths)


def siblings_of(folder: str, file_name: str) -> Mapping[str, str]:
    """The files that XLA wrote about this dump, kind to path: its buffer assignment, live ranges, memory usage.

    >>> dict(siblings_of("/nowhere", "after_optimizations.txt"))
    {}
    """
    stem, _ = _split_extension(file_name)
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
    return next(filter(is_file, (path + ending for ending in _ENDINGS)), None)


def proto_of(path: str) -> str | None:
    """The path of the proto that XLA wrote next to the text of a module; None if there is none.

    >>> proto_of("/no/such/after_optimizations.txt") is None
    True
    """
    stem, extension = _split_extension(path)
    if extension == "pb":
        return None
    return next(filter(is_file, (f"{stem}.hlo.pb{ending}" for ending in _ENDINGS)), None)


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
        if indices := [i for i, aliases in enumerate(names) if any(test(alias.casefold()) for alias in aliases)]:
            return indices
    return []


def _choice(chosen: DumpName, names: Iterable[DumpName], place: str) -> str | None:
    """A note on the chosen stage and the number of stages; it is "the latest", unless `after_codegen` exists too."""
    stages = {name.stage for name in names}
    if len(stages) < 2:
        return None
    word = "one" if "after_codegen" in stages - {chosen.stage} else "the latest"
    return f"{word} of {len(stages)} in {place}"


# --- directories of dumps ---
# The modules in one, those of its subdirectories, and the error if there are none.
#
# A directory with dumps, as `--xla_dump_to` writes it, stands for these alone; any other for all of its
# subdirectories.


MAX_DIRECTORIES: Final = 10_000
"""The most directories that one argument may stand for."""
MAX_DEPTH: Final = 32
"""The deepest subdirectory that is read."""
_SHOWN_FILES = 5  # enough to tell what a folder is full of, and to open when looking for a message
_TEXTS: Final = (".txt", ".log", ".err", ".out")
_HEAD: Final = 1 << 16  # messages stand at the begin of a file, and a folder may be full of large logs
_SUBDIRECTORY: Final = "pass one of its subdirectories"


@dataclass(frozen=True, slots=True)
class Directory:
    """The dumps of a directory, the names of other files that might hold HLO, and those of its subdirectories.

    `is_unreadable` if the directory cannot be listed; `remark` is a note on dumps below it that are not read.
    """

    path: str
    dumps: tuple[tuple[str, DumpName], ...] = ()
    others: tuple[str, ...] = ()
    subdirectories: tuple[str, ...] = ()
    is_unreadable: bool = False
    remark: str | None = None

    @property
    def place(self) -> str:
        """The path with a slash, for messages."""
        return self.path.rstrip("/") + "/"


def read_directory(path: str) -> Directory:
    """Lists a directory: text is preferred to protos; links to directories and hidden directories are left out."""
    files, folders = _entries(path)
    parsed = [(name, dump) for name in files if (dump := parse_dump_name(name)) is not None]
    texts = {_split_extension(name)[0] for name, dump in parsed if dump.is_text}
    dumps = tuple((name, dump) for name, dump in parsed if dump.is_text or _split_extension(name)[0] not in texts)
    loose = [name for name in files if _may_hold_modules(name)]
    others = tuple(name for name in loose if _split_extension(name)[1] != "pb") or tuple(loose)
    inside = tuple(
        name for name in folders if not name.startswith(".") and not os.path.islink(os.path.join(path, name))
    )
    return Directory(path, dumps, others, inside)


# --- hosts ---
# The dumps of the hosts of a job, by subdirectory or by a process index in the names of files.


_HOST: Final = re.compile(
    r"(?:^|(?<=[._-]))(?:host|process|proc|worker|task|rank|node|replica|p)[_-]?(?P<index>\d{1,6})(?=[._-]|$)",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\d{1,6}")


def hosts_in(path: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The hosts in a directory, each with its paths: by subdirectory or by the process index of files; else none.

    >>> hosts_in("/no/such/directory")
    ()
    """
    if not is_folder(path):
        return ()
    directory = read_directory(path)
    folders = [name for name in directory.subdirectories if _HOST.search(name) or _NUMBER.fullmatch(name)]
    if len(folders) > 1 and len(folders) == len(directory.subdirectories) and not directory.dumps:
        return tuple((name, (os.path.join(path, name),)) for name in folders)
    files = [name for name, _ in directory.dumps] or list(directory.others)
    indices: dict[str, list[str]] = {}
    for name in files:
        found = _HOST.search(name)
        if found is None:
            return ()
        indices.setdefault(found[0], []).append(os.path.join(path, name))
    return tuple((name, tuple(paths)) for name, paths in indices.items()) if len(indices) > 1 else ()


def _may_hold_modules(name: str) -> bool:
    """Whether a file that is not named as a dump is read: by its extension, or as an entry of JAX's cache."""
    if cache_entry(name) is not None:
        return True
    return bool(_split_extension(name)[1]) and not is_auxiliary_file(name)


def walk_directories(path: str) -> Iterator[Directory]:
    """The directory and, if it has no dumps, its subdirectories, in their natural order; each in the same way.

    HloError for a directory that cannot be listed, unless it is a subdirectory, and for trees that are too large.
    """
    pending, count = [(path, 0)], 0
    while pending:
        here, depth = pending.pop()
        count += 1
        if count > MAX_DIRECTORIES:
            raise HloError(f"{path} contains too many directories (limit {MAX_DIRECTORIES:,})", hint=_SUBDIRECTORY)
        if depth > MAX_DEPTH:
            raise HloError(f"{path} is nested too deeply (limit {MAX_DEPTH} directories)", hint=_SUBDIRECTORY)
        try:
            directory = read_directory(here)
        except HloError:
            if not depth:  # the folder that was asked for; one below it may belong to somebody else
                raise
            yield Directory(here, is_unreadable=True)
            continue
        inner = [(os.path.join(here, name), depth + 1) for name in reversed(directory.subdirectories)]
        if not directory.dumps:
            yield directory
            pending += inner
            continue
        remark = _remark(directory.place, _count_dump_directories(inner))
        yield Directory(here, directory.dumps, directory.others, directory.subdirectories, remark=remark)


def select_dumps(
    directory: Directory, stage: str | None, module: str | None
) -> tuple[list[tuple[str, str | None]], list[DumpName]]:
    """One dump of each module, as its path and a note on the stage; and the dumps of other stages and modules.

    If some names do not contain a module, `module` is not applied.
    """
    named, dumps = directory.dumps, [dump for _, dump in directory.dumps]
    kept = list(range(len(dumps)))
    if module is not None and names_modules(directory):
        kept = matching_stages(module, [dump.names for dump in dumps])
    if stage is not None:
        kept = [kept[i] for i in matching_stages(stage, [dumps[i].aliases for i in kept])]
    selected = select_stages([dumps[i] for i in kept], stage, directory.place) if kept else []
    paths = [(os.path.join(directory.path, named[kept[index]][0]), choice) for index, choice in selected]
    return paths, [dump for i, dump in enumerate(dumps) if i not in set(kept)]


def names_modules(directory: Directory) -> bool:
    """Whether the file names of all dumps contain a module."""
    return all(dump.label for _, dump in directory.dumps)


def not_selected_error(skipped: Sequence[DumpName], stage: str | None, module: str | None, place: str) -> HloError:
    """The error for a stage or module that no dump has, if all were skipped."""
    has_module = module is None or bool(matching_stages(module, [dump.names for dump in skipped]))
    if stage is not None and has_module:
        return not_found_error("stage", stage, [dump.stage for dump in skipped], place)
    return not_found_error("module", module or "", [dump.module for dump in skipped], place)


def no_dumps_error(folder: str) -> HloError:
    """The error for a directory without HLO: its content, and where dumps may be."""
    files, folders = _entries(folder)
    endings = Counter(os.path.splitext(name)[1] or name for name in files).most_common(_SHOWN_FILES)
    found = [f"{count:,} {ending}" for ending, count in endings]
    if folders:
        noun = "directory" if len(folders) == 1 else "directories"
        found.append(f"{len(folders):,} {noun}: {_listed(folders)}")
    if not found:
        what = "is empty" if is_elsewhere(folder) or not os.listdir(folder) else "contains no regular files"
        return HloError(f"directory {_shown(folder)} {what}", hint=AS_TEXT)
    inside = next((name for name in folders if _has_dumps(os.path.join(folder, name))), None)
    inside = inside or next((name for name in files if is_archive_name(name)), None)
    hint = did_you_mean(_shown(os.path.join(folder, inside))) if inside else _hint_for_texts(folder, files) or AS_TEXT
    return HloError(f"no HLO dumps in {_shown(folder)} (contains {', '.join(found)})", hint=hint)


def _hint_for_texts(folder: str, files: Iterable[str]) -> str | None:
    """The command for the first file that is an error message or another text that can be explained."""
    from shlex import quote  # rarely needed

    from hlo_cli.inputs.pasted.read import kind_of

    paths = (os.path.join(folder, name) for name in sorted(files) if name.endswith(_TEXTS))
    for path in islice(filter(is_file, paths), _SHOWN_FILES):
        # only for a hint: a file that cannot be read gives none
        with suppress(OSError, HloError), open_bounded(path) as file:
            if kind_of(file.read(_HEAD).decode("utf-8", "replace")) is not None:
                return f"to explain the message in a file, run `hlo {quote(path)}`"
    return None


def _remark(place: str, count: int) -> str | None:
    """The note on directories below one with dumps of its own."""
    if not count:
        return None
    if count == 1:
        return f"skipped 1 subdirectory of {place} that also has dumps; pass it to include it"
    return f"skipped {count:,} subdirectories of {place} that also have dumps; pass them to include them"


def _count_dump_directories(pending: list[tuple[str, int]]) -> int:
    """The number of directories with dumps in some directories, as far as these can be read."""
    dumps, count, pending = 0, 0, list(pending)
    while pending and count < MAX_DIRECTORIES:
        path, depth = pending.pop()
        count += 1
        try:
            directory = read_directory(path)
        except HloError:
            continue
        dumps += bool(directory.dumps)
        if depth < MAX_DEPTH:
            pending += [(os.path.join(path, name), depth + 1) for name in directory.subdirectories]
    return dumps


def _entries(folder: str) -> tuple[list[str], list[str]]:
    if is_elsewhere(folder):
        files, folders = names_in(folder)
        return sorted(files, key=_natural), sorted(folders, key=_natural)
    try:
        with os.scandir(folder) as entries:
            listed = ((entry.name, _is_folder(entry)) for entry in entries if _can_be_read(entry))
            found = sorted(listed, key=lambda entry: _natural(entry[0]))
    except OSError as error:
        raise unreadable(folder, error) from None
    return [name for name, is_folder in found if not is_folder], [name for name, is_folder in found if is_folder]


def _can_be_read(entry: os.DirEntry[str]) -> bool:
    """Whether a name in a directory is a file or a directory; of a pipe with a dump's name, nothing may ever come."""
    try:
        mode = entry.stat().st_mode if entry.is_symlink() or not entry.is_file() else stat.S_IFREG
    except OSError:
        return True  # a link that leads nowhere: an error when it is read
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads back to itself
        return False


def _has_dumps(folder: str) -> bool:
    try:
        names, _ = _entries(folder)
    except HloError:
        return False
    return any(parse_dump_name(name) is not None for name in names)


def _natural(name: str) -> list[tuple[str, int]]:
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d{0,18})", name)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN_FILES]) + (", …" if len(names) > _SHOWN_FILES else "")


def _shown(folder: str) -> str:
    return folder.rstrip("/") + "/"


# --- dumps after each pass ---
# Per-pass dumps: the files that `--xla_dump_hlo_pass_re` adds, in a dump's directory or in `passes` below it.


_PASS_STAGE: Final = lazy_regex(
    r"(?P<number>\d+)\.(?P<pipeline>.*?)(?:\.after_(?P<after>.+?))?(?:\.before_(?P<before>.+))?"
)
FIRST_STAGE: Final = "before_optimizations"
LAST_STAGE: Final = "after_codegen"  # of TPUs, which know the memory of each kernel only then


class PassName(NamedTuple):
    """A pass: the number of the first dump after it, its name, and the pipeline that runs it; None if unknown."""

    number: int | None
    name: str
    pipeline: str | None


def pass_between(before: str, stage: str) -> PassName:
    """The pass between two consecutive dumps, given their stages: the one after which the second was made.

    >>> pass_between("0006.simplification.after_pipeline-start.before_algsimp", "0007.simplification.after_algsimp")
    PassName(number=7, name='algsimp', pipeline='simplification')
    """
    now, then = _PASS_STAGE.fullmatch(stage), _PASS_STAGE.fullmatch(before)
    if now is None:
        return PassName(None, f"to {stage}", None)
    after = now["after"]
    if after in (None, "pipeline-start") and then is not None and then["before"] not in (None, "pipeline-end"):
        return PassName(int(now["number"]), then["before"], then["pipeline"])
    name = now["pipeline"] if after in (None, "pipeline-start") else after
    return PassName(int(now["number"]), name or stage, now["pipeline"])


def pass_number(stage: str) -> str | None:
    """The number that a stage begins with, as written; None if it is not a pass.

    >>> pass_number("0007.simplification.after_algsimp"), pass_number("after_optimizations")
    ('0007', None)
    """
    match = _PASS_STAGE.fullmatch(stage)
    return match["number"] if match is not None else None


def earlier_dumps(path: str, dump: DumpName) -> list[tuple[str, str]]:
    """Paths and stages of the per-pass dumps of a module from before one of its dumps, the earliest first.

    Those next to the dump are preferred to those in the directory `passes`; empty without any, or for a dump that is
    not a file.
    """
    if not is_file(path):
        return []
    here = os.path.dirname(path)
    for folder in (here, os.path.join(here, _PASSES)):
        if not is_folder(folder):
            continue
        dumps = [(name, dump_name) for name, dump_name in read_directory(folder).dumps if dump_name.group == dump.group]
        order = dump.order if dump.order[0] == 1 else (2, 0)
        passes = sorted(
            (dump_name.order, name, dump_name.stage) for name, dump_name in dumps if dump_name.order[0] == 1
        )
        earlier = [(os.path.join(folder, name), stage) for made, name, stage in passes if made < order]
        if earlier:
            return earlier if dump.order != (0, 0) else []
    return []


def first_dump(path: str, dump: DumpName) -> str | None:
    """The path of the dump of the same module before optimizations, in the directory of the dump or above `passes`.

    None without one, for that dump itself, and for a dump that is not a file.

    >>> from hlo_cli.inputs.dumps import parse_dump_name
    >>> first_dump("/no/such/after_optimizations.txt", parse_dump_name("after_optimizations.txt")) is None
    True
    """
    return dump_of_stage(path, dump, FIRST_STAGE)


def dump_of_stage(path: str, dump: DumpName, stage: str) -> str | None:
    """The path of the dump of the same module at another stage, in the directory of the dump or above `passes`.

    None without one, for that dump itself, and for a dump that is not a file.

    >>> dump_of_stage("/no/such/after_optimizations.txt", parse_dump_name("after_optimizations.txt"), LAST_STAGE)
    """
    if dump.stage == stage or not is_file(path):
        return None
    here = os.path.dirname(path)
    folders = (here, os.path.join(here, os.pardir)) if os.path.basename(os.path.abspath(here)) == _PASSES else (here,)
    for folder in folders:
        dumps = [
            name
            for name, dump_name in read_directory(folder).dumps
            if dump_name.group == dump.group and dump_name.stage == stage
        ]
        if dumps:
            return os.path.normpath(os.path.join(folder, dumps[0]))
    return None


# --- what lies in a folder ---

_LOOKED_INTO: Final = 64
"""Kinds of names of which one file is looked into: a dump has some twenty."""
_READ_BYTES: Final = 1 << 14
"""Bytes that show the kind of a file: PTX and LLVM IR begin with comments, reports with a title."""
_MOST_FILES: Final = 100_000  # dumps of all passes of a large job; more are not counted


def kinds_in(folder: str) -> dict[PastedKind, int]:
    """How many files of each kind lie in a folder; of files with the same ending, one is looked into.

    Modules, and the files on their memory that answers on modules use anyway, do not count.

    >>> kinds_in("/nowhere")
    {}
    """
    endings: dict[str, list[str]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, _MOST_FILES):
                if entry.is_file() and not _is_used(entry.name):
                    endings.setdefault(_ending(entry.name), []).append(entry.path)
    except OSError:
        return {}
    found: dict[PastedKind, int] = {}
    for paths in sorted(endings.values(), key=len, reverse=True)[:_LOOKED_INTO]:
        if (kind := _kind_of_file(min(paths))) is not None:
            found[kind] = found.get(kind, 0) + len(paths)
    return found


def _is_used(name: str) -> bool:
    """Whether a file is a module, or one that is read with it; JSON is of other tools."""
    stem, _, extension = name.rpartition(".")
    if extension == "json" or stem.endswith(tuple(f"-{kind}" for kind in SIBLING_KINDS)):
        return True
    return parse_dump_name(name) is not None and not is_auxiliary_file(name)


def _ending(name: str) -> str:
    """What names of files of one kind have in common: the word before the extension only if it is one of XLA's.

    >>> _ending("module_0001.jit_f.thunk_sequence.txt"), _ending("a-live-range.txt"), _ending("k.ptx")
    ('thunk_sequence.txt', 'live-range.txt', 'ptx')
    """
    stem, _, extension = name.rpartition(".")
    word = stem.rpartition(".")[2]
    if extension not in ("txt", "pb", "pbtxt", "textproto"):
        return extension
    _, dash, kind = word.partition("-")
    return f"{kind if dash else word}.{extension}"


def _kind_of_file(path: str) -> PastedKind | None:
    """The kind of a file by its first bytes; None for a module, and for what no envelope is about."""
    from hlo_cli.inputs.pasted.read import document_of  # only directories need it

    try:
        with opened(path) as file:
            head = file.stream.read(_READ_BYTES) or b""
    except (OSError, HloError):
        return None
    if head.startswith(ELF):
        return "object-file"
    return None if b"\0" in head else document_of(head.decode("utf-8", "replace"))

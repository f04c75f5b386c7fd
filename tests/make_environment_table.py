"""Makes the table of the settings of libtpu's compiler in the package: `python tests/make_environment_table.py`.

Compiles one program for each TPU generation, without flags but for those of the dump, as text and as protobufs. Both
list the same fields in the order of their numbers, so the numbers of one and the names of the other are joined. The
table keeps names, numbers, and values: facts.
"""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from hlo_cli.wire import read_fields

TABLE = Path(__file__).parent.parent / "hlo_cli" / "syntax" / "compiler_files" / "tpu_environment.csv"
HEAD = "# Fields of libtpu 0.0.52's TpuCompilationEnvironment, with their values without flags on {}."
CHIPS = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "7x": "tpu7x:2x2x1"}
MESSAGE = "{}"
OF_ONE_COMPILATION = ("xla_dump_",)
"""Settings that only say where this dump is."""


def environment(topology: str, *, is_text: bool) -> bytes:
    """What libtpu writes of its settings for one small program."""
    device = topologies.get_topology_desc(topology, "tpu").devices[0]
    argument = jax.ShapeDtypeStruct((8, 128), "float32", sharding=SingleDeviceSharding(device))
    with tempfile.TemporaryDirectory() as folder:
        form = "xla_dump_hlo_as_text" if is_text else "xla_dump_hlo_as_proto"
        jax.jit(lambda x: x + 1).lower(argument).compile(compiler_options={"xla_dump_to": folder, form: True})
        [path] = Path(folder).glob(f"*.tpu_comp_env.{'txt' if is_text else 'pb'}")
        return path.read_bytes()


def named_values(text: str) -> list[tuple[str, str]]:
    """The fields of the text in their order; the value of a message is `MESSAGE`."""
    named, open_name = list[tuple[str, str]](), ""
    for line in text.splitlines():
        if line.endswith("{"):
            open_name = line[:-1].strip()
            named.append((open_name, MESSAGE))
        elif line.startswith(" ") and open_name:
            continue  # the one field of a setting with several types
        elif not line.startswith("}"):
            name, _, value = line.partition(":")
            named.append((name.strip(), value.strip().strip('"')))
    return named


def main() -> None:
    """Writes the table."""
    os.environ["TPU_SKIP_MDS_QUERY"] = "1"
    rows: dict[int, tuple[str, dict[str, None], dict[str, None]]] = {}
    chips = list[str]()
    for chip, topology in CHIPS.items():
        try:
            text, data = environment(topology, is_text=True), environment(topology, is_text=False)
        except Exception as error:  # noqa: BLE001 - a release of libtpu may lack a generation
            print(chip, str(error)[:200])
            continue
        chips.append(chip)
        fields, named = read_fields(data), named_values(text.decode())
        assert len(fields) == len(named), (chip, len(fields), len(named))
        for (number, value), (name, shown) in zip(fields, named, strict=True):
            row = rows.setdefault(number, (name, {}, {}))
            assert row[0] == name
            row[1]["" if name.startswith(OF_ONE_COMPILATION) and shown != MESSAGE else shown] = None
            if isinstance(value, int) and shown[:1].isalpha() and shown not in ("true", "false"):
                row[2][f"{value}={shown}"] = None
    with TABLE.open("w", newline="") as file:
        file.write(HEAD.format(", ".join(chips)) + "\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("number", "name", "values", "words of numbers"))
        for number, (name, values, words) in sorted(rows.items()):
            writer.writerow((number, name, "|".join(values), "|".join(words)))


if __name__ == "__main__":
    main()

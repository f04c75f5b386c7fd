"""Makes the table of compiler flags in the package.

    python tests/make_flag_table.py FLAGS.TSV COMPILE_OPTIONS.TEXTPROTO

FLAGS.TSV has a row for each flag: name, type, default of jaxlib 0.12.0.1, status, source with the number of its field in
`DebugOptions`, and whether jaxlib 0.10.2 and 0.12.0.1 know it; COMPILE_OPTIONS.TEXTPROTO is what jaxlib 0.10.2 wrote for
a program that JAX compiled without flags. The table keeps names, numbers, types, and values: facts.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

from hlo_cli.syntax.compiler_files.text_format import read_text_message

TABLE = Path(__file__).parent.parent / "hlo_cli" / "syntax" / "compiler_files" / "flags.csv"
HEAD = "# Flags of XLA and libtpu 0.0.52; each name was tried. Defaults are those of a program that JAX compiles."
COLUMNS = (
    "name",
    "status",
    "known to jaxlib 0.10.2 and 0.12.0.1",
    "type",
    "field",
    "default 0.10.2",
    "default 0.12.0.1",
)
SET_BY_THE_DUMP = "xla_dump_to"


def main(flags: Path, options: Path) -> None:
    """Writes the table."""
    message = read_text_message(options.read_text()).message("executable_build_options").message("debug_options")
    values = dict(message.values())
    older = {name: value for name, value in values.items() if name != SET_BY_THE_DUMP and len(message.texts(name)) == 1}
    kept = {row[0]: row for row in csv.reader(TABLE.read_text().splitlines()) if len(row) > 2}
    with flags.open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]
    with TABLE.open("w", newline="") as file:
        file.write(HEAD + "\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, kind, default, _, source, *_ in rows:
            number = re.fullmatch(r"xla\.proto (\d+)", source)
            status, known = kept[name][1:3]
            plain = "" if default.startswith("[") else default.strip("'")
            writer.writerow((name, status, known, kind, number[1] if number else "", older.get(name, ""), plain))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

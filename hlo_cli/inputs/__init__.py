"""Paths and streams to text: `input.read_inputs` reads files, directories of dumps, globs, and standard input;
`dumps.parse_dump_name` decodes the names that XLA gives its files; `parallel.in_order` runs a function over many items
in several processes.
"""

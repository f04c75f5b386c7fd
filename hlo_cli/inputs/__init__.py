"""Paths and streams to text: `input.read_inputs` takes what a user names (files, directories of dumps, globs, standard
input), `dumps.parse_dump_name` knows the names that XLA gives its files, `parallel.in_order` runs a function over many
in several processes.
"""

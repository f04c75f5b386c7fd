"""Readers of profilers' files; each returns `hlo_cli.ir.traces.trace.Trace`; `read_traces`, above the parts,
asks the reader of a file's format.
"""

"""Readers of profilers' files; each returns `hlo_cli.ir.traces.trace.Trace`: `read.read_trace`."""

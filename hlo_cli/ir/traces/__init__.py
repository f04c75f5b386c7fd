"""What a profiler recorded while programs ran: `trace.Trace`, which all readers of `syntax/traces` return."""

"""Which memory ran out, by errors of XLA, of systems, and of other frameworks: `read_logs.parse_out_of_memory`."""

"""What a compiler reports about HLO: `slow_operations`, `resharding`, and `compiler_errors.parse_compiler_errors`."""

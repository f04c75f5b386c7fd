"""`hlo overview`, and `hlo DUMP`: what runs, whether it fits, what costs most, and what to ask next."""

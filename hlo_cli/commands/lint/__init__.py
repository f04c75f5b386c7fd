"""`hlo lint`: errors and inefficiencies in modules."""

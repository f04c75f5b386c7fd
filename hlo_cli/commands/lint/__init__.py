"""`hlo lint`: what is wrong with a module, and what costs more than it should."""

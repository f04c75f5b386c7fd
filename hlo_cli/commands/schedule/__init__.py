"""`hlo schedule`: what overlaps, and what is exposed."""

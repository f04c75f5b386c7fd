"""`hlo diff`: differences between two dumps, independent of names."""

"""`hlo reduce`: the smallest module that still fails."""

"""`hlo memspace`: memory usage over time in each memory space."""

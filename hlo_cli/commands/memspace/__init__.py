"""`hlo memspace`: what fills each memory, and when."""

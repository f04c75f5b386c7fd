"""`hlo help`: topics beyond the help of each command."""

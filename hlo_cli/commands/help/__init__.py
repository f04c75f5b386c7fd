"""`hlo help`: what the help of a command has no room for."""

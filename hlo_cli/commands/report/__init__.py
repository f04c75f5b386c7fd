"""`hlo report`: one page with the answers of all commands on a dump."""

"""`hlo layout`: explained layouts, and the cost of padding."""

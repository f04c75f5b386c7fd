"""`hlo diff`: what differs between two dumps, whatever the names."""

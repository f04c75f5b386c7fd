"""`hlo parse`: what is in a dump, its instructions and loops, its text again, one instruction explained."""

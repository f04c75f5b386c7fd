"""`hlo parse`: summary, instructions, and loops of a dump, its canonical text, and explained instructions."""

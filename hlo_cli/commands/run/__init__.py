"""`hlo run`: what a module computes, and whether two modules compute the same."""

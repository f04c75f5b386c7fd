"""`hlo graph`: the dataflow of a module as a page, a picture, DOT, or a drawing in the terminal."""

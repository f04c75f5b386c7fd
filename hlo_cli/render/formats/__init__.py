"""One file for each format, with a function `render` from a report to pieces of text."""

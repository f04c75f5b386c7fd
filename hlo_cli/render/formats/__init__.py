"""One file a format, each with a function `render` from a report to pieces of text."""

"""The rules, one file a subject; the docstring of a rule is its page in `hlo lint --explain`."""

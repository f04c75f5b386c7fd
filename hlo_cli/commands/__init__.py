"""One room a command: `command.py` holds the click command, the other chapters a screen or a question each. What
several commands use is in `options`, `modules` (one or many modules as input), and `shape`; `front` has command lines
without a command, and `pasted` the answers to texts that are no modules.
"""

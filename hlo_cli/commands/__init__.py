"""One folder a command: `command.py` holds the click command, the other files a screen or a question each. What several
commands use is in `shared`; commands do not import each other.
"""

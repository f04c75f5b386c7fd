"""Pure functions of a module that answer one question each, in rooms; nothing here prints, opens a file or changes the
IR. `cache` remembers per module what several analyses begin with, `partly_known` adds numbers of which some are
unknown.
"""

"""The command line before a command is chosen: command lines without a command, and waiting for standard input.

`with_command` is for command lines that name an input only; `watch_stdin` and `has_content` for standard input.
"""

"""The command line before a command runs: `first_word.with_command` for one that names an input only,
`stdin.watch_stdin` and `stdin.has_content` for standard input, `command_table.CommandTable` for the commands.
"""

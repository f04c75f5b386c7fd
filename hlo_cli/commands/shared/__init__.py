"""What several commands use: `io_options.InputOptions` and `writing.write_report` at both ends of each,
`load.Loaded` between them, `selection.Many` where the input holds many modules.
"""

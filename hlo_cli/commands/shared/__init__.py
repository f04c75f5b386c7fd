"""Code shared by commands: `io_options.InputOptions` and `writing.write_report` for input and output,
`load.Loaded` for a module, `selection.Many` for inputs with many modules.
"""

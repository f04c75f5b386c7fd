"""Code shared by commands: `hlo_cli.commands.options.io_options.InputOptions` and `hlo_cli.commands.options.writing.write_report` for input and output,
`hlo_cli.commands.modules.loading.Loaded` for a module, `hlo_cli.commands.modules.loading.Many` for inputs with many modules.
"""

"""What all commands let the user choose, and how it is done: `io_options.InputOptions` and `io_options.OutputOptions`
for input and output, `writing.write_report` for a report.
"""

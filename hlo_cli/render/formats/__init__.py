"""What each format writes: a function `render_` and its name, from a report to pieces of text, in the file of its kind:
`plain.render_table` for pipes, `screen.render_screen` for people, `data.render_json` for programs.
"""

"""The modules that a command is about: `loading.Loaded` for one, `loading.Many` and `many.map_inputs` for several,
and what the reports of all commands say of them.
"""

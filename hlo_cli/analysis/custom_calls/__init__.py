"""What a custom call is: `call.custom_calls_of` decodes target, configuration and buffers, `targets.known_target` knows
the targets of compilers and frameworks, `source_text.source_of` writes the C signature of the function called.
"""

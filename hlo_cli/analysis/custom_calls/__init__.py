"""Custom calls: `call.custom_calls_of` decodes target, configuration, and buffers, `targets.known_target` describes
the targets of compilers and frameworks, `config.describe_library_call` what a library computes, and `call.source_of`
writes C functions for user-defined targets.
"""

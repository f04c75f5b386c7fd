"""Readers of messages of compilers, runtimes, and frameworks: `compiler_errors.parse_compiler_errors` finds the rule or
the cause of an error, `compiler_warnings` reads warnings, and `message_facts` what any message says.
"""

"""What to do after an out-of-memory message: `advice.advice_of` derives it from the message, with the bytes that
it saves; `dump_comparison.compare` holds the message next to a dump of its program.
"""

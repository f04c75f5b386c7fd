"""What to do after an out-of-memory message: `rules.advice_of` derives it from the message, with the bytes that it
saves.
"""

"""Changes to a program that lower the peak of its main memory: what they are, and the peak that is left.

`suggestions(memory)` of `suggestions` returns those whose effect is certain on the target of the module.
"""

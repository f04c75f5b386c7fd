"""What is needed before anything else is imported: the version, for the metadata too, and the exit code of Ctrl-C."""

__version__ = "0.1.0"
INTERRUPTED = 130
"""What a shell makes of SIGINT: 128 and the number of the signal."""

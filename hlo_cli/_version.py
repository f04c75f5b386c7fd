"""The version, read by the package, its metadata, and `hlo --version`."""

__version__ = "0.1.0"

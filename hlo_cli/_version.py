"""The version, in the one place that the package, its metadata and `hlo --version` read it from."""

__version__ = "0.1.0"

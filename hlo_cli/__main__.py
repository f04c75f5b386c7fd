"""Lets `python -m hlo_cli` do what `hlo` does."""

from hlo_cli.cli import main

if __name__ == "__main__":
    main()

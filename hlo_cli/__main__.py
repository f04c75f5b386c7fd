"""Runs `hlo` for `python -m hlo_cli`."""

from hlo_cli.cli import main

if __name__ == "__main__":
    main()

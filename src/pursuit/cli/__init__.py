"""The program: `main` runs it. Every command is a file with a few lines over the library, loaded when it is run."""

from pursuit.cli.app import app, main

__all__ = ["app", "main"]

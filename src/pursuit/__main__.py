"""`python -m pursuit` is the program `pursuit`."""

from pursuit.cli import main

if __name__ == "__main__":
    main()

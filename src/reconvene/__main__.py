"""python -m reconvene: the same program where its script is not on the path."""

from reconvene.cli import main

if __name__ == "__main__":
    main()

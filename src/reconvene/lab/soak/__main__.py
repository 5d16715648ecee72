"""python -m reconvene.lab.soak: see `command`."""

import sys

from reconvene.lab.soak.command import main

if __name__ == "__main__":
    sys.exit(main())

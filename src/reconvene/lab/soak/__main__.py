"""python -m reconvene.lab.soak: see `run`."""

import sys

from reconvene.lab.soak.run import main

if __name__ == "__main__":
    sys.exit(main())

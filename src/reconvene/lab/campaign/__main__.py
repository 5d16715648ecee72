"""python -m reconvene.lab.campaign: see `command`."""

import sys

from reconvene.lab.campaign.command import main

if __name__ == "__main__":
    sys.exit(main())

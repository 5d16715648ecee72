"""Runs seeds of the simulator and fails if one of them fails.

    python scripts/seeds.py commit                       the seeds of this commit, as `make test` does
    python scripts/seeds.py all                          these and 0-299 of each profile, as `make test-all` does
    python scripts/seeds.py 17-20 --profiles chaos       these

The seeds of a commit are drawn from its hash, so every commit tries others, and everyone can repeat them.
"""

import argparse
import subprocess
import sys

from reconvene.lab.campaign.command import main as run_seeds

PROFILES = "chaos,log"
OF_A_COMMIT = 100
"""Half of them for each profile."""
ALWAYS = "0-299"
"""Enough for every check to have cases, and for every kind of fault to meet every step of the protocol."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/seeds.py", description=__doc__.split("\n")[0])
    parser.add_argument("seeds", metavar="SEEDS", help="commit, all, or a range such as 17-20")
    parser.add_argument("--profiles", default=PROFILES, help="default: %(default)s")
    parser.add_argument("--jobs", default="2", help="processes; default: %(default)s")
    options = parser.parse_args()
    profiles = options.profiles.split(",")
    failed = 0
    if options.seeds in ("commit", "all"):
        failed |= _run(of_commit(), profiles, options.jobs)
    if options.seeds == "all":
        failed |= _run(ALWAYS, profiles, options.jobs, "--demand")
    if options.seeds not in ("commit", "all"):
        failed |= _run(options.seeds, profiles, options.jobs)
    return failed


def of_commit() -> str:
    """The range of seeds of the commit that is checked out."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    first = int(git.stdout[:6], 16) if git.returncode == 0 else 1_000
    return f"{first}-{first + OF_A_COMMIT // 2 - 1}"


def _run(seeds: str, profiles: list[str], jobs: str, *more: str) -> int:
    failed = 0
    for profile in profiles:
        print(f"Seeds {seeds} of profile {profile}; again: make seeds SEEDS={seeds} PROFILES={profile}", flush=True)
        arguments = ["--seeds", seeds, "--profile", profile, "--jobs", jobs, "--out", "out/test", "--fresh", *more]
        failed |= run_seeds(arguments)
    return failed


if __name__ == "__main__":
    sys.exit(main())

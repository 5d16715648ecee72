"""Runs seeds of the simulator and fails if one of them fails.

    python scripts/seeds.py commit                       the seeds of this commit, as `make test` does
    python scripts/seeds.py all                          those of this commit, and the first ones of each profile, as
                                                         `make test-all` does
    python scripts/seeds.py 17-20 --profiles chaos       these

The seeds of a commit are drawn from its hash, so every commit tries others, and everyone can repeat them.
"""

import argparse
import subprocess
import sys

from reconvene.lab.campaign.command import main as run_seeds

OF_A_COMMIT = {"chaos": 12, "log": 12, "isis": 100, "dynamic": 10, "outposts": 5, "wide": 4}
"""By profile: how many seeds each commit draws."""
PROFILES = ",".join(OF_A_COMMIT)
ALWAYS = {"outposts": "0-199", "wide": "0-149"}
ALWAYS_ELSE = "0-299"
"""Enough for every check to have cases, and for every kind of fault to meet every step of the protocol."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/seeds.py", description=__doc__.split("\n")[0])
    parser.add_argument("seeds", metavar="SEEDS", help="commit, all, or a range such as 17-20")
    parser.add_argument("--profiles", default=PROFILES, help="default: %(default)s")
    parser.add_argument("--jobs", default="2", help="processes; default: %(default)s")
    options = parser.parse_args()
    profiles = options.profiles.split(",")
    failed = 0
    for profile in profiles:
        if options.seeds not in ("commit", "all"):
            failed |= _run(options.seeds, profile, options.jobs)
            continue
        failed |= _run(of_commit(profile), profile, options.jobs)
        if options.seeds == "all":
            failed |= _run(ALWAYS.get(profile, ALWAYS_ELSE), profile, options.jobs, "--demand")
    return failed


def of_commit(profile: str) -> str:
    """The range of seeds of the commit that is checked out."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    first = int(git.stdout[:6], 16) if git.returncode == 0 else 1_000
    return f"{first}-{first + OF_A_COMMIT.get(profile, 33) - 1}"


def _run(seeds: str, profile: str, jobs: str, *more: str) -> int:
    print(f"Seeds {seeds} of profile {profile}; again: make seeds SEEDS={seeds} PROFILES={profile}", flush=True)
    return run_seeds(["--seeds", seeds, "--profile", profile, "--jobs", jobs, "--out", "out/test", "--fresh", *more])


if __name__ == "__main__":
    sys.exit(main())

"""The voters: they come one after the other to a booth at each site.

A voter has an identity: a session of the log, in which the vote is message 1. A voter who gets no answer votes again,
at this site or another one, until there is an answer; the vote counts once.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from reconvene.client.receipts import Receipt
from reconvene.client.site import Site
from reconvene.errors import OutcomeUnknown, Unavailable
from reconvene.objects import Tally

__all__ = ["CANDIDATES", "ELECTION", "Booth", "Box", "Vote", "cast"]

ELECTION = "mayor of Wiredville"
"""The tally's name."""
CANDIDATES = ("Ada", "Bo", "Cleo")
_MOST_VOTES = 8_000
"""The most votes of an election: the log remembers 10,000 sessions, and must remember every voter who may vote
again."""


@dataclass(slots=True)
class Vote:
    voter: int
    choice: str
    booth: str
    """The site that the voter went to."""
    receipt: Receipt | None = None
    """The voter's answer: the vote is durable."""
    waited_ns: int = 0
    """How long the voter waited for the receipt."""
    tries: int = 0

    @property
    def identity(self) -> bytes:
        return b"voter %d" % self.voter


@dataclass(slots=True)
class Box:
    """All votes, in the order in which they were cast."""

    votes: list[Vote] = field(default_factory=list)

    def add(self, choice: str, booth: str) -> Vote:
        if len(self.votes) >= _MOST_VOTES:
            raise Unavailable(f"more than {_MOST_VOTES} voters: the log would forget the first")
        self.votes.append(Vote(len(self.votes) + 1, choice, booth))
        return self.votes[-1]

    def counts(self) -> dict[str, int]:
        found = Counter(vote.choice for vote in self.votes)
        return {choice: found[choice] for choice in CANDIDATES}


async def cast(vote: Vote, site: Site) -> Receipt:
    """Votes until the voter has a receipt. The number of tries does not matter: see `Vote.identity`."""
    tally = Tally(site.log, ELECTION)
    began = time.monotonic_ns()
    while vote.receipt is None:
        vote.tries += 1
        try:
            vote.receipt = await tally.add(vote.choice, session=vote.identity, number=1)
        except (Unavailable, OutcomeUnknown):
            await asyncio.sleep(0.2)
    vote.waited_ns = time.monotonic_ns() - began
    return vote.receipt


class Booth:
    """Voters come while it is open, and leave when they have a receipt."""

    def __init__(self, name: str, site: Site, box: Box, weights: Sequence[int], gap_s: float, seed: int) -> None:
        """`weights`: of the candidates at this booth; `gap_s`: between two voters, 50 to 150 percent of it."""
        self.name = name
        self._site = site
        self._box = box
        self._weights = weights
        self.gap_s = gap_s
        self._chance = random.Random(f"{seed} {name}")
        self._open = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def open(self) -> None:
        self._open.set()

    async def hold(self) -> None:
        """No more voters for now; returns when the last one has a receipt."""
        self._open.clear()
        await self._empty.wait()

    async def run(self) -> None:
        while True:
            await self._open.wait()
            self._empty.clear()
            try:
                (choice,) = self._chance.choices(CANDIDATES, self._weights)
                await cast(self._box.add(choice, self.name), self._site)
            finally:
                self._empty.set()
            await asyncio.sleep(self.gap_s * self._chance.uniform(0.5, 1.5))

"""What the order engine asks of an adaptation policy: when to change the distribution, and to which weights
(section 4.1's AP module).

Given: for each ordered frame in causal order its sender's rank, the number of its messages and the time; which
distributions were adopted; now and then the variance of each member's round-trip times.
Promised: `propose` returns positive integer weights by rank, or nothing. Only the site that is to issue them decides;
no two sites need agree on what they observed, since a distribution's id names its issuer.
"""

from typing import Protocol

__all__ = ["NoAdaptation", "Policy"]


class Policy(Protocol):
    @property
    def watches(self) -> bool:
        """Whether `observe` is to be called at all."""

    def observe(self, rank: int, messages: int, now: int) -> None:
        """An ordered frame of the application was received. Dummies are not observed."""

    def adopted(self, issuer: int, weights: list[int], now: int) -> None:
        """This is the sending distribution from now on."""

    def round_trips(self, spreads: list[int | None]) -> None:
        """Variance of each member's round-trip times in µs², where known."""

    def propose(self, now: int) -> list[int] | None:
        """The weights of a distribution to introduce now. `adopted` follows if it is introduced."""

    def deadline(self) -> int | None:
        """When `propose` may return something new, even if nothing is observed."""


class NoAdaptation:
    """The first distribution, of equal weights, stays."""

    @property
    def watches(self) -> bool:
        return False

    def observe(self, rank: int, messages: int, now: int) -> None:
        pass

    def adopted(self, issuer: int, weights: list[int], now: int) -> None:
        pass

    def round_trips(self, spreads: list[int | None]) -> None:
        pass

    def propose(self, now: int) -> list[int] | None:
        return None

    def deadline(self) -> int | None:
        return None

"""One proposed configuration at one of its members, from the proposal to its installation or its failure.

Every member sends its state to all, then reports that it has recovered. It repeats what is not known to have arrived.
A member that does not answer or make progress in time is blamed, so that the next proposal can exclude it.
"""

from reconvene.core.options import Timing
from reconvene.site_list import SiteList
from reconvene.wire.messages import State

__all__ = ["Round"]


class Round:
    def __init__(
        self,
        number: int,
        proposer: int,
        members: tuple[int, ...],
        incarnations: tuple[int, ...],
        sites: SiteList,
        now: int,
    ) -> None:
        """`sites`: this site's list of the cluster's sites."""
        self.number = number
        self.proposer = proposer
        self.members = members
        self.incarnations = incarnations
        self.mask = sum(1 << site for site in members)
        self.token = -1
        """The token of the write that has to be synced before the answer."""
        self.answered = False
        """This site's state was sent: others may install the configuration from now on."""
        self.states: dict[int, State] = {}
        self.recovered = 0
        """Members that reported it, this site included, as a mask."""
        self.sites: SiteList | None = None
        """The list of sites as known to the members whose states are here; None: no state carries a list."""
        self._known = sites
        self.progress_at = now
        self.retry_at = now
        self.baseline: dict[int, int] = {}
        """The version of each member's report when the round began."""

    def complete(self) -> bool:
        """All states are here."""
        return len(self.states) == len(self.members)

    def all_recovered(self) -> bool:
        return self.recovered == self.mask

    def states_mask(self) -> int:
        return sum(1 << site for site in self.states)

    def add_state(self, state: State, now: int) -> bool:
        """True if it is new and belongs to this round."""
        site = state.site
        if site not in self.members or site in self.states:
            return False
        if tuple(state.members) != self.members or tuple(state.incs) != self.incarnations:
            return False
        if not self._merge(state.sites):
            return False
        self.states[site] = state
        self.progress_at = now
        return True

    def _merge(self, sites: SiteList | None) -> bool:
        """False: a site with a contradicting list, or without versions, can't be in this configuration."""
        together = self.sites
        if sites is None:
            return self._known.newest == 1 and (together is None or together.newest == 1)
        if not sites.sound() or self._known.differs(sites) is not None:
            return False
        if sites.newest > 1 and any(state.sites is None for state in self.states.values()):
            return False
        if together is not None and together.differs(sites) is not None:
            return False
        self.sites = sites if together is None else together.merged(sites)
        return True

    def add_recovered(self, site: int, now: int) -> None:
        if not self.recovered >> site & 1:
            self.recovered |= 1 << site
            self.progress_at = now

    def patience_ns(self, timing: Timing, longest_trip_ns: int, lacking: bool) -> int:
        """Members that lack something give up first, since they know which member to blame."""
        patience = timing.round_patience_ns + 6 * longest_trip_ns
        return patience if not self.complete() or lacking else 2 * patience

    def blame(self, site: int, lacked_from: set[int]) -> list[int]:
        """The members that this site waited for in vain: for a state, else for a frame, else for having recovered."""
        silent = {member for member in self.members if member not in self.states}
        if not silent:
            silent = lacked_from or {member for member in self.members if not self.recovered >> member & 1}
        return sorted(silent - {site})

"""State for newcomers, in both ways of the paper (3.7).

    one member    the coordinator gives it in chunks; if it dies, another member goes on where it was
    all members   each gives its own contribution, in chunks: a state vector. It is redundant: some may die

The newcomer's site drives: it asks the member of the lowest rank that gives state, or all of them. When a view shows
that one that it asked is gone, it asks the next one, from the chunk that it lacks, or goes on without it. Until the
last chunk has come the newcomer does not cast to the group.
"""

from collections.abc import Callable, Sequence

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected
from reconvene.isis.events import StateChunk, StateDone, StateTaken, StateWanted
from reconvene.isis.here import Here
from reconvene.isis.local import Local, Outcome
from reconvene.isis.messages import GiveState, HasState, MemberEntry, WantState

__all__ = ["StateTransfers"]


class _Transfer:
    __slots__ = ("asked", "first", "givers", "since", "vector")

    def __init__(self, since: int, givers: list[Process], *, vector: bool) -> None:
        self.since = since
        """The view that brought the newcomer: the state is as of then."""
        self.givers = givers
        """Members of that view that give state, by rank."""
        self.vector = vector
        """All of them are asked, each for its own contribution."""
        self.asked: dict[Process, int] = {}
        """Those that are asked and have not given all, and the chunk that is lacking of each."""
        self.first = 0
        """Where the next one that is asked goes on."""


class StateTransfers:
    def __init__(self, here: Here, living: Callable[[Process], Local | None]) -> None:
        self._here = here
        self._living = living
        self._open: dict[tuple[Process, str], _Transfer] = {}
        """By newcomer of this site and group."""
        self._wanted: dict[tuple[Process, str, Process], tuple[int, int]] = {}
        """By member of this site, group and newcomer: the view as of which state is wanted, and the next chunk."""
        self._waiting: list[WantState] = []
        """Asked of members that can't give it yet."""

    def __len__(self) -> int:
        return len(self._open)

    # -- the newcomer

    def shown(self, local: Local, group: str, outcome: Outcome) -> None:
        """A process of this site has a new view."""
        self._take_view(local, group, outcome)
        self._ask_again(local.process, group)

    def _take_view(self, local: Local, group: str, outcome: Outcome) -> None:
        membership = local.groups[group]
        key = (local.process, group)
        for wanted in [k for k in self._wanted if k[:2] == key and not _among(outcome.ranked, k[2])]:
            del self._wanted[wanted]
        if group in local.stateful and outcome.gained == outcome.view and outcome.ranked[-1].process == local.process:
            givers = [member.process for member in outcome.ranked[:-1] if member.state]
            transfer = self._open[key] = _Transfer(outcome.view, givers, vector=group in local.vectors)
            membership.transfer = bool(givers)
            self._ask(local, group, transfer, givers if transfer.vector else givers[:1])
            return
        open_ = self._open.get(key)
        if open_ is None:
            return
        # Also those that are not asked: one that leaves and joins again has not the state of before.
        open_.givers = [process for process in open_.givers if _among(outcome.ranked, process)]
        for process in [process for process in open_.asked if process not in open_.givers]:
            del open_.asked[process]
        if not open_.asked:
            self._ask(local, group, open_, () if open_.vector else open_.givers[:1])

    def _ask(self, local: Local, group: str, transfer: _Transfer, members: Sequence[Process]) -> None:
        if not members:  # nobody is left who had the state: the group goes on with what the newcomer has
            del self._open[local.process, group]
            if local.groups[group].transfer:
                self._finish(local, group, transfer)
            return
        transfer.asked = dict.fromkeys(members, transfer.first)
        for member in members:
            self._tell(member, WantState(group, transfer.since, local.process, member, transfer.first))

    def _finish(self, local: Local, group: str, transfer: _Transfer) -> None:
        for member in transfer.givers:
            self._tell(member, HasState(group, local.process, member))
        membership = local.groups.get(group)
        if membership is None:
            return
        membership.transfer = False
        self._here.events.append(StateDone(local.process, group, membership.view))
        self._ask_again(local.process, group)

    def _ask_again(self, member: Process, group: str) -> None:
        waiting, self._waiting = self._waiting, []
        for want in waiting:
            if (want.member, want.group) == (member, group):
                self.take_want(want)
            else:
                self._waiting.append(want)

    def _tell(self, to: Process, record: WantState | GiveState | HasState) -> None:
        if to.site != self._here.site:
            if self._here.view is not None and self._here.view.has(to):
                self._here.send(to.site, record)
        elif isinstance(record, WantState):
            self.take_want(record)
        elif isinstance(record, GiveState):
            self.take_chunk(record)
        else:
            self.take_has(record)

    def take_chunk(self, give: GiveState) -> None:
        key = (give.newcomer, give.group)
        transfer, local = self._open.get(key), self._living(give.newcomer)
        if transfer is None or local is None:
            return
        if give.view != transfer.since or transfer.asked.get(give.member) != give.index:
            return
        self._here.events.append(StateChunk(give.newcomer, give.group, give.index, give.data, give.member))
        transfer.asked[give.member] += 1
        if not transfer.vector:
            transfer.first += 1
        if give.last:
            del transfer.asked[give.member]
            if not transfer.asked:
                del self._open[key]
                self._finish(local, give.group, transfer)

    # -- the member

    def take_want(self, want: WantState) -> None:
        local = self._living(want.member)
        if local is None:
            return
        membership = local.groups.get(want.group)
        if membership is None:
            if want.group in local.joining:
                self._wait(want)  # the newcomer's view is shown to the newcomer before this member has its first
        elif want.view <= membership.since:
            return  # it has left, and joined again after the newcomer: the newcomer will see that, and ask another
        elif membership.transfer or membership.view < want.view:
            self._wait(want)  # it has no state itself yet, or has not seen the newcomer's view
        else:
            self._wanted[want.member, want.group, want.newcomer] = (want.view, want.first)
            self._here.events.append(StateWanted(want.member, want.group, want.view, want.newcomer, want.first))

    def take_has(self, has: HasState) -> None:
        local = self._living(has.member)
        if local is not None and has.group in local.groups:
            self._wanted.pop((has.member, has.group, has.newcomer), None)
            self._here.events.append(StateTaken(has.member, has.group, has.newcomer))

    def _wait(self, want: WantState) -> None:
        """In place of what the newcomer wanted of this member before it left and joined again."""
        key = (want.member, want.group, want.newcomer)
        self._waiting = [other for other in self._waiting if (other.member, other.group, other.newcomer) != key]
        self._waiting.append(want)

    def give(
        self, process: Process, group: str, view: int, newcomer: Process, index: int, data: bytes, *, last: bool
    ) -> None:
        """A newcomer may have left, joined again, and asked for the state of a later view meanwhile."""
        wanted, chunk = self._wanted.get((process, group, newcomer), (0, 0))
        if wanted != view:
            raise Rejected(f"group {group!r}: nobody wants this process's state as of view {view}")
        if index != chunk:
            raise Rejected(f"group {group!r}: chunk {index} of the state: expected chunk {chunk}")
        if last:
            del self._wanted[process, group, newcomer]
        else:
            self._wanted[process, group, newcomer] = (view, index + 1)
        self._tell(newcomer, GiveState(group, view, newcomer, process, index, last, data))

    # -- over

    def left(self, process: Process, group: str) -> None:
        """It is no member any more: it neither takes the group's state nor gives it."""
        self._open.pop((process, group), None)
        for wanted in [key for key in self._wanted if key[:2] == (process, group)]:
            del self._wanted[wanted]
        self._waiting = [want for want in self._waiting if (want.member, want.group) != (process, group)]

    def end(self, process: Process) -> None:
        for key in [key for key in self._open if key[0] == process]:
            del self._open[key]
        for wanted in [key for key in self._wanted if process in (key[0], key[2])]:
            del self._wanted[wanted]
        self._waiting = [want for want in self._waiting if process not in (want.member, want.newcomer)]

    def reset(self) -> None:
        self._open.clear()
        self._wanted.clear()
        self._waiting.clear()


def _among(ranked: tuple[MemberEntry, ...], process: Process | None) -> bool:
    return any(member.process == process for member in ranked)

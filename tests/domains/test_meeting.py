"""A part that was detached comes back to its cluster: what it has delivered meanwhile is told above first."""

import pytest

from reconvene.core.effects import Changed, ConfKind, Delivered
from reconvene.domains.gateway import Gateway
from reconvene.domains.messages import Line, Seeing, Turn, decode, encode
from reconvene.domains.port import Site
from reconvene.domains.tree import Domain, Tree
from reconvene.ids import Service

TREE = Tree([Domain("berlin", ("a", "b"), ("a",), out=("bank",)), Domain("paris", ("p",), ("p",))])
ABOVE = (0, 1)
"""berlin.a and paris.p."""
B_SAW = ("berlin", "b", 1, 0, 5)
"""Of site b, while it was detached."""


class Berlin:
    """Gateway a in its cluster and above, where paris is its only peer."""

    def __init__(self) -> None:
        self.gateway = Gateway(TREE, "berlin")
        self.site = Site(TREE, "berlin", 0, 1, self.gateway)
        self.count = 0

    def begin_above(self, number: int) -> None:
        self.gateway.take([Changed(ConfKind.REGULAR, str(number), ABOVE)])

    def see(self, number: int) -> Seeing:
        """It says there what its cluster has seen."""
        found = self.gateway.next()
        assert found is not None
        self.gateway.sent()
        self._deliver_above(number, 0, found[1])
        seeing = decode(found[1])
        assert isinstance(seeing, Seeing)
        return seeing

    def paris_sees(self, number: int) -> None:
        self._deliver_above(number, 1, encode(Seeing([])))

    def _deliver_above(self, number: int, sender: int, payload: bytes) -> None:
        self.count += 1
        self.gateway.take(
            [Delivered(str(number), sender, 1, Service.SAFE, 1, [payload], (number, 0, self.count))]
        )  # fmt: skip

    def deliver(self, sender: int, payload: bytes) -> None:
        self.count += 1
        self.site.take([Delivered("65536", sender, 1, Service.AGREED, 1, [payload], (65536, 0, self.count))])

    def speak(self) -> list[object]:
        """All that the site says now is delivered. Returns the messages."""
        said: list[object] = []
        while (control := self.site.next()) is not None:
            self.site.sent(control)
            message = decode(control.payload)
            said.append(message)
            self.deliver(0, control.payload)
        return said

    def meet(self) -> None:
        """Site b comes back, with what it has delivered alone."""
        self.site.take([Changed(ConfKind.REGULAR, "65536", (0, 1))])
        self.speak()
        self.deliver(1, encode(Line([1], [], "berlin/1", 0, [0], [B_SAW], [], [], [], [])))


def _lets_in(said: list[object]) -> list[int]:
    """By which configurations above."""
    return [turn.number for turn in said if isinstance(turn, Turn) and turn.enters]


def test_a_gateway_that_had_told_what_it_saw_waits_for_another_configuration_above() -> None:
    berlin = Berlin()
    berlin.begin_above(65537)
    berlin.see(65537)
    berlin.paris_sees(65537)
    berlin.begin_above(131073)
    told = berlin.see(131073)
    berlin.meet()
    assert B_SAW not in told.seen, "the parts had not met"
    assert _lets_in(berlin.speak()) == []

    berlin.paris_sees(131073)
    assert _lets_in(berlin.speak()) == [], "paris does not know that these messages must not cross"
    berlin.speak()
    assert berlin.gateway.renew

    berlin.begin_above(196609)
    assert B_SAW in berlin.see(196609).seen
    berlin.paris_sees(196609)
    assert _lets_in(berlin.speak()) == [196609]


def test_a_gateway_that_has_yet_to_tell_what_it_saw_tells_this_too() -> None:
    berlin = Berlin()
    berlin.begin_above(65537)
    berlin.see(65537)
    berlin.paris_sees(65537)
    berlin.begin_above(131073)
    berlin.meet()
    assert _lets_in(berlin.speak()) == []
    assert B_SAW in berlin.see(131073).seen
    berlin.paris_sees(131073)
    assert _lets_in(berlin.speak()) == [131073]


def test_those_that_were_not_let_in_yet_are_not_forgotten_at_a_local_change() -> None:
    berlin = Berlin()
    berlin.begin_above(65537)
    berlin.see(65537)
    berlin.paris_sees(65537)
    berlin.meet()
    assert _lets_in(berlin.speak()) == []
    assert berlin.gateway.renew
    berlin.site.take([Changed(ConfKind.TRANSITIONAL, "65536+131072", (0, 1))])
    berlin.site.take([Changed(ConfKind.REGULAR, "131072", (0, 1))])
    said = berlin.speak()
    assert [line.members for line in said if isinstance(line, Line)] == [[0]], "it does not speak for the other"
    assert _lets_in(said) == []


def _alone(site: Site, conf: int) -> Line:
    """The site is alone in this local configuration: returns its LINE."""
    site.take([Changed(ConfKind.REGULAR, str(conf), (1,))])
    line = site.next()
    assert line is not None
    site.sent(line)
    site.take([Delivered(str(conf), 1, 1, Service.SAFE, 1, [line.payload], (conf, 0, 1))])
    assert site.is_open
    assert site.wide.detached
    told = decode(line.payload)
    assert isinstance(told, Line)
    return told


@pytest.mark.parametrize(
    ("group", "crosses", "told"),
    [("bank", True, True), ("bank", False, False), ("home", True, False)],
    ids=["it may cross", "of scope cluster", "the group stays at home"],
)
def test_only_what_may_cross_is_told_above(group: str, crosses: bool, told: bool) -> None:
    """After anything else that a detached site sends again, its cluster need not wait for a change above."""
    site = Site(TREE, "berlin", 1, 1)
    assert _alone(site, 65536).seen == []
    site.send(Service.AGREED, group, crosses, b"x")
    first = site.next()
    assert first is not None
    site.sent(first)
    assert _alone(site, 131072).seen == [], "it was not delivered yet"
    again = site.next()
    assert again is not None
    site.sent(again)
    site.take([Delivered("131072", 1, 1, Service.AGREED, 2, [again.payload], (131072, 0, 2))])
    assert bool(_alone(site, 196608).seen) == told

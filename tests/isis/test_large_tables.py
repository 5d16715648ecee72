"""A newcomer is told a table of groups that does not fit one message."""

import pytest
from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected
from reconvene.isis.events import Received, ViewShown
from reconvene.isis.messages import Action, Decided, Ready, Table, decode_control, encode_control
from reconvene.isis.table import Table as Groups

MIB = 1 << 20


def _held(message: object, site: str) -> bool:
    return isinstance(message, Ready)


def _newcomer(hand: Hand) -> None:
    """Site f comes while what is open stays open; then all of it is concluded."""
    hand.install("abcdef")
    hand.run(200)
    late = hand.sites["f"].open("")
    hand.at(late).join(late, "bank")
    hand.run(100)
    tables = {name: isis.table for name, isis in hand.sites.items()}
    assert len({_shape(table) for table in tables.values()}) == 1, "all sites have the same table"
    hand.hold = lambda message, site: False
    hand.run(4_000)
    assert not hand.sites["f"].table.open
    assert hand.views(late), "it is a member"
    assert hand.judge() == []


def _shape(table: Groups) -> str:
    groups = [(g.name, g.view, g.members(), g.properties, g.barrier) for _, g in sorted(table.groups.items())]
    opened = [(g.number, g.action.kind, g.action.properties, sorted(g.concerned), g.round) for g in table.open]
    return repr((table.announced, groups, opened, [sorted(g.ready) for g in table.open]))


def test_large_gbcasts_that_are_open() -> None:
    """Each of five sites may have 4 MiB of them under way, and one more: more than a message holds."""
    hand = Hand("abcdef")
    hand.install("abcde")
    hand.run()
    members = [hand.open(name, "bank") for name in "abcde"]
    hand.hold = _held
    for member in members:
        for _ in range(5):
            hand.at(member).gbcast(member, "bank", bytes(MIB))
    hand.run(200)
    assert sum(len(gbcast.action.payload) for gbcast in hand.sites["a"].table.open) > 16 * MIB
    _newcomer(hand)
    for member in members:
        assert len(hand.of(Received, member)) == 25


@pytest.mark.long("20 MiB of properties; the next test has fewer")
def test_many_changes_of_properties_that_are_open() -> None:
    """They change the table, so the newcomer needs them whole."""
    hand = Hand("abcdef")
    hand.install("abcde")
    hand.run()
    members = [hand.open(name, "bank") for name in "abcde"]
    hand.hold = _held
    for number in range(300):
        member = members[number % 5]
        hand.at(member).set_properties(member, "bank", {"last": b"%d" % number + bytes(60_000)})
    hand.run(1_000)
    assert sum(len(gbcast.action.properties["last"]) for gbcast in hand.sites["a"].table.open) > 16 * MIB
    _newcomer(hand)
    (view,) = hand.of(ViewShown, next(p for p in hand.sites["f"].delivery.locals))
    assert view.properties == hand.sites["a"].table.groups["bank"].properties


def test_pieces_of_a_configuration_that_ends_do_not_count() -> None:
    """The newcomer has some of the pieces when another configuration comes; it is told all of them again."""
    hand = Hand("abcdef")
    hand.install("abcde")
    hand.run()
    members = [hand.open(name, "bank") for name in "abcde"]
    hand.hold = _held
    for number in range(60):
        member = members[number % 5]
        hand.at(member).set_properties(member, "bank", {"last": b"%d" % number + bytes(60_000)})
    hand.run(300)
    told: list[Table] = []

    def hold(message: object, site: str) -> bool:
        if isinstance(message, Table):
            told.append(message)
        return isinstance(message, Ready) or (isinstance(message, Table) and len(told) > 3)

    hand.hold = hold
    hand.install("abcdef")
    hand.run(100)
    assert len(told) > 3
    assert not hand.sites["f"].here.open
    hand.hold = _held
    _newcomer(hand)


def test_a_table_is_cut_into_pieces_of_bounded_size() -> None:
    table = Groups()
    for number in range(3_000):
        for gbcast in table.announce(Action("join", f"group {number:>240}", Process(number % 60, 1, number))):
            table.conclude(gbcast)
    sizes = []
    groups: list[str] = []
    pieces = table.pieces(7, 9, changing=True)
    for piece in pieces:
        encoded = decode_control(encode_control(piece))
        assert isinstance(encoded, Table)
        groups += [entry.name for entry in encoded.groups]
        sizes.append(len(encode_control(piece)))
    assert len(pieces) > 3
    assert max(sizes) < 300_000
    assert groups == sorted(table.groups)
    assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    (empty,) = Groups().pieces(7, 9, changing=False)
    assert empty.last


def test_properties_that_never_fit_are_refused_before_anything_is_sent() -> None:
    """Also where the site is just adopting a site view, and does not know the group."""
    hand = Hand("abc")
    hand.install("abc")
    hand.run()
    process = hand.open("a")
    hand.hold = lambda message, site: isinstance(message, Decided)
    hand.install("abc")
    assert not hand.sites["a"].here.open
    with pytest.raises(Rejected, match="no room for these properties"):
        hand.sites["a"].set_properties(process, "bank", {str(n): bytes(MIB - 2) for n in range(17)})

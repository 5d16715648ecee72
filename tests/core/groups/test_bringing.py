"""A layer that follows the lineage, as the groups hand it its events: `Used` at its place, and what sites bring."""

import pytest
from tests.core.groups.test_roster import LIST, ME, OTHER

from reconvene.core.effects import Changed, ConfKind, Delivered, Effects, LayerEvent, Used
from reconvene.core.groups.groups import Groups
from reconvene.core.groups.payloads import CONFIRM, TABLE, Tables, decode_table, encode
from reconvene.core.options import Limits, Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.errors import Unavailable
from reconvene.ids import Service

KIND, LOG = 40, 50


class Fed:
    """A groups layer that is told what its site would tell it, one layer that follows the lineage, and one that does
    not. Two sites, of three in the cluster, are together."""

    def __init__(self, brings: bytes = b"mine", options: Options | None = None) -> None:
        site = Site(options or Options(return_unsent=True), ME, 3, boot(None, ME), 0)
        self.groups = Groups(site, 3)
        self.brings = brings
        self.asked_after: list[LayerEvent] = []
        self.share = self.groups.share([KIND], self._ask)
        self.log = self.groups.share([LOG])
        self.roster = self.groups._roster
        self.groups.flush(0, Effects())
        self.install("7")

    def _ask(self) -> bytes:
        self.asked_after.append(self.share[-1])
        return self.brings

    def install(self, conf: str, together: bool = False) -> None:
        self.roster.changed(Changed(ConfKind.TRANSITIONAL, f"1+{conf}", (ME, OTHER) if together else (ME,), "1"))
        self.roster.changed(Changed(ConfKind.REGULAR, conf, (ME, OTHER), sites=LIST))
        self.share.clear()
        self.log.clear()

    def deliver(self, sender: int, *payloads: bytes) -> None:
        self.roster.delivered(Delivered("7", sender, 1, Service.SAFE, 1, list(payloads), (7, 0, 1)))

    @property
    def due(self) -> bytes:
        assert self.roster.due is not None
        return self.roster.due

    def told(self) -> list[int | list[bytes]]:
        """The number of each `Used`, and payloads."""
        found: list[int | list[bytes]] = []
        for event in self.share:
            assert not isinstance(event, Changed)
            found.append(event.number if isinstance(event, Used) else event.payloads)
        return found


def of(kind: int, text: bytes) -> bytes:
    return bytes((kind,)) + text


def test_it_is_asked_when_it_has_the_configuration() -> None:
    (changed,) = Fed().asked_after
    assert isinstance(changed, Changed)
    assert (changed.kind, changed.conf) == (ConfKind.REGULAR, "7")


def test_used_says_what_each_brought() -> None:
    fed = Fed()
    fed.deliver(ME, fed.due)
    assert fed.told() == []
    fed.deliver(OTHER, encode(TABLE, Tables(brought=b"theirs")))
    assert fed.share == [Used(7, "7", (ME, OTHER), (), {ME: b"mine", OTHER: b"theirs"})]
    assert fed.log == []


def test_a_site_without_the_layer_and_one_that_talks_nonsense_bring_nothing() -> None:
    for table in (encode(TABLE, Tables()), of(TABLE, b"\xffnonsense")):
        fed = Fed()
        fed.deliver(ME, fed.due)
        fed.deliver(OTHER, table)
        (used,) = fed.share
        assert isinstance(used, Used)
        assert used.brought == {ME: b"mine", OTHER: b""}


def test_used_stands_where_the_frame_has_it() -> None:
    fed = Fed()
    fed.deliver(OTHER, encode(TABLE, Tables()))
    fed.deliver(ME, of(KIND, b"1"), of(LOG, b"2"), fed.due, of(KIND, b"3"), of(KIND, b"4"))
    assert fed.told() == [[of(KIND, b"1")], 7, [of(KIND, b"3"), of(KIND, b"4")]]
    (_, _, after), (log,) = fed.share, fed.log
    assert isinstance(after, Delivered)
    assert isinstance(log, Delivered)
    assert (after.indices, log.indices) == ((3, 4), (1,))


def test_the_other_layer_gets_its_part_of_that_frame_at_once() -> None:
    fed = Fed()
    fed.deliver(OTHER, encode(TABLE, Tables()))
    fed.deliver(ME, of(LOG, b"1"), fed.due, of(LOG, b"2"))
    (log,) = fed.log
    assert isinstance(log, Delivered)
    assert (log.payloads, log.indices) == ([of(LOG, b"1"), of(LOG, b"2")], (0, 2))


def test_those_that_come_together_are_not_asked_and_confirm_once() -> None:
    fed = Fed()
    fed.deliver(ME, fed.due)
    fed.deliver(OTHER, encode(TABLE, Tables()))
    fed.install("8", together=True)
    assert fed.due == of(CONFIRM, b"")
    fed.deliver(ME, fed.due, fed.due)
    fed.deliver(ME, fed.due)
    assert fed.share == [Used(8, "8", (ME, OTHER), (ME, OTHER), None)]
    assert len(fed.asked_after) == 1


def test_a_confirmation_by_another_than_the_first_member_counts_for_nothing() -> None:
    fed = Fed()
    fed.deliver(ME, fed.due)
    fed.deliver(OTHER, encode(TABLE, Tables()))
    fed.install("8", together=True)
    fed.deliver(OTHER, of(CONFIRM, b""))
    assert fed.share == []


def test_what_is_brought_has_its_room_in_the_message() -> None:
    options = Options(return_unsent=True, limits=Limits(message_bytes=64_000))
    bare = Groups(Site(options, ME, 3, boot(None, ME), 0), 3)
    fed = Fed(bytes(4_000), options)
    assert fed.groups.brought_bytes == 4_000
    assert 0 < _fill(fed.groups) < _fill(bare)
    with pytest.raises(AssertionError, match="brings 4001 bytes: at most 4000"):
        Fed(bytes(4_001), options)


def _fill(groups: Groups) -> int:
    """How many memberships the site takes."""
    process = groups.open()
    for number in range(10_000):
        try:
            groups.join(process, f"group {number}", False, 0)
        except Unavailable:
            return number
    raise AssertionError("no limit")


def test_one_layer_follows_the_lineage() -> None:
    groups = Groups(Site(Options(return_unsent=True), ME, 3, boot(None, ME), 0), 3)
    groups.share([KIND], bytes)
    with pytest.raises(AssertionError, match="one layer"):
        groups.share([LOG], bytes)


def test_a_table_says_what_is_brought_also_where_that_is_nothing() -> None:
    """Fields of a later version come after it, so it is never left out."""
    assert decode_table(Fed().due).brought == b"mine"
    assert Fed(brings=b"").due == encode(TABLE, Tables(forgotten=0))
    assert len(Fed().due) - len(Fed(brings=b"").due) == len(b"mine")

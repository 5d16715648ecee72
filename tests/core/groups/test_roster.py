"""What one site makes of its events: order of arrival that a network seldom brings, and members that lie."""

from msgspec import msgpack

from reconvene.core.effects import Changed, ConfKind, Delivered, Effects, LayerEvent
from reconvene.core.groups.events import Arrived, Process, ViewChanged
from reconvene.core.groups.groups import Groups
from reconvene.core.groups.payloads import (
    DATA,
    JOIN,
    LEAVE,
    SUBSET,
    TABLE,
    Entry,
    Join,
    Leave,
    Tables,
    decode_table,
    encode,
    heading,
    subset_heading,
)
from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.errors import Rejected
from reconvene.ids import Service
from reconvene.site_list import first_list

ME, OTHER = 0, 1
LIST = first_list(3)


class Fed:
    """A groups layer that is told what its site would tell it. Two sites, of three in the cluster, are together."""

    def __init__(self, sites: int = 3) -> None:
        self.groups = Groups(Site(Options(return_unsent=True), ME, sites, boot(None, ME), 0), sites)
        self.groups.flush(0, Effects())
        self.roster = self.groups._roster
        self.process = self.groups.open()
        self.membership = self.groups.join(self.process, "fleet", False, 0)
        self.groups.flush(0, Effects())
        self.roster.changed(Changed(ConfKind.TRANSITIONAL, "65536+7", (ME,), "65536"))
        self.roster.changed(Changed(ConfKind.REGULAR, "7", (ME, OTHER), sites=LIST))
        assert self.roster.due is not None
        self.own = self.roster.due
        self.count = 1
        self.told()

    def deliver(self, sender: int, *payloads: bytes, service: Service = Service.AGREED) -> None:
        stamp = None if service < Service.AGREED else (7, 0, self.count)
        self.roster.delivered(Delivered("7", sender, 1, service, self.count, list(payloads), stamp))
        self.count += len(payloads)

    def told(self) -> list[ViewChanged | Arrived]:
        events = [event for _, events in self.groups._processes.take() for event in events]
        return [event for event in events if isinstance(event, ViewChanged | Arrived)]

    def settle(self, *entries: Entry) -> None:
        self.deliver(ME, self.own, service=Service.SAFE)
        self.deliver(OTHER, encode(TABLE, Tables(list(entries))), service=Service.SAFE)

    @property
    def malformed(self) -> int:
        return self.groups.counters.group_malformed


def data(membership: int, content: bytes) -> bytes:
    return heading(DATA, membership) + content


def test_a_fifo_message_waits_for_the_table_that_explains_it() -> None:
    fed = Fed()
    fed.deliver(OTHER, data(5, b"1"), data(5, b"2"), service=Service.FIFO)
    assert fed.told() == []
    fed.settle(Entry(5, "fleet", 1))
    view, arrived = fed.told()
    assert isinstance(view, ViewChanged)
    assert isinstance(arrived, Arrived)
    assert view.members == (fed.process, Process(OTHER, 1, 1))
    assert arrived.payloads == [b"1", b"2"]
    assert fed.groups.counters.early_dropped == 0


def test_a_fifo_message_waits_for_the_join_that_explains_it() -> None:
    fed = Fed()
    fed.settle()
    fed.told()
    fed.deliver(OTHER, data(9, b"early"), service=Service.FIFO)
    fed.deliver(OTHER, subset_heading(9, (fed.process,)) + b"for you", service=Service.FIFO)
    assert fed.told() == []
    fed.deliver(OTHER, encode(JOIN, Join(9, "fleet", 4, False)))
    kinds = [(type(event), event.payloads if isinstance(event, Arrived) else None) for event in fed.told()]
    assert kinds == [(ViewChanged, None), (Arrived, [b"early"]), (Arrived, [b"for you"])]


def test_what_nothing_explained_ends_with_the_configuration() -> None:
    fed = Fed()
    fed.settle()
    fed.deliver(OTHER, data(9, b"early"), service=Service.FIFO)
    fed.roster.changed(Changed(ConfKind.TRANSITIONAL, "7+8", (ME, OTHER), "7"))
    fed.roster.changed(Changed(ConfKind.REGULAR, "8", (ME, OTHER), sites=LIST))
    assert fed.groups.counters.early_dropped == 1
    fed.told()
    fed.deliver(OTHER, encode(JOIN, Join(9, "fleet", 4, False)))
    assert not [event for event in fed.told() if isinstance(event, Arrived)]


def test_tables_that_come_in_the_transitional_configuration_count() -> None:
    fed = Fed()
    fed.deliver(ME, fed.own, service=Service.SAFE)
    fed.roster.changed(Changed(ConfKind.TRANSITIONAL, "7+8", (ME,), "7"))
    assert fed.told() == [], "it had no regular view"
    fed.deliver(OTHER, encode(TABLE, Tables([Entry(5, "fleet", 1)])), service=Service.SAFE)
    fed.deliver(OTHER, data(5, b"x"))
    regular, transitional, arrived = fed.told()
    assert isinstance(regular, ViewChanged)
    assert isinstance(transitional, ViewChanged)
    assert isinstance(arrived, Arrived)
    assert (regular.kind, len(regular.members), regular.conf) == (ConfKind.REGULAR, 2, "7")
    assert (transitional.kind, transitional.members) == (ConfKind.TRANSITIONAL, (fed.process,))
    assert (transitional.view, arrived.view) == (regular.view, regular.view)
    fed.roster.changed(Changed(ConfKind.REGULAR, "8", (ME,), sites=LIST))
    assert fed.roster.settled, "all go on together from an exchange that is complete"


def test_an_identity_that_others_may_have_used_is_not_offered_again() -> None:
    fed = Fed()
    fed.settle()
    fed.groups._processes.join(fed.process, "bank", True)
    fed.deliver(ME, encode(JOIN, Join(2, "bank", 1, True)), service=Service.SAFE)
    offers = []
    for number in (8, 9, 10):
        fed.roster.changed(Changed(ConfKind.TRANSITIONAL, f"{number - 1}+{number}", (ME,), f"{number - 1}"))
        fed.roster.changed(Changed(ConfKind.REGULAR, f"{number}", (ME, OTHER), sites=LIST))
        assert fed.roster.due is not None
        (bank,) = [entry for entry in decode_table(fed.roster.due).entries if entry.group == "bank"]
        offers.append((bank.live, bank.identity if not bank.live else bank.fresh))
    # It is in the view of the first; what the second and the third brought, the others alone know.
    assert [live for live, _ in offers] == [True, True, True]
    assert len(set(offers)) == 3


def test_hidden_configurations_are_hidden_views() -> None:
    fed = Fed()
    fed.settle(Entry(5, "fleet", 1))
    (regular,) = fed.told()
    fed.roster.changed(Changed(ConfKind.HIDDEN, "9", (ME, 2)))
    (hidden,) = fed.told()
    assert isinstance(regular, ViewChanged)
    assert isinstance(hidden, ViewChanged)
    assert (hidden.kind, hidden.conf, hidden.members) == (ConfKind.HIDDEN, "9", (fed.process,))
    assert hidden.view == regular.view


def test_nonsense_is_counted_and_ignored() -> None:
    fed = Fed()
    fed.settle(Entry(5, "fleet", 1))
    fed.told()
    nonsense = [
        b"",
        b"\x00",
        b"\x0f",
        bytes((DATA,)),
        bytes((DATA, 0)),
        heading(SUBSET, 5),
        heading(SUBSET, 5) + b"\xff\xff\xff\xff",
        heading(SUBSET, 5) + b"\x00\x00\x00\x01\xc1",
        bytes((JOIN,)),
        bytes((JOIN,)) + msgpack.encode([0, "fleet", 1, False]),
        bytes((JOIN,)) + msgpack.encode([8, "", 1, False]),
        bytes((JOIN,)) + msgpack.encode([8, "fleet", -1, False]),
        bytes((LEAVE,)) + msgpack.encode([["x"]]),
        bytes((TABLE,)) + msgpack.encode([[]]),
        data(77, b"of nobody"),
    ]
    for count, payload in enumerate(nonsense, 1):
        fed.deliver(OTHER, payload)
        assert fed.malformed == count, payload
    fed.deliver(OTHER, encode(JOIN, Join(8, "fleet", 1, False)), service=Service.FIFO)
    assert fed.malformed == len(nonsense) + 1, "requests are ordered"
    assert fed.told() == []
    fed.deliver(OTHER, encode(LEAVE, Leave([77])))
    fed.deliver(OTHER, encode(JOIN, Join(5, "galley", 1, False)))
    assert fed.told() == []
    fed.roster.invariants()


def test_who_tells_nonsense_in_its_table_has_nobody() -> None:
    fed = Fed()
    fed.deliver(OTHER, bytes((TABLE,)) + b"\xc1", service=Service.SAFE)
    fed.deliver(ME, fed.own, service=Service.SAFE)
    assert fed.roster.settled
    (view,) = fed.told()
    assert isinstance(view, ViewChanged)
    assert view.members == (fed.process,)


def test_a_member_can_t_fill_others_memory() -> None:
    fed = Fed()
    fed.settle()
    for number in range(1, 40):
        fed.deliver(OTHER, encode(JOIN, Join(number, f"{number}" * 500_000, number, False)))
    assert len(fed.groups.groups()) < 35
    for number in range(100, 400):
        fed.deliver(OTHER, data(number, bytes(1_000_000)), service=Service.FIFO)
    assert fed.groups.counters.early_dropped > 250


def of_whom(event: LayerEvent) -> tuple[tuple[int, ...] | None, int, list[bytes]]:
    assert isinstance(event, Delivered)
    return event.indices, event.first, event.payloads


def test_other_layers_messages_are_handed_up() -> None:
    fed = Fed()
    fed.settle(Entry(5, "fleet", 1))
    fed.told()
    log, more = fed.groups.share([16, 17]), fed.groups.share([255])
    fed.deliver(OTHER, data(5, b"1"), b"\x10log", b"\xffmore", b"\x11log", b"\xeeunknown", data(5, b"2"))
    assert [of_whom(event) for event in log] == [((1, 3), fed.count - 6, [b"\x10log", b"\x11log"])]
    assert [of_whom(event) for event in more] == [((2,), fed.count - 6, [b"\xffmore"])]
    assert [event.payloads for event in fed.told() if isinstance(event, Arrived)] == [[b"1"], [b"2"]]
    assert fed.malformed == 0


def test_other_layers_send_through_the_same_site() -> None:
    groups = Groups(Site(Options(return_unsent=True), ME, 1, boot(None, ME), 0), 1)
    share = groups.share([16, 17])
    assert groups.submit_other(Service.AGREED, [b"\x10early"], 0) == 0, "its configuration is not known yet"
    groups.flush(0, Effects())
    assert groups.submit_other(Service.AGREED, [b"\x10one", b"\x11two"], 0) == 2
    groups.flush(0, Effects())
    changed, delivered = share
    assert isinstance(changed, Changed)
    assert of_whom(delivered)[2] == [b"\x10one", b"\x11two"]
    try:
        groups.submit_other(Service.AGREED, [b"\x01"], 0)
    except Rejected:
        return
    raise AssertionError("a kind of this layer's own")

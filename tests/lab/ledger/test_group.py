"""The checks of a reader fail if they should: each planted fault is reported."""

from reconvene.client.events import Batch, Process, View, ViewId
from reconvene.ids import Service
from reconvene.lab.ledger.group import GroupLedger, Reading, disagreements, head
from reconvene.lab.load.group_clients import Stream, Written

A, B = Process("a", 1, 1), Process("b", 1, 1)


def messages(sender: Process, *numbers: int, stream: int = 0, service: Service = Service.AGREED) -> Batch:
    fifo = service is Service.FIFO
    payloads = [head(ord(sender.site), stream, fifo, number) for number in numbers]
    return Batch(payloads, sender, service, 0, ViewId(1, 0), None, 0)


def view(conf: int, *members: Process, kind: str = "regular", change: int = 0) -> View:
    return View(kind, ViewId(conf, change), members, True, (), (), str(conf))


def read(*events: Batch | View, reader: str = "r") -> Reading:
    ledger = GroupLedger(reader, "g")
    for event in events:
        if isinstance(event, Batch):
            ledger.batch(event)
        else:
            ledger.view(event)
    return ledger.end()


def test_what_is_right_passes() -> None:
    reading = read(
        view(1, A, B),
        messages(A, 0, 1, 2),
        messages(A, 0, 1, service=Service.FIFO),
        messages(B, 7),
        messages(A, 3, stream=0, service=Service.CAUSAL),
        messages(A, 0, stream=1),
        view(1, A, kind="transitional"),
        view(2, A, B),
        messages(B, 20),
        messages(A, 1, stream=1),
    )
    assert reading.faults == []
    assert (reading.messages, reading.regular, reading.transitional) == (10, 2, 1)
    assert reading.heard["97/0/fifo"] == 2
    assert reading.heard["97/1/other"] == 2


def test_a_sender_that_leaves_and_comes_back_at_once() -> None:
    """A sender leaves and comes back: its last messages come in the transitional view; those that only it delivered
    never come."""
    parted = (view(1, A, B), messages(B, 0), view(1, A, kind="transitional"), messages(B, 1), view(2, A, B))
    assert read(*parted, messages(B, 5)).faults == []
    (fault,) = read(*parted, messages(B, 5), messages(B, 7)).faults
    assert "number 7 came, expected 6" in fault


def test_a_message_that_comes_twice() -> None:
    (fault,) = read(view(1, A, B), messages(A, 0, 1, 1)).faults
    assert fault == "r in g: a:1:1: 97/0/other number 1 came after 0/1: twice or late"


def test_messages_out_of_order() -> None:
    faults = read(view(1, A, B), messages(A, 0), messages(A, 2), messages(A, 1)).faults
    assert [fault.partition(": 97")[2] for fault in faults] == [
        "/0/other number 2 came, expected 1: the sender had not left the view",
        "/0/other number 1 came after 0/2: twice or late",
    ]


def test_a_message_that_is_missing() -> None:
    events = (view(1, A, B), messages(A, 0), view(2, A, B, kind="transitional"), view(3, A, B), messages(A, 2))
    (fault,) = read(*events).faults
    assert "number 2 came, expected 1" in fault


def test_a_stream_whose_start_is_missing() -> None:
    (fault,) = read(view(1, A, B), messages(A, 0), messages(A, 1, stream=1)).faults
    assert "97/1/other number 1 came, expected 0" in fault


def test_readers_that_had_not_the_same() -> None:
    first = read(view(1, A, B), messages(A, 0), messages(B, 0), view(2, A, B), reader="one")
    second = read(view(1, A, B), messages(B, 0), messages(A, 0), view(2, A, B), reader="two")
    third = read(view(1, A, B), messages(A, 0), messages(B, 0), view(3, A, B), reader="three")
    assert disagreements([first, third]) == (0, []), "they went different ways"
    shared, (told,) = disagreements([first, second, third])
    assert shared == 2
    assert told.startswith("group g, 1#0>2#0: agreed and safe messages differ: one 2 (")


def test_accepted_and_never_delivered() -> None:
    whole = Stream(number=0, accepted=[3, 1], returned=[3, 1])
    cut = Stream(number=1, accepted=[3, 0], returned=[1, 0], broken=True)
    lost = Stream(number=2, accepted=[3, 2], returned=[3, 1])
    written = Written(client=4, group="g", streams=[whole, cut, lost])
    assert written.lost() == ["client 4 in g: 1 messages of stream 2 never came"]

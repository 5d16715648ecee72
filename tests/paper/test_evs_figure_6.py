"""Extended Virtual Synchrony, section 3.1 and figure 6: p is cut off from q and r, which merge with s and t.

Here p, q, r, s, t are a, b, c, d, e.
"""

import pytest
from tests.core.hand import Hand

from reconvene.core.effects import Changed, ConfKind
from reconvene.core.options import Options
from reconvene.ids import Service

P, Q, R, S, T = "abcde"


@pytest.fixture(params=["atop", "all-ack"])
def figure(request: pytest.FixtureRequest) -> Hand:
    hand = Hand("abcde", Options(order=request.param))
    hand.partition(P + Q + R, S + T)
    hand.wait_together(P + Q + R)
    hand.wait_together(S + T)
    hand.lose += [
        lambda packet: packet.kind == "nack",
        lambda packet: packet.kind == "alive" and packet.source == P,
    ]
    # p sends l and m; l reaches no site, m reaches q and r.
    hand.lose.append(lambda packet: packet.kind == "frame" and packet.source == P)
    hand.submit(P, Service.AGREED, b"l")
    hand.lose.pop()
    hand.submit(P, Service.AGREED, b"m")
    hand.run(3)
    # r sends n as safe; q acknowledges it, p never receives it.
    hand.lose.append(lambda packet: packet.kind in ("frame", "alive") and P in (packet.source, packet.to))
    hand.submit(R, Service.SAFE, b"n")
    hand.run(10)
    hand.partition(P, Q + R + S + T)
    hand.lose.clear()
    hand.wait_together(Q + R + S + T)
    hand.until(lambda: hand.members(P) == P)
    hand.run(200)
    return hand


def last(hand: Hand, name: str, count: int) -> list[tuple[ConfKind, str]]:
    changes = [event for event in hand.events[name] if isinstance(event, Changed)][-count:]
    return [(event.kind, "".join(hand.names[site] for site in event.members)) for event in changes]


def test_two_changes_at_q_and_r(figure: Hand) -> None:
    for name in (Q, R):
        assert last(figure, name, 3) == [
            (ConfKind.REGULAR, P + Q + R),
            (ConfKind.TRANSITIONAL, Q + R),
            (ConfKind.REGULAR, Q + R + S + T),
        ]


def test_s_and_t_come_from_their_own(figure: Hand) -> None:
    for name in (S, T):
        assert last(figure, name, 3) == [
            (ConfKind.REGULAR, S + T),
            (ConfKind.TRANSITIONAL, S + T),
            (ConfKind.REGULAR, Q + R + S + T),
        ]


def test_p_goes_on_alone_and_delivers_its_own(figure: Hand) -> None:
    assert last(figure, P, 2) == [(ConfKind.TRANSITIONAL, P), (ConfKind.REGULAR, P)]
    assert figure.delivered(P) == [b"l", b"m"]


def test_m_is_not_delivered_without_l(figure: Hand) -> None:
    for name in (Q, R):
        assert not {b"l", b"m"} & set(figure.delivered(name))


def test_n_is_delivered_in_the_transitional_configuration(figure: Hand) -> None:
    for name in (Q, R):
        (event,) = [event for event in figure.deliveries(name) if event.payloads == [b"n"]]
        assert event.conf == figure.changes(name, ConfKind.TRANSITIONAL)[-1].conf


def test_s_and_t_get_nothing_of_it(figure: Hand) -> None:
    assert figure.delivered(S) == figure.delivered(T) == []

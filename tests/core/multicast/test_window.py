"""The network sliding window: never exceeded, shared fairly, and one frame is always allowed."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.core.multicast.window import Window, weight
from reconvene.core.options import Limits

quick = settings(max_examples=150, derandomize=True, deadline=None)
LIMITS = Limits(frame_bytes=1_000, buffer_bytes=20_000)
MS = 1_000_000


@quick
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_a_member_keeps_within_its_share(seed: int, members: int) -> None:
    random = Random(seed)
    window = Window(members, LIMITS)
    under_way: list[tuple[int, int]] = []
    seq = stable = now = 0
    for _ in range(60):
        now += random.randrange(300) * MS
        if under_way and random.random() < 0.5:
            stable = random.choice(under_way)[0]
            under_way = [entry for entry in under_way if entry[0] > stable]
            window.settled(stable, now)
            continue
        size = random.randint(1, LIMITS.frame_bytes)
        total = sum(entry[1] for entry in under_way)
        window.senders = random.randint(1, members)
        if window.takes(size):
            assert not under_way or total + weight(size) <= window.share
            seq += 1
            under_way.append((seq, weight(size)))
            window.sent(seq, size, True, now)
        else:
            assert under_way, "one frame is always allowed"
            assert total + weight(size) > window.share
        assert window.share <= window.bytes
        assert window.bytes <= max(LIMITS.buffer_bytes * 9 // 10, weight(LIMITS.frame_bytes))


@quick
@given(st.lists(st.integers(0, 2**62), min_size=3, max_size=3))
def test_the_smallest_buffer_counts(buffers: list[int]) -> None:
    window = Window(3, LIMITS)
    for rank, buffer in enumerate(buffers):
        window.report(rank, buffer)
    assert window.bytes == max(min(max(buffer, 1) for buffer in buffers) * 9 // 10, weight(LIMITS.frame_bytes))
    assert window.takes(LIMITS.frame_bytes)


def test_a_part_of_the_buffer_is_left_to_channels() -> None:
    shared = Limits(frame_bytes=1_000, buffer_bytes=20_000, channel_bytes=8_000)
    window = Window(3, shared)
    assert window.bytes == 12_000 * 9 // 10
    window.report(1, LIMITS.window_bytes)
    assert window.bytes == 12_000 * 9 // 10
    all_of_it = Window(3, Limits(frame_bytes=1_000, buffer_bytes=20_000, channel_bytes=20_000))
    assert all_of_it.bytes == weight(1_000), "one frame is always allowed"


def fill(windows: list[Window], asking: list[int]) -> list[int]:
    """Frames that each asking member gets out of one window before it must wait."""
    sent = [0] * len(windows)
    for rank in asking:
        windows[rank].senders = len(asking)
        while windows[rank].takes(LIMITS.frame_bytes):
            sent[rank] += 1
            windows[rank].sent(sent[rank], LIMITS.frame_bytes, True, 0)
    return sent


def test_shares_are_equal_and_the_silent_ones_are_used() -> None:
    limits = Limits(frame_bytes=1_000, buffer_bytes=20_000)
    three = fill([Window(3, limits) for _ in range(3)], [0, 1, 2])
    assert three == [2, 2, 2]
    one = fill([Window(3, limits) for _ in range(3)], [1])
    assert one == [0, 7, 0]
    assert sum(three) * weight(LIMITS.frame_bytes) <= limits.buffer_bytes * 9 // 10


def test_it_counts_what_a_kernel_charges() -> None:
    """A default buffer of 212,992 bytes holds 3 datagrams of 60 KB, 12 of 8,900 B and 92 of 1,400 B."""
    for size, held in ((60_000, 3), (8_900, 12), (1_400, 92)):
        window = Window(1, Limits(frame_bytes=size))
        fits = 0
        while window.takes(size):
            fits += 1
            window.sent(fits, size, True, 0)
        assert held * 0.6 < fits <= held


def test_a_queue_on_the_way_makes_it_shrink_and_grow_again() -> None:
    window = Window(2, LIMITS)
    whole = window.share
    window.sent(1, 100, True, 0)
    window.settled(1, 1 * MS)
    window.sent(2, 100, True, 1 * MS)
    window.settled(2, 500 * MS)
    assert LIMITS.frame_bytes <= window.share < whole
    for seq in range(3, 40):
        window.sent(seq, 100, True, 500 * MS)
        window.settled(seq, 501 * MS)
    assert window.share == whole


def test_two_frames_that_are_not_full() -> None:
    window = Window(2, LIMITS)
    for seq in (1, 2):
        assert window.takes_partial()
        window.sent(seq, 10, False, 0)
    assert not window.takes_partial()
    assert window.presses
    window.settled(1, MS)
    assert window.takes_partial()


PACKETS = Limits(frame_bytes=10_000, packet_bytes=1_000, buffer_bytes=200_000)


def test_a_frame_of_several_packets_weighs_as_much_as_they_do() -> None:
    window = Window(1, PACKETS)
    for size in (1, 1_000, 1_001, 3_500, 10_000):
        whole, rest = divmod(size, 1_000)
        before = window._own_bytes
        window.sent(1, size, True, 0)
        assert window._own_bytes - before == whole * weight(1_000) + (weight(rest) if rest else 0)
    assert window._own_bytes > sum(map(weight, (1, 1_000, 1_001, 3_500, 10_000))), "the kernel counts each of them"


def test_the_largest_frame_by_the_smallest_buffer() -> None:
    window = Window(3, PACKETS)
    assert window.frame_bytes == 10_000
    window.report(1, 60_000)
    assert window.frame_bytes == 60_000 * 9 // 10 // 6 // weight(1_000) * 1_000 == 3_000
    assert 6 * 3 * weight(1_000) <= window.bytes
    window.report(2, 1)
    assert window.frame_bytes == 1_000, "a packet may go"
    assert window.bytes == weight(1_000)
    assert Window(3, LIMITS).frame_bytes == LIMITS.frame_bytes, "a frame is a packet"

"""The twin without asyncio."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.places import cluster, short_dir

from reconvene import Batch, Malformed, Message, Unavailable, View, blocking


@pytest.fixture
def site() -> Iterator[tuple[blocking.Site, Path]]:
    with short_dir() as directory:
        (config,) = cluster(directory)
        with blocking.open(config) as opened:
            yield opened, directory / "a/site.sock"


def test_a_conversation(site: tuple[blocking.Site, Path]) -> None:
    inside, path = site
    assert (inside.name, inside.cluster, inside.sites, inside.health()) == ("a", "test", ("a",), "primary")
    group = inside.join("x")
    with blocking.connect(path) as other:
        theirs = other.join("x", timeout=10)
        theirs.send(b"hello", "safe", to=[group.me])
        assert theirs.send_many(b"%d" % number for number in range(5_000)) == 5_000
        assert [event.members for event in (group.next(5), group.next(5)) if isinstance(event, View)] == [
            (group.me,),
            (group.me, theirs.me),
        ]
        first = group.next(timeout=5)
        assert isinstance(first, Message)
        assert (first.data, first.sender) == (b"hello", theirs.me)
        got = 0
        for event in group:
            assert isinstance(event, Message)
            assert event.data == b"%d" % got
            got += 1
            if got == 1_000:
                break
        for batch in group.batches(timeout=0.5):
            assert isinstance(batch, Batch)
            got += len(batch)
        assert got <= 5_000
        assert theirs.view.members == (group.me, theirs.me)
        assert other.status().group_count == 1
        theirs.leave()
        assert [event for event in theirs if isinstance(event, View)]
        with pytest.raises(Unavailable):
            theirs.next()
    assert [event.left for event in group.events(timeout=0.5) if isinstance(event, View)] == [(theirs.me,)]


def test_message_by_message_all_of_them(site: tuple[blocking.Site, Path]) -> None:
    group = site[0].join("x")
    group.send_many([b"%d" % number for number in range(5_000)])
    found = [event.data for event in group.events(timeout=0.5) if isinstance(event, Message)]
    assert found == [b"%d" % number for number in range(5_000)]


def test_waiting_ends_in_time(site: tuple[blocking.Site, Path]) -> None:
    group = site[0].join("x")
    group.next(5)
    with pytest.raises(TimeoutError):
        group.next(timeout=0.01)
    assert list(group.events(timeout=0.01)) == []
    group.send(b"after")
    event = group.next(timeout=5)
    assert isinstance(event, Message)


def test_from_several_threads(site: tuple[blocking.Site, Path]) -> None:
    group = site[0].join("x")

    def send(mark: int) -> None:
        for _ in range(100):
            group.send(b"%d" % mark)

    threads = [threading.Thread(target=send, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts: dict[bytes, int] = {}
    for event in group.events(timeout=0.5):
        if isinstance(event, Message):
            counts[event.data] = counts.get(event.data, 0) + 1
    assert counts == {b"%d" % mark: 100 for mark in range(4)}


def test_who_waits_when_it_ends_is_told(site: tuple[blocking.Site, Path]) -> None:
    found: list[object] = []
    with blocking.connect(site[1]) as other:
        group = other.join("x")
        reader = threading.Thread(target=lambda: found.extend(group))
        reader.start()
    reader.join(10)
    assert not reader.is_alive()
    assert len(found) == 1
    with pytest.raises(Unavailable, match="closed here"):
        group.send(b"too late")


def test_errors_come_through() -> None:
    before = set(threading.enumerate())  # threads of other tests may still be ending
    with pytest.raises(Unavailable, match="No such file"), blocking.connect("unix:/nowhere/x.sock"):
        pass
    with pytest.raises(Malformed), blocking.open("/nowhere/site.toml"):
        pass
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "reconvene"]


def test_a_fork_is_told_to_connect_again(site: tuple[blocking.Site, Path]) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            site[0].health()
            told = b"nothing"
        except Unavailable as error:
            told = str(error).encode()
        except BaseException as error:
            told = repr(error).encode()
        os.write(write, told)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        assert answer.read() == b"this connection was made before a fork: connect again in this process"
    assert site[0].health() == "primary"

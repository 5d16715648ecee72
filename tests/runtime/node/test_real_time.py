"""The real-time class: taken for a while, given back, inherited by threads, and never taken by asking."""

import os
from pathlib import Path
from threading import Thread

import pytest

from reconvene.errors import Malformed, Rejected
from reconvene.runtime.config.check import check
from reconvene.runtime.config.settings import Config, Scheduling, Seal
from reconvene.runtime.node.real_time import check_real_time, real_time


def config(priority: int) -> Config:
    return Config(
        cluster="shop",
        name="a",
        sites={"a": ("127.0.0.1", 7000)},
        dir=Path("/nowhere"),
        seal=Seal(insecure=True),
        scheduling=Scheduling(real_time=priority),
    )


def allowed() -> bool:
    try:
        check_real_time(config(1))
    except Rejected:
        return False
    return True


needs_permission = pytest.mark.skipif(not allowed(), reason="this user may not take the real-time class")


def present() -> tuple[int, int]:
    return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority


def test_it_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setscheduler")
    check_real_time(config(0))
    with real_time(config(0)):
        assert present() == (os.SCHED_OTHER, 0)


def test_a_priority_is_up_to_99() -> None:
    with pytest.raises(Malformed, match=r"scheduling\.real_time: expected .*99"):
        check(config(100))


@needs_permission
def test_it_is_taken_and_given_back() -> None:
    check_real_time(config(3))
    assert present() == (os.SCHED_OTHER, 0), "asking changes nothing"
    inside: list[tuple[int, int]] = []
    with real_time(config(3)):
        inside.append(present())
        keeper = Thread(target=lambda: inside.append(present()))
        keeper.start()
        keeper.join()
    assert inside == [(os.SCHED_RR, 3)] * 2
    assert present() == (os.SCHED_OTHER, 0)


def test_what_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, policy: int, param: os.sched_param) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with pytest.raises(Rejected, match="the system refuses the real-time class"):
        check_real_time(config(5))
    with pytest.raises(Rejected, match="at least 5"), real_time(config(5)):
        raise AssertionError("not reached")

"""The small integers that stand for kinds of event and for services, wherever checks keep events in columns."""

from reconvene.ids import Service

__all__ = [
    "AGREED", "CAUSAL", "CONF", "DELIVER", "FAIL", "FIFO", "HIDDEN", "KINDS", "NOBODY", "NONE", "SAFE", "SEND",
    "SERVICES",
]  # fmt: skip

NONE = -1

NOBODY = -1
"""The code of a node that is not in the run's `nodes`."""

CONF, HIDDEN, SEND, DELIVER, FAIL = range(5)
"""Kinds of event. A hidden configuration is no deliver_conf; a stop is treated as a fail."""

FIFO, CAUSAL, AGREED, SAFE = (int(service) for service in Service)

SERVICES = {service.label: int(service) for service in Service}

KINDS = {
    ("evs", "conf"): CONF, ("evs", "hidden"): HIDDEN, ("evs", "send"): SEND, ("evs", "deliver"): DELIVER,
    ("evs", "fail"): FAIL, ("evs", "stop"): 5,
    ("corel", "accept"): 10, ("corel", "log"): 11, ("corel", "yellow"): 12, ("corel", "red"): 13,
    ("corel", "green"): 14, ("corel", "attempt"): 15, ("corel", "commit"): 16, ("corel", "establish"): 17,
    ("corel", "adopt"): 18, ("corel", "snapshot"): 19, ("corel", "offer"): 25,
    ("vs", "view"): 20, ("vs", "cast"): 21, ("vs", "deliver"): 22, ("vs", "stop"): 23,
    ("vs", "establish"): 24,
    ("isis", "site"): 30, ("isis", "begin"): 31, ("isis", "end"): 32, ("isis", "join"): 33, ("isis", "leave"): 34,
    ("isis", "view"): 35, ("isis", "cbcast"): 36, ("isis", "abcast"): 37, ("isis", "gbcast"): 38,
    ("isis", "receive"): 39, ("isis", "reject"): 40, ("isis", "answer"): 41, ("isis", "failed"): 42,
    ("isis", "flush"): 43, ("isis", "state"): 44,
}  # fmt: skip
"""Kinds of event in the tables of the Spark engine, by layer and kind."""

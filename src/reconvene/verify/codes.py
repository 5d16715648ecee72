"""The small integers that stand for kinds of event and for services, wherever checks keep events in columns."""

from reconvene.ids import Service

__all__ = ["AGREED", "CAUSAL", "CONF", "DELIVER", "FAIL", "FIFO", "HIDDEN", "NONE", "SAFE", "SEND", "SERVICES"]

NONE = -1

CONF, HIDDEN, SEND, DELIVER, FAIL = range(5)
"""Kinds of event. A hidden configuration is no deliver_conf; a stop is treated as a fail."""

FIFO, CAUSAL, AGREED, SAFE = (int(service) for service in Service)

SERVICES = {service.label: int(service) for service in Service}

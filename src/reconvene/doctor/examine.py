"""All checks, one after the other."""

from collections.abc import Iterator
from pathlib import Path

from reconvene.doctor.clock import ClockWatch, look_at_clock
from reconvene.doctor.disk import look_at_disk
from reconvene.doctor.finding import Finding, advise, fine, wrong
from reconvene.doctor.limits import look_at_limits
from reconvene.doctor.network import (
    look_at_buffers,
    look_at_interfaces,
    look_at_loopback,
    look_at_multicast,
    look_at_paths,
)
from reconvene.doctor.ports import look_at_ports
from reconvene.doctor.program import look_at_program, look_at_spark
from reconvene.runtime.config.settings import Config, TransportSettings
from reconvene.runtime.node.explain import explain
from reconvene.runtime.node.preflight import place_problems

__all__ = ["examine"]

_LOOKED_AT_HERE = ("transport.", "sites.")
"""What a configuration's warnings begin with that a check of its own tells more of."""


def examine(directory: Path, config: Config | None = None, file: Path | None = None) -> Iterator[Finding]:
    """For a site that keeps its state in `directory`, and more closely for the one of this configuration.

    Raises Malformed or Rejected where the configuration, or a file that it names, is bad.
    """
    watch = ClockWatch()
    if config is not None:
        yield from _configuration(config, file)
    yield from look_at_program()
    yield from look_at_spark()
    yield from look_at_clock()
    yield from look_at_disk(directory, config)
    yield from look_at_limits(config)
    yield from look_at_buffers(TransportSettings() if config is None else config.transport)
    yield look_at_loopback()
    if config is None:
        yield from look_at_interfaces()
    else:
        yield from look_at_paths(config)
        yield from look_at_multicast(config)
        yield from look_at_ports(config)
    yield watch.look()


def _configuration(config: Config, file: Path | None) -> Iterator[Finding]:
    found = explain(config)
    for problem in place_problems(config):
        yield wrong("files", problem, f"edit {file or 'the configuration'}, or make room for it")
    warnings = [text for text in found.warnings if not text.startswith(_LOOKED_AT_HERE)]
    for text in warnings:
        yield advise("configuration", text, f"edit {file or 'the configuration'}, unless it is meant")
    if not warnings:
        yield fine("configuration", f"{file or 'as given'}: site {found.site} of cluster {found.cluster}")

"""The rows of layer `wide` of a site, as it runs, and what says which sites and clusters they belong to.

They are in a file of their own, DIR/wide/CLUSTER/SITE.jsonl, and take their numbers from the recorder of the site's
own file, DIR/CLUSTER/SITE.jsonl (docs/traces.md). Each site adds what it knows to DIR/domains.json: its cluster, and
the gateways of the one above. The trace can be read once a site of each cluster has done so.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from reconvene.domains.events import WideEvent
from reconvene.quorum import full_spec
from reconvene.runtime.config.settings import Config
from reconvene.runtime.site.journal import Journal
from reconvene.trace.domains import (
    DOMAINS_FILE,
    WIDE_DIR,
    Domain,
    Domains,
    Pass,
    Tree,
    encode_domains,
    wide_node,
)
from reconvene.trace.events import SCHEMA, Run
from reconvene.trace.recorder import Recorder
from reconvene.trace.wide_recorder import WideRecorder
from reconvene.trace.writer import RUN_FILE, encode_run, node_file

__all__ = ["WideRows", "add_domain", "write_wide_run"]

_LAYER = "wide"


class WideRows:
    """Raises OSError if the file can't be opened."""

    def __init__(self, config: Config, stopped: Callable[[str], None]) -> None:
        directory, domain = config.trace.dir, config.domain
        assert directory is not None
        assert domain is not None
        self._cluster = config.cluster
        self.recorder: WideRecorder
        add_domain(directory, config)
        node = wide_node(config.cluster, config.name)
        self.journal = Journal(directory / WIDE_DIR, node, config.trace.max_bytes, stopped, _LAYER)

    def begin(self, recorder: Recorder, t: int) -> None:
        """`recorder`: that of the site's own file. If it has resumed an incarnation that has not ended, its end is
        recorded."""
        self.recorder = WideRecorder(self._cluster, recorder, self.journal.append)
        past = self.journal.past
        if not past.ended:
            self.recorder.resume(past.conf)
            self.recorder.end(t, "fail")

    def events(self, t: int, events: Sequence[WideEvent]) -> None:
        self.recorder.events(t, events)

    def end(self, t: int) -> None:
        """A clean stop."""
        self.recorder.end(t, "stop")


def add_domain(directory: Path, config: Config) -> None:
    """Adds the site's cluster, and the one above, to domains.json, and its sites to the run of layer `wide`."""
    domain = config.domain
    assert domain is not None
    upper = domain.upper
    own = Domain(
        name=config.cluster,
        nodes=list(config.names),
        gateways=list(domain.gateways),
        upper=upper.cluster,
        passes=Pass(out=list(domain.pass_.out), into=list(domain.pass_.in_)),
    )
    above = Domain(name=upper.cluster, nodes=sorted(upper.sites), passes=Pass(out=["*"], into=["*"]))
    with _locked(directory):
        known = _known(directory, upper.cluster)
        others = [each for each in known.domains if each.name not in (own.name, above.name)]
        known.domains = [*sorted([*others, own], key=lambda each: each.name), above]
        known.settled = False
        if not any(own.name in component for component in known.components):
            first, *rest = known.components or [[]]
            known.components = [[*first, own.name], *rest]
        _replace(directory / DOMAINS_FILE, encode_domains(known))
        write_wide_run(directory, known, config.order.engine)


def write_wide_run(directory: Path, domains: Domains, order: str) -> None:
    """DIR/wide/run.json, and an empty file for each node that has none yet."""
    nodes = Tree(domains.domains).nodes
    run = Run(
        schema=SCHEMA, run=domains.run, nodes=nodes, stack=_LAYER, order=order, seed=domains.seed,
        settled=domains.settled, components=[], down=[], quorum=full_spec({"kind": "majority"}, nodes),
    )  # fmt: skip
    (directory / WIDE_DIR).mkdir(parents=True, exist_ok=True)
    _replace(directory / WIDE_DIR / RUN_FILE, encode_run(run))
    for node in nodes:
        file = node_file(directory / WIDE_DIR, node)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def _known(directory: Path, run: str) -> Domains:
    try:
        return msgspec.json.decode((directory / DOMAINS_FILE).read_bytes(), type=Domains)
    except FileNotFoundError:
        return Domains(schema=SCHEMA, run=run, seed=0, settled=False, components=[], down=[], domains=[])
    except msgspec.MsgspecError as error:
        raise OSError(f"{directory / DOMAINS_FILE}: {error}") from None


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Sites of several clusters may share the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(data)
    draft.replace(path)

"""Histories from wherever traces are: a trace directory, one of domains, Parquet, or a directory of these."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from reconvene.trace.domains import WIDE_DIR, Domains, Tree, check_nodes, is_wide, level_name, read_domains
from reconvene.trace.finding import find_traces
from reconvene.trace.parquet import read_parquet_runs
from reconvene.trace.parquet_form import RUNS_DIR, is_parquet
from reconvene.trace.reader import Trace, read_trace
from reconvene.trace.writer import RUN_FILE
from reconvene.verify.history import History
from reconvene.verify.wide_history import WideHistory

__all__ = ["load_domains", "load_histories", "wide_histories"]


def load_histories(path: Path) -> Iterator[History]:
    """Each run by itself, made when it is asked for; of domains, each level, and what passed between them. May raise
    Malformed; and Unavailable, where Parquet can't be read here."""
    for place in find_traces(path):
        if is_parquet(place):
            for run, rows in read_parquet_runs(place):
                history = History.of(run, rows)
                history.need_quorum(f"{place / RUNS_DIR}: run {run.run}")
                yield history
        elif is_wide(place):
            yield from load_domains(place)
        else:
            yield History.load(place)


def load_domains(directory: Path) -> list[History]:
    """A directory with domains.json. All levels are in memory at once, since what passes between them is judged by
    what they show. May raise Malformed."""
    domains = read_domains(directory)
    levels: dict[str, History] = {}
    for domain in domains.domains:
        history = levels[domain.name] = History.load(directory / domain.name)
        check_nodes(directory / domain.name / RUN_FILE, history.run, domain.nodes)
    wide = read_trace(directory / WIDE_DIR, wide=True)
    check_nodes(directory / WIDE_DIR / RUN_FILE, wide.run, Tree(domains.domains).nodes)
    return wide_histories(domains, levels, wide)


def wide_histories(domains: Domains, levels: dict[str, History], wide: Trace) -> list[History]:
    """The histories that are judged together. Each level's run is called RUN/DOMAIN."""
    for name, level in levels.items():
        level.run = structs.replace(level.run, run=level_name(domains.run, name))
        level.is_level = True
    whole = History.of(structs.replace(wide.run, run=domains.run), wide.rows)
    whole.wide = WideHistory(domains, levels, wide.run, wide.rows)
    return [*levels.values(), whole]

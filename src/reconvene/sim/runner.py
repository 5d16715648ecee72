"""Runs a scenario: its steps, loads and chaos for its duration, then the settle time in which faults stop."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import assert_never

from reconvene.core.options import Options
from reconvene.corel.following.follower import Follower
from reconvene.domains.gateway import Gateway
from reconvene.domains.port import Site as DomainSite
from reconvene.outpost.outpost import Outpost
from reconvene.sim.changing import ChangingCore, ChangingLogCore, Numbering
from reconvene.sim.chaos import Chaos
from reconvene.sim.cluster import Cluster
from reconvene.sim.core import Core, LogCore, real_core
from reconvene.sim.isis_application import IsisApplication
from reconvene.sim.isis_scenario import Cast, Flush, Join, Kill, Leave, Rank, Watch, home
from reconvene.sim.isis_site import RealIsisCore
from reconvene.sim.list_operator import ListOperator
from reconvene.sim.load import Application, LoadRun
from reconvene.sim.log_site import RealLogCore
from reconvene.sim.network import Traffic
from reconvene.sim.node import Node
from reconvene.sim.operator import Operator, waits_for_absent
from reconvene.sim.remote import Remote
from reconvene.sim.scenario import (
    AddSites,
    Append,
    Crash,
    Cut,
    Heal,
    Load,
    Mend,
    NetworkChange,
    Partition,
    Pause,
    RemoveSites,
    Restart,
    Resume,
    Scenario,
    Send,
    Step,
)
from reconvene.sim.wide_process import WideProcess
from reconvene.sim.wide_result import Levels, levels_of
from reconvene.sim.wide_scenario import Handover, Split
from reconvene.sim.wide_world import WideWorld
from reconvene.trace.domains import write_wide_trace
from reconvene.trace.events import SCHEMA, Row, Run
from reconvene.trace.writer import write_trace

__all__ = ["Result", "Runner", "run_scenario"]

_SLICES = 200
"""Calls of `progress` in a run."""
_CASTS = ("cbcast", "abcast", "gbcast")


@dataclass(slots=True)
class Result:
    """What came of a run: the fields of `sim --json`, and what a trace is written from."""

    run: str
    seed: int
    scenario: str
    stack: str
    order: str
    virtual_ns: int
    events: int
    messages: int
    """The applications': sent, in stack evs; in stack corel, accepted by the log or taken by a site beside it; in
    stack isis, cast."""
    configurations: int
    faults: int
    skipped: int
    settled: bool
    meta: Run
    rows: dict[str, list[Row]]
    coverage: Counter[tuple[str, str]] = field(default_factory=Counter)
    unsent: int = 0
    """Messages that the application still held when settle began."""
    traffic: Traffic = field(default_factory=Traffic)
    levels: Levels | None = None
    """Stack wide: the traces of all clusters. `meta` and `rows` are then those of layer `wide`."""

    def write(self, directory: Path) -> None:
        """Writes its trace, of one cluster or of domains. May raise OSError."""
        if self.levels is None:
            write_trace(directory, self.meta, self.rows)
        else:
            write_wide_trace(directory, self.levels.domains, self.levels.traces, (self.meta, self.rows))

    def summary(self, trace: str | None) -> dict[str, object]:
        """The document that `sim --json` prints."""
        return {
            "run": self.run,
            "seed": self.seed,
            "scenario": self.scenario,
            "stack": self.stack,
            "order": self.order,
            "virtual_ns": self.virtual_ns,
            "events": self.events,
            "messages": self.messages,
            "configurations": self.configurations,
            "faults": self.faults,
            "skipped": self.skipped,
            "settled": self.settled,
            "trace": trace,
        }


def _core(scenario: Scenario) -> Core | LogCore:
    if scenario.changing:
        first = scenario.nodes if scenario.sites is None else scenario.sites
        if scenario.stack == "evs":
            return ChangingCore(scenario.nodes, first)
        return ChangingLogCore(Numbering(scenario.nodes, first), scenario.quorum)
    if scenario.stack == "corel":
        return RealLogCore(scenario.quorum)
    return RealIsisCore() if scenario.stack == "isis" else real_core


class Runner:
    """One run. `cluster` is there from the start, so that tests can hook into it before `run`."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int | None = None,
        *,
        check_every: int = 0,
        core: Core | LogCore | None = None,
        options: Options | None = None,
        follower: type[Follower] = Follower,
        outpost: type[Outpost] = Outpost,
        wide: type[DomainSite] = DomainSite,
        gateway: type[Gateway] = Gateway,
    ) -> None:
        """`core`: instead of what the scenario's stack is made of; `follower`, `outpost`: the same of its followers
        and outposts; `wide`, `gateway`: of the parts of sites and gateways in a tree of clusters."""
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self._skipped = 0
        self.unsent = 0
        self.world: Cluster | WideWorld
        """`cluster`, or where there are several, all of them."""
        if scenario.stack == "wide":
            self.world = WideWorld(
                scenario.domains,
                seed=self.seed,
                options=options or Options(order=scenario.order),
                conditions=scenario.conditions,
                between=scenario.between,
                patience_ns=scenario.patience_ns,
                processes=scenario.processes,
                isis=scenario.isis,
                links=scenario.links,
                check_every=check_every,
                make=wide,
                gateway=gateway,
            )
        else:
            self.world = Cluster(
                scenario.nodes,
                seed=self.seed,
                options=options or Options(order=scenario.order),
                conditions=scenario.conditions,
                links=scenario.links,
                check_every=check_every,
                core=core or _core(scenario),
                followers=scenario.followers,
                follower=follower,
                outposts=scenario.outposts,
                outpost=outpost,
            )
        self._application = Application(self.world)
        has_isis = scenario.stack == "isis" or scenario.isis
        self.processes = IsisApplication(scenario.processes if has_isis else (), self._application.payload)
        """Of stack isis, or of stack wide with such processes."""
        if has_isis:
            for name in scenario.nodes:
                self._node(name).processes = self.processes.of_node(name)
        self._unstarted = set(scenario.unstarted)
        for step in scenario.steps:
            self.world.loop.at(step.time_ns, self._apply, step)
        loads = self.world.stream("loads")
        for load in scenario.loads:
            for name in load.nodes:
                LoadRun(self.world, load, name, loads, partial(self._send, load, name))
            for process in load.processes:
                LoadRun(self.world, load, home(process)[0], loads, partial(self._cast, load, process))
        self.lists: ListOperator | None = None
        """Where the list of sites changes."""
        if scenario.changing and core is None:
            first = scenario.nodes if scenario.sites is None else scenario.sites
            self.lists = ListOperator(self.cluster, first, self.world.stream("lists"))
            for node in self.cluster.nodes:
                node.absent = node.name not in first
                node.replicas_changed = True  # a majority of `nodes` is none of the list
        self._chaos = (
            None
            if scenario.chaos is None
            else Chaos(self.world, scenario.chaos, self.world.stream("chaos"), self.lists)
        )
        self.operator = (
            None
            if scenario.operator is None
            else Operator(self.cluster, scenario.operator, self.world.stream("operator"))
        )

    @property
    def cluster(self) -> Cluster:
        """Where there is one only."""
        assert isinstance(self.world, Cluster), "there are several"
        return self.world

    def _node(self, name: str) -> Node:
        """The one whose processes these are."""
        node = self.world.node(name)
        return node.node if isinstance(node, WideProcess) else node

    @property
    def skipped(self) -> int:
        """Steps that could not apply, or that a process's site refused."""
        return self._skipped + self.processes.skipped

    def run(self, progress: Callable[[int], None] | None = None) -> Result:
        """`progress` is called with the virtual time now and then."""
        scenario = self.scenario
        self.world.start(
            name for name in scenario.everyone if name not in self._unstarted and self.world.may_start(name)
        )
        self._advance(scenario.duration_ns, progress)
        if scenario.settle_ns:
            self._settle()
            self._advance(scenario.duration_ns + scenario.settle_ns, progress)
            self.processes.judge_watches()
        return self._result()

    def _advance(self, until: int, progress: Callable[[int], None] | None) -> None:
        loop = self.world.loop
        total = self.scenario.duration_ns + self.scenario.settle_ns
        while progress is not None and loop.now + total // _SLICES < until:
            loop.run(loop.now + max(1, total // _SLICES))
            progress(loop.now)
        loop.run(until)
        if progress is not None:
            progress(loop.now)

    def _settle(self) -> None:
        cluster, scenario = self.world, self.scenario
        if self._chaos is not None:
            self._chaos.stop()
        if self.operator is not None:
            self.operator.stop()
        if self.lists is not None:
            self._skipped += self.lists.stop()
        cluster.network.calm()
        cluster.connect(scenario.final)
        for node in cluster.members:
            self.unsent += node.drop_waiting()
            node.doom(None)
            stays_down = node.name in scenario.final_down
            if node.up and stays_down:
                cluster.crash(node.name)
            elif node.paused:
                cluster.resume(node.name)
            elif cluster.may_start(node.name) and not stays_down:
                cluster.restart(node.name)

    # -- steps -------------------------------------------------------------------------------------------

    def _apply(self, step: Step) -> None:
        cluster = self.world
        match step.verb:
            case Partition(components):
                cluster.partition(components)
            case Heal():
                cluster.heal()
            case Cut(pairs):
                for one, other in pairs:
                    cluster.cut(one, other)
            case Mend(pairs):
                for one, other in pairs:
                    cluster.mend(one, other)
            case Crash(nodes):
                for name in nodes:
                    self._crash(name, step.time_ns)
            case Restart(nodes):
                self._each(nodes, lambda node: cluster.may_start(node.name), cluster.restart)
            case Pause(nodes):
                self._each(nodes, lambda node: node.up and not node.paused, cluster.pause)
            case Resume(nodes):
                self._each(nodes, lambda node: node.up and node.paused, cluster.resume)
            case AddSites(nodes) | RemoveSites(nodes):
                assert self.lists is not None, "the list of sites changes"
                change = self.lists.add if isinstance(step.verb, AddSites) else self.lists.remove
                self._skipped += sum(not change(name) for name in nodes)
            case NetworkChange(changes):
                cluster.change_network(changes)
            case Send() | Append():
                self._say(step.verb)
            case Kill(processes):
                for process in processes:
                    self._kill(process)
            case Split(components):
                self._wide.split(components)
            case Handover(domains):
                for domain in domains:
                    if not self._wide.hand_over(domain):
                        self._skipped += 1
            case Join() | Leave() if isinstance(cluster, WideWorld) and not cluster.isis:
                node, process = home(step.verb.process)
                joins = isinstance(step.verb, Join)
                if not cluster.node(node).change_group(step.verb.group, process, joins=joins):
                    self._skipped += 1
            case Join() | Leave() | Cast() | Flush() | Rank() | Watch():
                self._ask(step.verb)
            case _:
                assert_never(step.verb)

    @property
    def _wide(self) -> WideWorld:
        assert isinstance(self.world, WideWorld), "there are several clusters"
        return self.world

    def _each(
        self, names: tuple[str, ...], can: Callable[[Node | Remote | WideProcess], bool], apply: Callable[[str], None]
    ) -> None:
        for name in names:
            if can(self.world.member(name)):
                apply(name)
            else:
                self._skipped += 1

    def _crash(self, name: str, time_ns: int) -> None:
        if time_ns == 0 and name in self._unstarted:
            self._unstarted.discard(name)  # this is what kept it from starting
        else:
            self._each((name,), lambda node: node.up, self.world.crash)

    def _say(self, verb: Send | Append) -> None:
        if not self.world.member(verb.node).up:
            self._skipped += 1
        elif isinstance(verb, Append):
            if not self._application.append(verb.node, verb.size, verb.count):
                self._skipped += 1
        else:
            self._application.send(verb.node, verb.service, verb.size, verb.count, verb.group, verb.scope)

    def _kill(self, process: str) -> None:
        node = self._node(home(process)[0])
        if node.processes is not None and process in node.processes.living:
            self.world.kill(process)
        else:
            self._skipped += 1

    def _ask(self, verb: Join | Leave | Cast | Flush | Rank | Watch) -> None:
        node = self._node(home(verb.process)[0])
        if node.up:
            node.ask(verb)
        else:
            self._skipped += 1

    # -- loads -------------------------------------------------------------------------------------------

    def _send(self, load: Load, name: str) -> None:
        if load.service is None:
            self._application.append(name, load.size)
        else:
            self._application.send(name, load.service, load.size, 1, load.group, load.scope)

    def _cast(self, load: Load, process: str) -> None:
        assert load.casting is not None, "a load of processes says what they cast"
        # A process that is blocked casts nothing meanwhile, as one that is down.
        self._node(home(process)[0]).ask(Cast(process, load.casting), counted=False)

    # -- result ------------------------------------------------------------------------------------------

    def _messages(self, rows: list[Row]) -> int:
        if self.scenario.stack in ("evs", "wide"):
            return sum(row.kind == "send" for row in rows)
        if self.scenario.stack == "isis":
            return sum(row.layer == "isis" and row.kind in _CASTS and row.attempt == 0 for row in rows)
        # Most of what a site sends there is the log's own.
        return sum(row.kind == "accept" for row in rows) + sum(node.submitted for node in self.world.members)

    def _result(self) -> Result:
        scenario, cluster = self.scenario, self.world
        run = f"{scenario.name}-{self.seed}"
        rows = [row for name in cluster.everyone for row in cluster.rows[name]]
        levels = levels_of(cluster, scenario, run) if isinstance(cluster, WideWorld) else None
        changes = self.operator is not None or self.lists is not None
        settled = scenario.settle_ns > 0 and not (changes and waits_for_absent(self.cluster))
        return Result(
            run=run,
            seed=self.seed,
            scenario=scenario.name,
            stack=scenario.stack,
            order=scenario.order,
            virtual_ns=cluster.now,
            events=len(rows) + (0 if levels is None else levels.events),
            messages=self._messages(rows),
            configurations=len({row.conf for row in rows if row.conf_kind == "regular"}),
            faults=cluster.faults,
            skipped=self.skipped,
            settled=settled,
            meta=Run(
                schema=SCHEMA,
                run=run,
                nodes=list(cluster.names),
                stack=scenario.stack,
                order=scenario.order,
                seed=self.seed,
                settled=settled,
                components=cluster.components() if levels is None else [list(part) for part in scenario.final],
                down=[node.name for node in cluster.members if not node.up],
                quorum=cluster.run_quorum(scenario.quorum),
                followers=list(scenario.followers),
                outposts=list(scenario.outposts),
            ),
            rows=cluster.rows,
            coverage=cluster.coverage,
            unsent=self.unsent,
            traffic=cluster.network.traffic,
            levels=levels,
        )


def run_scenario(
    scenario: Scenario,
    seed: int | None = None,
    *,
    check_every: int = 0,
    progress: Callable[[int], None] | None = None,
    core: Core | LogCore | None = None,
) -> Result:
    return Runner(scenario, seed, check_every=check_every, core=core).run(progress)

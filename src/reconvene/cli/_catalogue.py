"""Every command: where its code is, what it does, and an example.

Only the module of the command that runs is imported, so listing all of them is quick.
"""

from dataclasses import dataclass
from difflib import get_close_matches

__all__ = ["CATALOGUE", "COMMANDS", "FAMILIES", "FIRSTS", "Command", "Section", "closest", "family"]


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    """As it is typed: `up`, or `log append`."""
    place: str
    """MODULE:FUNCTION, the module in this package."""
    summary: str
    """One line for the list. The function's docstring has the rest."""
    example: str
    """A command line that works as it is, if the files that it names exist."""


@dataclass(frozen=True, slots=True)
class Section:
    """Commands that belong together."""

    title: str
    commands: tuple[Command, ...]


CATALOGUE = (
    Section(
        "Begin here",
        (
            Command("demo", "demo:demo_command", "hold an election while the network breaks", "reconvene demo"),
            Command(
                "doctor",
                "doctor:doctor_command",
                "check this machine and suggest changes",
                "reconvene doctor --config site.toml",
            ),
        ),
    ),
    Section(
        "A cluster on this machine",
        (
            Command(
                "up",
                "up:up_command",
                "start a cluster of real sites on loopback",
                "reconvene up --nodes 5 --dir town",
            ),
            Command("down", "down:down_command", "stop the cluster; its files stay", "reconvene down --dir town"),
            Command("status", "status:status_command", "show the state of each site", "reconvene status --dir town"),
            Command(
                "domains",
                "domains:domains_command",
                "show joined clusters, and what crosses between them",
                "reconvene domains --dir towns",
            ),
            Command(
                "watch",
                "watch:watch_command",
                "show the state of each site, live",
                "reconvene watch --dir town --every 500ms",
            ),
            Command("send", "send:send_command", "send messages to a group", "reconvene send lobby hello --dir town"),
            Command(
                "listen",
                "listen:listen_command",
                "show a group's views and messages as they arrive",
                "reconvene listen lobby --dir town",
            ),
        ),
    ),
    Section(
        "Fault injection",
        (
            Command(
                "partition",
                "partition:partition_command",
                "partition the network",
                "reconvene partition a,b c,d,e --dir town",
            ),
            Command("heal", "heal:heal_command", "end the partition", "reconvene heal --dir town"),
            Command("crash", "crash:crash_command", "kill sites (kill -9)", "reconvene crash c --dir town"),
            Command(
                "restart", "restart:restart_command", "start sites that are down", "reconvene restart c --dir town"
            ),
            Command("pause", "pause:pause_command", "pause sites (SIGSTOP)", "reconvene pause c --dir town"),
            Command(
                "resume", "resume:resume_command", "resume paused sites (SIGCONT)", "reconvene resume c --dir town"
            ),
        ),
    ),
    Section(
        "The durable, totally ordered log",
        (
            Command(
                "log append",
                "log_append:append_command",
                "append messages",
                "reconvene log append 'one vote for Ada' --ordered --dir town",
            ),
            Command(
                "log read",
                "log_read:read_command",
                "print ordered messages",
                "reconvene log read --from 0 --dir town",
            ),
            Command(
                "log follow",
                "log_read:follow_command",
                "print messages as they are ordered",
                "reconvene log follow --from end --dir town",
            ),
            Command(
                "log cursors",
                "log_cursors:cursors_command",
                "list the positions that readers keep in the log",
                "reconvene log cursors --dir town",
            ),
            Command(
                "log status",
                "log_status:status_command",
                "show the progress of each replica",
                "reconvene log status --dir town",
            ),
            Command(
                "log whatif",
                "log_whatif:whatif_command",
                "show what losing replicas would stop",
                "reconvene log whatif --lose a,b --dir town",
            ),
            Command(
                "log init",
                "log_init:init_command",
                "create a new log",
                "reconvene log init --dir town",
            ),
            Command(
                "log replicas",
                "log_replicas:replicas_command",
                "show or change the replicas",
                "reconvene log replicas --remove e --dir town",
            ),
            Command(
                "log snapshot",
                "log_snapshot:snapshot_command",
                "list, fetch or save snapshots",
                "reconvene log snapshot --dir town",
            ),
            Command(
                "log backup",
                "log_copy:backup_command",
                "copy a site's storage, also while it runs",
                "reconvene log backup copy --site a --dir town",
            ),
            Command(
                "log rescue",
                "log_rescue:rescue_command",
                "print the messages of a stopped site that were never ordered",
                "reconvene log rescue copy",
            ),
            Command(
                "log check",
                "log_check:check_command",
                "check the storage of a stopped site, or a backup",
                "reconvene log check copy",
            ),
            Command(
                "log restore",
                "log_copy:restore_command",
                "make a site's directory from a backup",
                "reconvene log restore copy restored",
            ),
        ),
    ),
    Section(
        "Process groups in the manner of ISIS",
        (
            Command(
                "isis groups",
                "isis_groups:groups_command",
                "show the groups, their views and properties",
                "reconvene isis groups --dir town",
            ),
            Command(
                "isis cast",
                "isis_cast:cast_command",
                "cast messages to a group, and print the replies",
                "reconvene isis cast bank 'balance?' --abcast --replies all --dir town",
            ),
            Command(
                "isis listen",
                "isis_listen:listen_command",
                "show a group's casts, views and failures as they come",
                "reconvene isis listen bank --dir town",
            ),
        ),
    ),
    Section(
        "Sites on servers",
        (
            Command("node", "node:node_command", "run one site", "reconvene node --config site.toml"),
            Command(
                "replace",
                "replace:replace_command",
                "replace the lost storage of a site",
                "reconvene replace --config site.toml",
            ),
            Command(
                "keygen",
                "keygen:keygen_command",
                "make a cluster key or a client key",
                "reconvene keygen cluster.key",
            ),
        ),
    ),
    Section(
        "Traces: make, check and measure them",
        (
            Command(
                "sim",
                "sim:sim_command",
                "run a scenario in virtual time",
                "reconvene sim scenario.toml --seed 7 --trace trace",
            ),
            Command(
                "verify",
                "verify:verify_command",
                "check traces against every property",
                "reconvene verify trace --html report.html",
            ),
            Command(
                "judge",
                "judge:judge_command",
                "check traces while they grow, on Spark",
                "reconvene judge --dir town --follow",
            ),
            Command(
                "analyze",
                "analyze:analyze_command",
                "measure latency, rates and fairness; draw a space-time diagram",
                "reconvene analyze trace --html report.html",
            ),
            Command(
                "campaign",
                "campaign:campaign_command",
                "run and verify many random fault scenarios on Spark",
                "reconvene campaign --runs 200 --out campaign",
            ),
            Command(
                "trace make",
                "trace_make:make_command",
                "make large traces to measure with",
                "reconvene trace make --events 100k --to made",
            ),
            Command(
                "trace pack",
                "trace:pack_command",
                "convert trace directories to Parquet",
                "reconvene trace pack trace --to packed",
            ),
            Command(
                "trace unpack",
                "trace:unpack_command",
                "convert Parquet to trace directories",
                "reconvene trace unpack packed --to traces",
            ),
            Command(
                "bench",
                "bench:bench_command",
                "run benchmarks, also of other systems",
                "reconvene bench agreed --quick",
            ),
        ),
    ),
    Section(
        "The log as tables, through Spark",
        (
            Command(
                "pipeline export",
                "pipeline:export_command",
                "export the log to a Parquet table, continuously",
                "reconvene pipeline export --to table --once --dir town",
            ),
            Command(
                "pipeline tally",
                "pipeline:tally_command",
                "count messages by time window, live",
                "reconvene pipeline tally --window 1min --once --dir town",
            ),
        ),
    ),
    Section(
        "The program itself",
        (
            Command(
                "completion",
                "completion:completion_command",
                "print a shell completion script",
                "reconvene completion bash > reconvene.bash",
            ),
        ),
    ),
)

COMMANDS = {command.name: command for section in CATALOGUE for command in section.commands}
FIRSTS = tuple(dict.fromkeys(name.partition(" ")[0] for name in COMMANDS))
"""First words."""
FAMILIES = tuple(dict.fromkeys(name.partition(" ")[0] for name in COMMANDS if " " in name))
"""First words that need a second one."""


def family(first: str) -> dict[str, Command]:
    """The commands of a family, by their second words."""
    return {name.partition(" ")[2]: found for name, found in COMMANDS.items() if name.startswith(f"{first} ")}


def closest(typed: str, known: list[str]) -> str | None:
    """The known word that is most like the typed one."""
    return next(iter(get_close_matches(typed, known, n=1, cutoff=0.6)), None)

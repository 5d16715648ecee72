"""Every command: where it is written, what it is for, and how it is called.

Nothing is imported for it but the command that is run, so that a list of all of them costs nothing.
"""

from dataclasses import dataclass
from difflib import get_close_matches

__all__ = ["CATALOGUE", "COMMANDS", "FAMILIES", "FIRSTS", "Command", "Section", "closest", "family"]


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    """As it is typed, `log append` too."""
    place: str
    """MODULE:FUNCTION, the module in this package."""
    summary: str
    """One line of the list; the function's docstring says the rest."""
    example: str
    """A call that works as it stands, where the files that it names are there."""


@dataclass(frozen=True, slots=True)
class Section:
    """Commands that a person looks for together."""

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
                "look at this machine, and say what to change",
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
            Command("down", "down:down_command", "end it; what it keeps stays", "reconvene down --dir town"),
            Command("status", "status:status_command", "show how each site is", "reconvene status --dir town"),
            Command("watch", "watch:watch_command", "the same, live", "reconvene watch --dir town --every 500ms"),
            Command("send", "send:send_command", "send messages to a group", "reconvene send lobby hello --dir town"),
            Command(
                "listen",
                "listen:listen_command",
                "show a group's views and messages as they come",
                "reconvene listen lobby --dir town",
            ),
        ),
    ),
    Section(
        "Faults on purpose",
        (
            Command(
                "partition",
                "partition:partition_command",
                "cut the network into components",
                "reconvene partition a,b c,d,e --dir town",
            ),
            Command("heal", "heal:heal_command", "let everyone talk again", "reconvene heal --dir town"),
            Command("crash", "crash:crash_command", "kill sites (kill -9)", "reconvene crash c --dir town"),
            Command(
                "restart", "restart:restart_command", "start sites that are down", "reconvene restart c --dir town"
            ),
            Command("pause", "pause:pause_command", "make sites stand still", "reconvene pause c --dir town"),
            Command("resume", "resume:resume_command", "let them go on", "reconvene resume c --dir town"),
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
                "log read", "log_read:read_command", "print what is ordered", "reconvene log read --from 0 --dir town"
            ),
            Command(
                "log follow",
                "log_read:follow_command",
                "print it as it comes",
                "reconvene log follow --from end --dir town",
            ),
            Command(
                "log status",
                "log_status:status_command",
                "how far each replica is",
                "reconvene log status --dir town",
            ),
            Command(
                "log init",
                "log_init:init_command",
                "begin a new log",
                "reconvene log init --dir town",
            ),
            Command(
                "log replicas",
                "log_replicas:replicas_command",
                "show or change who keeps it",
                "reconvene log replicas --remove e --dir town",
            ),
            Command(
                "log snapshot",
                "log_snapshot:snapshot_command",
                "show, fetch or hand over a snapshot",
                "reconvene log snapshot --dir town",
            ),
            Command(
                "log backup",
                "log_copy:backup_command",
                "copy what a site keeps, also while it runs",
                "reconvene log backup copy --site a --dir town",
            ),
            Command(
                "log rescue",
                "log_rescue:rescue_command",
                "print what a stopped site accepted and has no place for, or a copy",
                "reconvene log rescue copy",
            ),
            Command(
                "log check",
                "log_check:check_command",
                "check what a stopped site keeps, or a copy",
                "reconvene log check copy",
            ),
            Command(
                "log restore",
                "log_copy:restore_command",
                "make such a copy a site's directory",
                "reconvene log restore copy restored",
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
                "give a site whose storage is lost a new one",
                "reconvene replace --config site.toml",
            ),
            Command(
                "keygen",
                "keygen:keygen_command",
                "make a cluster's key, or a client's",
                "reconvene keygen cluster.key",
            ),
        ),
    ),
    Section(
        "Histories: made, checked, measured",
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
                "analyze",
                "analyze:analyze_command",
                "latency, rates, fairness; the space-time diagram",
                "reconvene analyze trace --html report.html",
            ),
            Command(
                "campaign",
                "campaign:campaign_command",
                "many random fault scenarios, on Spark, all verified",
                "reconvene campaign --runs 200 --out campaign",
            ),
            Command(
                "trace pack",
                "trace:pack_command",
                "trace directories into Parquet",
                "reconvene trace pack trace --to packed",
            ),
            Command(
                "trace unpack",
                "trace:unpack_command",
                "Parquet into trace directories",
                "reconvene trace unpack packed --to traces",
            ),
            Command(
                "bench", "bench:bench_command", "measure, beside other systems too", "reconvene bench agreed --quick"
            ),
        ),
    ),
    Section(
        "The log into tables, through Spark",
        (
            Command(
                "pipeline export",
                "pipeline:export_command",
                "keep a Parquet table in step with the log",
                "reconvene pipeline export --to table --once --dir town",
            ),
            Command(
                "pipeline tally",
                "pipeline:tally_command",
                "count messages by window, live",
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
                "print what lets a shell complete commands and options",
                "reconvene completion bash > reconvene.bash",
            ),
        ),
    ),
)

COMMANDS = {command.name: command for section in CATALOGUE for command in section.commands}
FIRSTS = tuple(dict.fromkeys(name.partition(" ")[0] for name in COMMANDS))
"""First words."""
FAMILIES = tuple(dict.fromkeys(name.partition(" ")[0] for name in COMMANDS if " " in name))
"""Those that take a second one."""


def family(first: str) -> dict[str, Command]:
    """The commands of a family, by their second words."""
    return {name.partition(" ")[2]: found for name, found in COMMANDS.items() if name.startswith(f"{first} ")}


def closest(typed: str, known: list[str]) -> str | None:
    """What somebody who typed this probably meant."""
    return next(iter(get_close_matches(typed, known, n=1, cutoff=0.6)), None)

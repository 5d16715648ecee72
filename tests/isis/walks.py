"""Random walks of ISIS layers above an ideal group communication: casts of all kinds, joins, leaves, kills, lost
packets, crashes and configurations in any order; then everything is mended, and the run is judged."""

from random import Random

from tests.isis.world import World

from reconvene.isis.isis import Isis
from reconvene.sim import isis_profile
from reconvene.sim.isis_scenario import Join, Kill, Leave, ProcessPlan, Watch

__all__ = ["walk"]


def walk(seed: int, made: type[Isis] = Isis) -> list[str]:
    """What does not hold in the walk of this seed."""
    random = Random(seed)
    names = "abcde"[: random.choice((3, 3, 4, 5))]
    plans = isis_profile.isis_processes(random, tuple(names))
    world = World(random, names, plans, made)
    world.install(names)
    world.run(random.choice((0, 5, 30)))
    faults = random.choice((0.02, 0.06, 0.12))
    world.lag_ms = random.choice((0.1, 1, 5))
    quiet = random.choice((0.2, 0.5, 1))
    watching = Random(f"watches {seed}")
    for _ in range(random.choice((40, 80, 160))):
        if random.random() < faults:
            _break(random, world)
        else:
            _act(random, world, plans)
        if watching.random() < 0.2 and len(plans) > 1:
            one, other = watching.sample(plans, 2)
            world.ask(Watch(one.written, other.written), one.node)
        world.run(random.choice((0.1, 0.5, 1, 3, 8)) * quiet)
    return _end(random, world)


def _act(random: Random, world: World, plans: tuple[ProcessPlan, ...]) -> None:
    draw = random.random()
    if draw < 0.12:
        link = "".join(random.sample(world.names, 2))
        world.delay_ms[link] = random.choice((0.3, 1, 4, 15))
        return
    verb = isis_profile._verb(random, plans)
    if isinstance(verb, Kill):
        if random.random() < 0.5:
            return
        world.ask(verb, verb.processes[0].split(".")[0])
    elif isinstance(verb, Leave) and draw < 0.5:
        world.ask(Join(verb.process, verb.group), verb.process.split(".")[0])
    else:
        world.ask(verb, verb.process.split(".")[0])


def _break(random: Random, world: World) -> None:
    up = sorted(world.sites)
    match random.choice(("crash", "part", "part", "meet", "cut", "cut", "loss", "sleep", "start")):
        case "crash":
            if 2 * (len(up) - 1) > len(world.names):
                world.crash(random.choice(up))
        case "start":
            for name in world.names:
                if name not in world.sites and random.random() < 0.7:
                    world.start(name)
        case "part":
            random.shuffle(up)
            place = random.randint(1, len(up))
            for part in (up[:place], up[place:]):
                if part and random.random() < 0.8:
                    world.install("".join(sorted(part)))
        case "meet":
            world.install("".join(up))
        case "cut":
            if world.cut:
                world.cut.clear()
            else:
                world.cut = {"".join(random.sample(world.names, 2)) for _ in range(random.randint(1, 4))}
        case "loss":
            world.loss = random.choice((0, 0, 0.1, 0.3))
        case "sleep":
            world.sleep(random.choice(up), random.choice((3, 20, 60)))


def _end(random: Random, world: World) -> list[str]:
    world.cut.clear()
    world.delay_ms.clear()
    world.loss = 0
    world.run(100)
    for name in world.names:
        if name not in world.sites and random.random() < 0.7:
            world.start(name)
    members = "".join(sorted(world.sites))
    world.install(members)
    world.run(20_000)
    return world.problems(members)

"""Wiredville elects a mayor: five real sites, a network that breaks, a site that is killed, and one count.

`script` is the story, step by step. Each step first says what the system promises, and `checks` checks the promises.
`voters`, `polls` and `lost_answer` are the voters. `chronicle` reads the sites' traces while they are written.
`board` and `stage` show what happens. `spark` runs the stream, the verification and the report in a process of its
own.
"""

from reconvene.lab.demo.paths import Paths
from reconvene.lab.demo.play import play
from reconvene.lab.demo.result import DemoResult
from reconvene.lab.demo.script import Pace
from reconvene.lab.demo.stage import Stage

__all__ = ["DemoResult", "Pace", "Paths", "Stage", "play"]

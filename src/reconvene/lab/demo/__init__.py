"""Wiredville elects a mayor: five real sites, a network that breaks, a site that is killed, and one count.

`script` is the story, step by step; what it says beforehand is what the system promises, and `checks` holds it to
that. Around it: `voters` and `lost_answer`, who vote; `chronicle`, what the sites' traces tell while it runs; `board`
and `stage`, what is shown; `spark`, the stream, the judge and the report beside it, in a process of their own.
"""

from reconvene.lab.demo.paths import Paths
from reconvene.lab.demo.play import play
from reconvene.lab.demo.result import DemoResult
from reconvene.lab.demo.script import Pace
from reconvene.lab.demo.stage import Stage

__all__ = ["DemoResult", "Pace", "Paths", "Stage", "play"]

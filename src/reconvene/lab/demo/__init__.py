"""Wiredville elects a mayor: five real sites, a network that breaks, a site that is killed, and one count.

`script` is the story, step by step; what it says beforehand is what the system promises, and `checks` holds it to
that. Around it: `voters` and `lost_answer`, who vote; `chronicle`, what the sites' traces tell while it runs; `board`
and `stage`, what is shown; `spark`, the stream, the judge and the report beside it, in a process of their own.
"""

from reconvene.lab.demo.outcome import Outcome
from reconvene.lab.demo.places import Places
from reconvene.lab.demo.play import play
from reconvene.lab.demo.script import Pace
from reconvene.lab.demo.stage import Stage

__all__ = ["Outcome", "Pace", "Places", "Stage", "play"]

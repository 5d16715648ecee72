"""The Java that Spark would run on."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HOW_TO_GET_JAVA", "OLDEST_JAVA", "Java", "find_java"]

OLDEST_JAVA = 17
HOW_TO_GET_JAVA = "apt-get install openjdk-17-jre-headless, or set JAVA_HOME"

_PATIENCE_S = 60


@dataclass(frozen=True, slots=True)
class Java:
    path: str
    major: int | None
    """None: it does not say, or does not run."""

    @property
    def is_recent(self) -> bool:
        return self.major is not None and self.major >= OLDEST_JAVA


def find_java() -> Java | None:
    """The one in JAVA_HOME, else the first on the path; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return None
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return Java(java, None)
    version = re.search(r'version "(\d+)', told.stderr)
    return Java(java, None if version is None else int(version[1]))

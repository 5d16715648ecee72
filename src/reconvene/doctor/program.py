"""The interpreter, the packages that a site needs, and those that Spark needs."""

import platform
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import assert_never

from reconvene import __version__
from reconvene.build import Build, current_build
from reconvene.doctor.finding import Finding, advise, fine, wrong
from reconvene.doctor.java import HOW_TO_GET_JAVA, OLDEST_JAVA, find_java

__all__ = ["look_at_program", "look_at_spark"]

_NEEDED = {
    "aiohttp": "aiohttp",
    "cryptography": "cryptography.hazmat.primitives.ciphers.aead",
    "lmdb": "lmdb",
    "msgspec": "msgspec",
    "prometheus-client": "prometheus_client",
}
"""Packages of a site, and what of each is imported: those with machine code may be there and not load."""
_FOR_SPARK = ("pyspark", "pyarrow", "pandas")


def look_at_program() -> Iterator[Finding]:
    yield fine("python", f"{platform.python_implementation()} {platform.python_version()}, reconvene {__version__}")
    yield _look_at_build()
    broken = [f"{package} ({problem})" for package in _NEEDED if (problem := _problem(_NEEDED[package]))]
    if broken:
        names = " ".join(package.partition(" ")[0] for package in broken)
        yield wrong("packages", f"can't be used: {', '.join(broken)}", f"pip install --force-reinstall {names}")
    elif (problem := _problem("uvloop")) is not None:
        yield advise("packages", f"without uvloop ({problem}) a site is slower", "pip install uvloop")
    else:
        yield fine("packages", ", ".join(f"{name} {version(name)}" for name in (*_NEEDED, "uvloop")))


def _look_at_build() -> Finding:
    match build := current_build():
        case Build.COMPILED:
            return fine("build", "compiled: the hot modules are machine code")
        case Build.PURE:
            seen = "pure Python: sites are slower than with the compiled build"
            change = "install gcc and python3-dev, then: pip install --force-reinstall --no-deps ."
            return advise("build", seen, change)
        case Build.STALE:
            return wrong("build", "machine code of another source than the files here", "make compiled, or make pure")
    assert_never(build)


def look_at_spark() -> Iterator[Finding]:
    """Everything but the pipeline works without, so nothing here is wrong."""
    there = {name: found for name in _FOR_SPARK if (found := _version(name)) is not None}
    lacking = [name for name in _FOR_SPARK if name not in there]
    if lacking:
        seen = f"without {', '.join(lacking)} there is no campaign, no analyze, no verify --engine spark"
        yield advise("spark", seen, "pip install 'reconvene[spark]'")
        return
    yield fine("spark", ", ".join(f"{name} {found}" for name, found in there.items()))
    java = find_java()
    if java is None:
        yield advise("java", "none found, and Spark runs on it", HOW_TO_GET_JAVA)
    elif not java.is_recent:
        is_what = "does not say which Java it is" if java.major is None else f"is Java {java.major}"
        yield advise("java", f"{java.path} {is_what}; Spark needs {OLDEST_JAVA} or later", HOW_TO_GET_JAVA)
    else:
        yield fine("java", f"{java.path}, Java {java.major}")


def _problem(module: str) -> str | None:
    try:
        import_module(module)
    except Exception as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

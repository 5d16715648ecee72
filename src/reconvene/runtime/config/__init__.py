"""A site's configuration.

settings   every key, with its default, unit and range, as dataclasses: `Config` and its sections
schema     the same as data, for reading files, checking objects and writing docs/configuration.md
file       reads a TOML file: `load`, `parse`
check      whether a configuration is consistent and safe: `check`
check_domain  the same for [domain], and whether the files of several sites fit together: `check_together`

Imports nothing else of the runtime.
"""

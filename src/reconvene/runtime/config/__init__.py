"""A site's configuration.

settings   every key, with its default, unit and range, as dataclasses: `Config` and its sections
schema     the same as data, for reading files, checking objects and writing docs/configuration.md
file       reads a TOML file: `load`, `parse`
check      whether a configuration is consistent and safe: `check`

Imports nothing else of the runtime.
"""

"""The log and groups over HTTP, for programs in any language: docs/http-api.md.

routes      what is served, and to which role: `Api`
operations  the same as a table: paths, parameters, answers
openapi     the table as an OpenAPI document
documents   what answers consist of
asking      parameters, keys and bodies of requests
limits      how many requests may wait, how many streams may be open
refusals    the log's errors as HTTP statuses
appends     one append, from the body to its receipt
pages       ranges of the log, with transactions at their commits
streams     server-sent events, and the reader that is cut off
following   the log as such a stream
groups      sends to groups, and their views and messages as a stream
"""

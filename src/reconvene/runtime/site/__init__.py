"""The site itself.

interface   what clients and HTTP see of it: `Engine`, `ProcessHandle`, `Receiver`
state       what a site is made of, and its answers to what others ask: `SiteState`
engine      inputs go into turns, effects of a turn are carried out: `SiteEngine`
trace       records each turn in the site's trace, by way of `journal`
journal     one trace file, written as the site runs
notes       counters, and log lines about configurations
history     the last configurations of the site: `History`

Clients and HTTP import `interface` and `history` only; `node` makes the `SiteEngine`.
"""

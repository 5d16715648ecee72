"""A site as part of a tree of clusters (docs/domains.md).

tree      what the site's configuration says of the tree, and the configuration of a gateway's site above
groups    wide groups of the site's processes: `WideGroups`; `events`: what they see
parts     what such a site runs beside its core: `DomainPart`; and a gateway's site above: `UpperPart`
"""

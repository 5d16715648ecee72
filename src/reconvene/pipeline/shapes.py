"""The rules of `reconvene.trace.shapes.check_row`, as an expression over the columns of events.

The rules are a table, looked up for each row: an expression that spells them all out is too large for the JVM to
compile, and twenty times slower.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from reconvene.trace.parquet_form import ALWAYS
from reconvene.trace.shapes import CASTS, CONF_KINDS, LABEL, REQUIRED, SERVICES

__all__ = ["misshapen", "rules_of_kind"]

_FIELDS = sorted({name for kinds in REQUIRED.values() for fields in kinds.values() for name in fields})
_BITS = {name: 1 << place for place, name in enumerate(_FIELDS)}
"""A field that an event has to have, in the number that stands for its kind's rules. Above them:"""
_INC, _SERVICE, _CONF_KIND, _POS, _PROCESS, _CALL, _BOTH, _LABEL = (1 << len(_FIELDS) + place for place in range(8))


def rules_of_kind() -> Column:
    """The number that stands for the rules of an event's kind; null where there is no such kind."""
    return F.element_at(_table(), F.concat(F.col("layer"), F.lit("/"), F.col("kind")))


def misshapen(rules: Column) -> Column:
    """True where an event lacks something that its kind has, or has something that no event has; else false.

    `rules`: a column that `rules_of_kind` made; in a table of its own, so that it is made once for a row.
    """
    wrong = [
        *(F.col(name).isNull() for name in ALWAYS),
        rules.isNull(),
        rules.bitwiseAND(_present().bitwiseXOR(F.lit(sum(_BITS.values())))) != 0,
        _asks(rules, _INC) & (F.col("inc") < 1),
        _asks(rules, _SERVICE) & ~F.col("service").isin(*SERVICES),
        _asks(rules, _CONF_KIND) & (~F.col("conf_kind").isin(*CONF_KINDS) | _lacks_reg()),
        _asks(rules, _POS) & (F.col("pos") < 0),
        _asks(rules, _PROCESS) & _foreign_process(),
        _asks(rules, _CALL) & ((F.col("attempt") < 0) | F.coalesce(F.col("replies") < -1, F.lit(False))),
        _asks(rules, _BOTH) & (F.col("group").isNull() != F.col("view").isNull()),
        _asks(rules, _LABEL) & ~F.rlike(F.col("label"), F.lit(rf"^{LABEL}\z")),
        *_holes(),
    ]
    # What is null here is a comparison with a field that need not be there.
    return reduce(or_, (F.coalesce(each, F.lit(False)) for each in wrong))


def _table() -> Column:
    """By layer and kind, the number that stands for the rules."""
    found: list[Column] = []
    for layer, kinds in REQUIRED.items():
        for kind, fields in kinds.items():
            rules = sum(_BITS[name] for name in fields)
            if (layer, kind) != ("vs", "establish"):
                rules |= _INC
                rules |= _SERVICE if (layer, kind) in (("evs", "send"), ("evs", "deliver")) else 0
                rules |= _SERVICE | _PROCESS if layer == "vs" else _POS if layer == "corel" else 0
            if layer == "isis":
                rules |= _SERVICE | _CALL | (0 if kind == "site" else _PROCESS) | (_BOTH if kind in CASTS else 0)
                rules |= _LABEL if kind == "cbcast" else 0
            rules |= _CONF_KIND if (layer, kind) == ("evs", "conf") else 0
            found += [F.lit(f"{layer}/{kind}"), F.lit(rules)]
    return F.create_map(*found)


def _present() -> Column:
    """The bits of the fields that the event has."""
    return reduce(Column.__add__, (F.col(name).isNotNull().cast("int") * bit for name, bit in _BITS.items()))


def _asks(rules: Column, rule: int) -> Column:
    return rules.bitwiseAND(F.lit(rule)) != 0


def _lacks_reg() -> Column:
    return (F.col("conf_kind") == "transitional") & F.col("reg").isNull()


def _foreign_process() -> Column:
    home = F.concat(F.col("node"), F.lit(":"), F.col("inc").cast("string"), F.lit(":"))
    number = F.substr(F.col("process"), F.length(home) + 1)
    return ~(F.startswith(F.col("process"), home) & F.rlike(number, F.lit(r"^\p{Nd}+$")))


def _holes() -> list[Column]:
    """A list with a null in it. Looking for a value that is not there returns null then, and false otherwise."""
    lists = (("members", F.lit("")), ("dests", F.lit("")), ("ts", F.lit(-(2**63)).cast("long")))
    return [F.array_contains(name, value).isNull() & F.col(name).isNotNull() for name, value in lists]

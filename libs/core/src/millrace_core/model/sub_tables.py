"""Names that a stream makes up for its groups' sub-tables (``Output.naming`` "distinct"), and the tag that
holds the groups' ids.

Pure functions of the groups' keys: the same in every process, and after every restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from millrace_core.model.schema import Column, cut_name
from millrace_core.model.types import DataType

GROUP_TAG = Column("groupid", DataType("BIGINT UNSIGNED"))
"""The only tag of a result table made without TAGS. Written ``groupId``, the name becomes ``groupid``."""
GROUP_ID = "_tgrpid"
"""The value of that tag, as an expression."""
GROUP_TAG_ALIAS = "group_id"
"""What the tag is called elsewhere: a query may use this name, too."""


def group_id(keys: Sequence[object], *, partitioned: bool, table_uid: int | None = None) -> int:
    """The id of a group: 0 without PARTITION BY; the table's uid with PARTITION BY tbname alone; else the
    first 64 bits of an MD5 over its keys.

    ``keys``: the values of the PARTITION BY expressions, in order; None for NULL. ``table_uid``: the uid of
    the group's table, if the stream is grouped by tbname alone.
    """
    if not partitioned:
        return 0
    if table_uid is not None:
        return table_uid
    digest = hashlib.md5(usedforsecurity=False)
    for key in keys:
        # type and length keep these apart: ('a', 'bc') and ('ab', 'c'), 1 and '1', NULL and ''
        text = "" if key is None else str(key)
        data = text.encode()
        digest.update(f"{type(key).__name__}:{len(data)}:".encode() + data)
    return int.from_bytes(digest.digest()[:8], "big")


def sub_table(stable: str, group: int, given: str | None = None) -> str:
    """The name of a group's sub-table of the super table ``stable``, of 192 bytes at most.

    ``given``: the value of SUBTABLE; without one, or with NULL or an empty text, the name is ``t_`` and an
    MD5 of super table and group. A given name gets the suffix ``_<stable>_<group>``, so that two groups never
    share a table; the only group of an ungrouped stream gets none, and no name gets it twice.
    """
    if not given:
        digest = hashlib.md5(f"{stable},{group}".encode(), usedforsecurity=False)
        return f"t_{digest.hexdigest()}"
    suffix = f"_{stable}_{group}"
    return cut_name(given if group == 0 or given.endswith(suffix) else given + suffix)

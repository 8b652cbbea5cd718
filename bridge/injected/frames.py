"""The insides of pandas' frames and series that decide what a write reaches.

Since pandas 2 objects that share memory know of each other, so that a write to one copies first ("copy on write").
Pickle drops that knowledge along with the sharing; here both come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import rebuild, reducers

if TYPE_CHECKING:
    from .reducers import Saving


def reducer_for(kind: type) -> reducers.Reducer | None:
    """The reducer for pandas' blocks, indexes, and the lists of those that share memory."""
    for base in kind.__mro__:
        where = (base.__module__, base.__name__)
        if where == ("pandas.core.internals.blocks", "Block"):
            return _reduce_block
        if where == ("pandas.core.internals.managers", "SingleBlockManager"):
            return _reduce_series
        if where == ("pandas._libs.internals", "BlockValuesRefs"):
            return lambda saving, obj: (rebuild.memory_users, ())
        if where in (("pandas", "Index"), ("pandas.core.indexes.base", "Index")):
            return _reduce_index
    return None


def _reduce_block(saving: Saving, obj: Any) -> Any:
    reduced = obj.__reduce_ex__(5)
    users = getattr(obj, "refs", None)
    return reduced if users is None else (rebuild.memory_user, (*reduced[:2], users, "refs"), *reduced[2:])


def _reduce_series(saving: Saving, obj: Any) -> Any:
    """What is in a series: its own pickle has the block's values in place of the block."""
    if not hasattr(obj.blocks[0], "refs"):
        return obj.__reduce_ex__(5)
    return type(obj), (obj.blocks[0], obj.axes[0])


def _reduce_index(saving: Saving, obj: Any) -> Any:
    """An index; one made of a column shares its memory."""
    reduced = obj.__reduce_ex__(5)
    users = getattr(obj, "_references", None)
    others = [reference() for reference in getattr(users, "referenced_blocks", ())]
    if not any(hasattr(other, "mgr_locs") for other in others):
        return reduced
    return (rebuild.memory_user, (*reduced[:2], users, "_references"), *reduced[2:])


reducers.FINDERS.append(reducer_for)

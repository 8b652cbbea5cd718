"""PyTorch's tensors: those over one storage share it after a load, and its bytes go out of band, once.

PyTorch is the user's: nothing here imports it.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from typing import Any

from . import rebuild, reducers


def reducer_for(kind: type) -> reducers.Reducer | None:
    """The reducer for a class of PyTorch's that is taken care of here."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "UntypedStorage"):
        return None
    if issubclass(kind, torch.Tensor):
        return _reduce_tensor
    if issubclass(kind, torch.UntypedStorage):
        return _reduce_storage
    if kind is torch.storage.TypedStorage:
        return _reduce_typed
    return None


def _reduce_tensor(saving: reducers.Saving, obj: Any) -> Any:
    """As the tensor says itself, with its gradient. A graph lives in its process, and without it backward() fails."""
    if obj.grad_fn is not None:
        raise reducers.Unsaveable("it is part of an autograd graph (what .detach() gives can be saved)")
    reduced = obj.__reduce_ex__(5)
    gradient = obj.grad if obj.requires_grad else None
    if gradient is None or len(reduced) != 2:
        return reduced
    return (*reduced, gradient, None, None, rebuild.set_gradient)


def _reduce_typed(saving: reducers.Saving, obj: Any) -> Any:
    return rebuild.typed_storage, (obj._untyped_storage, obj.dtype)


def _reduce_storage(saving: reducers.Saving, obj: Any) -> Any:
    if obj.device.type != "cpu":
        return NotImplemented
    if not obj.resizable():
        saving.note(
            "memory that a tensor may share with an object outside PyTorch is its own copy in another kernel"
        )
    size = obj.nbytes()
    if saving.arrays is None:  # nobody is there to take a buffer
        return rebuild.storage, (ctypes.string_at(obj.data_ptr(), size),)
    # Valid as long as the storage lives, which the pickler's memo sees to.
    raw = (ctypes.c_ubyte * size).from_address(obj.data_ptr()) if size else bytearray()
    return rebuild.storage, (pickle.PickleBuffer(raw),)


reducers.FINDERS.append(reducer_for)

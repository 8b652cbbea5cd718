"""NumPy arrays: a view stays a view, a large array's bytes go out of band and come back without a second copy.

NumPy is the user's: nothing here imports it, the functions are reached only when an array is met.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from . import blobs, mapping

if TYPE_CHECKING:
    from .reducers import Saving

OUT_OF_BAND = 64 * 1024  # bytes; a smaller array is pickled with its neighbours


class Stored(NamedTuple):
    """An out-of-band array as it lies in the blob folder."""

    folder: blobs.Folder
    chunks: list[str]
    size: int


def reduce(array: Any, saving: Saving) -> tuple[Any, ...]:
    """The pickle of an exact `numpy.ndarray`; a large one is appended to `saving.arrays`, if there is such a list."""
    from . import rebuild

    base = _owner(array)
    if base is not None:
        offset = _address(array) - _address(base)
        writeable = array.flags.writeable
        return rebuild.view, (base, offset, array.dtype, array.shape, array.strides, writeable)
    lent = _lent(array)
    if lent is not None:
        return lent  # type: ignore[no-any-return]
    if not array.dtype.isnative and array.dtype.names is None:
        # NumPy itself would bring it back in the machine's byte order.
        return rebuild.swapped, (array.astype(array.dtype.newbyteorder("=")), array.dtype)
    contiguous = array.flags.c_contiguous or array.flags.f_contiguous
    order, writeable = "C" if array.flags.c_contiguous else "F", array.flags.writeable
    out_of_band = saving.arrays
    if out_of_band is not None and array.nbytes >= OUT_OF_BAND and contiguous:
        if not array.dtype.hasobject:
            out_of_band.append(array)
            return rebuild.array, (len(out_of_band) - 1, array.dtype, array.shape, order, writeable)
        index = saving.keep_atoms(array) if array.dtype.char == "O" else None
        if index is not None:
            return rebuild.atoms, (index, array.shape, order, writeable)
    if writeable:
        return array.__reduce__()  # type: ignore[no-any-return]  # not __reduce_ex__: the array must own its memory
    writeable_copy = array.copy(order="K")
    return rebuild.small_array, (writeable_copy,)


def reduce_subclass(array: Any) -> tuple[Any, ...]:
    """The pickle of an instance of an `ndarray` subclass that leaves that to NumPy: its array, and its attributes.

    So it keeps sharing memory with other arrays, a masked array keeps having no mask, and attributes come back.
    """
    from . import rebuild

    numpy = sys.modules["numpy"]
    attributes = getattr(array, "__dict__", None)
    if array.base is None and not attributes:
        return array.__reduce__()  # type: ignore[no-any-return]  # it owns its memory
    plain = numpy.ndarray.view(array, numpy.ndarray)
    state = dict(attributes) if attributes else None
    return rebuild.array_of_class, (plain, type(array)), state, None, None, rebuild.set_dict


def _owner(array: Any) -> Any:
    """The array whose memory this one looks at, or None when it has to be taken as it is."""
    numpy = sys.modules["numpy"]
    base = array.base
    if base is None:
        return None
    while type(base).__name__ == "DummyArray" or (
        type(base) is numpy.ndarray and base.base is not None and _is_array(base.base)
    ):
        base = base.base
    if type(base) is not numpy.ndarray or base.dtype.hasobject != array.dtype.hasobject:
        return None
    start, stop = numpy.lib.array_utils.byte_bounds(base) if hasattr(numpy.lib, "array_utils") else (0, 0)
    if not start:
        start = _address(base)
        stop = start + base.nbytes
    first, last = _bounds(array)
    # A base that does not hold the whole view (an array over foreign memory) cannot stand for it.
    return (
        base
        if start <= first and last <= stop and base.flags.c_contiguous | base.flags.f_contiguous
        else None
    )


def _lent(array: Any) -> Any:
    """The pickle of an array over the memory of a `bytes`, `bytearray`, `array.array` or tensor, else None."""
    from . import rebuild

    base = array.base
    while type(base).__name__ == "ndarray" and base.base is not None:
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    about = array.dtype, array.shape, array.strides, array.flags.writeable
    torch = sys.modules.get("torch")
    if torch is not None and type(base) is getattr(torch, "Tensor", None):
        storage = base.untyped_storage()
        return rebuild.tensor_array, (storage, _address(array) - storage.data_ptr(), *about)
    if type(base) not in (bytes, bytearray) and type(base).__module__ != "array":
        return None
    numpy = sys.modules["numpy"]
    start = _address(numpy.frombuffer(base, numpy.uint8)) if len(base) else 0
    return rebuild.view, (base, _address(array) - start, *about)


def _is_array(value: Any) -> bool:
    return type(value) is sys.modules["numpy"].ndarray or type(value).__name__ == "DummyArray"


def _bounds(array: Any) -> tuple[int, int]:
    """The first byte that an array touches and the one after its last."""
    low = high = _address(array)
    if not array.size:
        return low, high
    for length, stride in zip(array.shape, array.strides, strict=True):
        reach = (length - 1) * stride
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    return low, high + array.itemsize


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def view_of(
    base: Any, offset: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool
) -> Any:
    """An array over `base`'s memory, `offset` bytes from its first one."""
    numpy = sys.modules["numpy"]
    if dtype.hasobject:
        flat = base.reshape(-1, order="A")
        wholes = (base, flat) if dtype == base.dtype else ()
        made = next(
            (view for whole in wholes if (view := _sliced(whole, offset, shape, strides)) is not None), None
        )
        if made is None:
            start = flat[offset // base.itemsize :] if dtype == base.dtype else flat.view(dtype)
            made = numpy.lib.stride_tricks.as_strided(start, shape, strides)
    else:
        # A read-only base lends its memory only to a read-only array.
        made = numpy.ndarray(shape, dtype, buffer=base, offset=offset, strides=strides)
    if not writeable and made.flags.writeable:
        made.flags.writeable = False
    return made


def _sliced(base: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """That view as a slicing of its base, which it then knows as its `base`; None where it is no plain one."""
    axes = sorted(range(base.ndim), key=lambda axis: -base.strides[axis])
    index: list[Any] = [0] * base.ndim
    for axis in axes:
        index[axis], offset = divmod(offset, base.strides[axis]) if base.strides[axis] else (0, offset)
    order: list[int] = []
    for length, stride in zip(shape, strides, strict=True):
        for axis in axes:
            step, rest = divmod(stride, base.strides[axis]) if base.strides[axis] else (0, 1)
            if axis in order or rest or not step:
                continue
            start, last = index[axis], index[axis] + (length - 1) * step
            if length and 0 <= last < base.shape[axis]:
                stop = last + (1 if step > 0 else -1)
                index[axis] = slice(start, stop if stop >= 0 else None, step)
                order.append(axis)
                break
        else:
            return None
    index.append(...)
    made = base[tuple(index)]
    made = made.transpose([sorted(order).index(axis) for axis in order])
    return made if made.shape == shape and made.strides == strides else None


def raw(array: Any) -> memoryview:
    """The bytes of a contiguous array in the order they lie in memory, without a copy."""
    numpy = sys.modules["numpy"]
    flat = array.ravel(order="K")
    return memoryview(flat.view(numpy.uint8)) if array.nbytes else memoryview(b"")


def store(array: Any, folder: blobs.Folder, maps: mapping.Maps) -> list[str]:
    """The chunks of a contiguous array, those written that are new; what is as it was mapped is not even hashed."""
    data = raw(array)
    return folder.put_chunks(data, blobs.LEAD, maps.untouched(_address(array), data))


def load(stored: Stored, dtype: Any, shape: tuple[int, ...], order: str, writeable: bool) -> Any:
    """An array of its own from the blob folder: mapped copy-on-write where the platform can, else read once."""
    numpy = sys.modules["numpy"]
    array = numpy.empty(shape, dtype, order=order)
    if array.nbytes != stored.size:
        raise EOFError(f"an array of {array.nbytes} bytes was stored as {stored.size}")
    target = raw(array)
    address = _address(array)
    maps = mapping.fits(address, stored.size)
    size = blobs.chunk_stored(stored.size, blobs.LEAD, len(stored.chunks))
    for chunk, span in zip(stored.chunks, mapping.spans(stored.size, size), strict=True):
        start, stop, first, last = span
        if not (maps and last > first and mapping.lay(stored.folder.path(chunk), address, span)):
            first = last = stop
        head = slice(max(start - blobs.LEAD, 0), first - blobs.LEAD)
        stored.folder.read_into(chunk, target[head], skip=blobs.LEAD if start == 0 else 0)
        if last < stop:
            stored.folder.read_into(chunk, target[last - blobs.LEAD : stop - blobs.LEAD], skip=last - start)
    if not writeable:
        array.flags.writeable = False
    return array

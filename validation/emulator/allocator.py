"""A caching allocator like PyTorch's, with poison: memory that was freed is handed out again, at once, and full of NaN.

PyTorch's allocator gives a freed block to the next request on the same stream, while kernels that use it may still be
queued: in stream order nothing goes wrong. Here the same happens to CPU tensors, and what a program gets wrong shows:

    allocator = CachingAllocator(session.space)
    with allocator.intercept(lambda: current_stream_of_my_program()):
        ...     # torch.empty, zeros, fill_, zero_, ... go through the allocator, in stream order
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .memory.space import AddressSpace
from .session import current_session
from .streams import Stream

if TYPE_CHECKING:
    import torch

#: Blocks are multiples of this many bytes, as PyTorch's are.
GRANULE = 512
#: What unwritten memory holds: NaN in every float type, -1 as an integer.
POISON = 0xFF


class CachingAllocator:
    """Blocks of an address space, freed when the last tensor of their storage dies, reused last in, first out.

    ``reused`` counts blocks that were handed out again. What is allocated while its stream is captured comes from
    memory that nothing else gets, as in PyTorch's private pool of a graph; it is poisoned once, not by each replay.
    """

    def __init__(self, space: AddressSpace) -> None:
        self.space = space
        self.reused = 0
        self._free: dict[tuple[int, int], list[torch.Tensor]] = {}
        self._count = 0
        self._private: list[torch.Tensor] = []

    def empty(
        self, shape: Sequence[int], dtype: torch.dtype, stream: Stream | None = None, name: str = ""
    ) -> torch.Tensor:
        """A contiguous tensor of poison. ``stream``: on which it will be used; the poison is written in its order."""
        with current_session().lock:
            return self._empty(shape, dtype, stream, name)

    def _empty(self, shape: Sequence[int], dtype: torch.dtype, stream: Stream | None, name: str) -> torch.Tensor:
        import torch

        count = 1
        for n in shape:
            count *= int(n)
        nbytes = count * dtype.itemsize
        size = max(GRANULE, -(-nbytes // GRANULE) * GRANULE)
        key = (0 if stream is None else stream.cuda_stream, size)
        private = stream is not None and stream.capturing
        pool = self._private if private else self._free.setdefault(key, [])
        if pool and not private:
            block = pool.pop()
            self.reused += 1
        else:
            self._count += 1
            block = self.space.empty((size,), torch.uint8, name or f"block {self._count}")
            block.fill_(POISON)  # what another stream sees before the fill below
        if stream is None:
            block.fill_(POISON)
        elif not private:
            stream.fill_(block, POISON)
        # a storage of its own over the block: it dies with the last view, and then the block is free
        holder = block.numpy()[:]
        weakref.finalize(holder, pool.append, block)
        raw = torch.from_numpy(holder)[:nbytes]
        tensor = raw.view(dtype).reshape(tuple(shape)) if nbytes else torch.empty(tuple(shape), dtype=dtype)
        if nbytes:
            self.space.register(tensor, name or f"block {self._count}")
        return tensor

    @contextmanager
    def intercept(self, current: Callable[[], Stream | None]) -> Iterator[None]:
        """Send creations and fills of CPU tensors to this allocator, on the stream that ``current()`` gives.

        Covered: torch.empty, zeros, ones, full and their ``_like``, Tensor.new_empty, new_zeros, zero_, fill_, copy_.
        """
        with _mode(self, current):
            yield


def _mode(allocator: CachingAllocator, current: Callable[[], Stream | None]) -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    def size_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
        size = args if args else (kwargs["size"],)
        return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)

    def create(shape: Sequence[int], dtype: Any, value: float | None) -> torch.Tensor:
        stream = current()
        made = allocator.empty(shape, dtype or torch.get_default_dtype(), stream)
        if value is not None:
            fill(made, value)
        return made

    def fill(tensor: torch.Tensor, value: Any) -> torch.Tensor:
        stream = current()
        if stream is None or isinstance(value, torch.Tensor):
            return tensor.fill_(value)
        stream.fill_(tensor, value)
        return tensor

    def copy(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        stream = current()
        if stream is None:
            return tensor.copy_(source)
        stream.copy_(tensor, source)
        return tensor

    creators: dict[Any, float | None] = {torch.empty: None, torch.zeros: 0, torch.ones: 1}
    likes: dict[Any, float | None] = {torch.empty_like: None, torch.zeros_like: 0, torch.ones_like: 1}
    news: dict[Any, float | None] = {torch.Tensor.new_empty: None, torch.Tensor.new_zeros: 0}

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if torch.device(kwargs.get("device") or "cpu").type == "cpu":
                if func in creators:
                    return create(size_of(args, kwargs), kwargs.get("dtype"), creators[func])
                if func is torch.full:
                    return create(args[0], kwargs.get("dtype") or torch.tensor(args[1]).dtype, args[1])
                if func in likes and args[0].device.type == "cpu":
                    return create(args[0].shape, kwargs.get("dtype") or args[0].dtype, likes[func])
                if func in news and args[0].device.type == "cpu":
                    return create(size_of(args[1:], kwargs), kwargs.get("dtype") or args[0].dtype, news[func])
                if func is torch.Tensor.zero_:
                    return fill(args[0], 0)
                if func is torch.Tensor.fill_:
                    return fill(args[0], args[1])
                if func is torch.Tensor.copy_ and args[1].device.type == "cpu":
                    return copy(args[0], args[1])
            return func(*args, **kwargs)

    return Mode()

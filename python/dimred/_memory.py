"""What a process does with memory that it frees."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST = 1 << 30  # bytes; mallopt takes an int


def keep_freed_memory() -> bool:
    """Keeps memory that this process frees for what it allocates next, for training on processors, as the trainers do.

    Activations are freed and taken again at every step: glibc hands their pages back to the kernel and faults them in
    again, which may take as long as the arithmetic. Call it once, before the first step. The process then stays as
    large as it ever was. False where the C library is another, and nothing was changed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # musl
        return False
    return all([mallopt(M_MMAP_THRESHOLD, LARGEST), mallopt(M_TRIM_THRESHOLD, LARGEST)])

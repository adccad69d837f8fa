"""Memory: allocations (``space``), the spaces that instructions reach (``spaces``), and the port that joins them."""

from .access import Access, CacheBits, Kind, Space
from .space import AddressSpace, Allocation

__all__ = ["Access", "AddressSpace", "Allocation", "CacheBits", "Kind", "Space"]

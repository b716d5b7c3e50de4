"""TDengine's older stream dialect (3.3.6 and before): options come before INTO, the window is in the query.

The other statements are those of ``tdengine``.
"""

from millrace_core.dialect.legacy.grammar import create_stream
from millrace_core.dialect.legacy.lower import lower
from millrace_core.dialect.legacy.result import complete

__all__ = ["complete", "create_stream", "lower"]

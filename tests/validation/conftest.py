"""Workers import this folder's fakes by name, in whatever way pytest imported the tests."""

import sys
from pathlib import Path

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

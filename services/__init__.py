"""Services: actors with addresses, which know only words and the public API.

Every directory on Python's path may have a `services` folder with an `__init__.py`; all of them are one package.
"""

import sys
from pathlib import Path

__path__ += [
    found
    for found in (str(Path(place) / "services") for place in sys.path)
    if found not in __path__ and (Path(found) / "__init__.py").is_file()
]

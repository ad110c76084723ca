"""Services: actors with addresses, which know only words and the public API.

Every directory on Python's path may have a `services` folder; all of them are one package, found by name.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)

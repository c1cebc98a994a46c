"""A local web page to look at sessions with: ``laser inspect``. Read-only, for one person, on loopback only.

Everything is rendered here, without scripts and without anything from elsewhere. Needs the extra ``inspect``.
"""

from laser.inspector.app import make_app
from laser.inspector.serving import Listener, listen, serve

__all__ = ["Listener", "listen", "make_app", "serve"]

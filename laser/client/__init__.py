"""The client room: ``Laser`` reads a URL, picks the engines behind it, and hands out accessors."""

from laser.client.connecting import Connecting
from laser.client.laser import Laser, context_checkpoint

__all__ = ["Connecting", "Laser", "context_checkpoint"]

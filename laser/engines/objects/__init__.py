"""Object stores: a directory of this machine, and S3."""

from laser.engines.objects.directory import open_directory_objects
from laser.engines.objects.opening import open_s3_objects

__all__ = ["open_directory_objects", "open_s3_objects"]

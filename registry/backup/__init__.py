"""Backups of the record: ledgers, policies, registry metadata; weights by reference only.

`take` reads a tracking server into one file, `restore` makes an empty one hold the same again.
"""

from registry.backup.archive import Archive
from registry.backup.restore import Restored, restore
from registry.backup.take import Taken, take

__all__ = ["Archive", "Restored", "Taken", "restore", "take"]

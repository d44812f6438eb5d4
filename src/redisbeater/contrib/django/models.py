"""What Django knows of entries: their name in the admin, and the permissions on them. There is no table."""

from __future__ import annotations

from typing import Any

from django.db import models

from redisbeater.dashboard.auth import ALL, OPERATE, VIEW, Right


class Entry(models.Model):
    """An entry of the schedule; it is in Redis, and this class has no rows."""

    class Meta:
        """The permissions are those of the web page."""

        managed = False
        default_permissions = ("view", "change")
        permissions = (("operate_entry", "Can run, enable, disable, skip and stop"),)
        verbose_name = "entry"
        verbose_name_plural = "entries"


def rights_of(user: Any) -> frozenset[Right]:
    """Return the rights of a user by the permissions ``redisbeater.*_entry``: each includes those below it."""
    for permission, rights in (("change", ALL), ("operate", OPERATE), ("view", VIEW)):
        if user.has_perm(f"redisbeater.{permission}_entry"):
            return rights
    return frozenset()

"""An application of Django: the schedule in the admin, the web page below it, a management command, system checks.

It has no table and no migration: the schedule is in Redis.
"""

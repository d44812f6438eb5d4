"""What workers report of the runs that beat sends: what became of each, and that it is still going on.

A worker that imports this module reports, and nothing else needs to change::

    app.conf.imports = ["redisbeater.runs"]     # or redisbeater.runs.install(app) in the module of the app

The import connects receivers to Celery's signals. It reads no setting, opens no connection and starts no thread: that
happens in the process that executes a task, at its first message with the header ``redisbeater_attempt``, and in the
main process of a worker, which reports each 15 seconds that the worker is there.
"""

from redisbeater.runs.process import OnceTask, stop_requested
from redisbeater.runs.receivers import install

__all__ = ("OnceTask", "install", "stop_requested")

install()

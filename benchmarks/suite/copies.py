"""Create many entries fast: save one through the contender's own API, and copy it on the server under other names.

Each copy is byte for byte what the API would have written, except for its name and its argument.
"""

from __future__ import annotations

from collections.abc import Mapping

import redis

__all__ = ("MARK", "copy")

#: The placeholder in the name and the argument of the original; each copy has a number instead.
MARK = "@@"

#: The number of copies from one call of the script, so that it does not block the server for long.
CHUNK = 5000

#: KEYS: none, because the benchmark runs on one server. ARGV: schedule key, first number, last number, score of the
#: first in seconds, seconds from one score to the next, key with the mark, then field and value with the mark.
SCRIPT = """
for number = tonumber(ARGV[2]), tonumber(ARGV[3]) do
  local key = string.gsub(ARGV[6], '@@', number)
  local fields = {}
  for i = 7, #ARGV do fields[#fields + 1] = (string.gsub(ARGV[i], '@@', number)) end
  redis.call('DEL', key)
  redis.call('HSET', key, unpack(fields))
  redis.call('ZADD', ARGV[1], string.format('%.6f', ARGV[4] + number * ARGV[5]), key)
end
"""


def copy(
    client: redis.Redis,
    schedule: str,
    key: str,
    fields: Mapping[str, str],
    *,
    count: int,
    score: float,
    step: float = 0.0,
) -> None:
    """Write ``count`` copies of an entry: the first with ``score``, each next one ``step`` seconds later."""
    script = client.register_script(SCRIPT)
    original = [text for pair in fields.items() for text in pair]
    for first in range(0, count, CHUNK):
        last = min(first + CHUNK, count) - 1
        script(args=[schedule, first, last, f"{score:.6f}", f"{step:.9f}", key, *original])

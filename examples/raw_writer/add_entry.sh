#!/bin/sh
# Add an entry that runs proj.say now, and every SECONDS seconds from then on.
#
#   add_entry.sh NAME SECONDS TEXT        NAME and TEXT without quotes and backslashes: they go into JSON as they are
#
# REDIS_URL is the server (redis://localhost:6379 by default); the schedule is in its database 1.
set -eu

if [ $# -ne 3 ]; then
    echo "usage: $0 NAME SECONDS TEXT" >&2
    exit 2
fi
name=$1 seconds=$2 text=$3
url=${REDIS_URL:-redis://localhost:6379}/1

if command -v redis-cli >/dev/null; then
    send() { redis-cli -u "$url" "$@"; }
else
    # Without redis-cli: the same with redis-py.
    send() {
        "${PYTHON:-python3}" -c 'import redis, sys
print(redis.Redis.from_url(sys.argv[1]).execute_command(*sys.argv[2:]))' "$url" "$@"
    }
fi

# First the hash, then the member of the schedule: a score of 0 means now. The message wakes beat.
send HSET "redisbeater:$name" definition \
    "{\"task\": \"proj.say\", \"args\": [\"$text\"], \"schedule\": {\"__type__\": \"interval\", \"every\": $seconds}}"
send ZADD redisbeater::schedule 0 "redisbeater:$name"
send PUBLISH redisbeater::changes "$name"

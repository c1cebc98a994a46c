"""What runs inside the server, each script as one atomic step.

A namespace has these keys, all in one slot of a cluster by their ``{tag}`` (the namespace, percent-encoded):

- ``laser:kv1:{tag}:v:KEY``, a string for each entry: ``VERSION:END:`` and the value. END is when it expires,
  microseconds since 1970, or 0. Redis itself removes it then.
- ``laser:kv1:{tag}:keys``, a sorted set of the keys of all entries with equal scores, which Redis holds in the order of
  their bytes.
- ``laser:kv1:{tag}:ends``, a sorted set of the keys that expire, by the last millisecond of their life.
- ``laser:kv1:{tag}:versions``, the newest version given out. It is never removed, so that versions only grow.

Redis cannot tell the two sets of an expiry. Each write and each scan therefore removes keys from them whose entry has
gone; nothing reads the sets without looking for the entry.

Redis ends a key once the clock's millisecond is *greater* than the one it was given, so an entry that ends with
millisecond M is absent from (M + 1) * 1000 microseconds on. A time to live is rounded up to that: an entry stays for up
to two milliseconds longer.
"""

from __future__ import annotations

from typing import Final

from laser.engines.redis.driver import Script

__all__ = ["DELETE", "SCAN", "SET"]

SET: Final = Script("""
local entry, keys, ends, versions = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local key, value, expect, ttl, prefix = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local found = tonumber(string.match(redis.call('GETRANGE', entry, 0, 31), '^(%d+):') or '0')
if expect >= 0 and expect ~= found then return {0, found} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local version = redis.call('INCR', versions)
local last, stop = 0, 0
if ttl > 0 then
  last = math.max(math.ceil((time[1] * 1000000 + time[2] + ttl) / 1000) - 1, now + 1)
  stop = (last + 1) * 1000
end
redis.call('SET', entry, string.format('%.0f:%.0f:', version, stop) .. value)
redis.call('ZADD', keys, 0, key)
if ttl > 0 then
  redis.call('PEXPIREAT', entry, string.format('%.0f', last))
  redis.call('ZADD', ends, string.format('%.0f', last), key)
else
  redis.call('ZREM', ends, key)
end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', string.format('(%.0f', now), 'LIMIT', 0, 8)) do
  if redis.call('EXISTS', prefix .. old) == 0 then
    redis.call('ZREM', keys, old)
    redis.call('ZREM', ends, old)
  end
end
return {version, found}
""")
"""KEYS: entry, keys, ends, versions. ARGV: key, value, expected version or -1, time to live in microseconds or 0, the
prefix of entries. Returns the new version, or 0 where another was there than expected; and the version found."""

DELETE: Final = Script("""
local entry, keys, ends = KEYS[1], KEYS[2], KEYS[3]
local key, expect = ARGV[1], tonumber(ARGV[2])
local found = tonumber(string.match(redis.call('GETRANGE', entry, 0, 31), '^(%d+):') or '0')
if expect >= 0 and expect ~= found then return {-1, found} end
redis.call('ZREM', keys, key)
redis.call('ZREM', ends, key)
return {redis.call('DEL', entry), found}
""")
"""KEYS: entry, keys, ends. ARGV: key, expected version or -1. Returns how many entries went, or -1 where another
version was there than expected; and the version found."""

SCAN: Final = Script("""
local keys, ends = KEYS[1], KEYS[2]
local first, last, limit, most, prefix = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local answer, bytes, seen = {0, ''}, 0, 0
for _, key in ipairs(redis.call('ZRANGEBYLEX', keys, first, last, 'LIMIT', 0, limit + 1)) do
  if seen == limit or bytes >= most then
    answer[1] = 1
    return answer
  end
  local entry = redis.call('GET', prefix .. key)
  if entry then
    bytes = bytes + #entry
    answer[#answer + 1] = key
    answer[#answer + 1] = entry
  else
    redis.call('ZREM', keys, key)
    redis.call('ZREM', ends, key)
  end
  seen = seen + 1
  answer[2] = key
end
return answer
""")
"""KEYS: keys, ends. ARGV: first and last key as ZRANGEBYLEX takes them, most keys, bytes to stop at, the prefix of
entries. Returns whether there may be more, the last key looked at, then key and entry in turn."""

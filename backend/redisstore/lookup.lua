-- Lookup: who holds KEYS[1]. Changes nothing. One operation a call.
-- KEYS  the lock, its depth      ARGV  shape, request id; shape is 0
-- reply {0, and four:} 2 mine, ttl left, 0, depth  3 held, ttl left, holder, 0  6 gone, 0, 0, 0
local holder = redis.call('GET', KEYS[1])
if not holder then
  return {0, 6, 0, 0, 0}
end
local left = redis.call('PTTL', KEYS[1])
if holder ~= ARGV[2] then
  return {0, 3, left, holder, 0}
end
local depth = 1
if redis.call('HGET', KEYS[2], 'id') == holder then
  depth = redis.call('HLEN', KEYS[2]) - 1
end
return {0, 2, left, 0, depth}

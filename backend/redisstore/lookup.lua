-- Lookup: who holds KEYS[1]. Changes nothing.
-- KEYS  1 the lock      ARGV  1 request id
-- reply {2 mine, 0, ttl left} {3 held, 0, ttl left, holder} {6 gone}
local holder = redis.call('GET', KEYS[1])
if not holder then
  return {6}
end
local left = redis.call('PTTL', KEYS[1])
if holder ~= ARGV[1] then
  return {3, 0, left, holder}
end
return {2, 0, left}

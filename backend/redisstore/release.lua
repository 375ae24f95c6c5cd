-- Release: give KEYS[1] back, if a request id holds it.
-- KEYS  1 the lock      ARGV  1 request id
-- reply {5 released} {3 held, 0, ttl left, holder} {6 gone}
local holder = redis.call('GET', KEYS[1])
if not holder then
  return {6}
end
if holder ~= ARGV[1] then
  return {3, 0, redis.call('PTTL', KEYS[1]), holder}
end
redis.call('DEL', KEYS[1])
return {5}

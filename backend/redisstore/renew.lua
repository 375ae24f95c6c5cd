-- Renew: make KEYS[1] last at least ttl from now, if a request id holds it. Never shorter.
-- KEYS  1 the lock      ARGV  1 request id; 2 ttl in ms
-- reply {2 mine, 0, ttl left} {3 held, 0, ttl left, holder} {6 gone}
local holder = redis.call('GET', KEYS[1])
if not holder then
  return {6}
end
local left = redis.call('PTTL', KEYS[1])
if holder ~= ARGV[1] then
  return {3, 0, left, holder}
end
if left < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  left = tonumber(ARGV[2])
end
return {2, 0, left}

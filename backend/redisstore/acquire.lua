-- Acquire: take KEYS[1] for a request id, unless the request comes too late.
-- KEYS  1 the lock; 2 its fence record, only when fenced
-- ARGV  1 request id; 2 ttl in ms; 3 not-after in server microseconds
--       and when fenced: 4 floor of the token; 5 ttl of the fence record in ms
-- reply {1 granted, now, 0, token} {2 mine, now, ttl left, token}
--       {3 held, now, ttl left, holder} {4 late, now}
-- Numbers here are doubles, exact below 2^53: microseconds until the year 2255.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now >= tonumber(ARGV[3]) then
  return {4, now}
end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {3, now, redis.call('PTTL', KEYS[1]), holder}
end

local token = 0
if KEYS[2] then
  -- While this id holds the lock, the record has the token of its grant: nobody was
  -- granted since. Where there is none (the first grant, or an evicted record), the
  -- server's time is above all that went before.
  token = tonumber(redis.call('GET', KEYS[2]) or 0)
  if not token or not (token >= 0 and token < 9007199254740991) then
    return redis.error_reply('WRONGTYPE the fence record holds no token below 2^53')
  end
  if not holder or token == 0 then
    token = math.max(token + 1, ARGV[4] + 1, now)
    redis.call('SET', KEYS[2], string.format('%.0f', token), 'PX', ARGV[5])
  end
end
if holder then
  return {2, now, redis.call('PTTL', KEYS[1]), token}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, now, 0, token}

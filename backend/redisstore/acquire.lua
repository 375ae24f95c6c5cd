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

local function mint()
  local last = tonumber(redis.call('GET', KEYS[2]) or 0)
  if not last or last >= 9007199254740991 then
    return nil
  end
  local token = math.max(last + 1, ARGV[4] + 1, now)
  redis.call('SET', KEYS[2], string.format('%.0f', token), 'PX', ARGV[5])
  return token
end

local token = 0
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {3, now, redis.call('PTTL', KEYS[1]), holder}
end
if holder then
  -- The record still has the token of this grant: nobody else was granted since. If it was
  -- evicted, a fresh one is above whatever it was.
  if KEYS[2] then
    token = tonumber(redis.call('GET', KEYS[2]) or mint())
  end
  return {2, now, redis.call('PTTL', KEYS[1]), token or 0}
end
if KEYS[2] then
  token = mint()
  if not token then
    return redis.error_reply('WRONGTYPE the fence record holds no token below 2^53')
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, now, 0, token}

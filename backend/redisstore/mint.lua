-- Mint: a token of a lock whose records are in two places while its slot moves. It is of use
-- only to a hold that lasts from before it until after it. One operation a call.
-- KEYS  the fence record
-- ARGV  shape, which is 0; floor of the token, ttl of the fence record in ms
-- reply {now in server microseconds, 1, 0, token, 1}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
if not last or not (last >= 0 and last < 9007199254740991) then
  return redis.error_reply('WRONGTYPE the fence record holds no token below 2^53')
end
local token = math.max(last + 1, ARGV[2] + 1, now)
redis.call('SET', KEYS[1], string.format('%.0f', token), 'PX', ARGV[3])
return {now, 1, 0, token, 1}

-- Mint: a token of a lock whose records are in two places while its slot moves. It is of use
-- only to a hold that lasts from before it until after it. One operation a call.
-- KEYS  the fence record
-- ARGV  shape, which is 0; floor of the token, ttl of the fence record in ms
-- reply one text, see spec/lock.md: now in server microseconds, and 1:0:1:token
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
if not last or not (last >= 0 and last < 9007199254740991) then
  return redis.error_reply('WRONGTYPE the fence record holds no token below 2^53')
end
local token = math.max(last + 1, ARGV[2] + 1, now)
local text = string.format('%.0f', token)
redis.call('SET', KEYS[1], text, 'PX', ARGV[3])
return string.format('%.0f 1:0:1:%d:%s', now, #text, text)

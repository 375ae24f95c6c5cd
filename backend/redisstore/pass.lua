-- Pass: put one request id in the place of another that holds the lock, in one step, if that
-- one's entry is the last. One operation a call.
-- KEYS  the lock, its depth; when fenced: its fence record; and when the new one stands in
--       line: the line
-- ARGV  the id that holds it; shape, the new id, ttl in ms, not-after in server
--       microseconds; when fenced: floor of the token, ttl of the fence record in ms; the
--       entry that the old id gives back; and when the new one stands in line: a number
--       that is not looked at, and the member
--       shape is 2, and 1 more when fenced, and 4 more when the new one stands in line
-- reply {now in server microseconds, and four:}
--       1 granted, 0 or when repeated ttl left, token, 1     2 mine: the old id's, ttl left, 0, depth
--       3 held, ttl left, holder, 0     4 late, 0, 0, 0     6 gone, 0, 0, 0
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local key, record, from, shape, id = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local fenced, lined = shape % 2 == 1, shape >= 4
if now >= tonumber(ARGV[5]) then
  return {now, 4, 0, 0, 0}
end
local holder = redis.call('GET', key)
if not holder then
  return {now, 6, 0, 0, 0}
end
local left = redis.call('PTTL', key)

local last = 0
if fenced then
  last = tonumber(redis.call('GET', KEYS[3]) or 0)
  if not last or not (last >= 0 and last < 9007199254740991) then
    return redis.error_reply('WRONGTYPE the fence record holds no token below 2^53')
  end
end
if holder == id then -- a repeat
  return {now, 1, left, last, 1}
end
if holder ~= from then
  return {now, 3, left, holder, 0}
end

local entry = ARGV[fenced and 8 or 6]
local depth = entry == '0' and 0 or 1
if redis.call('HGET', record, 'id') == from then
  depth = redis.call('HLEN', record) - 1 - (redis.call('HGET', record, entry) and 1 or 0)
  if depth > 0 then
    redis.call('HDEL', record, entry)
  end
end
if depth > 0 then
  return {now, 2, left, 0, depth}
end

local token = 0
if fenced then
  token = math.max(last + 1, ARGV[6] + 1, now)
  redis.call('SET', KEYS[3], string.format('%.0f', token), 'PX', ARGV[7])
end
redis.call('SET', key, id, 'PX', ARGV[4])
redis.call('DEL', record)
if lined then
  redis.pcall('ZREM', KEYS[fenced and 4 or 3], ARGV[fenced and 10 or 8])
end
return {now, 1, 0, token, 1}

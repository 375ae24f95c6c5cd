-- Pass: put one request id in the place of another that holds the lock, in one step, if that
-- one's entry is the last. One operation a call.
-- KEYS  the lock; when it has been entered: its depth; when fenced: its fence record; and
--       when the new one stands in line: the line
-- ARGV  the id that holds it; shape, the new id, ttl in ms, not-after in server
--       microseconds; when fenced: floor of the token, ttl of the fence record in ms; when
--       it has been entered: the entry that the old id gives back; and when the new one
--       stands in line: a number that is not looked at, and the member
--       shape is the sum of 1 when fenced, 2 when it has been entered, and 4 when the new
--       one stands in line
-- reply one text, see spec/lock.md: now in server microseconds, and of the operation
--       1 granted, or with its token 1:0:1:token, or when repeated 1:ttl left:1:token
--       2 mine: the old id's:ttl left:depth:
--       3 held:ttl left:0:holder     4 late     6 gone
--       mine at depth 0: it has been entered, nothing was given back, ask with its depth
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function say(status, left, depth, word)
  if status == '4' or status == '6' or status == '1' and left == 0 and word == '' then
    return string.format('%.0f %s', now, status)
  end
  return string.format('%.0f %s:%d:%d:%d:', now, status, left, depth, #word) .. word
end

-- text is a token as it is told; of a lock that is not fenced there is none.
local function text(token)
  return token > 0 and string.format('%.0f', token) or ''
end

local key, from, shape, id = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local record, fence, floor, keep, entry, line, member
local k, a = 2, 6
if shape % 4 >= 2 then
  record, k = KEYS[k], k + 1
end
if shape % 2 == 1 then
  fence, floor, keep, k, a = KEYS[k], ARGV[a], ARGV[a + 1], k + 1, a + 2
end
if record then
  entry, a = ARGV[a], a + 1
end
if shape >= 4 then
  line, member = KEYS[k], ARGV[a + 1]
end
if now >= tonumber(ARGV[5]) then
  return say('4', 0, 0, '')
end
local holder = redis.call('GET', key)
if not holder then
  return say('6', 0, 0, '')
end
local left = redis.call('PTTL', key)

local last = 0
if fence then
  last = tonumber(redis.call('GET', fence) or 0)
  if not last or not (last >= 0 and last < 9007199254740991) then
    return redis.error_reply('WRONGTYPE the fence record holds no token below 2^53')
  end
end
if holder == id then -- a repeat
  return say('1', left, 1, text(last))
end
local bare = holder == from
if not bare and holder ~= from .. '+' then
  return say('3', left, 0, holder)
end
if not bare and not record then
  return say('2', left, 0, '')
end

local depth = (entry or '0') == '0' and 0 or 1
if not bare and redis.call('HGET', record, 'id') == from then
  depth = redis.call('HLEN', record) - 1 - (redis.call('HGET', record, entry) and 1 or 0)
  if depth > 0 then
    redis.call('HDEL', record, entry)
  end
end
if depth > 0 then
  return say('2', left, depth, '')
end

local token = 0
if fence then
  token = math.max(last + 1, floor + 1, now)
  redis.call('SET', fence, string.format('%.0f', token), 'PX', keep)
end
redis.call('SET', key, id, 'PX', ARGV[4])
if record then
  redis.call('DEL', record)
end
if line then
  redis.pcall('ZREM', line, member)
end
return say('1', 0, 1, text(token))

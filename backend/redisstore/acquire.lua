-- Acquire: take locks for request ids, each unless its request comes too late. One call
-- serves any number of operations of one slot, each with keys, arguments and a reply of its
-- own: what one of them meets never fails another.
-- KEYS  of each operation: the lock, its depth; when fenced: its fence record; and when it
--       may wait: the line of those who wait for the lock
-- ARGV  of each operation: shape, request id, ttl in ms, not-after in server microseconds;
--       and when fenced: floor of the token, ttl of the fence record in ms;
--       when it enters: the entry; and when it may wait: for how many ms, as which member
--       of the line
--       shape is the sum of 1 when fenced, 2 when it enters a lock of the id, and 4 when it
--       may wait
-- reply {now in server microseconds, and of each operation four:}
--       1 granted, 0, token, depth      2 mine, ttl left, token, depth
--       3 held, ttl left, holder, 0     4 late, 0, 0, 0     6 gone, 0, 0, 0
--       0 refused, 0, why, 0
-- An error reply says that the server does nothing for anybody now, and did nothing.
-- Numbers here are doubles, exact below 2^53: microseconds until the year 2255.
local keys, args, try = KEYS, ARGV, redis.pcall
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stamp -- now as text, once one is needed

-- mint returns the token of a hold, or nothing and the error that refused it. While an id holds the
-- lock, the record has the token of its grant: nobody was granted since. Where there is
-- none (the first grant, or an evicted record), the server's time is above all that went
-- before.
local function mint(fence, mine, floor, keep)
  local last = try('GET', fence)
  if type(last) == 'table' then
    return 0, last
  end
  last = tonumber(last or 0)
  if not last or not (last >= 0 and last < 9007199254740991) then
    return 0, {err = 'WRONGTYPE the fence record holds no token below 2^53'}
  end
  if mine and last > 0 then
    return last
  end
  local token, text = math.max(last + 1, floor + 1, now), nil
  if token == now then
    stamp = stamp or string.format('%.0f', now)
    text = stamp
  else
    text = string.format('%.0f', token)
  end
  local set = try('SET', fence, text, 'PX', keep)
  return token, set.err and set
end

-- enter returns how many entries there are with this one, or nothing and the error that
-- refused it. The record is a hash, entry to 1, tagged with the id that holds the lock; a
-- lock that was never entered has none. What another id has left is not looked at.
local function enter(record, id, entry, left)
  local tag = try('HGET', record, 'id')
  if type(tag) == 'table' then
    return 0, tag
  end
  if tag ~= id then
    if entry == '0' then
      return 1
    end
    try('DEL', record)
  end
  local set = try('HSET', record, 'id', id, entry, 1)
  if type(set) == 'table' then
    return 0, set
  end
  if tag ~= id then
    try('HSET', record, '0', 1)
    if left > 0 then
      try('PEXPIRE', record, left)
    end
  end
  return try('HLEN', record) - 1
end

-- stand puts a member at its place in line: who waits shortest is woken first. The line
-- outlives whoever waits longest by a second. What is refused here is no loss: who waits
-- tries now and then all the same.
local function stand(line, wait, member)
  try('ZADD', line, math.floor(now / 1000) + wait, member)
  local left = try('PTTL', line)
  if type(left) == 'number' and left < wait + 1000 then
    try('PEXPIRE', line, wait + 1000)
  end
end

local replies, r, k, a = {now, 0, 0, 0, 0}, 1, 1, 1 -- of one operation: no second table
local wrote = false
while args[a] do
  local key, shape, id = keys[k], tonumber(args[a]), args[a + 1]
  local fenced, enters, waits = shape % 2 == 1, shape % 4 >= 2, shape >= 4
  local more = a + (fenced and 6 or 4) -- where the arguments of entering begin
  local entry = enters and args[more] or '0'
  local status, left, word, depth, refusal = 4, 0, 0, 0, nil
  if now < tonumber(args[a + 3]) then
    local holder
    if enters then
      holder = try('GET', key)
    else
      holder = try('SET', key, id, 'NX', 'GET', 'PX', args[a + 2])
    end
    if not holder then
      if enters then
        status = 6
      else
        status, depth = 1, 1
      end
    elseif type(holder) == 'table' then
      refusal = holder
    else
      status, left, word = 3, try('PTTL', key), holder
      refusal = type(left) == 'table' and left
      if holder == id and not refusal then
        status, word = 2, 0
        depth, refusal = enter(keys[k + 1], id, entry, left)
      end
    end
    if fenced and depth > 0 and not refusal then
      word, refusal = mint(keys[k + 2], status == 2, args[a + 4], args[a + 5])
      if refusal and status == 1 then
        try('DEL', key)
      end
    end
  end

  if waits and not refusal and status ~= 4 then
    local line, rest = keys[k + (fenced and 3 or 2)], more + (enters and 1 or 0)
    if status == 3 then
      stand(line, tonumber(args[rest]), args[rest + 1])
    else
      try('ZREM', line, args[rest + 1])
    end
  end

  if refusal then
    local why = refusal.err
    if not wrote and not why:find('^WRONGTYPE ') and not why:find('^NOPERM ') then
      return refusal
    end
    status, left, word, depth = 0, 0, why, 0
  end
  wrote = wrote or status == 1 or status == 2 or waits
  replies[r + 1], replies[r + 2], replies[r + 3], replies[r + 4] = status, left, word, depth
  r = r + 4
  k, a = k + 2 + (fenced and 1 or 0) + (waits and 1 or 0), more + (enters and 1 or 0) + (waits and 2 or 0)
end
return replies

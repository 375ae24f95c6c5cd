-- Acquire: take locks for request ids, each unless its request comes too late. One call
-- serves any number of operations of one slot, each with keys, arguments and a reply of its
-- own: what one of them meets never fails another.
-- KEYS  of each operation: the lock; when it enters: its depth; when fenced: its fence
--       record; and when it may wait: the line of those who wait for the lock
-- ARGV  of each operation: shape, request id, ttl in ms, not-after in server microseconds;
--       and when fenced: floor of the token, ttl of the fence record in ms;
--       when it enters: the entry; and when it may wait: for how many ms, as which member
--       of the line
--       shape is the sum of 1 when fenced, 2 when it enters a lock of the id, and 4 when it
--       may wait
-- reply one text, see spec/lock.md: now in server microseconds, and of each operation
--       1 granted, or with its token 1:0:1:token     2 mine:ttl left:depth:token
--       3 held:ttl left:0:holder     4 late     6 gone     0 refused:0:0:why
--       mine at depth 0: it has been entered, and says how often who enters: nothing changed
-- An error reply says that the server does nothing for anybody now, and did nothing.
-- Numbers here are doubles, exact below 2^53: microseconds until the year 2255. Those of 16
-- digits stay text where they can: to read or write one costs more than to compare two.
local keys, args, try = KEYS, ARGV, redis.pcall
local time = redis.call('TIME')
local now = time[2]
if #now < 6 then
  now = ('00000' .. now):sub(-6)
end
now = time[1] .. now

-- tools are what few operations need, made when one does: a function costs to make, and a
-- body makes its own at each call.
local function tools()
  local time = tonumber(now)

  -- whole is a token of a fence record, or nothing and the error that refuses it.
  local function whole(text)
    local token = tonumber(text)
    if not token or not (token >= 0 and token < 9007199254740991) then
      return nil, {err = 'WRONGTYPE the fence record holds no token below 2^53'}
    end
    return token
  end

  -- mint returns the token of a new hold, or nothing and the error that refused it. Most
  -- often it is the server's time, which is above all that went before; so that is written
  -- at once, and looked at what it took the place of.
  local function mint(fence, floor, keep)
    local token, text = time, now
    if tonumber(floor) >= time then
      token = floor + 1
      text = string.format('%.0f', token)
    end
    local was = try('SET', fence, text, 'GET', 'PX', keep)
    if not was then
      return text
    elseif type(was) == 'table' then
      return nil, was
    end
    local last, refusal = whole(was)
    if refusal then
      try('SET', fence, was, 'PX', keep)
      return nil, refusal
    elseif last >= token then
      text = string.format('%.0f', last + 1)
      try('SET', fence, text, 'PX', keep)
    end
    return text
  end

  -- minted returns the token of a hold that there is. While an id holds the lock, the record
  -- has the token of its grant: nobody was granted since. An evicted record is minted anew.
  local function minted(fence, floor, keep)
    local text = try('GET', fence)
    if type(text) == 'table' then
      return nil, text
    end
    local last, refusal = whole(text or 0)
    if refusal then
      return nil, refusal
    elseif last > 0 then
      return string.format('%.0f', last)
    end
    return mint(fence, floor, keep)
  end

  -- enter returns how many entries there are with this one, or nothing and the error that
  -- refused it. The record is a hash, entry to 1, tagged with the id that holds the lock; the
  -- lock's own value has a mark from then on. Without the mark it was never entered, and what
  -- the record says is of another time.
  local function enter(key, record, id, entry, left, bare)
    local tag = try('HGET', record, 'id')
    if type(tag) == 'table' then
      return 0, tag
    end
    local first = bare or tag ~= id
    if first then
      if entry == '0' then
        return 1
      end
      local marked = bare and try('SET', key, id .. '+', 'XX', 'KEEPTTL')
      if marked and marked.err then
        return 0, marked
      end
      try('DEL', record)
    end
    local set = try('HSET', record, 'id', id, entry, 1)
    if type(set) == 'table' then
      return 0, set
    end
    if first then
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
    try('ZADD', line, math.floor(time / 1000) + wait, member)
    local left = try('PTTL', line)
    if type(left) == 'number' and left < wait + 1000 then
      try('PEXPIRE', line, wait + 1000)
    end
  end

  return mint, minted, enter, stand
end

local mint, minted, enter, stand
local replies, r, k, a = {now}, 1, 1, 1
local wrote = false
while args[a] do
  local key, shape, id, till = keys[k], args[a], args[a + 1], args[a + 3]
  local status, left, depth, word, refusal = '4', 0, 0, '', nil
  local fence, floor, keep, record, entry, line, wait, member
  local ttl = args[a + 2]
  k, a = k + 1, a + 4
  if shape ~= '0' then
    shape = tonumber(shape)
    if not mint then
      mint, minted, enter, stand = tools()
    end
    if shape % 4 >= 2 then
      record, k = keys[k], k + 1
    end
    if shape % 2 == 1 then
      fence, floor, keep, k, a = keys[k], args[a], args[a + 1], k + 1, a + 2
    end
    if record then
      entry, a = args[a], a + 1
    end
    if shape >= 4 then
      line, wait, member, k, a = keys[k], args[a], args[a + 1], k + 1, a + 2
    end
  end

  if #till > #now or #till == #now and till > now then
    local holder
    if record then
      holder = try('GET', key)
    else
      holder = try('SET', key, id, 'NX', 'GET', 'PX', ttl)
    end
    if not holder then
      if record then
        status = '6'
      else
        status, depth = '1', 1
      end
    elseif type(holder) == 'table' then
      refusal = holder
    else
      status, left, word = '3', try('PTTL', key), holder
      refusal = type(left) == 'table' and left
      local bare = holder == id
      if not refusal and (bare or holder == id .. '+') then
        status, word = '2', ''
        if record then
          depth, refusal = enter(key, record, id, entry, left, bare)
        elseif bare then
          depth = 1
        end
      end
    end
    if fence and depth > 0 and not refusal then
      if status == '2' then
        word, refusal = minted(fence, floor, keep)
      else
        word, refusal = mint(fence, floor, keep)
        if refusal then
          try('DEL', key)
        end
      end
    end
  end

  if line and not refusal and status ~= '4' then
    if status == '3' then
      stand(line, tonumber(wait), member)
    else
      try('ZREM', line, member)
    end
  end

  if refusal then
    local why = refusal.err
    if not wrote and not why:find('^WRONGTYPE ') and not why:find('^NOPERM ') then
      return refusal
    end
    status, left, depth, word = '0', 0, 0, why
  end
  wrote = wrote or status == '1' or status == '2' or line
  r = r + 1
  if status == '1' and #word == 16 then -- most often so, when fenced
    replies[r] = '1:0:1:16:' .. word
  elseif status == '1' and word == '' or status == '4' or status == '6' then
    replies[r] = status
  else
    replies[r] = string.format('%s:%d:%d:%d:', status, left, depth, #word) .. word
  end
end
return table.concat(replies, ' ')

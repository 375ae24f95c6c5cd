-- Release: give an entry back of each lock that its request id holds; the last one frees it,
-- and tells the first of those who wait for it. Who finds it free tells, too: so whoever
-- was told and has no use for it passes the word on.
-- One call serves any number of operations of one slot, as in acquire.
-- KEYS  of each operation: the lock; when it leaves an entry: its depth; and when it wakes:
--       the line
-- ARGV  of each operation: shape, request id; and when it leaves an entry: which
--       shape is the sum of 2 when it leaves an entry of several, and 4 when it wakes
-- reply one text, see spec/lock.md: 0, and of each operation
--       5 released     2 mine:ttl left:depth:     3 held:ttl left:0:holder     6 gone
--       0 refused:0:0:why
--       mine at depth 0: it has been entered, nothing was given back, say which entry to leave
-- An error reply says that the server does nothing for anybody now, and did nothing.
local keys, args, try = KEYS, ARGV, redis.pcall

-- tools are what few operations need, made when one does: a function costs to make, and a
-- body makes its own at each call.
local function tools()
  -- leave returns how many entries of a lock that was entered are left, or nothing and the
  -- error that refused it. Where the record was evicted, the entry 0 is the only one.
  local function leave(record, id, entry)
    local tag = try('HGET', record, 'id')
    if type(tag) == 'table' then
      return 0, tag
    end
    if tag ~= id then
      return entry == '0' and 0 or 1
    end
    local out = try('HDEL', record, entry)
    if type(out) == 'table' then
      return 0, out
    end
    local left = try('HLEN', record) - 1
    if left == 0 then
      try('DEL', record)
    end
    return left
  end

  -- wake takes one live member out of the line, and with it the dead before it, and tells its
  -- inbox. A process that is gone hears nothing: then it is the next one's turn. The lock is
  -- free by now whatever comes of this, so nothing here is an error.
  local function wake(line, key)
    local now
    for _ = 1, 64 do
      local first = try('ZPOPMIN', line)
      if not first[1] then
        return
      end
      if not now then
        local time = redis.call('TIME')
        now = time[1] * 1000 + math.floor(time[2] / 1000)
      end
      if tonumber(first[2]) > now then
        local heard = try('PUBLISH', 'tierlock:inbox:' .. first[1]:sub(1, 16), first[1]:sub(18) .. ' ' .. key)
        if heard ~= 0 then
          return
        end
      end
    end
  end

  return leave, wake
end

-- free frees, of several operations, the locks that their ids hold and never entered, and
-- returns key to id of those. A command costs more to call from here than to carry out, so
-- one asks for all, one deletes, and one tells whether anybody waits at all. What is not
-- plain, or refused, is left for the walk below, which asks about each key by itself.
local function free()
  if #args < 4 then -- one operation
    return {}, true
  end
  local locks, ids, lines, k, a = {}, {}, {}, 1, 1
  while args[a] do
    local shape, n = args[a], #locks + 1
    locks[n], ids[n] = keys[k], args[a + 1]
    k, a = k + 1, a + 2
    if shape == '2' or shape == '6' then
      if args[a] ~= '0' then
        ids[n] = true -- which nothing in the store is: a lock that was never entered has the entry 0 alone
      end
      k, a = k + 1, a + 1
    end
    if shape == '4' or shape == '6' then
      lines[#lines + 1], k = keys[k], k + 1
    end
  end
  local holders, freed, gone = try('MGET', unpack(locks)), {}, {}
  for i, key in ipairs(locks) do
    if holders[i] == ids[i] and not freed[key] then
      freed[key], gone[#gone + 1] = ids[i], key
    end
  end
  local done = gone[1] and try('DEL', unpack(gone))
  if type(done) == 'table' then
    return {}, true
  end
  return freed, not lines[1] or try('EXISTS', unpack(lines)) ~= 0
end

local freed, awaited = free()
local leave, wake
local replies, r, k, a = {'0'}, 1, 1, 1
local wrote = next(freed) ~= nil
while args[a] do
  local key, id = keys[k], args[a + 1]
  local status, left, depth, word, refusal = '6', 0, 0, '', nil
  local shape, entry, record, line = args[a], '0', nil, nil
  k, a = k + 1, a + 2
  if shape == '2' or shape == '6' then
    record, entry, k, a = keys[k], args[a], k + 1, a + 1
  end
  if shape == '4' or shape == '6' then
    line, k = keys[k], k + 1
  end
  local holder = nil
  if freed[key] == id and entry == '0' then
    status, freed[key] = '5', nil
  else
    holder = try('GET', key)
  end
  if type(holder) == 'table' then
    refusal = holder
  elseif holder == id and entry == '0' then
    status, refusal = '5', try('DEL', key)
  elseif holder then
    status, left, word = '3', try('PTTL', key), holder
    if type(left) == 'table' then
      refusal = left
    elseif holder == id then -- never entered: 0 is the entry in it
      status, word, depth = '2', '', 1
    elseif holder == id .. '+' then
      status, word = '2', ''
      if record then
        if not leave then
          leave, wake = tools()
        end
        depth, refusal = leave(record, id, entry)
        if depth == 0 and not refusal then
          status, left, refusal = '5', 0, try('DEL', key)
        end
      end
    end
  end
  refusal = type(refusal) == 'table' and refusal

  if refusal then
    local why = refusal.err
    if not wrote and not why:find('^WRONGTYPE ') and not why:find('^NOPERM ') then
      return refusal
    end
    status, left, depth, word = '0', 0, 0, why
  end
  if line and awaited and (status == '5' or status == '6') then
    if not wake then
      leave, wake = tools()
    end
    wake(line, key)
  end
  wrote = wrote or status == '5' or status == '2'
  r = r + 1
  if status >= '5' then
    replies[r] = status
  else
    replies[r] = string.format('%s:%d:%d:%d:', status, left, depth, #word) .. word
  end
end
return table.concat(replies, ' ')

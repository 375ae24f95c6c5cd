-- Renew: make locks last at least ttl from now, each if its request id holds it. Never
-- shorter. One call serves any number of operations of one slot, as in acquire.
-- KEYS  of each operation: the lock; when it has been entered: its depth
-- ARGV  of each operation: shape, request id, ttl in ms; shape is 2 when the depth is there,
--       else 0
-- reply one text, see spec/lock.md: 0, and of each operation
--       2 mine:ttl left:1:     3 held:ttl left:0:holder     6 gone     0 refused:0:0:why
--       mine at depth 0: it has been entered, and its depth is to be renewed with it
-- An error reply says that the server does nothing for anybody now, and did nothing.
local keys, args, try = KEYS, ARGV, redis.pcall
local replies, r, k, a = {'0'}, 1, 1, 1
local wrote = false
while args[a] do
  local key, deep, id, ttl = keys[k], args[a] == '2', args[a + 1], tonumber(args[a + 2])
  local status, left, depth, word, refusal = '6', 0, 0, '', nil
  local holder = try('GET', key)
  if type(holder) == 'table' then
    refusal = holder
  elseif holder then
    status, left, word = '3', try('PTTL', key), holder
    local bare = holder == id
    if type(left) == 'table' then
      refusal = left
    elseif bare or holder == id .. '+' then
      status, word = '2', ''
      depth = (bare or deep) and 1 or 0
      if left < ttl then
        left, refusal = ttl, try('PEXPIRE', key, args[a + 2])
        refusal = type(refusal) == 'table' and refusal
      end
      if deep and not refusal then
        try('PEXPIRE', keys[k + 1], left)
      end
    end
  end

  if refusal then
    local why = refusal.err
    if not wrote and not why:find('^WRONGTYPE ') and not why:find('^NOPERM ') then
      return refusal
    end
    status, left, depth, word = '0', 0, 0, why
  end
  wrote = wrote or status == '2'
  r, k, a = r + 1, k + (deep and 2 or 1), a + 3
  if status == '6' then
    replies[r] = status
  else
    replies[r] = string.format('%s:%d:%d:%d:', status, left, depth, #word) .. word
  end
end
return table.concat(replies, ' ')

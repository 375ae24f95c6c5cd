-- Lookup: who holds each lock. Changes nothing. One call serves any number of operations of
-- one slot, as in acquire.
-- KEYS  of each operation: the lock; when it has been entered: its depth
-- ARGV  of each operation: shape, request id; shape is 2 when the depth is there, else 0
-- reply one text, see spec/lock.md: 0, and of each operation
--       2 mine:ttl left:depth:     3 held:ttl left:0:holder     6 gone     0 refused:0:0:why
--       mine at depth 0: it has been entered, ask with its depth
-- An error reply says that the server does nothing for anybody now.
local keys, args, try = KEYS, ARGV, redis.pcall
local replies, r, k, a = {'0'}, 1, 1, 1
while args[a] do
  local key, deep, id = keys[k], args[a] == '2', args[a + 1]
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
      local tag = not bare and deep and try('HGET', keys[k + 1], 'id')
      if type(tag) == 'table' then
        refusal = tag
      elseif tag == id then
        depth = try('HLEN', keys[k + 1]) - 1
      end
    end
  end

  if refusal then
    local why = refusal.err
    if not why:find('^WRONGTYPE ') and not why:find('^NOPERM ') then
      return refusal
    end
    status, left, depth, word = '0', 0, 0, why
  end
  r, k, a = r + 1, k + (deep and 2 or 1), a + 2
  if status == '6' then
    replies[r] = status
  else
    replies[r] = string.format('%s:%d:%d:%d:', status, left, depth, #word) .. word
  end
end
return table.concat(replies, ' ')

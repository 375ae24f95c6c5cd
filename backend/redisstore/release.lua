-- Release: give locks back, each if its request id holds it. One call serves any number of
-- operations of one slot, as in acquire.
-- KEYS  of each operation: the lock
-- ARGV  of each operation: shape, request id; shape is 0
-- reply {0, and of each operation four:}
--       5 released, 0, 0, 0     3 held, ttl left, holder, 0     6 gone, 0, 0, 0
--       0 refused, 0, why, 0
-- An error reply says that the server does nothing for anybody now, and did nothing.
local keys, args, try = KEYS, ARGV, redis.pcall
local replies, r, k, a = {0, 0, 0, 0, 0}, 1, 1, 1 -- of one operation: no second table
local wrote = false
while args[a] do
  local key = keys[k]
  local status, left, word, refusal = 6, 0, 0, nil
  local holder = try('GET', key)
  if holder == args[a + 1] then
    status, refusal = 5, try('DEL', key)
    refusal = type(refusal) == 'table' and refusal
  elseif type(holder) == 'table' then
    refusal = holder
  elseif holder then
    status, left, word = 3, try('PTTL', key), holder
    refusal = type(left) == 'table' and left
  end

  if refusal then
    local why = refusal.err
    if not wrote and not why:find('^WRONGTYPE ') and not why:find('^NOPERM ') then
      return refusal
    end
    status, left, word = 0, 0, why
  end
  wrote = wrote or status == 5
  replies[r + 1], replies[r + 2], replies[r + 3], replies[r + 4] = status, left, word, 0
  r, k, a = r + 4, k + 1, a + 2
end
return replies

-- Extend the leader's lease, or take it up again where Redis has lost it.
-- KEYS[1]  string: the node that holds the lease
-- ARGV[1]  the node that asks
-- ARGV[2]  the lease in milliseconds
-- Returns  the holder after the call: the asking node, or the one that it must yield to
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  -- Every lease ends. One that does not, or not within reason, was written by somebody else, and
  -- would keep all of us from leading for ever.
  local left = redis.call('PTTL', KEYS[1])
  if left >= 0 and left <= 100 * tonumber(ARGV[2]) then
    return holder
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]

-- Take ids of runs that may start, after moving those that have just become due.
-- KEYS     pairs, one per queue, in the order in which queues are served:
--          sorted set of ready ids; sorted set of delayed `<priority>|<id>`, scores in milliseconds
-- ARGV[1]  now, in milliseconds
-- ARGV[2]  how many ids at the most
-- ARGV[3]  span of one priority in a ready id's score
-- Returns  a list of ids
local now, wanted, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local ids = {}

for k = 1, #KEYS, 2 do
  local ready, later = KEYS[k], KEYS[k + 1]
  local due = redis.call('ZRANGEBYSCORE', later, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 500)
  for i = 1, #due, 2 do
    local priority, id = string.match(due[i], '^(%-?%d+)|(%x+)$')
    if id then
      local score = (100 - tonumber(priority)) * span + math.floor(tonumber(due[i + 1]))
      redis.call('ZADD', ready, 'NX', string.format('%.0f', score), id)
    end
    redis.call('ZREM', later, due[i])
  end
  if #ids < wanted then
    local popped = redis.call('ZPOPMIN', ready, wanted - #ids)
    for j = 1, #popped, 2 do
      ids[#ids + 1] = popped[j]
    end
  end
end
return ids

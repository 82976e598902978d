-- Take ids of runs that may start, after moving those that have just become due.
-- KEYS     pairs, one per queue, in the order in which queues are served:
--          sorted set of ready ids; sorted set of delayed `<priority>|<id>`, scores in milliseconds
-- ARGV[1]  now, in milliseconds
-- ARGV[2]  how many ids at the most
-- ARGV[3]  span of one priority in a ready id's score
-- Returns  the ids in one text, 32 characters each (a long list costs its reader far more);
--          how many members were taken, junk included;
--          when the next delayed one is due, in milliseconds, empty if there is none
local now, wanted, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local ids, taken, next_due = {}, 0, nil

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
  local first = redis.call('ZRANGE', later, 0, 0, 'WITHSCORES')
  if first[2] and (not next_due or tonumber(first[2]) < next_due) then
    next_due = tonumber(first[2])
  end
  if taken < wanted then
    local popped = redis.call('ZPOPMIN', ready, wanted - taken)
    taken = taken + #popped / 2
    for j = 1, #popped, 2 do
      if #popped[j] == 32 and string.match(popped[j], '^[0-9a-f]+$') then
        ids[#ids + 1] = popped[j]
      end
    end
  end
end
return {table.concat(ids), taken, next_due and string.format('%.0f', next_due) or ''}

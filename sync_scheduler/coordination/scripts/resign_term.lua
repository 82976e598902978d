-- Give up the leader's lease, if it is still ours to give up.
-- KEYS[1]  string: the node that holds the lease
-- ARGV[1]  the node that resigns
-- Returns  1 if the lease was this node's, otherwise 0
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0

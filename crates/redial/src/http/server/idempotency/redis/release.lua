-- KEYS[1] the record; ARGV: owner, for how long in ms a `begin` of this owner may still be in flight
local record = redis.call('HMGET', KEYS[1], 'owner', 'response')
if record[1] == ARGV[1] and not record[2] then redis.call('DEL', KEYS[1]) end
if not record[1] then
  redis.call('HSET', KEYS[1], 'released:' .. ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1

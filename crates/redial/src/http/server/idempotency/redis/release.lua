-- KEYS[1] the record; ARGV: owner
local record = redis.call('HMGET', KEYS[1], 'owner', 'response')
if record[1] == ARGV[1] and not record[2] then redis.call('DEL', KEYS[1]) end
return 1

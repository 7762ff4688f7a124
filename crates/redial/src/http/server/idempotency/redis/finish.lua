-- KEYS[1] the record; ARGV: fingerprint, owner, ttl in ms, response
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'fingerprint', ARGV[1], 'owner', ARGV[2], 'response', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1

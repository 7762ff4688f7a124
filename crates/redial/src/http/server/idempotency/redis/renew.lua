-- KEYS[1] the record; ARGV: fingerprint, owner, lease in ms, ttl in ms,
-- the time in ms after which the caller has timed out
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[5]) then return redis.error_reply('LATE the caller has timed out') end
local record = redis.call('HMGET', KEYS[1], 'owner', 'response')
if record[1] and record[1] ~= ARGV[2] then return 0 end
if record[2] then return 1 end
redis.call('HSET', KEYS[1], 'fingerprint', ARGV[1], 'owner', ARGV[2], 'lease', now + ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[3] + ARGV[4])
return 1

-- KEYS[1] the record; ARGV: fingerprint, owner, lease in ms, ttl in ms, 1 to execute after an interruption,
-- the time in ms after which the caller has timed out
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[6]) then return redis.error_reply('LATE the caller has timed out') end
local record = redis.call('HMGET', KEYS[1], 'fingerprint', 'owner', 'lease', 'response', 'released:' .. ARGV[2])
if record[5] then return redis.error_reply('LATE the key was released in the meantime') end
local begun = 'started'
if record[1] then
  if record[1] ~= ARGV[1] then return {'mismatch'} end
  if record[4] then return {'finished', record[4]} end
  if record[2] ~= ARGV[2] then
    if tonumber(record[3]) > now then return {'in-flight'} end
    if ARGV[5] ~= '1' then return {'interrupted'} end
    begun = 'resumed'
  end
end
redis.call('HSET', KEYS[1], 'fingerprint', ARGV[1], 'owner', ARGV[2], 'lease', now + ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[3] + ARGV[4])
return {begun}

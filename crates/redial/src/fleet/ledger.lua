-- One step of a fleet's ledger: hears of one instance, deposits what it earned, leases what it asks for.
-- The mathematics are in redial_core::fleet. Amounts are in millionths of a token, shares in billionths, times in
-- microseconds by the clock of Redis, the only one that counts.
local TOKEN, WHOLE = 1000000, 1000000000
local SLICES, BANKED, LEASED = 16, 10, 2
local GENERATION, PERIOD, LEAST_TTL = 600000000, 60000000, 1000000

local is_member, leaves = ARGV[1] == '1', ARGV[2] == '1'
local epoch, generation, share = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local heard_of = tonumber(ARGV[6])
local asked = {ratio = tonumber(ARGV[7]), floor = tonumber(ARGV[8]), ttl = tonumber(ARGV[9])}
local deposit, want = tonumber(ARGV[10]), tonumber(ARGV[11])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The credit of a slice is in the field of its number, modulo 16.
local names = {
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
  'epoch', 'at', 'generation', 'members', 'share', 'old_members', 'old_share', 'recalled', 'period',
  'ratio', 'floor', 'ttl', 'old_ratio', 'old_floor', 'old_ttl', 'ruling_ttl',
}
local kept, s = redis.call('HMGET', KEYS[1], unpack(names)), {}
local is_sound = true
for i, name in ipairs(names) do
  s[name] = tonumber(kept[i]) or -1
  is_sound = is_sound and s[name] >= 0 and s[name] < 2 ^ 53
end

-- A clock that was set back a little stands still. What was set back far, or is not a ledger, begins anew.
if s.at > now and s.at - now <= asked.ttl then now = s.at end
if not is_sound or s.ttl < LEAST_TTL or s.at > now then
  for _, name in ipairs(names) do s[name] = 0 end
  s.epoch, s.at, s.period = now, now, 0
end

-- The strictest of what was configured in this period or in the one before.
local period = math.floor(now / PERIOD)
local ruling = {}
for name, value in pairs(asked) do
  local old = 'old_' .. name
  if s.period ~= period then
    s[old] = s.period == period - 1 and s[name] + 1 or 0
    s[name] = value
  end
  s[name] = math.min(s[name], value)
  ruling[name] = s[name]
  if s[old] > 0 then ruling[name] = math.min(ruling[name], s[old] - 1) end
end
s.period = period

local length = ruling.ttl / SLICES
local current = math.floor(now / length)
local first = current - BANKED + 1
if s.ruling_ttl ~= ruling.ttl then
  for slice = 0, SLICES - 1 do s[slice] = 0 end
  s.ruling_ttl = ruling.ttl
end
local last = math.floor(s.at / length)
for slice = math.max(last + 1, current - SLICES + 1), current do s[slice % SLICES] = 0 end

-- Members that the ledger has not heard of in this generation are still known from the last one.
local this = math.floor(now / GENERATION)
if s.generation ~= this then
  local is_next = s.generation == this - 1
  s.old_members, s.old_share = is_next and s.members or 0, is_next and s.share or 0
  s.generation, s.members, s.share = this, 0, 0
end

-- What nobody has been promised, the ledger accrues: into the slices that it was accrued in.
local free = ruling.floor * (WHOLE - s.share - s.old_share) / WHOLE / 1000000
for slice = math.max(last, first), current do
  local from, to = math.max(s.at, slice * length), math.min(now, (slice + 1) * length)
  if to > from then s[slice % SLICES] = s[slice % SLICES] + free * (to - from) end
end
s.at = now

if is_member then
  -- A young ledger that hears of members it does not know has lost them. Until they have all come back, what an
  -- earlier one promised counts as promised.
  if epoch ~= 0 and epoch ~= s.epoch and s.recalled == 0 and now - s.epoch < ruling.ttl then
    s.recalled, s.old_members, s.old_share = 1, heard_of, WHOLE - s.share
  end
  if epoch == s.epoch and generation == this then
    -- Not below nothing: an answer that was lost leaves a member with an older promise than the one that counts.
    s.members, s.share = math.max(s.members - 1, 0), math.max(s.share - share, 0)
  elseif epoch == s.epoch and generation == this - 1 or epoch ~= 0 and epoch ~= s.epoch then
    s.old_members, s.old_share = math.max(s.old_members - 1, 0), math.max(s.old_share - share, 0)
  end
  epoch, generation, share = s.epoch, this, 0
  if not leaves then
    s.members = s.members + 1
    local most = math.floor(WHOLE / (s.members + s.old_members))
    share = math.max(math.min(most, WHOLE - s.share - s.old_share), 0)
    s.share = s.share + share
  end
end

s[current % SLICES] = s[current % SLICES] + deposit
local balance = 0
for slice = first, current do balance = balance + s[slice % SLICES] end
local granted = math.min(want, math.floor(balance / TOKEN))
local due = granted * TOKEN
for slice = first, current do
  local paid = math.min(due, s[slice % SLICES])
  s[slice % SLICES], due = s[slice % SLICES] - paid, due - paid
end

local write = {}
for _, name in ipairs(names) do
  write[#write + 1] = name
  write[#write + 1] = s[name]
end
redis.call('HSET', KEYS[1], unpack(write))
redis.call('PEXPIRE', KEYS[1], 2 * GENERATION / 1000)

return {
  epoch, generation, share, s.members + s.old_members, granted, (current + LEASED) * length - now,
  balance - granted * TOKEN, ruling.ratio, ruling.floor, ruling.ttl,
}

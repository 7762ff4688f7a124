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

-- Sixteen numbers about the ledger, and the credit of each slice, by its number modulo 16.
local TAG, NUMBERS = 'redial1', '<dddddddddddddddd'
local kept, is_sound = redis.call('GET', KEYS[1]), false
local s, credit = {}, {}
if kept then
  if #kept ~= #TAG + 256 or kept:sub(1, #TAG) ~= TAG then
    return redis.error_reply('WRONGTYPE the key holds something that is not a ledger')
  end
  s.epoch, s.at, s.generation, s.members, s.share, s.old_members, s.old_share, s.recalled, s.period,
    s.ratio, s.floor, s.ttl, s.old_ratio, s.old_floor, s.old_ttl, s.ruling_ttl =
    struct.unpack(NUMBERS, kept, #TAG + 1)
  credit = {struct.unpack(NUMBERS, kept, #TAG + 129)}
  is_sound = true
  for _, value in pairs(s) do is_sound = is_sound and value >= 0 and value < 2 ^ 53 end
  for _, value in ipairs(credit) do is_sound = is_sound and value >= 0 and value < 2 ^ 53 end
end

-- A clock that was set back a little stands still. What was set back far, or makes no sense, begins anew.
if is_sound and s.at > now and s.at - now <= asked.ttl then now = s.at end
if not is_sound or s.ttl < LEAST_TTL or s.at > now then
  s = {
    epoch = now, at = now, generation = 0, members = 0, share = 0, old_members = 0, old_share = 0, recalled = 0, period = 0,
    ratio = 0, floor = 0, ttl = 0, old_ratio = 0, old_floor = 0, old_ttl = 0, ruling_ttl = 0,
  }
  credit = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
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
  for slice = 1, SLICES do credit[slice] = 0 end
  s.ruling_ttl = ruling.ttl
end
local last = math.floor(s.at / length)
for slice = math.max(last + 1, current - SLICES + 1), current do credit[slice % SLICES + 1] = 0 end

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
  if to > from then credit[slice % SLICES + 1] = credit[slice % SLICES + 1] + free * (to - from) end
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

credit[current % SLICES + 1] = credit[current % SLICES + 1] + deposit
local balance = 0
for slice = first, current do balance = balance + credit[slice % SLICES + 1] end
local granted = math.min(want, math.floor(balance / TOKEN))
local due = granted * TOKEN
for slice = first, current do
  local paid = math.min(due, credit[slice % SLICES + 1])
  credit[slice % SLICES + 1], due = credit[slice % SLICES + 1] - paid, due - paid
end

local numbers = struct.pack(
  NUMBERS, s.epoch, s.at, s.generation, s.members, s.share, s.old_members, s.old_share, s.recalled, s.period,
  s.ratio, s.floor, s.ttl, s.old_ratio, s.old_floor, s.old_ttl, s.ruling_ttl
)
local credits = struct.pack(NUMBERS, unpack(credit, 1, SLICES))
redis.call('SET', KEYS[1], TAG .. numbers .. credits, 'PX', 2 * GENERATION / 1000)

return {
  epoch, generation, share, s.members + s.old_members, granted, (current + LEASED) * length - now,
  balance - granted * TOKEN, ruling.ratio, ruling.floor, ruling.ttl,
}

-- One sync of an instance with its fleet's ledger: deposits what it earned and leases what it requests.
-- The mathematics are in redial_core::fleet. Amounts are in millionths of a token, shares in billionths, times in
-- microseconds by the clock of Redis; no other clock is used.
local TOKEN, WHOLE = 1000000, 1000000000
local SLICES, BANKED, LEASED = 16, 10, 2
local GENERATION, PERIOD, LEAST_TTL = 600000000, 60000000, 1000000
-- For how long disconnected members may return to a ledger that has lost its data.
local YOUNG = 20000000

local is_member, leaves = ARGV[1] == '1', ARGV[2] == '1'
local epoch, generation, share, held = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local known_members = tonumber(ARGV[7])
local asked = {ratio = tonumber(ARGV[8]), floor = tonumber(ARGV[9]), ttl = tonumber(ARGV[10])}
local deposit, want = tonumber(ARGV[11]), tonumber(ARGV[12])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Sixteen numbers about the ledger, and the credit of each slice, by its number modulo 16.
local TAG, NUMBERS = 'redial1', '<dddddddddddddddd'
local kept, is_sound = redis.call('GET', KEYS[1]), false
local s, credit = {}, {}
if kept then
  if #kept ~= #TAG + 256 or kept:sub(1, #TAG) ~= TAG then
    return redis.error_reply('WRONGTYPE the value of the key is not a ledger')
  end
  s.epoch, s.at, s.generation, s.members, s.share, s.old_members, s.old_share, s.recalled, s.period,
    s.ratio, s.floor, s.ttl, s.old_ratio, s.old_floor, s.old_ttl, s.ruling_ttl =
    struct.unpack(NUMBERS, kept, #TAG + 1)
  credit = {struct.unpack(NUMBERS, kept, #TAG + 129)}
  is_sound = true
  for _, value in pairs(s) do is_sound = is_sound and value >= 0 and value < 2 ^ 53 and value % 1 == 0 end
  for _, value in ipairs(credit) do is_sound = is_sound and value >= 0 and value < 2 ^ 53 end
end

-- A clock that was set back a little stands still. After a larger step, or with invalid data, the ledger starts again.
if is_sound and s.at > now and s.at - now <= asked.ttl / SLICES then now = s.at end
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
-- The bound keeps slice numbers exact, so that the loops over slices end.
ruling.ttl = math.max(ruling.ttl, LEAST_TTL)

local length = ruling.ttl / SLICES
local current = math.floor(now / length)
local first = current - BANKED + 1
if s.ruling_ttl ~= ruling.ttl then
  for slice = 1, SLICES do credit[slice] = 0 end
  s.ruling_ttl = ruling.ttl
end
local last = math.floor(s.at / length)
for slice = math.max(last + 1, current - SLICES + 1), current do credit[slice % SLICES + 1] = 0 end

-- Members that have not synced in this generation are still counted from the last one.
local this = math.floor(now / GENERATION)
if s.generation ~= this then
  local is_next = s.generation == this - 1
  s.old_members, s.old_share = is_next and s.members or 0, is_next and s.share or 0
  s.generation, s.members, s.share = this, 0, 0
end

-- The ledger accrues the part of the floor that is not promised to members, each slice its own part.
local free = ruling.floor * math.max(WHOLE - s.share - s.old_share, 0) / WHOLE / 1000000
for slice = math.max(last, first), current do
  local from, to = math.max(s.at, slice * length), math.min(now, (slice + 1) * length)
  if to > from then credit[slice % SLICES + 1] = credit[slice % SLICES + 1] + free * (to - from) end
end
s.at = now

local members = 0
if is_member then
  local is_new, is_foreign = epoch == 0, epoch ~= 0 and epoch ~= s.epoch
  -- A young ledger that gets a sync from an unknown member has lost its data. Until all members have returned, the whole
  -- floor counts as promised to them, besides what this ledger has promised to new members.
  if is_foreign and s.recalled == 0 and now - s.epoch < YOUNG then
    s.recalled, s.members, s.share = this, s.members + known_members, s.share + WHOLE
  end
  if is_foreign then generation = s.recalled end
  -- Not below zero: after a lost reply, a member may hold an older promise than the ledger has recorded.
  if generation == this then
    s.members, s.share = math.max(s.members - 1, 0), math.max(s.share - held, 0)
  elseif generation == this - 1 then
    s.old_members, s.old_share = math.max(s.old_members - 1, 0), math.max(s.old_share - held, 0)
  end
  local accrues = share
  epoch, generation, share = s.epoch, 0, 0
  if is_new and not leaves then
    -- No share before the second sync: an instance that never gets a reply would keep its share from the others.
    members = 1
  elseif not leaves then
    s.members, generation = s.members + 1, this
    local most = math.floor(WHOLE / (s.members + s.old_members))
    share = math.max(math.min(most, WHOLE - s.share - s.old_share), 0)
    -- The member accrues its earlier share until it gets this reply, which may be lost.
    s.share = s.share + math.max(share, accrues)
  end
end
members = members + s.members + s.old_members

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
  epoch, generation, share, members, granted, (current + LEASED) * length - now,
  balance - granted * TOKEN, ruling.ratio, ruling.floor, ruling.ttl,
}

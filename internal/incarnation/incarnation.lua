-- Judges a master's incarnation, and keeps the record of it. KEYS[1] is the
-- record; ARGV are
--   the database that the caller has selected, or '-' if it does not know
--   what to do: keep, write a new record unless the old one holds; read, write
--       nothing; adopt, declare that nobody holds a lock here
--   a record that the caller knows to hold no longer, or ''
--   the largest MaxTTL that the caller knows of, in ms
-- The answer is the record, empty if there is none; this server's time in µs; why the
-- record that was there does not hold: '' if it does, else absent, restart, database,
-- clock or stale; and this process' run_id.
--
-- A record is the run_id of the server's process, the time since when, in µs, the
-- database, and the largest MaxTTL that a client has declared, in ms, which older clients
-- have left out; then, if it was adopted, that word. '-' stands for a run_id that the caller
-- may not read, and for a database.
local key, database, what, stale, declared = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The fields of a record, or nothing if it is none. No client declares more than a week. What
-- clients could not read must not pass for a record here: it would never be replaced.
local function parse(record)
  if #record > 128 then
    return
  end
  local of, since, at, more = string.match(record, '^([%x%-]+) (%d+) ([%d%-]+)(.*)$')
  if not of or #since > 16 then
    return
  end
  local ttl, adopted = string.match(more, '^ (%d%d?%d?%d?%d?%d?%d?%d?%d?)(.*)$')
  adopted = adopted or more
  if (adopted == '' or adopted == ' adopted') and tonumber(ttl or 0) <= 604800000 then
    return of, since, at, tonumber(ttl or 0), adopted
  end
end

-- What the caller does not know contradicts nothing, and what the record does not
-- say contradicts only one who knows the rest: else callers that may read less
-- than others, and they, would take turns in writing.
local function judge(record)
  local of, since, at = parse(record)
  if not of then
    return 'absent'
  elseif run ~= '-' and of ~= run then
    return 'restart'
  elseif database ~= '-' and at ~= database and (at ~= '-' or run ~= '-') then
    return 'database'
  elseif record == stale then
    return 'stale'
  elseif tonumber(since) > now then
    return 'clock'
  end
  return ''
end

-- The record is to live until a moment of its own in the year 2100: one integer,
-- its time to live, then says that it is there, that it is this one, and that the
-- server's clock goes as it went.
local function mark(record)
  local moment = 4102444800000 + tonumber(string.sub(redis.sha1hex(record), 1, 8), 16)
  redis.call('PEXPIREAT', key, string.format('%.0f', moment))
end

local record = redis.pcall('GET', key)
if type(record) == 'table' then
  if string.sub(record.err, 1, 9) ~= 'WRONGTYPE' then
    return record
  end
  record = ''
end
record = record or ''

local why = judge(record)
local of, since, at, ttl, adopted = parse(record)
if not of then
  record = ''
end
local before = record
if what == 'adopt' then -- nobody holds a lock, so that no MaxTTL has to be waited for
  record = run .. ' ' .. string.format('%.0f', now) .. ' ' .. database .. ' 0 adopted'
elseif what == 'keep' and why ~= '' then -- leases of the life before may still last
  record = run .. ' ' .. string.format('%.0f', now) .. ' ' .. database .. ' ' .. math.max(ttl or 0, declared)
elseif what == 'keep' and ttl < declared then
  record = of .. ' ' .. since .. ' ' .. at .. ' ' .. declared .. adopted
end
if record ~= before then
  redis.call('SET', key, record)
end
if what ~= 'read' then
  mark(record)
end
return {record, now, why, run}

-- Releases and renewals of many locks in one call. For each key: its token and
-- a time to live in ms, 0 for a release. For each an answer of its own:
--    1  the token was there: deleted, or given its full time to live again
--    0  there is no key
--   -1  another token is there, or something that is no lock
-- or an error, which harms none of the others. The answer for a single key comes
-- by itself, without a list around it. Nothing here makes a key.
local answers = {}
for i, key in ipairs(KEYS) do
  local token, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  local held = redis.pcall('GET', key)
  if held == token then
    if ttl == '0' then
      answers[i] = redis.pcall('DEL', key)
    else
      answers[i] = redis.pcall('PEXPIRE', key, ttl)
    end
  elseif not held then
    answers[i] = 0
  elseif type(held) == 'table' and string.sub(held.err, 1, 9) ~= 'WRONGTYPE' then
    answers[i] = held
  else
    answers[i] = -1
  end
end
if #KEYS == 1 then
  return answers[1]
end
return answers

-- Compare and delete: a token that is not ours frees nobody.
-- 1: deleted; 0: nothing of ours was there. A key of another type is not ours.
local token = redis.pcall('GET', KEYS[1])
if token == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
if type(token) == 'table' and token.err and string.sub(token.err, 1, 9) ~= 'WRONGTYPE' then
  return token
end
return 0

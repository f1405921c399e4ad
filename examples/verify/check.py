# Checks a history of redlock verify: python3 check.py FILE. It shares nothing with redlock. The format: redlock verify --help.
# An operation has held its lock from "entered" to the last "held": at both moments, and in between, it could rely on the lock.

import json, sys

ops, bad = {}, 0
for line in open(sys.argv[1]):
    r = json.loads(line)
    ops.setdefault(r["op"], {})[r["k"]] = r
for name in {n for o in ops.values() if "asked" in o for n in o["asked"]["n"].split()}:
    until, fence = 0, 0
    held = [o for o in ops.values() if "held" in o and "entered" in o and name in o["asked"]["n"].split()]
    for o in sorted((o for o in held if o["held"]["t"] >= o["entered"]["t"]), key=lambda o: o["entered"]["t"]):
        bad += o["entered"]["t"] < until or o["entered"]["fence"] <= fence
        until, fence = max(until, o["held"]["t"]), o["entered"]["fence"]
print(bad, "overlaps and fences that fell, in", len(ops), "operations")
sys.exit(bad > 0)

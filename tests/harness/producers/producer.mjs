// A producer in Node: `node producer.mjs URL DESTINATION STOP` sends messages, five lines a request, from four loops until
// the file STOP is there. A request without an answer is repeated with the same ids. Each id that was answered for is a
// line of its output.
import { randomBytes } from "node:crypto";
import { existsSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [url, destination, stop] = process.argv.slice(2);
const WORKERS = 4;
const LINES = 5;
const PAUSE = 50;
const AGAIN = 20;

function newId() {
  const id = randomBytes(16);
  id.writeUIntBE(Date.now(), 0, 6);
  id[6] = 0x70 | (id[6] & 0x0f);
  id[8] = 0x80 | (id[8] & 0x3f);
  return id.toString("hex").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
}

async function send(lines) {
  const body = lines.map((line) => JSON.stringify(line)).join("\n");
  const request = { method: "POST", headers: { "Content-Type": "application/x-ndjson" }, body };
  for (; ; await sleep(AGAIN)) {
    let answer, said;
    try {
      answer = await fetch(`${url}/v1/messages`, { ...request, signal: AbortSignal.timeout(10_000) });
      said = await answer.json();
    } catch {
      continue;
    }
    if (answer.status === 200 && said.results.every((result) => result.status !== "rejected")) return;
    if (answer.status === 429 || answer.status >= 500) continue;
    console.error("refused", answer.status, JSON.stringify(said));
    process.exit(1);
  }
}

async function work() {
  for (let number = 0; !existsSync(stop); number += LINES) {
    const lines = Array.from({ length: LINES }, (_, index) => ({
      destination,
      id: newId(),
      body: { from: "node", number: number + index },
    }));
    await send(lines);
    writeSync(1, lines.map((line) => `${line.id}\n`).join(""));
    await sleep(PAUSE);
  }
}

await Promise.all(Array.from({ length: WORKERS }, work));

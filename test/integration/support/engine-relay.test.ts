import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { leasePrefix } from "../../../src/controller/engine-names.ts";
import { EngineRelay } from "../../support/engine-relay.ts";

test("the engine relay counts the requests for an app's objects; it forwards those for the engine lease, but does not count them", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-relay-"));
  const engineSocket = join(folder, "engine.sock");
  const received: string[] = [];
  const engine = createServer((incoming, answer) => {
    void text(incoming).then((body) => {
      received.push(`${incoming.method} ${incoming.url} ${body}`);
      answer.end("{}");
    });
  });
  await new Promise<void>((resolve) => engine.listen(engineSocket, resolve));
  try {
    const relaySocket = join(folder, "relay.sock");
    await using relay = await EngineRelay.open(`unix://${relaySocket}`, `unix://${engineSocket}`);
    relay.setTrap(undefined);
    const record = `${leasePrefix("abc123")}7`;
    const requests = [
      ["POST", "/v1.41/volumes/create", JSON.stringify({ Name: record })],
      ["POST", "/v1.41/volumes/create", JSON.stringify({ Name: "berth-abc123_web-data" })],
      ["DELETE", `/v1.41/volumes/${record}`, ""],
      ["DELETE", "/v1.41/containers/0123", ""],
    ] as const;
    for (const [method, path, body] of requests)
      await new Promise<void>((resolve, reject) => {
        const outgoing = request({ socketPath: relaySocket, method, path, agent: false }, (reply) =>
          reply.resume().once("end", resolve),
        );
        outgoing.once("error", reject).end(body);
      });
    expect(received).toEqual(requests.map(([method, path, body]) => `${method} ${path} ${body}`));
    expect(relay.seen).toEqual(["POST /volumes/create", "DELETE /containers/0123"]);
  } finally {
    await new Promise((resolve) => engine.close(resolve));
    await rm(folder, { recursive: true });
  }
});

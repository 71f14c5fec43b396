import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { afterEach, expect, test } from "vitest";
import { ContainerListeners } from "../../../src/assistant/inference/http/container-listeners.ts";
import { silentLogger } from "../../../src/base/logger.ts";
import { freePorts } from "../../support/free-port.ts";
import { startInferenceHttp } from "../../support/inference-http-harness.ts";
import { otherUid } from "../../support/other-user-requests.ts";

const path = "/v1/chat/completions";
const limits = { bodyBytesMax: 60_000, allBodiesBytesMax: 800_000 } as const;
const large = JSON.stringify({ messages: [{ role: "user", content: "x".repeat(40_000) }] });
const uid = process.getuid?.() ?? 0;

/**
 * A program that sends the first 40,000 bytes of many bodies without their ends, more than all bodies together may
 * have. It prints the status of the first refusal, and keeps all connections open.
 */
const hog = `
import { connect } from "node:net";
const { uid, ...address } = JSON.parse(process.argv[1]);
process.setuid?.(uid);
const head = "POST ${path} HTTP/1.1\\r\\nhost: localhost\\r\\ncontent-type: application/json\\r\\n";
for (let count = 0; count < 40; count += 1)
  connect(address)
    .once("data", (data) => process.stdout.write(String(data).slice(9, 12) + "\\n"))
    .on("error", () => {})
    .write(head + "content-length: 50000\\r\\n\\r\\n" + "x".repeat(40_000));
`;

const hogs = new Set<ChildProcess>();
afterEach(async () => {
  for (const child of hogs) child.kill("SIGKILL");
  await Promise.all([...hogs].map(async (child) => child.exitCode ?? once(child, "exit")));
  hogs.clear();
});

interface Sender {
  readonly uid?: number;
  readonly host?: string;
  readonly port: number;
  readonly localAddress?: string;
}

/** Starts a program that holds as many bodies as the server lets it hold. */
async function startHog(sender: Sender): Promise<void> {
  const child = spawn(
    process.execPath,
    ["--input-type=module", "--eval", hog, JSON.stringify({ uid, host: "127.0.0.1", ...sender })],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  hogs.add(child);
  const [line] = await once(child.stdout, "data");
  expect(String(line).slice(0, 3)).toBe("429");
}

test("a program is served while another one of the same user holds the bodies of as many requests as it can", async () => {
  await using harness = await startInferenceHttp({ limits });
  await startHog({ port: harness.port });
  expect((await harness.post(path, large)).status).toBe(200);
});

test("a user's program is served while three programs of another user hold the bodies of as many requests as they can", async () => {
  await using harness = await startInferenceHttp({ limits });
  for (let count = 0; count < 3; count += 1) await startHog({ port: harness.port, uid: otherUid });
  expect((await harness.post(path, large)).status).toBe(200);
});

test("a container is served while another one holds the bodies of as many requests as it can", async () => {
  await using listeners = new ContainerListeners({ logger: silentLogger });
  await using server = await startInferenceHttp({ limits, listeners });
  expect(server.port).toBeGreaterThan(0);
  const [port = 0] = await freePorts(1);
  // These addresses of 127.0.0.0/8 belong to this machine, and represent a bridge and two containers.
  const host = "127.0.0.2";
  await listeners.replace([{ address: host, port, host: "localhost", subnets: ["127.0.1.0/24"] }]);
  await startHog({ host, port, localAddress: "127.0.1.17" });
  const asked = request({
    host,
    port,
    path,
    method: "POST",
    localAddress: "127.0.1.18",
    headers: { host: "localhost", "content-type": "application/json" },
  }).end(large);
  const [response] = await once(asked, "response");
  expect(response.resume().statusCode).toBe(200);
  await once(response, "end");
});

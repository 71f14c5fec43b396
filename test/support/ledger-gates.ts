import { createHash } from "node:crypto";
import { closeSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { BusValue, BusVariant } from "../../src/dbus/port.ts";
import { assertText, getCallOutcome } from "./companion-client.ts";
import { EFFECTS } from "./effects-app.ts";
import type { FaultHarness } from "./fault-harness.ts";
import type { WebhookReceiver } from "./webhook-receiver.ts";

/**
 * A session that a client has opened before the ledger fails, so that the test can call the session's methods while the
 * ledger fails.
 */
export interface OpenSession {
  readonly path: string;
  readonly interface: string;
}

export async function openSession(harness: FaultHarness): Promise<OpenSession> {
  const none = new Map<string, BusVariant>();
  const [path, pipe] = await harness.client.call("Inference1", "OpenSession", "a{sv}", [none]);
  harness.defer(() => closeSync(Number(pipe)));
  return { path: assertText(path), interface: "dev.assistant.Inference1.Session" };
}

/** Calls the methods of the bus that need the ledger, except tool calls, and returns the outcome of each. */
export async function requestGatedMethods(
  harness: FaultHarness,
  session: OpenSession,
): Promise<Readonly<Record<string, string>>> {
  const { client } = harness;
  const none = new Map<string, BusVariant>();
  const scopes = new Map<string, BusVariant>([["scopes", { signature: "as", value: ["home"] }]]);
  const onSession = (member: string, signature: string, args: readonly BusValue[]) =>
    client.call("Inference1", member, signature, args, session);
  return {
    search: await getCallOutcome(client.context("Search", "sa{sv}", ["boiler", none])),
    scoped: await getCallOutcome(client.context("Search", "sa{sv}", ["boiler", scopes])),
    set: await getCallOutcome(client.context("MemorySet", "sss", [EFFECTS, "other", "value"])),
    wipe: await getCallOutcome(client.context("MemoryWipe", "s", [EFFECTS])),
    generate: await getCallOutcome(onSession("Generate", "sa{sv}", ["a secret prompt", none])),
    embed: await getCallOutcome(onSession("Embed", "as", [["a secret text"]])),
  };
}

/** Sends a request to each HTTP endpoint that needs the ledger, and returns the status and the error code of each. */
export async function requestGatedEndpoints(
  harness: FaultHarness,
): Promise<readonly (readonly [string, number, unknown])[]> {
  const bodies = {
    "/v1/chat/completions": { messages: [{ role: "user", content: "a secret prompt" }] },
    "/v1/completions": { model: "any", prompt: "a secret prompt" },
    "/v1/embeddings": { model: "any", input: "a secret text" },
  };
  return Promise.all(
    Object.entries(bodies).map(async ([path, body]) => {
      const response = await fetch(`${harness.companion.ready.url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      const said: { readonly error?: { readonly code?: unknown } } = JSON.parse(
        await response.text(),
      );
      return [path, response.status, said.error?.code] as const;
    }),
  );
}

/**
 * Returns the number of POST requests that the substitute for the system instance has received. Each of these requests
 * would make a model compute.
 */
export function countModelRequests(upstream: WebhookReceiver): number {
  return upstream.received.filter(({ method }) => method === "POST").length;
}

/** Returns a digest of all files that hold the apps' memory. */
export function digestMemoryFiles({ dataDir }: FaultHarness): string {
  const digest = createHash("sha256");
  const keys = readdirSync(join(dataDir, "memory.keys")).map((key) => `memory.keys/${key}`);
  for (const file of ["memory.db", "memory.db-wal", ...keys.toSorted()])
    digest.update(file).update(readFileSync(join(dataDir, file)));
  return digest.digest("hex");
}

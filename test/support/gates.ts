import { createHash } from "node:crypto";
import { closeSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { BusValue, BusVariant } from "../../src/dbus/port.ts";
import { outcomeOf, textOf } from "./companion-client.ts";
import { EFFECTS } from "./effects-app.ts";
import type { FaultWorld } from "./fault-world.ts";
import type { Receiver } from "./receiver.ts";

/** The session that a program opened while all was well. */
export interface OpenSession {
  readonly path: string;
  readonly interface: string;
}

export async function openSession(world: FaultWorld): Promise<OpenSession> {
  const none = new Map<string, BusVariant>();
  const [path, pipe] = await world.client.call("Inference1", "OpenSession", "a{sv}", [none]);
  world.defer(() => closeSync(Number(pipe)));
  return { path: textOf(path), interface: "dev.assistant.Inference1.Session" };
}

/** Calls that the ledger gates, beside those of tools: each with what it ends with. */
export async function gateOutcomes(
  world: FaultWorld,
  session: OpenSession,
): Promise<Readonly<Record<string, string>>> {
  const { client } = world;
  const none = new Map<string, BusVariant>();
  const scopes = new Map<string, BusVariant>([["scopes", { signature: "as", value: ["home"] }]]);
  const onSession = (member: string, signature: string, args: readonly BusValue[]) =>
    client.call("Inference1", member, signature, args, session);
  return {
    search: await outcomeOf(client.context("Search", "sa{sv}", ["boiler", none])),
    scoped: await outcomeOf(client.context("Search", "sa{sv}", ["boiler", scopes])),
    set: await outcomeOf(client.context("MemorySet", "sss", [EFFECTS, "other", "value"])),
    wipe: await outcomeOf(client.context("MemoryWipe", "s", [EFFECTS])),
    generate: await outcomeOf(onSession("Generate", "sa{sv}", ["a secret prompt", none])),
    embed: await outcomeOf(onSession("Embed", "as", [["a secret text"]])),
  };
}

/** Status and code of each endpoint that the ledger gates. */
export async function gateAnswers(
  world: FaultWorld,
): Promise<readonly (readonly [string, number, unknown])[]> {
  const bodies = {
    "/v1/chat/completions": { messages: [{ role: "user", content: "a secret prompt" }] },
    "/v1/completions": { model: "any", prompt: "a secret prompt" },
    "/v1/embeddings": { model: "any", input: "a secret text" },
  };
  return Promise.all(
    Object.entries(bodies).map(async ([path, body]) => {
      const response = await fetch(`${world.companion.ready.url}${path}`, {
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

/** Requests that would have made a model of the system instance work. */
export function computed(upstream: Receiver): number {
  return upstream.received.filter(({ method }) => method === "POST").length;
}

/** Of all that memory has on the disk. */
export function memoryDigest({ dataDir }: FaultWorld): string {
  const digest = createHash("sha256");
  const keys = readdirSync(join(dataDir, "memory.keys")).map((key) => `memory.keys/${key}`);
  for (const file of ["memory.db", "memory.db-wal", ...keys.toSorted()])
    digest.update(file).update(readFileSync(join(dataDir, file)));
  return digest.digest("hex");
}

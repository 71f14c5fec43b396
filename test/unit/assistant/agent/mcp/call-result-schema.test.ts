import { Client, InMemoryTransport, type ProtocolEra } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import { createCallResultSchema } from "../../../../../src/assistant/agent/mcp/call-result-schema.ts";

const text = { type: "text", text: "done" };
const accepted: readonly [object, object?][] = [
  [{ content: [text] }],
  [{ content: [], structuredContent: { a: [1] }, isError: true }],
  [{ content: [text], _meta: { trace: "1" }, more: 1 }],
];
const refused: readonly [string, object][] = [
  ["content that is not a list", { content: "done" }],
  ["content that is null", { content: null }],
  ["a block without its text", { content: [{ type: "text" }] }],
  ["a block of an unknown type", { content: [{ type: "smell" }] }],
  ["an error mark that is not a boolean", { content: [], isError: "yes" }],
  ["the result of a task without content", { task: { taskId: "1" } }],
];

describe.each<[string, ProtocolEra]>([
  ["older revisions", "legacy"],
  ["the revision 2026-07-28", "modern"],
])("the check of a tool's result against %s of MCP", (_, era) => {
  it.each(accepted)("accepts the result %j unchanged", async (result) => {
    expect(await validate(era, result)).toEqual(result);
  });

  it.each(refused)("refuses a result with %s", async (_name, result) => {
    expect(await validate(era, result)).toBeUndefined();
  });
});

describe("the check of a tool's result, by the revision of MCP,", () => {
  it("adds empty content to a result without content in the older revisions only", async () => {
    const result = { structuredContent: { a: 1 } };
    expect(await validate("legacy", result)).toEqual({ content: [], ...result });
    expect(await validate("modern", result)).toBeUndefined();
  });

  it("accepts structured content that is not an object only in the revision of 2026", async () => {
    const result = { content: [], structuredContent: [1] };
    expect(await validate("legacy", result)).toBeUndefined();
    expect(await validate("modern", result)).toEqual(result);
  });

  it.each([...accepted.map(([result]) => result), ...refused.map(([, result]) => result), {}])(
    "agrees with the official SDK for an older revision: %j",
    async (result) => {
      const ours = await validate("legacy", result);
      expect(ours !== undefined).toBe(await isAcceptedBySdk(result));
    },
  );
});

async function validate(era: ProtocolEra, result: unknown): Promise<unknown> {
  const outcome = await Promise.resolve(createCallResultSchema(era)["~standard"].validate(result));
  return outcome.issues ? undefined : outcome.value;
}

/** Returns true if a client of the official SDK, which uses its own schema, accepts the result. */
async function isAcceptedBySdk(result: object): Promise<boolean> {
  const [near, far] = InMemoryTransport.createLinkedPair();
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a transport of the SDK has no such method
  far.onmessage = (message) => {
    if (!("id" in message && "method" in message)) return;
    const { id, method } = message;
    const initialized = {
      protocolVersion: "2025-06-18",
      capabilities: { tools: {} },
      serverInfo: { name: "app", version: "1" },
    };
    const given = method === "initialize" ? initialized : result;
    void far.send({ jsonrpc: "2.0", id, result: { ...given } });
  };
  await far.start();
  const client = new Client({ name: "test", version: "1" });
  await client.connect(near);
  try {
    await client.request({ method: "tools/call", params: { name: "echo" } });
    return true;
  } catch {
    return false;
  } finally {
    await client.close();
  }
}

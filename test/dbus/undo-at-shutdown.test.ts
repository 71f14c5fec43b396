import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { OfflineLedger } from "../../src/assistant/ledger/offline-ledger.ts";
import { CompanionClient } from "../support/companion-client.ts";
import { CompanionProcess } from "../support/companion-process.ts";
import { RawApp } from "../support/raw-app.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

const APP = "org.example.Stars";
const argument = { type: "object", properties: { id: { type: "string" } }, required: ["id"] };
const tools = [
  { name: "star", tier: "read", undo: { tool: "unstar", map: { id: "$input.id" } } },
  { name: "unstar", tier: "destructive" },
].map((tool) => ({ ...tool, description: `To ${tool.name}.`, input_schema: argument }));

it("an undo that hangs when the companion is stopped is reported as interrupted, and later undos work", async () => {
  await using bus = await TestSessionBus.start();
  await using companion = await CompanionProcess.prepare({ bus });
  const manifest = {
    svc_manifest: 1,
    app_id: APP,
    name: "Stars",
    mcp: { transport: "unix", activatable: false },
    tools,
  };
  await writeFile(join(companion.manifestsDir, `${APP}.json`), JSON.stringify(manifest));
  await companion.start();
  const undone: string[] = [];
  let isHanging = false;
  await using _ = await RawApp.start(companion.ready.apps_dir, APP, (message, peer) => {
    if (message.method === "tools/list") {
      const listed = tools.map(({ name }) => ({ name, inputSchema: argument }));
      peer.answer(message, { tools: listed });
      return "handled";
    }
    if (message.method !== "tools/call") return undefined;
    const { name, arguments: args } = JSON.parse(JSON.stringify(message.params));
    if (name === "unstar") undone.push(String(args.id));
    if (name !== "unstar" || !isHanging) peer.answer(message, { content: [] });
    return "handled";
  });
  await using client = await CompanionClient.connect(bus);
  const [first, second] = [
    await client.request(APP, "star", { id: "first" }),
    await client.request(APP, "star", { id: "second" }),
  ];
  expect([first?.status, second?.status]).toEqual(["executed", "executed"]);

  isHanging = true;
  const undoing = client.undo();
  await expect.poll(() => undone).toEqual(["second"]);
  const stopped = companion.stop();
  const secondId = Number(second?.callId);
  expect(await undoing).toMatchObject({
    status: "failed",
    call_id: secondId,
    error: { code: "interrupted", outcome: "unknown" },
    remaining: 1,
    unknown: [secondId],
  });
  expect(await stopped).toBe(0);
  {
    using ledger = OfflineLedger.open(join(companion.home, ".local/share/berth/companion"));
    expect(ledger.verify().status).toBe("whole");
    const entries = ledger.tail(20).filter(({ body }) => body.name.startsWith("agent.undo."));
    expect(
      entries.map(({ body: { name, fields } }) => [name, fields["call"], fields["code"]]),
    ).toEqual([
      ["agent.undo.dispatch", secondId, undefined],
      ["agent.undo.result", secondId, "interrupted"],
    ]);
  }

  isHanging = false;
  await companion.start();
  expect(await client.undo()).toMatchObject({
    status: "undone",
    call_id: Number(first?.callId),
    unknown: [secondId],
  });
  expect(await client.undo()).toMatchObject({ status: "nothing", unknown: [secondId] });
  const [report] = await client.agent("UndoCall", "t", [BigInt(secondId)]);
  expect(JSON.parse(typeof report === "string" ? report : "")).toMatchObject({
    status: "undone",
    unknown: [],
  });
  expect(undone).toEqual(["second", "first", "second"]);
});

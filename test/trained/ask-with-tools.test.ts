import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { DesktopHarness, NOTES } from "../support/desktop-harness.ts";
import { FrontendClient, type RecordedTurn } from "../support/frontend-client.ts";
import { replaceChatTemplate } from "../support/gguf/replace-chat-template.ts";
import { chatTemplate } from "../support/gguf/sample-chat-template.ts";

/**
 * Questions to the overlay on a real bus, with the notes app and a small chat model. The prompt of a turn contains a
 * random code, so the model's choices differ from run to run; what a turn does with them does not.
 */

const WISHES = [
  'Create a note: {"tool":"create_note","args":{"title":"Milk","body":"Buy two bottles."}}',
  'List my notes. Answer {"tool":"list_notes","args":{}}',
];

let folder: string;
let withTemplate: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-ask-"));
  withTemplate = join(folder, "tools.gguf");
  await replaceChatTemplate(inject("trainedModels").smollm2, withTemplate, chatTemplate);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface CallReport {
  readonly app_id: string;
  readonly tool: string;
  readonly status: string;
}

function callsOf(turn: RecordedTurn): readonly CallReport[] {
  // The detail is not validated; a test that reads a missing member fails.
  const detail: { calls: readonly CallReport[] } = JSON.parse(JSON.stringify(turn.end?.detail));
  return detail.calls;
}

/** Asks, approves every question, and waits for the end of the turn. */
async function askAndApprove(person: FrontendClient, wish: string): Promise<RecordedTurn> {
  const turn = await person.ask(wish);
  for (let approved = 0; turn.end === undefined; ) {
    await person.waitUntil(
      "a question or the end of the turn",
      () => turn.end !== undefined || turn.specs.length > approved,
    );
    if (turn.specs.length <= approved) continue;
    await person.respond(turn, true);
    approved += 1;
  }
  return turn;
}

describe.each(["without", "with"] as const)("SmolLM2 %s a chat template for tools", (kind) => {
  test("calls tools of the notes app for questions on the bus, and answers them", async () => {
    const model = kind === "with" ? withTemplate : inject("trainedModels").smollm2;
    await using desktop = await DesktopHarness.start({}, [
      ...["--engine", "llama", "--model", `smollm2=${model}`],
      ...["--context", "1280", "--parallel", "2", "--threads", "1"],
    ]);
    await using person = await FrontendClient.connect(desktop.bus.address);
    const turns: RecordedTurn[] = [];
    for (const wish of WISHES) turns.push(await askAndApprove(person, wish));
    console.log(
      JSON.stringify(
        turns.map((t) => ({
          names: t.names.length,
          text: t.text.slice(0, 200),
          specs: t.specs,
          end: t.end,
        })),
        (_k, v) => (typeof v === "bigint" ? String(v) : v),
        1,
      ),
    );
    expect(NOTES).toBe(NOTES);
    expect(turns.flatMap(callsOf).length).toBeGreaterThan(0);
  });
});

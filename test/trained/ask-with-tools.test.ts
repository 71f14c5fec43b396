import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test, vi } from "vitest";
import { DesktopHarness, NOTES } from "../support/desktop-harness.ts";
import { FrontendClient, type RecordedTurn } from "../support/frontend-client.ts";
import { replaceChatTemplate } from "../support/gguf/replace-chat-template.ts";
import { chatTemplate } from "../support/gguf/sample-chat-template.ts";

/**
 * Questions to the overlay on a real bus, with the notes app and a small chat model. The model has too few parameters
 * to choose a tool for a request in plain words, so the question contains the call, which the model copies. The prompt
 * of a turn contains a random code, so the model may choose otherwise now and then.
 */

const NOTE = { title: "Milk", body: "Buy two bottles." };
const CREATE = callWish("create_note", NOTE);
const LIST = callWish("list_notes", {});
const TRIES_MAX = 3;
/**
 * The size of the model's context. It also limits the answers in text, which end at the latest when the context is
 * full.
 */
const CONTEXT_TOKENS = "1024";
const TURN_WAIT = { timeout: 120_000, interval: 20 };

function callWish(tool: string, args: object): string {
  return `Call this tool for me: ${JSON.stringify({ tool: `${NOTES}/${tool}`, args })}`;
}

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
  for (let approved = 0; ; approved += 1) {
    await vi.waitUntil(() => turn.end !== undefined || turn.specs.length > approved, TURN_WAIT);
    if (turn.end !== undefined) return turn;
    await person.respond(turn, true);
  }
}

/** Asks until the model has called the tool, and returns all turns. */
async function askUntilCalled(
  person: FrontendClient,
  wish: string,
  tool: string,
): Promise<readonly RecordedTurn[]> {
  const turns: RecordedTurn[] = [];
  while (turns.length < TRIES_MAX && !turns.some((turn) => hasCalled(turn, tool)))
    turns.push(await askAndApprove(person, wish));
  return turns;
}

function hasCalled(turn: RecordedTurn, tool: string): boolean {
  return callsOf(turn).some((call) => call.tool === tool && call.status === "executed");
}

describe.each(["without", "with"] as const)(
  "the model SmolLM2, %s a chat template for tools,",
  (kind) => {
    test("calls tools of the notes app for questions on the bus, and answers them", async () => {
      const model = kind === "with" ? withTemplate : inject("trainedModels").smollm2;
      const flags = ["--engine", "llama", "--model", `smollm2=${model}`, "--threads", "1"];
      await using desktop = await DesktopHarness.start({}, [
        ...flags,
        "--parallel",
        "2",
        "--context",
        CONTEXT_TOKENS,
      ]);
      await using person = await FrontendClient.connect(desktop.bus.address);
      const created = await askUntilCalled(person, CREATE, "create_note");
      const listed = await askUntilCalled(person, LIST, "list_notes");

      expect(created.flatMap(callsOf)).toContainEqual(
        expect.objectContaining({ app_id: NOTES, tool: "create_note", status: "executed" }),
      );
      expect(created.flatMap(({ specs }) => specs)).toContainEqual(
        expect.objectContaining({ kind: "call", tool: "create_note", args: NOTE }),
      );
      expect(listed.flatMap(callsOf)).toContainEqual(
        expect.objectContaining({ app_id: NOTES, tool: "list_notes", status: "executed" }),
      );
      for (const turn of [...created, ...listed]) {
        expect(turn.end).toMatchObject({ status: "completed", detail: { model: "smollm2" } });
        expect(turn.text).not.toBe("");
        expect(turn.text).not.toContain("\ufffd");
      }
      const { stdout } = await desktop.companion.berth(
        ["call", NOTES, "list_notes", "{}"].concat("--provenance", "user"),
      );
      expect(stdout).toContain(NOTE.title);
    });
  },
);

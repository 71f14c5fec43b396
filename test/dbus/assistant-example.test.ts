import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DesktopHarness, NOTES } from "../support/desktop-harness.ts";
import { examplePath } from "../support/example-app.ts";

const program = examplePath("assistant/on-the-bus.py");
let desktop: DesktopHarness;
beforeAll(async () => {
  desktop = await DesktopHarness.start();
});
afterAll(async () => {
  await desktop[Symbol.asyncDispose]();
});

/** Runs the example assistant with the arguments `words`; `input` is the text that the user types. */
const assistant = (words: readonly string[], input = "") =>
  desktop.bus.run("/usr/bin/python3", [program, ...words], input);

test("the example assistant finds a tool, calls it, and asks the user for a necessary confirmation", async () => {
  const { stdout } = await assistant(["tools", "write a note"]);
  expect(stdout).toContain(`["${NOTES}", "create_note", "write", `);
  const create = ["call", NOTES, "create_note", '{"title": "Milk\\u001b", "body": ""}', "user"];
  const no = await assistant(create, "n\n");
  expect([no.code, JSON.parse(no.stdout)]).toMatchObject([1, { code: "declined" }]);
  const yes = await assistant(create, "y\n");
  expect([yes.code, JSON.parse(yes.stdout)]).toMatchObject([0, { title: "Milk\u001b" }]);
  expect(yes.stderr).toContain('"Title": "Milk\\u001b"');
  const list = await assistant(["call", NOTES, "list_notes", "{}", "user"]);
  expect([list.code, list.stderr, JSON.parse(list.stdout).notes.length]).toEqual([0, "", 1]);
});

test("the example assistant asks for a stronger confirmation if a web page influenced the call", async () => {
  const args = ["call", NOTES, "create_note", '{"title": "Eggs", "body": ""}', "user", "web:a"];
  const chip = await assistant(args, "y\n");
  expect([chip.code, JSON.parse(chip.stdout)]).toMatchObject([1, { code: "declined" }]);
  expect((await assistant(args, "create_note\n")).code).toBe(0);
});

test("the example assistant asks the user about calls that other programs had parked before it started", async () => {
  const parked = ["call", NOTES, "create_note", "title=Salt", "body=", "--provenance", "user"];
  expect((await desktop.companion.berth(parked)).code).toBe(6);
  const { code, stdout, stderr } = await assistant(["waiting"], "y\n");
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { title: "Salt" }]);
  expect(stderr).toContain('"Title": "Salt"');
  expect(await assistant(["waiting"])).toEqual({ code: 0, stdout: "", stderr: "" });
});

test("the example assistant reports that another frontend has decided, and does not run the call", async () => {
  const args = ["call", NOTES, "create_note", '{"title": "Flour", "body": ""}', "user"];
  const child = spawn("/usr/bin/python3", [program, ...args], {
    env: desktop.companion.environment,
    stdio: ["pipe", "pipe", "pipe"],
  });
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said += text));
  const ended = once(child, "close");
  await new Promise<void>((resolve) => {
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      if (text.includes("to run it")) resolve();
    });
  });
  const { stdout } = await desktop.companion.berth(["confirm", "--list", "--json"]);
  const [{ call_id: id }]: [{ call_id: number }] = JSON.parse(stdout);
  expect((await desktop.companion.berth(["confirm", String(id), "--decline"])).code).toBe(0);
  child.stdin.end("y\n");
  expect(await ended).toEqual([1, null]);
  expect(JSON.parse(said)).toMatchObject({ code: "declined", replayed: true });
});

test("the example assistant searches, and shows a model's text as it arrives", async () => {
  await expect
    .poll(async () => (await assistant(["search", "boiler pressure"])).stdout)
    .toMatch(/^\["file:papers", ".*1\.5 bar/);
  const said = await assistant(["say", "Once upon a time"]);
  expect(said).toMatchObject({ code: 0, stderr: "" });
  expect(said.stdout.trim().length).toBeGreaterThan(0);
});

test("the example assistant reports errors of the bus by their names", async () => {
  const { code, stderr } = await assistant(["search", ""]);
  expect(code).not.toBe(0);
  expect(stderr).toMatch(/^org\.freedesktop\.DBus\.Error\.InvalidArgs: /);
});

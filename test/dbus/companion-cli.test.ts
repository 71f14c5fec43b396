import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DesktopHarness, MEMORY, NOTES } from "../support/desktop-harness.ts";
import { Screen } from "../support/screen.ts";
import { ToolHarness } from "../support/tool-harness.ts";

/**
 * A scenario with the built command line: the real companion with the notes app, a published MCP server and Berth's own
 * tools. Berth's tools call the real API, whose reconcilers use an in-memory engine. The tests run in order, and each
 * builds on those before it.
 */

const BERTH = "dev.berth.apps";
const interrupt = "\u0003";

let server: ToolHarness;
let desktop: DesktopHarness;
beforeAll(async () => {
  server = await ToolHarness.open({ images: { "site:1": { exposedPorts: [80] } } });
  const { url, token = "" } = server.target;
  desktop = await DesktopHarness.start({ BERTH_URL: url, BERTH_TOKEN: token });
});
afterAll(async () => {
  await desktop[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

const berth = (...words: string[]) => desktop.companion.berth(words);
/** Runs `berth call` with the provenance `user`, which the command would set by itself at a terminal. */
const asUser = (...words: string[]) => berth("call", ...words, "--provenance", "user");
const screen = (...words: string[]) => new Screen(words, desktop.companion.environment);

/** Runs the command line at a terminal, answers its question, and resolves to its result. */
async function runAnswering(
  question: RegExp,
  answer: string,
  ...words: string[]
): Promise<{ readonly code: number | null; readonly before: string }> {
  using person = screen(...words);
  const before = await person.until(question);
  person.type(`${answer}\r`);
  return { code: await person.ended, before };
}

/** Requests a call without a terminal, so that the call is parked instead of causing a question. */
const parkCall = (title: string) => berth("call", NOTES, "create_note", `title=${title}`, "body=");

/** Lists the notes by a call over the session bus, as a program other than the command line does. */
async function listNotes(): Promise<readonly { readonly id: string; readonly title: string }[]> {
  const agent = ["dev.assistant.Agent1", "/dev/assistant/Agent1", "dev.assistant.Agent1"] as const;
  const call = ["sssa{sv}", NOTES, "list_notes", "{}", "1", "provenance", "as", "1", "user"];
  const [, , json] = await desktop.bus.busctlCall(...agent, "RequestCall", ...call);
  const detail: { result: { notes: { id: string; title: string }[] } } = JSON.parse(String(json));
  return detail.result.notes;
}

const chip = /Run it\? \[y\/N\] /;
const modal = /or press Enter to decline: /;

describe("tools of apps", () => {
  it("are listed: those of Berth itself, of the notes app and of the MCP server", async () => {
    const { code, stdout, stderr } = await berth("tools");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/^dev\.berth\.apps +list_apps +read +no /m);
    expect(stdout).toMatch(/^org\.example\.Memory +read_graph +read +no /m);
    expect(stdout).toMatch(/^org\.example\.Notes +create_note +write +yes /m);
    const own = await berth("tools", NOTES, "--json");
    expect(JSON.parse(own.stdout)).toHaveLength(7);
    const found = await berth("tools", "--find", "write a note", "--json");
    expect(JSON.parse(found.stdout)).toContainEqual(
      expect.objectContaining({ app_id: NOTES, name: "create_note" }),
    );
  });

  it("run without a question if their tier is read", async () => {
    expect((await asUser(NOTES, "list_notes")).stdout).toBe("notes: []\n");
    const graph = await asUser(MEMORY, "read_graph");
    expect([graph.code, graph.stdout]).toEqual([0, expect.stringContaining("entities")]);
  });

  it("are shown at a terminal if their tier is write, and run after the user has answered y", async () => {
    using person = screen("call", NOTES, "create_note", "title=Milk", "body=two bottles");
    const shown = await person.until(chip);
    expect(shown).toMatch(/Because of: +user\r\n/);
    expect(shown).toMatch(/Title +"Milk"\r\n +Text +"two bottles"\r\n/);
    expect(await listNotes()).toEqual([]);
    person.type("y\r");
    await person.until(/title: Milk/);
    await person.until(/`berth undo` reverts it/);
    expect(await person.ended).toBe(0);
    expect(await listNotes()).toMatchObject([{ title: "Milk" }]);
  });

  it("of the tier destructive run only after the user has typed the tool's name, and Ctrl-C declines the call", async () => {
    const id = (await listNotes())[0]?.id ?? "";
    const no = await runAnswering(modal, "", "call", NOTES, "delete_note", `id=${id}`);
    expect(no.code).toBe(5);
    using person = screen("call", NOTES, "delete_note", `id=${id}`);
    await person.until(modal);
    person.type(interrupt);
    await person.until(/is declined; nothing was done/);
    expect(await person.ended).toBe(5);
    expect(await listNotes()).toHaveLength(1);
    const yes = await runAnswering(modal, "delete_note", "call", NOTES, "delete_note", `id=${id}`);
    expect(yes.code).toBe(0);
    expect(await listNotes()).toEqual([]);
  });

  it("have their calls undone by `berth undo`, last call first, except for a call that the user skips", async () => {
    expect((await berth("undo")).stdout).toMatch(/delete_note by restore_note .*; 1 more can/);
    expect(await listNotes()).toMatchObject([{ title: "Milk" }]);
    const more = await asUser(NOTES, "create_note", "title=Eggs", "body=", "--yes", "--json");
    const { call_id: eggs }: { call_id: number } = JSON.parse(more.stdout);
    const skipped = await berth("undo", "--skip", String(eggs));
    expect(skipped.stdout).toContain("create_note; 1 more can be undone");
    expect((await berth("undo")).stdout).toContain("nothing more can be undone");
    expect(await listNotes()).toMatchObject([{ title: "Eggs" }]);
    expect(await berth("undo")).toMatchObject({ code: 0, stdout: "there is nothing to undo\n" });
  });

  it("fail with a reason and without a question if the call is invalid", async () => {
    const wrong = await asUser(NOTES, "create_note", "title=Milk");
    expect([wrong.code, wrong.stdout]).toEqual([4, ""]);
    expect(wrong.stderr).toMatch(/^error: call \d+ failed \(invalid_args\): \/body: is missing\n$/);
    const unknown = await asUser(NOTES, "burn_note");
    expect([unknown.code, unknown.stderr]).toEqual([
      4,
      expect.stringContaining(`\`berth tools ${NOTES}\``),
    ]);
  });
});

describe("calls that wait for confirmation", () => {
  it("can be listed, shown by number, and confirmed", async () => {
    expect(await parkCall("Salt")).toMatchObject({
      code: 6,
      stdout: expect.stringMatching(/waits for confirmation/),
    });
    const waiting = await berth("confirm", "--list", "--json");
    const [{ call_id: id }]: [{ call_id: number }] = JSON.parse(waiting.stdout);
    const listed = await berth("confirm", "--list");
    expect(listed.stdout).toMatch(/create_note +destructive +.*Title="Salt"/);
    // A call that states no provenance counts as destructive, so the user must type the tool's name.
    const decided = await runAnswering(modal, "create_note", "confirm", String(id));
    expect(decided).toMatchObject({ code: 0, before: expect.stringMatching(/Title +"Salt"/) });
    expect(await berth("confirm", "--list")).toMatchObject({
      stdout: "",
      stderr: "no call waits\n",
    });
    expect((await berth("undo")).code).toBe(0);
  });

  it("are shown by `berth confirm`: first the calls that already wait, then each new one", async () => {
    await parkCall("Flour");
    using person = screen("confirm");
    await person.until(/1 call waits now/);
    await person.until(/Title +"Flour"/);
    await person.until(modal);
    await parkCall("Yeast");
    person.type("n\r");
    await person.until(/is declined; nothing was done/);
    await person.until(/Title +"Yeast"/);
    await person.until(modal);
    person.type("create_note\r");
    await person.until(/title: Yeast/);
    person.type(interrupt);
    expect(await person.ended).toBe(130);
    expect((await listNotes()).map(({ title }) => title).toSorted()).toEqual(["Eggs", "Yeast"]);
  });
});

describe("berth search and berth memory", () => {
  it("find the user's data", async () => {
    await expect
      .poll(async () => (await berth("search", "boiler", "pressure")).stdout)
      .toMatch(/^The boiler\n {2}file:\/\/.*\/Papers\/heating\.md \(papers\)\n {2}.*1\.5 bar/);
    expect((await berth("search", "boiler", "--scope", "work")).stdout).toBe("");
    expect((await berth("search", "--state")).stdout).toMatch(/: 1 document in 1 passage\n/);
  });

  it("store a value for an app until its memory is wiped", async () => {
    expect((await berth("memory", "set", NOTES, "sort", "newest")).code).toBe(0);
    expect((await berth("memory", "get", NOTES, "sort")).stdout).toBe("newest\n");
    expect((await berth("memory", "ls", NOTES)).stdout).toMatch(/sort +newest/);
    expect((await berth("memory", "wipe", NOTES, "--yes")).code).toBe(0);
    expect(await berth("memory", "get", NOTES, "sort")).toMatchObject({ code: 1, stdout: "" });
  });
});

describe("an assistant that manages the server", () => {
  it("finds no apps at first", async () => {
    const { code, stdout } = await asUser(BERTH, "list_apps");
    expect([code, stdout]).toEqual([0, "apps: []\ntotal: 0\n"]);
  });

  it("deploys an app after the user has confirmed", async () => {
    const asked = await berth(
      "call",
      BERTH,
      "deploy_app",
      "name=web",
      "image=site:1",
      "port:=80",
      "--actor",
      "helper",
    );
    expect(asked.code).toBe(6);
    expect(server.controlPlane.app("web")).toBeUndefined();
    const number = /call (?<id>\d+) waits/.exec(asked.stdout)?.groups?.["id"] ?? "";
    const { code, before } = await runAnswering(modal, "deploy_app", "confirm", number);
    expect(code).toBe(0);
    expect(before).toMatch(/Asked by: .*which calls itself "helper"/);
    const described = await asUser(BERTH, "describe_app", "name=web");
    expect(described.stdout).toMatch(/ready: true/);
  });

  it("deletes the app after a modal confirmation, and restores it by an undo", async () => {
    const { code } = await runAnswering(
      modal,
      "delete_app",
      "call",
      BERTH,
      "delete_app",
      "name=web",
    );
    expect(code).toBe(0);
    expect(server.controlPlane.app("web")).toBeUndefined();
    expect((await berth("undo")).stdout).toMatch(/delete_app by restore_app/);
    expect(server.controlPlane.isReady("web")).toBe(true);
  });

  it("removes the app when the user undoes its deployment", async () => {
    expect((await berth("undo")).stdout).toMatch(/deploy_app by restore_app/);
    expect(server.controlPlane.app("web")).toBeUndefined();
  });
});

it("the ledger verifies as whole after these tests, and contains their calls without the arguments", async () => {
  expect(await berth("ledger", "verify", "--user")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^whole: /),
  });
  const { stdout } = await berth("ledger", "tail", "--user", "-n", "200");
  for (const name of ["agent.call.parked", "agent.call.declined", "agent.undo.result"])
    expect(stdout).toContain(name);
  expect(stdout).not.toContain("two bottles");
});

it("ledger erase erases the texts through the running companion, after the user has answered y", async () => {
  const words = ["ledger", "erase", "--user", "--before", "1ms"];
  const { code } = await runAnswering(/for good\? \[y\/N\] /, "y", ...words);
  expect(code).toBe(0);
  expect((await berth("ledger", "verify", "--user")).stdout).toMatch(
    /^whole: \d+ entries, 0 sealed texts, [1-9]\d* erased/,
  );
  const { stdout } = await berth("ledger", "tail", "--user", "--name", "ledger.erased");
  expect(stdout).toMatch(/ledger\.erased .*from=\d+ texts=\d+ to=\d+/);
});

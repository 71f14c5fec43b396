import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import type { BusVariant } from "../../src/dbus/port.ts";
import { COLLECTING, collectGarbage } from "../support/collected-garbage.ts";
import { assertText } from "../support/companion-client.ts";
import { FaultHarness } from "../support/fault-harness.ts";
import { UNBOUNDED_AFTER_MS } from "../support/wait-limits.ts";

/** The number of rounds in which all apps misbehave at the same time. */
const ROUNDS = Number(process.env["BERTH_HOSTILE_ROUNDS"] ?? 2);
const LIMIT_MS = 120_000 + ROUNDS * 30_000;
const program = fileURLToPath(new URL("../support/hostile-app.mjs", import.meta.url));

/** The misbehaviours by name, with the result that a call of such an app must have. */
const behaviours: Readonly<Record<string, RegExp>> = {
  dies: /^failed\/(transport_closed|app_unavailable)$/,
  late: /^executed\/ok$/,
  endless: /^failed\/result_too_large$/,
  large: /^failed\/result_too_large$/,
  zeros: /^failed\/bad_result$/,
  deep: /^failed\/bad_result$/,
  floods: /^failed\/transport_closed$/,
  changes: /^denied\/manifest_changed$/,
  // The test kills silent and hanging apps first, because calls to them would last for a minute.
  silent: /^failed\/(transport_closed|app_unavailable)$/,
  hangs: /^failed\/transport_closed$/,
};
const STUCK = ["silent", "hangs"];
const CALLS_EACH = 4;
/** The allowed growth of the retained memory between the end of the first round and the end of the last round. */
const GROWTH_MIB_MAX = 48;

function appIdOf(behaviour: string, round: number): string {
  return `org.example.Hostile.${behaviour}${round}`;
}

async function writeManifests(harness: FaultHarness): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1)
    for (const behaviour of Object.keys(behaviours)) {
      const manifest = {
        svc_manifest: 1,
        app_id: appIdOf(behaviour, round),
        name: behaviour,
        mcp: { transport: "unix", activatable: false },
        tools: [
          {
            name: "act",
            tier: "read",
            description: "Acts.",
            input_schema: { type: "object", properties: {} },
          },
        ],
      };
      const file = join(harness.companion.manifestsDir, `${manifest.app_id}.json`);
      await writeFile(file, JSON.stringify(manifest));
    }
}

async function startApp(socket: string, behaviour: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [program, socket, behaviour], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (!child.stdout) throw new Error("its output is not read");
  await once(createInterface({ input: child.stdout }), "line");
  return child;
}

async function waitForExit(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGKILL");
  await exit;
}

/**
 * Calls the other apps and programs continuously until `isOver` returns true. Returns the longest duration of each kind
 * of call in milliseconds.
 */
async function useOthersUntil(harness: FaultHarness, isOver: () => boolean, name: string) {
  const { client, companion } = harness;
  const none = new Map<string, BusVariant>();
  const longest = new Map<string, number>();
  const timed = async (what: string, work: () => Promise<unknown>) => {
    const from = performance.now();
    await work();
    longest.set(what, Math.max(longest.get(what) ?? 0, Math.round(performance.now() - from)));
  };
  let round = 0;
  for (; !isOver(); round += 1) {
    await timed("call", async () => {
      const answer = await harness.request("look", `${name}-${round}`);
      expect(answer?.status).toBe("executed");
    });
    await timed("search", () => client.context("Search", "sa{sv}", ["boiler", none]));
    await timed("memory", () =>
      client.context("MemorySet", "sss", ["org.example.Notes", "key", String(round)]),
    );
    await timed("http", async () => {
      const health = await fetch(`${companion.ready.url}/health`);
      expect(health.status).toBe(200);
    });
    await timed("session", async () => {
      const [path, pipe] = await client.call("Inference1", "OpenSession", "a{sv}", [none]);
      const session = { path: assertText(path), interface: "dev.assistant.Inference1.Session" };
      const params = new Map<string, BusVariant>([["max_tokens", { signature: "u", value: 8 }]]);
      await client.call("Inference1", "Generate", "sa{sv}", ["Once upon", params], session);
      let text = "";
      const tokens = createReadStream("", { fd: Number(pipe), encoding: "utf8" });
      for await (const token of tokens) text += String(token);
      expect(text).not.toBe("");
      await client.call("Inference1", "Close", "", [], session);
    });
  }
  return { rounds: round, longest: Object.fromEntries(longest) };
}

function readResourceUse(pid: number) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const kib = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]);
  return { mib: Math.round(kib / 1_024), descriptors: readdirSync(`/proc/${pid}/fd`).length };
}

it(
  "apps that hang, die, answer late, write 50 MB, change their tools or send floods do not affect other apps",
  async () => {
    await using harness = await FaultHarness.open({
      environment: COLLECTING,
    });
    await writeManifests(harness);
    await harness.companion.start();
    const { pid, apps_dir: socketsDir } = harness.companion.ready;
    let calls = 0;
    await useOthersUntil(harness, () => calls++ === 3, "before");
    const before = readResourceUse(pid);
    const after: { mib: number; descriptors: number }[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const apps = await Promise.all(
        Object.keys(behaviours).map((behaviour) =>
          startApp(join(socketsDir, `${appIdOf(behaviour, round)}.sock`), behaviour),
        ),
      );
      let isOver = false;
      const ends = Object.keys(behaviours).map(async (behaviour) => {
        const asked = Array.from({ length: CALLS_EACH }, () =>
          harness.client.request(appIdOf(behaviour, round), "act", {}),
        );
        const answers = await Promise.all(asked);
        return answers.map((answer) => `${answer?.status}/${answer?.detail.code}`);
      });
      const loud = ends.slice(0, -STUCK.length);
      void Promise.all(loud)
        .then(() => Promise.all(apps.map(waitForExit)))
        .then(() => Promise.all(ends))
        .finally(() => {
          isOver = true;
        });
      const others = await useOthersUntil(harness, () => isOver, `round-${round}`);
      for (const [index, [behaviour, expected]] of Object.entries(behaviours).entries())
        for (const end of (await ends[index]) ?? [])
          expect([behaviour, end]).toEqual([behaviour, expect.stringMatching(expected)]);
      await expect
        .poll(() => readResourceUse(pid).descriptors)
        .toBeLessThanOrEqual(before.descriptors);
      await collectGarbage(harness.companion);
      after.push(readResourceUse(pid));
      process.stdout.write(`${JSON.stringify({ ...others, ...after.at(-1) })}\n`);
      expect(Math.max(...Object.values(others.longest))).toBeLessThan(UNBOUNDED_AFTER_MS);
    }
    // The growth of the companion's memory is measured from the end of the first round, which allocates code, tables
    // and arenas that stay in memory.
    const [first, last] = [after[0]?.mib ?? 0, after.at(-1)?.mib ?? 0];
    expect(last - first).toBeLessThan(GROWTH_MIB_MAX);
    // The log contains no unexpected output, such as warnings of Node.
    expect(harness.companion.lines.filter((line) => !/^(\{|berth ready )/.test(line))).toEqual([]);
    expect(harness.companion.lines.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    await expect.poll(() => harness.audit(true)).toEqual({ verdict: "whole", problems: [] });
  },
  LIMIT_MS,
);

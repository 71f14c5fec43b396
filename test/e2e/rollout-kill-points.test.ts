import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { appFile, BerthProcess, secretFile } from "../support/berth-process.ts";
import { dockerHost } from "../support/engine.ts";
import { EngineRelay, type RelayMoment } from "../support/engine-relay.ts";
import { ensureTestImages, NODE_WEB } from "../support/images.ts";
import { Load, visit } from "../support/traffic.ts";

/**
 * Berth is killed, as by `kill -9`, at every request that changes something on the engine while a new
 * version is built and takes over. Requests go on all the while, and the end is always the same.
 */
const web = {
  port: 8080,
  stopGracePeriod: "5s",
  rollout: { drain: "1s" },
} as const;

interface Story {
  readonly name: string;
  /** Writes what the version is made of; its answer is `body`. */
  readonly prepare: (berth: BerthProcess, body: string) => Promise<string>;
  /** The requests that it takes where nothing goes wrong. */
  readonly requests: readonly RegExp[];
}

const swap = [
  /^POST \/containers\/create$/,
  /^POST \/containers\/\w+\/start$/,
  /^POST \/containers\/\w+\/stop$/,
  /^DELETE \/containers\/\w+$/,
];

const stories: readonly Story[] = [
  {
    name: "swap",
    prepare: (_, body) =>
      Promise.resolve(appFile("web", { ...web, image: NODE_WEB, env: { BODY: body } })),
    requests: swap,
  },
  {
    name: "build and swap",
    prepare: async (berth, body) => {
      const source = join(berth.specsDir, `source-${body.replace(" ", "-")}`);
      await mkdir(source, { recursive: true });
      await writeFile(join(source, "Dockerfile"), `FROM ${NODE_WEB}\nENV BODY="${body}"\n`);
      return appFile("web", { ...web, source: { local: `./${source.split("/").at(-1)}` } });
    },
    requests: [/^POST \/build$/, ...swap],
  },
];

const moments: readonly RelayMoment[] = ["before", "unanswered"];
const plays = stories.flatMap((story) =>
  moments.map((moment) => ({ title: `${story.name}: ${moment}`, story, moment })),
);

test.for(plays)("each request of $title", async ({ story, moment }, { onTestFailed }) => {
  await using berth = await BerthProcess.open({
    start: false,
    onTestFailed,
    ingress: "process",
    dockerHost: (root) => `unix://${join(root, "relay.sock")}`,
    specs: { "keep.yaml": secretFile("keep", { key: "value" }) },
  });
  await ensureTestImages(dockerHost());
  await using relay = await EngineRelay.open(berth.dockerHost, dockerHost());
  await berth.start();
  await berth.write("web.yaml", await story.prepare(berth, "version 0"));
  await berth.appReady("web");
  const at = { port: berth.ingressPort, host: "web.localhost" };
  await using load = new Load(at, { visitors: 2, restMs: 5 });
  let point = 0;
  let sprung = true;
  while (sprung) {
    point += 1;
    const body = `version ${point}`;
    relay.set({ at: point, moment, act: () => berth.strike() });
    await berth.write("web.yaml", await story.prepare(berth, body));
    await berth.until(
      `${story.name}: request ${point} is made, or all is done`,
      async () => relay.isSprung || (await isDone(berth, body, at)),
    );
    sprung = relay.isSprung;
    if (sprung) {
      await berth.kill();
      await berth.start();
    }
    await berth.until(`${body} has taken over`, () => isDone(berth, body, at));
    expect(load.failures, `${moment} ${point}: ${relay.seen.join(", ")}`).toEqual([]);
  }
  await load.stop();
  // The last round ran undisturbed: its requests are the points that were tried. Images of earlier
  // rounds are collected at some point of it.
  expect(point - 1).toBe(relay.seen.length);
  const seen = relay.seen.filter((request) => !request.startsWith("DELETE /images/"));
  expect(seen).toHaveLength(story.requests.length);
  for (const [index, request] of story.requests.entries()) expect(seen[index]).toMatch(request);
  expect([...load.bodies.keys()]).toEqual(
    Array.from({ length: point + 1 }, (_, version) => `version ${version}`),
  );
  expect((await berth.app("web")).restarts).toBe(0);
});

/** The version has the requests, and the one before is gone. */
async function isDone(
  berth: BerthProcess,
  body: string,
  at: { readonly port: number; readonly host: string },
): Promise<boolean> {
  if ((await visit(at)).body !== body) return false;
  const app = await berth.app("web");
  return app.ready && app.containers.length === 1;
}

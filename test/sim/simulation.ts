import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { BerthError } from "../../src/base/errors.ts";
import * as labels from "../../src/controller/labels.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import type { Condition } from "../../src/resources/app-status.ts";
import { RESTARTED_AT_ANNOTATION, type Resource } from "../../src/resources/resource.ts";
import { ControlPlaneHarness } from "../support/control-plane-harness.ts";
import type { FakeContainer, FakeImage } from "../support/fake-engine.ts";
import type { FakeIngressChange } from "../support/fake-ingress.ts";
import type { FakeCall, FakeFaults } from "../support/fake-runtime.ts";
import { Dice } from "../support/random.ts";
import { SecondWriter } from "./second-writer.ts";

/**
 * Runs the whole control plane once under random faults: random specs and edits, changes of containers by hand, an
 * engine that refuses, is slow, loses replies and events, or restarts, a data disk that is full at times, a second
 * Berth with the same identity, tags that move, containers that another program recreates, and Berth killed after
 * engine calls. Everything follows from the seed. After the faults, the control plane must converge with a correct
 * status for every App.
 */

const IMAGES: Readonly<Record<string, FakeImage>> = {
  "good:1": {},
  "good:2": { logs: ["hello"] },
  "slow:1": { readyAfterMs: 4_000, healthyAfterMs: 4_000 },
  "stubborn:1": { ignoresTerm: true },
  "pulled:1": { held: false, pullMs: 3_000 },
  "once:1": { exits: { afterMs: 5_000, code: 0 } },
  "brief:1": { exits: { afterMs: 3_000, code: 1 } },
  "crash:1": { exits: { afterMs: 500, code: 1 } },
  "fades:1": { exits: { afterMs: 45_000, code: 0 } },
  "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY, healthyAfterMs: Number.POSITIVE_INFINITY },
  "unstartable:1": { startError: "exec: no such file" },
};
const NAMES = ["alpha", "beta", "gamma", "delta"];
const JOB = "job";
const FAULT_STEPS = 40;
/**
 * The time without faults at the end. It is longer than the longest back-off, and than the resync interval and a
 * rollout together.
 */
const QUIET_MS = 20 * 60_000;

export interface SimulationResult {
  readonly problems: readonly string[];
  readonly kills: number;
  readonly engineCalls: number;
}

export async function simulate(seed: number): Promise<SimulationResult> {
  const dice = new Dice(seed);
  const problems: string[] = [];
  // The runs of even seeds have an ingress, and those of odd seeds have none.
  const ingress = seed % 2 === 0 ? "fake" : "off";
  await using harness = new ControlPlaneHarness({ images: IMAGES, random: dice.random, ingress });
  const second = new SecondWriter(harness, seed, problems);
  // The full disk has its own random generator, so that it does not change the other faults of a seed.
  const diskDice = new Dice(seed + 104_729);
  // The changes by other programs have their own random generator, so that they do not change the faults of a seed.
  const foreignDice = new Dice(seed + 15_485_863);
  // The changes of the one-shot App have their own random generator too.
  const jobDice = new Dice(seed + 32_452_843);
  let faulty = true;
  let killAfter: number | undefined;
  let killNow = false;
  let kills = 0;
  let engineCalls = 0;
  let stranger = "";

  const faults: FakeFaults = {
    async beforeCall(call) {
      engineCalls += 1;
      second.observe("the first", call);
      if (!faulty) return;
      if (dice.chance(0.03)) throw refused(call);
      if (dice.chance(0.05)) {
        const until = harness.clock.now() + dice.between(1, 8_000);
        await new Promise<void>((resolve) =>
          harness.clock.setTimer(until - harness.clock.now(), resolve),
        );
      }
    },
    afterCall(call) {
      checkExclusive(harness, problems, call);
      if (call.kind === "write" && call.args[0] === stranger) {
        problems.push(`${call.name} was called on a stranger's container`);
      }
      if (!faulty) return;
      if (killAfter !== undefined) {
        killAfter -= 1;
        if (killAfter <= 0) {
          killAfter = undefined;
          killNow = true;
          // From now on the simulated Berth process is dead: its calls never settle.
          harness.die();
          throw refused(call);
        }
      }
      if (call.kind === "write" && dice.chance(0.04)) throw refused(call);
    },
  };

  if (harness.routes) {
    const { routes } = harness;
    routes.faults = {
      before: (change) => {
        if (faulty && dice.chance(0.03)) throw new BerthError("disk_full", "no space for a route");
        checkSwitch(harness, problems, change);
      },
    };
  }
  stranger = harness.boot(faults).runtime.addStranger("somebody-else");
  for (let step = 0; step < FAULT_STEPS; step += 1) {
    disturb(harness, dice);
    if (diskDice.chance(harness.isDiskFull ? 0.3 : 0.08)) harness.isDiskFull = !harness.isDiskFull;
    disturbImages(harness, foreignDice);
    disturbJob(harness, jobDice);
    await second.step();
    if (killAfter === undefined && dice.chance(0.3)) killAfter = dice.between(1, 12);
    await harness.clock.advance(dice.pick([0, 10, 100, 1_000, 5_000, 30_000]));
    if (killNow) {
      killNow = false;
      kills += 1;
      if (dice.chance(0.2)) await harness.restartMachine();
      else await harness.kill();
      await harness.clock.advance(dice.pick([0, 1_000, 60_000]));
      harness.boot(faults);
    }
  }

  await second.end();
  faulty = false;
  harness.isDiskFull = false;
  killAfter = undefined;
  harness.engine.deliverEvents = true;
  harness.engine.setReachable(true);
  if (killNow) {
    await harness.kill();
    harness.boot(faults);
  }
  await harness.clock.advance(QUIET_MS);
  // Finally, the simulation changes containers directly in the engine. No event reports these changes, so Berth must
  // find them when it observes the engine.
  harness.engine.deliverEvents = false;
  for (const name of NAMES) {
    const [container] = harness.listContainers(name);
    if (container && dice.chance(0.5)) meddle(harness, dice, container);
    const [own] = harness.listContainers(name);
    if (own && foreignDice.chance(0.5)) recreate(harness, foreignDice, own);
  }
  await harness.clock.advance(QUIET_MS);
  checkRest(harness, problems);
  const { writes } = harness.runtime.calls;
  await harness.clock.advance(3 * 60_000);
  const restless = harness.engine
    .containers()
    .some((container) => container.spec.image === "fades:1");
  if (!restless && harness.runtime.calls.writes !== writes)
    problems.push("the engine was written to although nothing happened");
  return { problems, kills, engineCalls };
}

function refused(call: FakeCall): BerthError {
  return new BerthError("engine_unreachable", `no answer to ${call.name}`);
}

/** Calls `act`, and ignores a BerthError of the store, which may refuse a simulated write like a user's write. */
function write(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
  }
}

/** Makes one random change, of the user or of another program, or causes a fault. */
function disturb(harness: ControlPlaneHarness, dice: Dice): void {
  const name = dice.pick(NAMES);
  const container =
    dice.chance(0.5) && harness.listContainers(name).length > 0
      ? dice.pick(harness.listContainers(name))
      : undefined;
  const actor = { name: "simulation" };
  switch (dice.between(0, 14)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return write(() => harness.apply(name, randomSpec(dice, name)));
    case 4:
      return write(
        () => void harness.store.delete("App", name, { actor, manager: "api", force: true }),
      );
    case 5:
      return write(
        () =>
          void harness.store.apply({
            kind: "App",
            name,
            manager: "api",
            actor,
            mode: "merge",
            updateOnly: true,
            spec: { running: dice.chance(0.5) },
          }),
      );
    case 6:
      return write(
        () =>
          void harness.store.apply({
            kind: "App",
            name,
            manager: "api",
            actor,
            mode: "merge",
            updateOnly: true,
            spec: {},
            annotations: { [RESTARTED_AT_ANNOTATION]: String(harness.clock.now()) },
          }),
      );
    case 7:
      if (harness.app(name)) write(() => harness.retry(name));
      return;
    case 8:
      if (container) harness.engine.kill(container.id, dice.pick([0, 1, 137]));
      return;
    case 9:
      if (container) harness.engine.remove(container.id);
      return;
    case 10:
      if (container) meddle(harness, dice, container);
      return;
    case 11:
      harness.engine.deliverEvents = dice.chance(0.5);
      return;
    case 12:
      if (dice.chance(0.3)) harness.engine.shutDown();
      else harness.engine.setReachable(dice.chance(0.6));
      return;
    case 13:
      harness.engine.pruneNetworks();
      return;
    default:
      if (dice.chance(0.3)) harness.engine.restart();
      else harness.engine.cutEvents();
  }
}

function meddle(harness: ControlPlaneHarness, dice: Dice, container: FakeContainer): void {
  const act = dice.between(0, 4);
  if (act === 0)
    harness.engine.rename(
      container.id,
      `renamed-${harness.clock.now()}-${container.id.slice(0, 6)}`,
    );
  else if (act === 1)
    for (const network of container.networks.keys())
      harness.engine.disconnect(container.id, network);
  else if (act === 2) harness.engine.update(container.id, { memoryBytes: 1 });
  else if (act === 3 && container.state === "running") harness.engine.pause(container.id);
  else harness.engine.makeUnhealthy(container.id);
}

/** Deploys the one-shot App, whose container runs once to its end, or disturbs its run. */
function disturbJob(harness: ControlPlaneHarness, dice: Dice): void {
  const [container] = harness.listContainers(JOB);
  switch (dice.between(0, 9)) {
    case 0:
    case 1: {
      const spec: AppSpec = {
        image: "once:1",
        oneShot: true,
        env: { RUN: `${dice.between(1, 3)}` },
      };
      return write(() => harness.apply(JOB, spec));
    }
    case 2:
      if (container) harness.engine.kill(container.id, dice.pick([1, 137]));
      return;
    case 3:
      if (container) harness.engine.remove(container.id);
      return;
    case 4:
      if (harness.app(JOB)) write(() => harness.retry(JOB));
      return;
    default:
  }
}

/** Changes an image or a container as another program does, without regard to Berth's revisions. */
function disturbImages(harness: ControlPlaneHarness, dice: Dice): void {
  const name = dice.pick(NAMES);
  const tag = dice.pick(["good:1", "good:2", "pulled:1", "slow:1"]);
  const image = IMAGES[tag] ?? {};
  switch (dice.between(0, 11)) {
    case 0:
      return harness.engine.push(tag, { ...image });
    case 1:
      harness.engine.push(tag, { ...image });
      return harness.engine.addLocalImage(tag);
    case 2:
      return harness.engine.pruneImages();
    case 3:
      if (harness.app(name)) write(() => harness.deploy(name));
      return;
    case 4:
    case 5: {
      const containers = harness.listContainers(name);
      if (containers.length > 0) recreate(harness, dice, dice.pick(containers));
      return;
    }
    default:
  }
}

/** Recreates a container with the same labels, and usually with a setting that differs. */
function recreate(harness: ControlPlaneHarness, dice: Dice, { id }: FakeContainer): void {
  const { engine } = harness;
  // If the image or a network is missing, the old container is removed, but no new container is created or started.
  write(() => {
    switch (dice.between(0, 5)) {
      case 0:
        return void engine.recreate(id, { image: "good:1" });
      case 1:
        return void engine.recreate(id, { env: ["VALUE=foreign"] });
      case 2:
        return void engine.recreate(id, { command: ["sleep"], user: "root" });
      case 3:
        return void engine.recreate(id, {}, ["Privileged"]);
      case 4:
        return engine.connect(id, "elsewhere");
      default:
        return void engine.recreate(id, {});
    }
  });
}

function randomSpec(dice: Dice, name: string): AppSpec {
  const image = dice.chance(0.7)
    ? dice.pick(["good:1", "good:2", "pulled:1", "slow:1"])
    : dice.pick([...Object.keys(IMAGES).filter((key) => key !== "once:1"), "nowhere:1"]);
  const spec: AppSpec = { image, port: 80, replicas: dice.between(1, 3) };
  if (dice.chance(0.3)) {
    const value = String(dice.between(1, 3));
    spec.env = { VALUE: value };
    spec.files = [{ path: "/etc/value", content: value }];
    spec.folders = [{ name: `folder-${value}`, path: "/folder", readOnly: true }];
  }
  if (dice.chance(0.2)) spec.volumes = [{ name: "data", path: "/data" }];
  if (dice.chance(0.1)) spec.running = false;
  if (dice.chance(0.05)) spec.suspend = true;
  if (dice.chance(0.2))
    spec.rollout = { autoRevert: dice.chance(0.5), progressDeadline: dice.pick(["10s", "60s"]) };
  if (dice.chance(0.2))
    spec.healthCheck = dice.pick([
      { path: "/healthz", interval: "1s" },
      { command: ["true"] },
      { interval: "2s", retries: 1 },
    ]);
  if (dice.chance(0.15)) spec.dependsOn = [dice.pick(NAMES.filter((other) => other !== name))];
  if (dice.chance(0.2)) spec.stopGracePeriod = "2s";
  if (dice.chance(0.2)) spec.domain = `${name}.test`;
  if (dice.chance(0.2)) spec.rollout = { ...spec.rollout, observe: dice.pick(["0s", "30s"]) };
  return spec;
}

/** Asserts that a version that does not exist or that was never healthy gets no requests. */
function checkSwitch(
  harness: ControlPlaneHarness,
  problems: string[],
  change: FakeIngressChange,
): void {
  for (const target of change.targets) {
    const container = harness.engine
      .containers()
      .find((item) => item.state === "running" && target === `${item.address}:80`);
    const what = `${change.app}: requests are led to ${target}`;
    if (container && container.labels[labels.APP] !== change.app)
      problems.push(`${what}, which is ${container.labels[labels.APP]}`);
    if (container?.spec.image === "sick:1") problems.push(`${what}, which was never healthy`);
  }
}

/** Asserts that with the strategy `recreate` two versions of one App never run at the same time. */
function checkExclusive(harness: ControlPlaneHarness, problems: string[], call: FakeCall): void {
  if (call.name !== "startContainer") return;
  for (const name of NAMES) {
    // Behind an ingress, two versions may run at the same time unless they share a resource that only one can use.
    const up = harness
      .listContainers(name)
      .filter((container) => container.state === "running")
      .filter(({ spec: { mounts } }) => !harness.routes || mounts.some((m) => m.type === "volume"));
    const versions = new Set(up.map((container) => container.labels[labels.SPEC_HASH]));
    if (versions.size > 1)
      problems.push(`${name}: ${versions.size} versions run at once after call ${call.number}`);
  }
}

/** Asserts that the route of a converged App has exactly the given containers as its targets. */
function checkRoute(
  harness: ControlPlaneHarness,
  name: string,
  up: readonly FakeContainer[],
  say: (what: string) => void,
): void {
  if (!harness.routes) return;
  const targets = [...(harness.routes.routes.get(name)?.targets ?? [])].toSorted();
  const wanted = up.map((container) => `${container.address}:80`).toSorted();
  if (targets.join() !== wanted.join())
    say(`requests go to ${targets.join() || "nobody"} in place of ${wanted.join() || "nobody"}`);
}

/** Asserts that containers run the image of the attempted revision, with the settings of its spec. */
function checkRevision(
  harness: ControlPlaneHarness,
  app: Resource<"App">,
  containers: readonly FakeContainer[],
  say: (what: string) => void,
): void {
  const { spec, status, metadata } = app;
  const attempted = status?.revisions.attempted ?? 0;
  const revision = harness.store.revisions.get(metadata.name, attempted);
  if (!revision?.imageId) return say(`Ready with revision ${attempted}, which has no image id`);
  const env = Object.entries(spec.env ?? {}).map(
    ([key, value]) => `${key}=${JSON.stringify(value)}`,
  );
  for (const container of containers) {
    if (container.imageId !== revision.imageId) say("Ready with another image than the revision's");
    if (status?.containers.find(({ id }) => id === container.id)?.imageId !== revision.imageId)
      say("its status names another image than the revision's");
    const settings = harness.engine.observe(container).settings;
    if (container.foreign.length > 0) say(`Ready with ${container.foreign.join()}`);
    const ownEnv = settings?.env.map((item) => item.replace(/=(.*)$/, '="$1"')) ?? [];
    if (ownEnv.join() !== env.join()) say(`Ready with the environment ${ownEnv.join()}`);
    if (settings?.command.length !== 0 || settings.user !== "") say("Ready with another process");
    if (container.networks.size !== 1) say(`Ready on ${container.networks.size} networks`);
  }
}

/**
 * Asserts that the container of a one-shot App has run to its end, or that the status says why not, and that it does
 * not run any more.
 */
function checkJob(
  { status }: Resource<"App">,
  containers: readonly FakeContainer[],
  ready: Condition | undefined,
  say: (what: string) => void,
): void {
  if (containers.some(({ state }) => state === "running")) say("its one run has no end");
  const isFailed = status?.phase === "failed" && ready?.reason === "OneShotFailed";
  const isCompleted = status?.phase === "completed" && ready?.status === "True";
  if (!isFailed && !isCompleted) say("neither completed nor failed");
  if (isFailed && containers.some(({ exitCode }) => exitCode === 0)) say("failed with exit code 0");
}

/** Asserts that containers see the files and folders of the spec, and that no files of earlier versions are left over. */
function checkFiles(
  harness: ControlPlaneHarness,
  { metadata: { name }, spec }: Resource<"App">,
  containers: readonly FakeContainer[],
  say: (what: string) => void,
): void {
  const wantedFolders = (spec.folders ?? []).map((folder) => folder.name);
  const wanted = (spec.files ?? []).map((file) => ("content" in file ? file.content : ""));
  for (const { spec: own } of containers) {
    const paths = own.mounts.flatMap((mount) => (mount.type === "bind" ? [mount.hostPath] : []));
    const [folders, files] = [true, false].map((isFolder) =>
      paths.filter((path) => statSync(path).isDirectory() === isFolder),
    );
    const seen = (files ?? []).map((path) => readFileSync(path, "utf8"));
    if ((folders ?? []).map((path) => basename(path)).join() !== wantedFolders.join())
      say(`Ready with the folders ${folders?.join()}`);
    if (seen.join() !== wanted.join()) say(`Ready with the files ${seen.join()}`);
  }
  const kept = listFileFolder(harness, name);
  if (kept.length !== wanted.length) say(`Ready with ${kept.length} files on the disk`);
}

function listFileFolder({ dataDir }: ControlPlaneHarness, app: string): readonly string[] {
  const folder = join(dataDir, "files", app);
  return existsSync(folder) ? readdirSync(folder) : [];
}

/** Asserts that every status is correct after convergence, and that no objects are left over. */
function checkRest(harness: ControlPlaneHarness, problems: string[]): void {
  if (!harness.manager.isIdle) problems.push("the queue has not come to rest");
  for (const app of harness.store.list("App")) {
    const { name, generation } = app.metadata;
    const say = (what: string) =>
      problems.push(
        `${name}: ${what} (${JSON.stringify({ spec: app.spec, phase: app.status?.phase, ready: harness.condition(name, "Ready") })})`,
      );
    const containers = harness.listContainers(name);
    const ready = harness.condition(name, "Ready");
    if (app.metadata.deletionTimestamp !== null) say("still being deleted");
    if (app.status?.observedGeneration !== generation)
      say("its status speaks of another generation");
    if (!ready || ready.status === "Unknown") say("nobody knows whether it is Ready");
    if (app.spec.suspend) continue;
    if (app.spec.oneShot === true) {
      checkJob(app, containers, ready, say);
      continue;
    }
    if (ready?.status === "True") {
      const up = containers.filter(
        (container) => container.state === "running" && !container.unhealthy,
      );
      if (up.length !== (app.spec.replicas ?? 1)) say(`Ready with ${up.length} healthy containers`);
      checkRevision(harness, app, containers, say);
      checkRoute(harness, name, up, say);
      checkFiles(harness, app, containers, say);
      for (const container of containers) {
        if (!container.name.startsWith("berth-")) say(`Ready under the name ${container.name}`);
        if (container.memoryBytes !== null) say("Ready with limits that nobody asked for");
      }
      continue;
    }
    if (app.spec.running === false) {
      if (containers.some((container) => container.state === "running"))
        say("runs although it is to be stopped");
      checkRoute(harness, name, [], say);
      continue;
    }
    const waits = [
      "DependencyNotFound",
      "DependencyNotReady",
      "DependencyCycle",
      "Reverted",
      "DriftLoop",
    ];
    const isExplained =
      harness.condition(name, "Stalled")?.status === "True" || waits.includes(ready?.reason ?? "");
    // A container of the image `fades:1` exits every 45 s, so its app may wait for a restart and be neither Ready nor
    // Stalled.
    const fades = containers.some((container) => container.spec.image === "fades:1");
    if (!isExplained && !fades) say("neither Ready nor Stalled, and nothing it waits for");
    if (!ready?.message) say("not Ready, without a reason");
  }
  for (const name of NAMES)
    if (!harness.app(name) && listFileFolder(harness, name).length > 0)
      problems.push(`${name} was deleted, and its files are left over`);
  for (const container of harness.engine.containers()) {
    const name = container.labels[labels.APP];
    if (container.labels[labels.INSTANCE] !== undefined && !harness.app(name ?? ""))
      problems.push(`orphan ${container.name}`);
  }
}

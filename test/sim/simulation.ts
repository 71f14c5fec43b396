import { BerthError } from "../../src/base/errors.ts";
import * as labels from "../../src/controller/labels.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import { RESTARTED_AT_ANNOTATION } from "../../src/resources/resource.ts";
import { ControlPlaneHarness } from "../support/control-plane-harness.ts";
import type { FakeContainer, FakeImage } from "../support/fake-engine.ts";
import type { FakeIngressChange } from "../support/fake-ingress.ts";
import type { FakeCall, FakeFaults } from "../support/fake-runtime.ts";
import { Dice } from "../support/random.ts";

/**
 * One run of the whole control plane under random faults: random specs and edits, changes of containers by hand, an
 * engine that refuses, is slow, loses replies and events, or restarts, and Berth killed after engine calls. Everything
 * follows from the seed. After the faults, it must converge with a correct status for every App.
 */

const IMAGES: Readonly<Record<string, FakeImage>> = {
  "good:1": {},
  "good:2": { logs: ["hello"] },
  "slow:1": { readyAfterMs: 4_000, healthyAfterMs: 4_000 },
  "stubborn:1": { ignoresTerm: true },
  "pulled:1": { held: false, pullMs: 3_000 },
  "crash:1": { exits: { afterMs: 500, code: 1 } },
  "fades:1": { exits: { afterMs: 45_000, code: 0 } },
  "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY, healthyAfterMs: Number.POSITIVE_INFINITY },
  "unstartable:1": { startError: "exec: no such file" },
};
const NAMES = ["alpha", "beta", "gamma", "delta"];
const FAULT_STEPS = 40;
/** Longer than the longest back-off and the resync, with a rollout after them. */
const QUIET_MS = 20 * 60_000;

export interface SimulationResult {
  readonly problems: readonly string[];
  readonly kills: number;
  readonly engineCalls: number;
}

export async function simulate(seed: number): Promise<SimulationResult> {
  const dice = new Dice(seed);
  const problems: string[] = [];
  // Every other seed has an ingress.
  const ingress = seed % 2 === 0 ? "fake" : "off";
  await using world = new ControlPlaneHarness({ images: IMAGES, random: dice.random, ingress });
  let faulty = true;
  let killAfter: number | undefined;
  let killNow = false;
  let kills = 0;
  let engineCalls = 0;
  let stranger = "";

  const faults: FakeFaults = {
    async beforeCall(call) {
      engineCalls += 1;
      if (!faulty) return;
      if (dice.chance(0.03)) throw refused(call);
      if (dice.chance(0.05)) {
        const until = world.clock.now() + dice.between(1, 8_000);
        await new Promise<void>((resolve) =>
          world.clock.setTimer(until - world.clock.now(), resolve),
        );
      }
    },
    afterCall(call) {
      checkExclusive(world, problems, call);
      if (call.kind === "write" && call.args[0] === stranger) {
        problems.push(`${call.name} was called on a stranger's container`);
      }
      if (!faulty) return;
      if (killAfter !== undefined) {
        killAfter -= 1;
        if (killAfter <= 0) {
          killAfter = undefined;
          killNow = true;
          // From here on the process is gone: its calls never settle.
          world.die();
          throw refused(call);
        }
      }
      if (call.kind === "write" && dice.chance(0.04)) throw refused(call);
    },
  };

  if (world.routes) {
    const { routes } = world;
    routes.faults = {
      before: (change) => {
        if (faulty && dice.chance(0.03)) throw new BerthError("disk_full", "no space for a route");
        checkSwitch(world, problems, change);
      },
    };
  }
  stranger = world.boot(faults).runtime.addStranger("somebody-else");
  for (let step = 0; step < FAULT_STEPS; step += 1) {
    disturb(world, dice);
    if (killAfter === undefined && dice.chance(0.3)) killAfter = dice.between(1, 12);
    await world.clock.advance(dice.pick([0, 10, 100, 1_000, 5_000, 30_000]));
    if (killNow) {
      killNow = false;
      kills += 1;
      if (dice.chance(0.2)) await world.restartMachine();
      else await world.kill();
      await world.clock.advance(dice.pick([0, 1_000, 60_000]));
      world.boot(faults);
    }
  }

  faulty = false;
  killAfter = undefined;
  world.engine.deliverEvents = true;
  world.engine.setReachable(true);
  if (killNow) {
    await world.kill();
    world.boot(faults);
  }
  await world.clock.advance(QUIET_MS);
  // A last change by hand, which no event reports, and after which nothing else changes.
  world.engine.deliverEvents = false;
  for (const name of NAMES) {
    const [container] = world.listContainers(name);
    if (container && dice.chance(0.5)) meddle(world, dice, container);
  }
  await world.clock.advance(QUIET_MS);
  checkRest(world, problems);
  const { writes } = world.runtime.calls;
  await world.clock.advance(3 * 60_000);
  const restless = world.engine
    .containers()
    .some((container) => container.spec.image === "fades:1");
  if (!restless && world.runtime.calls.writes !== writes)
    problems.push("the engine was written to although nothing happened");
  return { problems, kills, engineCalls };
}

function refused(call: FakeCall): BerthError {
  return new BerthError("engine_unreachable", `no answer to ${call.name}`);
}

/** A write that the store may refuse, as it would refuse one of the user. */
function write(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
  }
}

/** Makes one random change: of the user, of another program, or a fault. */
function disturb(world: ControlPlaneHarness, dice: Dice): void {
  const name = dice.pick(NAMES);
  const container =
    dice.chance(0.5) && world.listContainers(name).length > 0
      ? dice.pick(world.listContainers(name))
      : undefined;
  const actor = { name: "simulation" };
  switch (dice.between(0, 14)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return write(() => world.apply(name, randomSpec(dice, name)));
    case 4:
      return write(
        () => void world.store.delete("App", name, { actor, manager: "api", force: true }),
      );
    case 5:
      return write(
        () =>
          void world.store.apply({
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
          void world.store.apply({
            kind: "App",
            name,
            manager: "api",
            actor,
            mode: "merge",
            updateOnly: true,
            spec: {},
            annotations: { [RESTARTED_AT_ANNOTATION]: String(world.clock.now()) },
          }),
      );
    case 7:
      if (world.app(name)) write(() => world.retry(name));
      return;
    case 8:
      if (container) world.engine.kill(container.id, dice.pick([0, 1, 137]));
      return;
    case 9:
      if (container) world.engine.remove(container.id);
      return;
    case 10:
      if (container) meddle(world, dice, container);
      return;
    case 11:
      world.engine.deliverEvents = dice.chance(0.5);
      return;
    case 12:
      if (dice.chance(0.3)) world.engine.shutDown();
      else world.engine.setReachable(dice.chance(0.6));
      return;
    case 13:
      world.engine.pruneNetworks();
      return;
    default:
      if (dice.chance(0.3)) world.engine.restart();
      else world.engine.cutEvents();
  }
}

function meddle(world: ControlPlaneHarness, dice: Dice, container: FakeContainer): void {
  const act = dice.between(0, 4);
  if (act === 0)
    world.engine.rename(container.id, `renamed-${world.clock.now()}-${container.id.slice(0, 6)}`);
  else if (act === 1)
    for (const network of container.networks.keys()) world.engine.disconnect(container.id, network);
  else if (act === 2) world.engine.update(container.id, { memoryBytes: 1 });
  else if (act === 3 && container.state === "running") world.engine.pause(container.id);
  else world.engine.makeUnhealthy(container.id);
}

function randomSpec(dice: Dice, name: string): AppSpec {
  const image = dice.chance(0.7)
    ? dice.pick(["good:1", "good:2", "pulled:1", "slow:1"])
    : dice.pick([...Object.keys(IMAGES), "nowhere:1"]);
  const spec: AppSpec = { image, port: 80, replicas: dice.between(1, 3) };
  if (dice.chance(0.3)) spec.env = { VALUE: String(dice.between(1, 3)) };
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
  return spec;
}

/** Asserts that no version gets a request that has not been healthy or does not exist. */
function checkSwitch(
  world: ControlPlaneHarness,
  problems: string[],
  change: FakeIngressChange,
): void {
  for (const target of change.targets) {
    const container = world.engine
      .containers()
      .find((item) => item.state === "running" && target === `${item.address}:80`);
    const what = `${change.app}: requests are led to ${target}`;
    if (container && container.labels[labels.APP] !== change.app)
      problems.push(`${what}, which is ${container.labels[labels.APP]}`);
    if (container?.spec.image === "sick:1") problems.push(`${what}, which was never healthy`);
  }
}

/** Asserts that with recreate two versions of one App never run at the same time. */
function checkExclusive(world: ControlPlaneHarness, problems: string[], call: FakeCall): void {
  if (call.name !== "startContainer") return;
  for (const name of NAMES) {
    // Behind an ingress only an unshareable resource keeps two versions from running together.
    const up = world
      .listContainers(name)
      .filter((container) => container.state === "running")
      .filter((container) => !world.routes || container.spec.mounts.length > 0);
    const versions = new Set(up.map((container) => container.labels[labels.SPEC_HASH]));
    if (versions.size > 1)
      problems.push(`${name}: ${versions.size} versions run at once after call ${call.number}`);
  }
}

/** Asserts that the requests of a converged App reach these containers only. */
function checkRoute(
  world: ControlPlaneHarness,
  name: string,
  up: readonly FakeContainer[],
  say: (what: string) => void,
): void {
  if (!world.routes) return;
  const targets = [...(world.routes.routes.get(name)?.targets ?? [])].toSorted();
  const wanted = up.map((container) => `${container.address}:80`).toSorted();
  if (targets.join() !== wanted.join())
    say(`requests go to ${targets.join() || "nobody"} in place of ${wanted.join() || "nobody"}`);
}

/** Asserts that every status is correct after convergence, and that nothing is left over. */
function checkRest(world: ControlPlaneHarness, problems: string[]): void {
  if (!world.manager.isIdle) problems.push("the queue has not come to rest");
  for (const app of world.store.list("App")) {
    const { name, generation } = app.metadata;
    const say = (what: string) =>
      problems.push(
        `${name}: ${what} (${JSON.stringify({ spec: app.spec, phase: app.status?.phase, ready: world.condition(name, "Ready") })})`,
      );
    const containers = world.listContainers(name);
    const ready = world.condition(name, "Ready");
    if (app.metadata.deletionTimestamp !== null) say("still being deleted");
    if (app.status?.observedGeneration !== generation)
      say("its status speaks of another generation");
    if (!ready || ready.status === "Unknown") say("nobody knows whether it is Ready");
    if (app.spec.suspend) continue;
    if (ready?.status === "True") {
      const up = containers.filter(
        (container) => container.state === "running" && !container.unhealthy,
      );
      if (up.length !== (app.spec.replicas ?? 1)) say(`Ready with ${up.length} healthy containers`);
      if (containers.some((container) => container.spec.image !== app.spec.image))
        say("Ready with another image");
      checkRoute(world, name, up, say);
      for (const container of containers) {
        if (!container.name.startsWith("berth-")) say(`Ready under the name ${container.name}`);
        if (container.networks.size === 0) say("Ready without its network");
        if (container.memoryBytes !== null) say("Ready with limits that nobody asked for");
      }
      continue;
    }
    if (app.spec.running === false) {
      if (containers.some((container) => container.state === "running"))
        say("runs although it is to be stopped");
      checkRoute(world, name, [], say);
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
      world.condition(name, "Stalled")?.status === "True" || waits.includes(ready?.reason ?? "");
    // An image that ends by itself every 45 s is between two runs at times.
    const fades = containers.some((container) => container.spec.image === "fades:1");
    if (!isExplained && !fades) say("neither Ready nor Stalled, and nothing it waits for");
    if (!ready?.message) say("not Ready, without a reason");
  }
  for (const container of world.engine.containers()) {
    const name = container.labels[labels.APP];
    if (container.labels[labels.INSTANCE] !== undefined && !world.app(name ?? ""))
      problems.push(`orphan ${container.name}`);
  }
}

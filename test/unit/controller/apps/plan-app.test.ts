import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { buildDesiredApp } from "../../../../src/controller/apps/desired-app.ts";
import { DRIFT_CORRECTIONS_MAX } from "../../../../src/controller/apps/drift-history.ts";
import { planApp } from "../../../../src/controller/apps/plan/plan-app.ts";
import type {
  ContainerHealth,
  ObservedApp,
  Operation,
  Plan,
} from "../../../../src/controller/apps/plan/plan-types.ts";
import { noIngress } from "../../../../src/controller/ingress/no-ingress.ts";
import * as labels from "../../../../src/controller/labels.ts";
import type { ObservedContainer } from "../../../../src/controller/runtime/port.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { appResource } from "../../../support/app-resource.ts";
import { describeSettings } from "../../../support/fake-settings.ts";

const NOW = Date.parse("2030-01-01T00:00:00Z");

function desiredOf(spec: AppSpec, generation = 1) {
  return buildDesiredApp({
    instance: "0123abcd",
    resource: appResource("web", spec, { generation }),
    spec,
    image: { reference: spec.image ?? "web:1", id: "sha256:1", digest: null },
    revealSecret: () => "revealed",
    ingress: noIngress,
    loopbackPort: (replica) => 20_000 + replica,
  });
}
type Desired = ReturnType<typeof desiredOf>;

function containerOf(
  desired: Desired,
  replica: number,
  patch: Partial<ObservedContainer> = {},
): ObservedContainer {
  const spec = desired.containers[replica];
  if (!spec) throw new Error(`no replica ${replica}`);
  return {
    id: `id-${spec.name}`,
    name: spec.name,
    labels: spec.labels,
    image: spec.image,
    imageId: "sha256:1",
    state: "running",
    exitCode: null,
    oomKilled: false,
    isPortTaken: false,
    error: null,
    createdAt: "2029-12-31T00:00:00Z",
    startedAt: "2029-12-31T00:00:00Z",
    finishedAt: null,
    networks: [desired.network],
    networkAddresses: { [desired.network]: `10.0.0.${replica + 2}` },
    reservedAddress: null,
    memoryBytes: spec.memoryBytes ?? null,
    nanoCpus: spec.nanoCpus ?? null,
    addresses: [],
    settings: describeSettings(spec),
    ...patch,
  };
}

function observedOf(
  containers: readonly ObservedContainer[],
  patch: Partial<ObservedApp> = {},
): ObservedApp {
  return {
    nowMs: NOW,
    isCompleted: false,
    completed: [],
    containers,
    health: new Map(),
    route: null,
    served: [],
    firstSeen: { healthySince: new Map(), idleSince: new Map() },
    window: null,
    connections: new Map(),
    stopping: new Set(),
    isStalled: false,
    isProven: false,
    image: "present",
    restarts: [],
    isFresh: false,
    drifts: [],
    stableReplicas: 0,
    blockedBy: null,
    ...patch,
  };
}

const stepsOf = (plan: Plan) => plan.operations.map((operation) => operation.type);

/** Applies the operations of a plan to the containers, as an engine would. */
function apply(
  desired: Desired,
  observed: ObservedApp,
  operations: readonly Operation[],
): ObservedApp {
  let containers = [...observed.containers];
  let image = observed.image;
  let restarts = observed.restarts;
  const patch = (id: string, change: Partial<ObservedContainer>) => {
    containers = containers.map((container) =>
      container.id === id ? { ...container, ...change } : container,
    );
  };
  for (const operation of operations) {
    switch (operation.type) {
      case "pullImage":
        image = "present";
        break;
      case "createContainer":
        containers.push(
          containerOf(desired, desired.containers.indexOf(operation.spec), {
            state: "created",
            startedAt: null,
            networks: [operation.spec.network],
          }),
        );
        break;
      case "startContainer": {
        const id = operation.id ?? `id-${operation.name}`;
        patch(id, { state: "running", exitCode: null, error: null });
        if (operation.restart !== null)
          restarts = [...restarts, { of: operation.restart, at: observed.nowMs }];
        break;
      }
      case "stopContainer":
        patch(operation.id, { state: "exited", exitCode: 143 });
        break;
      case "removeContainer":
        containers = containers.filter((container) => container.id !== operation.id);
        break;
      case "renameContainer":
        patch(operation.id, { name: operation.name });
        break;
      case "connectNetwork": {
        const id = operation.id ?? `id-${operation.name}`;
        const networks = containers.find((item) => item.id === id)?.networks ?? [];
        patch(id, { networks: [...networks, operation.network] });
        break;
      }
      default:
        break;
    }
  }
  // A container that has just been restarted counts as healthy.
  return { ...observed, containers, image, restarts, health: new Map() };
}

const specs = fc.record(
  {
    image: fc.constantFrom("web:1", "web:2"),
    port: fc.constantFrom(80, 8080),
    running: fc.boolean(),
    suspend: fc.boolean(),
    replicas: fc.integer({ min: 1, max: 4 }),
    env: fc.dictionary(fc.constantFrom("A", "B"), fc.string({ maxLength: 4 })),
    volumes: fc.constantFrom<NonNullable<AppSpec["volumes"]>>(
      [],
      [{ name: "data", path: "/data" }],
    ),
    resources: fc.constantFrom<NonNullable<AppSpec["resources"]>>(
      {},
      { memory: "64Mi" },
      { cpu: "0.5" },
    ),
    restart: fc.constantFrom<NonNullable<AppSpec["restart"]>>(
      {},
      { attempts: 0 },
      { attempts: 2, backoff: "1s" },
    ),
  },
  { requiredKeys: ["image"] },
);

const states = fc.constantFrom<ObservedContainer["state"]>(
  "created",
  "running",
  "paused",
  "exited",
  "dead",
);

/** An App with arbitrary containers: of its current and other versions, in any state, some changed by hand. */
const situations = fc
  .record({ spec: specs, other: specs, generation: fc.integer({ min: 1, max: 9 }) })
  .chain(({ spec, other, generation }) => {
    const desired = desiredOf(spec, generation);
    const previous = desiredOf({ ...other, image: "web:0" }, generation - 1);
    const own = fc.subarray([...desired.containers.keys()]);
    const surplus = fc.integer({ min: 0, max: 2 });
    const old = fc.subarray([...previous.containers.keys()]);
    const meddled = fc.record({
      state: states,
      renamed: fc.boolean(),
      disconnected: fc.boolean(),
      edited: fc.boolean(),
      sick: fc.boolean(),
    });
    return fc
      .tuple(
        own,
        surplus,
        old,
        fc.array(meddled, { minLength: 12, maxLength: 12 }),
        fc.constantFrom("present", "absent"),
        fc.nat(4),
      )
      .map(([ownReplicas, extra, oldReplicas, changes, image, stableReplicas]) => {
        let index = 0;
        const health = new Map<string, ContainerHealth>();
        const vary = (container: ObservedContainer): ObservedContainer => {
          const change = changes[index % changes.length];
          index += 1;
          if (!change) return container;
          if (change.state === "running")
            health.set(container.id, {
              healthy: !change.sick,
              restartDue: change.sick,
              message: "503",
            });
          return {
            ...container,
            state: change.state,
            exitCode: change.state === "exited" ? 1 : null,
            name: change.renamed ? `${container.name}-x` : container.name,
            networks: change.disconnected ? [] : container.networks,
            memoryBytes: change.edited ? 1 : container.memoryBytes,
          };
        };
        const containers = [
          ...ownReplicas.map((replica) => vary(containerOf(desired, replica))),
          ...Array.from({ length: extra }, (_, i) =>
            vary({
              ...containerOf(desired, 0),
              id: `surplus-${i}`,
              name: `surplus-${i}`,
              labels: { ...desired.containers[0]?.labels, [labels.REPLICA]: String(50 + i) },
            }),
          ),
          ...oldReplicas.map((replica) => vary(containerOf(previous, replica))),
        ];
        return {
          desired,
          observed: observedOf(containers, {
            health,
            image,
            stableReplicas,
          }),
        };
      });
  });

describe("planApp, for any App in any state", () => {
  test("executing plans repeatedly converges to a state with nothing left to do", () => {
    fc.assert(
      fc.property(situations, ({ desired, observed }) => {
        let current = observed;
        for (let round = 0; round < 6; round += 1) {
          const plan = planApp(desired, current);
          if (plan.operations.length === 0) return;
          current = { ...apply(desired, current, plan.operations), nowMs: current.nowMs + 60_000 };
        }
        expect(stepsOf(planApp(desired, current))).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a complete App has an empty plan", () => {
    fc.assert(
      fc.property(specs, (spec) => {
        const desired = desiredOf(spec);
        const state = spec.running === false ? "exited" : "running";
        const containers = desired.containers.map((_, replica) =>
          containerOf(desired, replica, { state }),
        );
        expect(planApp(desired, observedOf(containers)).operations).toEqual([]);
      }),
    );
  });

  test("a stopped App is never started, and a suspended App is never touched", () => {
    fc.assert(
      fc.property(situations, ({ desired, observed }) => {
        const types = stepsOf(planApp(desired, observed));
        if (desired.app.suspend) expect(types).toEqual([]);
        else if (!desired.app.running) {
          expect(types).not.toContain("startContainer");
          expect(types).not.toContain("createContainer");
          expect(types).not.toContain("pullImage");
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("with the strategy recreate, no version starts while another version runs", () => {
    fc.assert(
      fc.property(situations, ({ desired, observed }) => {
        const up = new Map(
          observed.containers
            .filter((container) => container.state === "running" || container.state === "paused")
            .map((container) => [container.id, container.labels[labels.SPEC_HASH]]),
        );
        for (const operation of planApp(desired, observed).operations) {
          if (operation.type === "stopContainer" || operation.type === "removeContainer")
            up.delete(operation.id);
          if (operation.type === "startContainer" && operation.id === null) {
            expect([...up.values()].filter((hash) => hash !== desired.hash)).toEqual([]);
          }
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("the old version is stopped only when nothing else blocks the new version", () => {
    fc.assert(
      fc.property(
        situations,
        fc.constantFrom("blocked", "absent"),
        ({ desired, observed }, why) => {
          const missing = desired.containers.some(
            (spec) =>
              !observed.containers.some(
                (container) =>
                  container.labels[labels.SPEC_HASH] === desired.hash &&
                  container.labels[labels.REPLICA] === spec.labels[labels.REPLICA],
              ),
          );
          fc.pre(missing && desired.app.running && !desired.app.suspend);
          const held =
            why === "blocked"
              ? { ...observed, blockedBy: "waits for db" }
              : { ...observed, image: "absent" as const };
          const plan = planApp(desired, held);
          const old = new Set(
            observed.containers
              .filter((container) => container.labels[labels.SPEC_HASH] !== desired.hash)
              .map((container) => container.id),
          );
          const touched = plan.operations.filter(
            (operation) =>
              (operation.type === "stopContainer" || operation.type === "removeContainer") &&
              old.has(operation.id),
          );
          expect(touched).toEqual([]);
        },
      ),
      { numRuns: 1_000 },
    );
  });
});

describe("planApp", () => {
  const spec: AppSpec = { image: "web:1", port: 80 };

  test("a new App gets a network, volumes, a container and a start", () => {
    const desired = desiredOf({ ...spec, replicas: 2, volumes: [{ name: "data", path: "/data" }] });
    expect(stepsOf(planApp(desired, observedOf([])))).toEqual([
      "ensureNetwork",
      "ensureVolume",
      "createContainer",
      "startContainer",
      "createContainer",
      "startContainer",
    ]);
  });

  test("changes of replicas, domain, health check, rollout and budget do not change the version", () => {
    const base = desiredOf(spec).hash;
    const others: AppSpec[] = [
      { ...spec, replicas: 3 },
      { ...spec, domain: "web.example.org" },
      { ...spec, healthCheck: { path: "/healthz" } },
      { ...spec, rollout: { drain: "1s" } },
      { ...spec, restart: { attempts: 1 } },
      { ...spec, running: false },
    ];
    for (const other of others) expect(desiredOf(other, 7).hash).toBe(base);
    for (const other of [
      { ...spec, image: "web:2" },
      { ...spec, env: { A: "1" } },
      { ...spec, port: 81 },
    ]) {
      expect(desiredOf(other).hash).not.toBe(base);
    }
  });

  test("restarts wait for their back-off, and end when the budget is used up", () => {
    const desired = desiredOf({
      ...spec,
      restart: { attempts: 2, backoff: "4s", interval: "10m" },
    });
    const ended = [containerOf(desired, 0, { state: "exited", exitCode: 1 })];
    expect(stepsOf(planApp(desired, observedOf(ended)))).toEqual([
      "ensureNetwork",
      "startContainer",
    ]);
    const before = (...ago: number[]) =>
      ago.map((ms) => ({ of: `${desired.hash}/0`, at: NOW - ms }));
    const waiting = planApp(desired, observedOf(ended, { restarts: before(1_000) }));
    expect(waiting).toMatchObject({ operations: [], restartAtMs: NOW + 3_000 });
    const exhausted = planApp(desired, observedOf(ended, { restarts: before(10_000, 5_000) }));
    expect(exhausted.operations).toEqual([]);
    expect(exhausted.exhausted).toHaveLength(1);
    const later = planApp(desired, observedOf(ended, { restarts: before(700_000, 650_000) }));
    expect(stepsOf(later)).toEqual(["ensureNetwork", "startContainer"]);
  });

  test("the replacement of a dead container counts as a restart, and follows the restart budget and the back-off", () => {
    const desired = desiredOf(spec);
    const dead = containerOf(desired, 0, { state: "dead" });
    const of = `${desired.hash}/0`;
    const restartOf = (patch: Partial<ObservedApp>) => {
      const plan = planApp(desired, observedOf([dead], patch));
      const start = plan.operations.find((operation) => operation.type === "startContainer");
      return start?.type === "startContainer" ? start.restart : plan.exhausted.length;
    };
    expect(restartOf({})).toBe(of);
    expect(restartOf({ isFresh: true })).toBeNull();
    const restarts = Array.from({ length: 5 }, (_, index) => ({ of, at: NOW - 100_000 + index }));
    expect(restartOf({ restarts })).toBe(1);
    const waiting = planApp(desired, observedOf([dead], { restarts: [{ of, at: NOW }] }));
    expect([stepsOf(waiting), waiting.restartAtMs]).toEqual([[], NOW + 1_000]);
  });

  test("the fourth correction of a field within ten minutes is not planned", () => {
    const desired = desiredOf(spec);
    const renamed = [containerOf(desired, 0, { name: "somebody-elses" })];
    const drifts = Array.from({ length: DRIFT_CORRECTIONS_MAX }, (_, i) => ({
      field: "name",
      at: NOW - i * 1_000,
    }));
    expect(stepsOf(planApp(desired, observedOf(renamed)))).toEqual(["renameContainer"]);
    expect(planApp(desired, observedOf(renamed, { drifts }))).toMatchObject({
      operations: [],
      driftLoop: "name",
    });
    const old = drifts.map((drift) => ({ ...drift, at: NOW - 11 * 60_000 }));
    expect(stepsOf(planApp(desired, observedOf(renamed, { drifts: old })))).toEqual([
      "renameContainer",
    ]);
  });

  test("a removed container counts as drift only if the container had been Ready", () => {
    const desired = desiredOf({ ...spec, replicas: 2 });
    const one = [containerOf(desired, 0)];
    expect(planApp(desired, observedOf(one, { stableReplicas: 2 })).corrections).toEqual([
      "container of replica 1",
    ]);
    expect(planApp(desired, observedOf(one, { stableReplicas: 1 })).corrections).toEqual([]);
  });

  test("an exited container of the old version is restarted while the new version cannot start", () => {
    const desired = desiredOf({ ...spec, image: "web:2" }, 2);
    const old = [containerOf(desiredOf(spec), 0, { state: "exited", exitCode: 1 })];
    const plan = planApp(desired, observedOf(old, { image: "absent" }));
    expect(stepsOf(plan)).toEqual(["pullImage", "ensureNetwork", "startContainer"]);
  });
});

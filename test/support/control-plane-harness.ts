import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Registry } from "prom-client";
import { createImagePatch } from "../../src/api/deploy-patches.ts";
import { timestamp } from "../../src/base/clock.ts";
import { BerthError } from "../../src/base/errors.ts";
import { type Logger, silentLogger } from "../../src/base/logger.ts";
import { ControllerManager } from "../../src/controller/controller-manager.ts";
import type { EngineLocation } from "../../src/controller/engine-host.ts";
import { noIngress } from "../../src/controller/ingress/no-ingress.ts";
import { EngineLease } from "../../src/controller/lease/engine-lease.ts";
import { withLease } from "../../src/controller/lease/leased-runtime.ts";
import { noArchive } from "../../src/controller/logs/log-archive.ts";
import { createControllerMetrics } from "../../src/controller/metrics/controller-metrics.ts";
import { modelMetrics } from "../../src/controller/models/model-metrics.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import { type ConditionType, findCondition } from "../../src/resources/app-status.ts";
import type { ModelSpec } from "../../src/resources/model-spec.ts";
import type { ModelPhase } from "../../src/resources/model-status.ts";
import { RESTARTED_AT_ANNOTATION, RETRIED_AT_ANNOTATION } from "../../src/resources/resource.ts";
import { LocalControlPlane } from "../../src/server/local-control-plane.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { FakeAppBuilds } from "./fake-app-builds.ts";
import { FakeEngine, type FakeImage } from "./fake-engine.ts";
import { FakeIngress } from "./fake-ingress.ts";
import { FakeAssistant, FakeModelEnvironment, FakeModelFiles, FakeSources } from "./fake-models.ts";
import { type FakeFaults, FakeRuntime } from "./fake-runtime.ts";
import { applyResource } from "./test-store.ts";
import { ProcessClock, VirtualClock } from "./virtual-clock.ts";

/**
 * The control plane without its outer layers: real store, real reconcilers, an in-memory engine and a clock that the
 * test advances. `kill` ends Berth as SIGKILL does; the engine and the store file survive.
 */
export class ControlPlaneHarness implements AsyncDisposable {
  readonly clock: VirtualClock;
  readonly engine: FakeEngine;
  readonly routes: FakeIngress | undefined;
  /** The hub, the disk and the assistant, which survive a kill of Berth. */
  readonly models: FakeModelEnvironment;
  isDead = true;
  /** If true, every write to the store fails. */
  isDiskFull = false;
  /** The boot time of the machine in epoch milliseconds; undefined if it is unknown. */
  bootedAtMs: number | undefined;
  /** The place where the engine runs, as Berth sees it. A change takes effect when Berth is started the next time. */
  engineLocation: EngineLocation = "this-machine";
  /** The number of apps that are reconciled concurrently; by default as many as in Berth. */
  workers: number | undefined;
  readonly dataDir: string;
  readonly #logger: Logger;
  readonly #random: () => number;
  store!: Store;
  runtime!: FakeRuntime;
  lease!: EngineLease;
  /** The scripted builds; the script survives a kill, but running builds do not. */
  builds: FakeAppBuilds;
  manager!: ControllerManager;
  controlPlane!: LocalControlPlane;
  #process!: ProcessClock;

  constructor(
    options: {
      images?: Readonly<Record<string, FakeImage>>;
      random?: () => number;
      logger?: Logger;
      /**
       * An older harness. The new harness gets a copy of the older one's data directory, with its apps and its
       * identity, and shares its engine and its clock.
       */
      copyOf?: ControlPlaneHarness;
      /** The ingress of the apps; it survives a kill of Berth, as the engine does. */
      ingress?: "fake" | "off";
    } = {},
  ) {
    const { copyOf } = options;
    this.clock = copyOf?.clock ?? new VirtualClock();
    this.dataDir = mkdtempSync(join(tmpdir(), "berth-harness-"));
    if (copyOf) cpSync(copyOf.dataDir, this.dataDir, { recursive: true });
    this.engine =
      copyOf?.engine ?? new FakeEngine(this.clock, options.images ?? { "web:1": {}, "web:2": {} });
    this.models = new FakeModelEnvironment(this.clock);
    this.routes = options.ingress === "fake" ? new FakeIngress({ clock: this.clock }) : undefined;
    this.builds = new FakeAppBuilds(this.clock, this.engine);
    this.#random = options.random ?? (() => 0.5);
    this.#logger = options.logger ?? silentLogger;
  }

  /** Starts Berth on the existing store and engine. */
  boot(faults: FakeFaults = {}): this {
    this.#process = new ProcessClock(this.clock);
    this.isDead = false;
    const ingress = this.routes ?? noIngress;
    if (this.routes) this.routes.dead = false;
    const clock = this.#process;
    this.store = openStore({
      dataDir: this.dataDir,
      clock,
      durability: "off",
      instanceId: "0123abcd",
      beforeWrite: () => {
        if (this.isDiskFull) throw new BerthError("disk_full", "the disk is full");
      },
    });
    this.builds = this.builds.afterRestart(clock, this.store);
    this.builds.onChanged = (app) => this.manager.apps.enqueue(app);
    this.runtime = new FakeRuntime({
      clock,
      engine: this.engine,
      faults,
      location: this.engineLocation,
    });
    this.lease = new EngineLease({
      runtime: this.runtime,
      clock,
      logger: this.#logger,
      instance: this.store.instanceId,
      holderId: this.store.holderId,
      host: "test-host",
      dataDir: this.dataDir,
    });
    const runtime = withLease(this.runtime, this.lease);
    const assistant = new FakeAssistant(this.models, clock);
    this.manager = new ControllerManager({
      models: {
        sources: new FakeSources(this.models),
        files: new FakeModelFiles(this.models, clock),
        assistant,
        daemon: assistant,
        metrics: modelMetrics(new Registry(), this.store),
      },
      store: this.store,
      runtime,
      lease: this.lease,
      clock,
      logger: this.#logger,
      archive: noArchive,
      builds: this.builds,
      ingress,
      baseDomain: "localhost",
      dataDir: this.dataDir,
      deleteFolder: async (path) => rmSync(path, { recursive: true, force: true }),
      bootedAtMs: () => this.bootedAtMs,
      metrics: createControllerMetrics(new Registry()),
      random: this.#random,
      ...(this.workers === undefined ? {} : { workers: this.workers }),
    });
    this.controlPlane = new LocalControlPlane({
      store: this.store,
      runtime,
      archive: noArchive,
      clock,
      manager: this.manager,
      specs: {
        report: () => ({ folder: "", state: "off", message: null, files: [], pendingPrune: [] }),
        confirmPrune: () => [],
      },
      companion: {
        report: () => ({ state: "off", url: null, pid: null, starts: 0, message: null }),
      },
    });
    this.manager.start();
    return this;
  }

  /**
   * Restarts the machine: Berth, the engine and the containers end, and the engine starts again. Call `boot`
   * afterwards.
   */
  async restartMachine(): Promise<void> {
    await this.kill();
    this.engine.restart();
    await this.clock.advance(1);
    this.bootedAtMs = this.clock.now();
  }

  /** Simulates the death of the process: its pending and later calls never settle. Call `kill` afterwards. */
  die(): void {
    this.isDead = true;
    this.runtime.die();
    if (this.routes) this.routes.dead = true;
  }

  /** Ends Berth as SIGKILL does: no work continues, and everything that was written is kept. */
  async kill(): Promise<void> {
    this.die();
    this.#process.kill();
    await this.store[Symbol.asyncDispose]();
  }

  apply(name: string, spec: AppSpec, manager = "api"): void {
    this.store.apply({
      kind: "App",
      name,
      manager,
      actor: { name: "test", scope: "admin" },
      mode: "replace",
      spec,
    });
  }

  /** Applies a Model with `annotations`, such as the one that records when the user started the model again. */
  applyModel(
    name: string,
    spec: ModelSpec,
    annotations: Readonly<Record<string, string | null>> = {},
  ): void {
    applyResource(this.store, "Model", name, spec, { mode: "merge", annotations });
  }

  model(name: string) {
    return this.store.get("Model", name);
  }

  modelCondition(name: string, type: ConditionType) {
    return findCondition(this.model(name)?.status?.conditions ?? [], type);
  }

  async waitForModelPhase(name: string, phase: ModelPhase, limitMs = 300_000): Promise<void> {
    await this.clock.until(
      () => this.model(name)?.status?.phase === phase,
      limitMs,
      () =>
        `${name} is ${phase} (now: ${this.model(name)?.status?.phase} ${JSON.stringify(this.modelCondition(name, "Ready"))})`,
    );
  }

  /** Deploys an image as the API does. Without an image, deploys the newest image of the App's reference. */
  deploy(name: string, image = this.app(name)?.spec.image ?? ""): void {
    const actor = { name: "test" };
    const patch = createImagePatch(image, this.clock.now());
    this.store.apply({ kind: "App", name, manager: "api", actor, mode: "merge", ...patch });
  }

  /** Changes annotations of an App; null removes one. */
  annotate(name: string, annotations: Readonly<Record<string, string | null>>): void {
    applyResource(this.store, "App", name, {}, { mode: "merge", annotations });
  }

  restart(name: string): void {
    this.annotate(name, { [RESTARTED_AT_ANNOTATION]: timestamp(this.clock.now()) });
  }

  retry(name: string): void {
    this.annotate(name, { [RETRIED_AT_ANNOTATION]: timestamp(this.clock.now()) });
  }

  app(name: string) {
    return this.store.get("App", name);
  }

  condition(name: string, type: ConditionType) {
    return findCondition(this.app(name)?.status?.conditions ?? [], type);
  }

  isReady(name: string): boolean {
    const app = this.app(name);
    const ready = this.condition(name, "Ready");
    return ready?.status === "True" && ready.observedGeneration === app?.metadata.generation;
  }

  async waitUntilReady(name: string, limitMs = 120_000): Promise<void> {
    await this.clock.until(
      () => this.isReady(name),
      limitMs,
      `${name} is Ready (now: ${JSON.stringify(this.condition(name, "Ready"))})`,
    );
  }

  async waitForPhase(name: string, phase: string, limitMs = 300_000): Promise<void> {
    await this.clock.until(
      () => this.app(name)?.status?.phase === phase,
      limitMs,
      `${name} is ${phase}`,
    );
  }

  /** Lists the images of the running containers to which the App's requests are routed. */
  listServedImages(app: string): string[] {
    const targets = this.routes?.routes.get(app)?.targets ?? [];
    return targets.map((target) => {
      const [address] = target.split(":");
      const container = this.engine
        .containers()
        .find((item) => item.state === "running" && item.address === address);
      return container?.spec.image ?? `nobody at ${target}`;
    });
  }

  /** Lists the containers of one App on the engine. */
  listContainers(app: string) {
    return this.engine
      .containers()
      .filter((container) => container.labels["dev.berth.app"] === app);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.dataDir, { recursive: true, force: true });
  }
}

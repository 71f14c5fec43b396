import type { Clock } from "../../src/base/clock.ts";
import type {
  AppBuilds,
  BuildState,
  ResolvedSource,
  SourceState,
} from "../../src/controller/builds/port.ts";
import { type Resource, SOURCE_REVISION_ANNOTATION } from "../../src/resources/resource.ts";
import type { Store } from "../../src/store/store.ts";
import type { FakeEngine, FakeImage } from "./fake-engine.ts";

/** The result of the build of one revision. By default it is an image with the name of the revision. */
export interface FakeBuild {
  readonly afterMs?: number;
  /** The simulated image that the build creates. It determines the behaviour of its containers. */
  readonly image?: FakeImage;
  readonly failure?: {
    readonly reason: string;
    readonly message: string;
    readonly terminal: boolean;
  };
}

/**
 * Scripted sources and builds for the App reconciler: every source resolves to `head`. Records of builds are written to
 * the store, as those of real builds are.
 */
export class FakeAppBuilds implements AppBuilds {
  head: string | SourceState = "commit1";
  /**
   * If set, each source resolves to this state after a second. If undefined, each source resolves to the revision
   * `head` at once.
   */
  resolution: SourceState | undefined;
  /** Counts how often the source of an App was resolved while `resolution` was set. */
  resolutions = 0;
  scripts = new Map<string, FakeBuild>();
  /** If true, builds wait for space on the disk. */
  isDiskFull = false;
  asked: string[] = [];
  onChanged: (app: string) => void = () => {};
  store!: Store;
  readonly #clock: Clock;
  readonly #engine: FakeEngine;
  readonly #states = new Map<string, BuildState & { readonly image: string }>();
  readonly #sources = new Map<string, SourceState>();
  readonly #waiting = new Set<string>();

  constructor(clock: Clock, engine: FakeEngine) {
    this.#clock = clock;
    this.#engine = engine;
  }

  /** Returns the builds of the next Berth process, with the scripts and the settings of this object. */
  afterRestart(clock: Clock, store: Store): FakeAppBuilds {
    const next = new FakeAppBuilds(clock, this.#engine);
    next.store = store;
    next.head = this.head;
    next.resolution = this.resolution;
    next.scripts = this.scripts;
    next.isDiskFull = this.isDiskFull;
    next.asked = this.asked;
    return next;
  }

  getImage(app: string, revision: string): string {
    return `berth-0123abcd/${app}:${revision}`;
  }

  source(resource: Resource<"App">): SourceState {
    const { name, annotations } = resource.metadata;
    const held = annotations[SOURCE_REVISION_ANNOTATION];
    if (held !== undefined)
      return { type: "resolved", revision: held, image: this.getImage(name, held) };
    if (this.resolution) return this.#sources.get(name) ?? this.#resolve(name, this.resolution);
    if (typeof this.head !== "string") return this.head;
    return { type: "resolved", revision: this.head, image: this.getImage(name, this.head) };
  }

  freeSpace(): void {
    this.isDiskFull = false;
    for (const app of this.#waiting) this.onChanged(app);
    this.#waiting.clear();
  }

  #resolve(name: string, result: SourceState): SourceState {
    this.resolutions += 1;
    const state: SourceState = { type: "resolving", message: "resolving main" };
    this.#sources.set(name, state);
    this.#clock.setTimer(1_000, () => {
      this.#sources.set(name, result);
      this.onChanged(name);
    });
    return state;
  }

  ensure(resource: Resource<"App">, source: ResolvedSource): BuildState {
    const { name, generation } = resource.metadata;
    const known = this.#states.get(name);
    if (known?.image === source.image) return known;
    if (this.isDiskFull) {
      this.#waiting.add(name);
      return { type: "waiting", id: 0, message: "3 MiB are free", retryAtMs: null };
    }
    this.asked.push(source.revision);
    const { image, revision } = source;
    const record = this.store.builds.create({
      app: name,
      generation,
      source: "fake",
      revision,
      image,
    });
    this.store.builds.mark(record.id, "running");
    const script = this.scripts.get(revision) ?? {};
    const id = record.id;
    this.#states.set(name, { type: "running", id, message: "step 1 of 2: RUN make", image });
    this.#clock.setTimer(script.afterMs ?? 2_000, () => {
      if (script.failure) {
        this.store.builds.mark(id, "failed", { message: script.failure.message });
        this.#states.set(name, { type: "failed", id, ...script.failure, image });
      } else {
        this.#engine.setImage(image, script.image ?? {});
        this.store.builds.mark(id, "succeeded");
        this.#states.set(name, { type: "succeeded", id, image });
      }
      this.onChanged(name);
    });
    return { type: "running", id, message: "step 1 of 2: RUN make" };
  }

  clearResult(app: string): void {
    if (this.#sources.get(app)?.type === "failed") this.#sources.delete(app);
    const state = this.#states.get(app);
    if (state && state.type !== "running" && state.type !== "queued") this.#states.delete(app);
  }

  forget(app: string): Promise<void> {
    this.#states.delete(app);
    return Promise.resolve();
  }
}

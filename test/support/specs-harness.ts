import { mkdtempSync, rmSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Clock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { SpecFolder } from "../../src/controller/specs/spec-folder.ts";
import type { Kind } from "../../src/resources/kinds.ts";
import type { Resource } from "../../src/resources/resource.ts";
import type { StoreOptions } from "../../src/store/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { openTestStore, type TestStore } from "./test-store.ts";

/** A folder of spec files, a store, and the `SpecFolder` that applies the files to the store when a test scans it. */
export class SpecsHarness implements AsyncDisposable {
  readonly root = mkdtempSync(join(tmpdir(), "berth-specs-"));
  readonly folder = join(this.root, "specs");
  readonly #store: TestStore;
  readonly #clock: Clock;
  #specs: SpecFolder;

  /**
   * Creates the harness; `clock` is the clock of the folder, by default the store's clock, which the test advances.
   */
  constructor(clock?: Clock, options: Pick<StoreOptions, "hostPaths"> = {}) {
    this.#store = openTestStore(options);
    this.#clock = clock ?? this.#store.clock;
    this.#specs = this.#make();
  }

  get store(): Store {
    return this.#store.store;
  }

  get specs(): SpecFolder {
    return this.#specs;
  }

  async write(files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
    for (const [path, text] of Object.entries(files)) {
      const file = join(this.folder, path);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, text);
    }
  }

  async remove(...paths: readonly string[]): Promise<void> {
    for (const path of paths) await rm(join(this.folder, path), { recursive: true });
  }

  async move(from: string, to: string): Promise<void> {
    await rename(join(this.folder, from), join(this.folder, to));
  }

  /** Scans the watched folder once. */
  scan(): Promise<void> {
    return this.#specs.rescan();
  }

  /** Scans the folder twice. At the second scan, enough time has passed to confirm that resources are missing. */
  async scanTwice(): Promise<void> {
    await this.scan();
    await this.wait(1000);
    await this.scan();
  }

  wait(ms: number): Promise<void> {
    return this.#store.clock.advance(ms);
  }

  /** Disposes the folder and the store, and opens both again, as a restart does. */
  async restart(): Promise<void> {
    await this.#specs[Symbol.asyncDispose]();
    await this.#store.reopen();
    this.#specs = this.#make();
  }

  /** Lists `App/name` of all resources that exist and are not being deleted. */
  get resourceNames(): string[] {
    const kinds: readonly Kind[] = ["App", "Model", "Template", "Secret"];
    return kinds.flatMap((kind) =>
      this.store
        .list(kind)
        .filter(({ metadata }) => metadata.deletionTimestamp === null)
        .map(({ metadata }) => `${kind}/${metadata.name}`),
    );
  }

  app(name: string): Resource<"App"> {
    const found = this.store.get("App", name);
    if (!found) throw new Error(`there is no App ${name}`);
    return found;
  }

  image(name: string): string | undefined {
    return this.app(name).spec.image;
  }

  /** Returns the manager of an App, such as the file that declares it. */
  declaringManager(name: string): string | undefined {
    const managers = Object.entries(this.app(name).metadata.managers);
    return managers.find(([, entry]) => entry.declares)?.[0];
  }

  /** Removes the finalizer, as the reconciler does when the containers are gone. */
  finishDeletion(name: string): void {
    for (const finalizer of this.app(name).metadata.finalizers) {
      this.store.removeFinalizer("App", name, finalizer);
    }
  }

  /** Returns a file's state, and then a line `LINE:COLUMN MESSAGE` for each error; undefined if it is not listed. */
  fileState(path: string): string | undefined {
    const file = this.specs.report().files.find((report) => report.file === path);
    if (!file) return undefined;
    const errors = file.errors.map(({ line, column, message }) => `${line}:${column} ${message}`);
    return [file.state, ...errors].join("\n");
  }

  get pending(): string[] {
    return this.specs
      .report()
      .pendingPrune.map(({ kind, name, file }) => `${kind}/${name} ${file}`);
  }

  /** Lists all events as `Reason name: message`, with the resource's name, oldest first. */
  get events(): string[] {
    return this.store.events
      .list({ limit: 1000 })
      .map(({ reason, name, message }) => `${reason} ${name}: ${message}`)
      .toReversed();
  }

  eventsOf(reason: string): string[] {
    return this.events.filter((event) => event.startsWith(`${reason} `));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#specs[Symbol.asyncDispose]();
    await this.#store[Symbol.asyncDispose]();
    rmSync(this.root, { recursive: true, force: true });
  }

  #make(): SpecFolder {
    return new SpecFolder({
      folder: this.folder,
      admission: {
        baseDomain: "localhost",
        apiDomain: undefined,
        reservedPorts: [{ port: 7776, address: "127.0.0.1", owner: "Berth's API" }],
      },
      store: this.store,
      clock: this.#clock,
      logger: silentLogger,
    });
  }
}

/** Returns the YAML document of an App; `more` is appended to the spec. */
export function appText(name: string, image = "nginx", more = ""): string {
  return `apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: ${name} }\nspec:\n  image: ${image}\n${more}`;
}

export function joinDocuments(...texts: readonly string[]): string {
  return texts.join("---\n");
}

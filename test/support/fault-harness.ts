import { join } from "node:path";
import type { TailEntry } from "../../src/assistant/ledger/offline-ledger.ts";
import { Cleanup } from "../../src/base/cleanup.ts";
import { findProblems } from "./call-audit.ts";
import { CompanionClient, type ObservedAnswer } from "./companion-client.ts";
import { type CompanionOptions, CompanionProcess } from "./companion-process.ts";
import { EFFECTS, EffectsApp } from "./effects-app.ts";
import { openLedgerFiles } from "./ledger-fixtures.ts";
import { mountFileSystem } from "./mount-file-system.ts";
import { TestSessionBus } from "./test-session-bus.ts";
import { type Tracer, trace } from "./tracer.ts";

const ENTRIES_MAX = 1_000_000;

/** The system calls to trace: those on the ledger, those on the journal, those of the main thread, or all. */
export type TraceTarget = "ledger" | "journal" | "main" | "all";

/**
 * A session bus with a companion into which a test injects faults. The app and the client keep running when the
 * companion dies.
 */
export class FaultHarness implements AsyncDisposable {
  readonly bus: TestSessionBus;
  readonly companion: CompanionProcess;
  readonly client: CompanionClient;
  readonly app: EffectsApp;
  readonly dataDir: string;
  readonly #cleanup: Cleanup;

  /** Opens the harness without starting the daemon. */
  static async open(options: Omit<CompanionOptions, "bus"> = {}): Promise<FaultHarness> {
    await using starting = new Cleanup();
    const bus = starting.use(await TestSessionBus.start());
    const companion = starting.use(await CompanionProcess.prepare({ bus, ...options }));
    const dataDir = join(companion.home, ".local/share/berth/companion");
    const app = starting.use(await EffectsApp.start(companion, dataDir));
    const client = starting.use(await CompanionClient.connect(bus));
    return new FaultHarness({ bus, companion, client, app, dataDir }, starting.move());
  }

  private constructor(
    parts: Pick<FaultHarness, "bus" | "companion" | "client" | "app" | "dataDir">,
    cleanup: Cleanup,
  ) {
    this.bus = parts.bus;
    this.companion = parts.companion;
    this.client = parts.client;
    this.app = parts.app;
    this.dataDir = parts.dataDir;
    this.#cleanup = cleanup;
  }

  /** Adds a clean-up step, which runs before the bus, the companion, the app and the client are closed. */
  defer(step: () => void): void {
    this.#cleanup.defer(step);
  }

  /**
   * Mounts a file system below the state directory, or at the state directory itself if `below` is "". Returns a
   * function that unmounts it.
   */
  mount(below: string, args: readonly string[]): () => Promise<void> {
    const unmount = mountFileSystem(join(this.dataDir, below), args);
    this.#cleanup.defer(() => unmount("at once"));
    // A daemon that still runs would write to the mounted file system, so it is killed before the unmount.
    this.#cleanup.defer(async () => void (await this.companion.stop("SIGKILL")));
    return unmount;
  }

  async trace(target: TraceTarget, args: readonly string[]): Promise<Tracer> {
    const on = (file: string) =>
      ["", "-wal", "-shm"].flatMap((end) => ["-P", join(this.dataDir, `${file}${end}`)]);
    const selection = {
      ledger: ["-f", ...on("ledger/ledger.db")],
      journal: ["-f", ...on("agent.db")],
      main: [],
      all: ["-f"],
    }[target];
    const log = join(this.companion.home, "strace.log");
    const tracer = await trace(this.companion.ready.pid, log, [...selection, ...args]);
    this.#cleanup.defer(() => tracer.detach());
    return tracer;
  }

  request(tool: string, mark: string): Promise<ObservedAnswer | undefined> {
    return this.client.request(EFFECTS, tool, { mark });
  }

  /**
   * Requests a call and confirms it if it needs confirmation. Returns the last answer, or undefined if the daemon
   * died before the first answer.
   */
  async requestAndConfirm(tool: string, mark: string): Promise<ObservedAnswer | undefined> {
    const asked = await this.request(tool, mark);
    return asked?.status.startsWith("confirm-") === true
      ? ((await this.client.confirm(asked.callId)) ?? asked)
      : asked;
  }

  countEffects(tool: string, mark: string): number {
    return this.app.effects().filter((effect) => effect.tool === tool && effect.mark === mark)
      .length;
  }

  entries(): readonly TailEntry[] {
    using ledger = openLedgerFiles(this.dataDir);
    return ledger.tail(ENTRIES_MAX);
  }

  /**
   * Returns the violated invariants of the ledger and of the effects that the app has recorded. Also returns the
   * ledger's verification status, with its reason if there is one.
   */
  audit(isAtRest: boolean): { readonly verdict: string; readonly problems: readonly string[] } {
    using ledger = openLedgerFiles(this.dataDir);
    const verdict = ledger.verify();
    return {
      verdict: verdict.reason === "" ? verdict.status : `${verdict.status}: ${verdict.reason}`,
      problems: findProblems({
        entries: ledger.tail(ENTRIES_MAX),
        effects: this.app.effects(),
        acknowledged: this.client.acknowledged,
        isAtRest,
      }),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cleanup[Symbol.asyncDispose]();
  }
}

import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { OfflineLedger } from "../../src/assistant/ledger/offline-ledger.ts";
import type { CompanionProcess } from "./companion-process.ts";
import { RawApp, type RawMessage, type RawPeer } from "./raw-app.ts";

export const EFFECTS = "org.example.Effects";

/** The number of latest ledger entries that the app searches for dispatches when it executes a tool. */
const ENTRIES_LOOKED_AT = 60;

/** The effect of one tool call, as the app records it. */
export interface Effect {
  readonly tool: string;
  /**
   * The mark in the arguments of the call that caused this effect. A compensation has the mark of the call that it
   * undoes.
   */
  readonly mark: string;
  /** The dispatch entries that the ledger had when the app executed the tool, such as `call 12` and `undo 12`. */
  readonly dispatched: readonly string[];
}

const argument = {
  type: "object",
  properties: { mark: { type: "string", maxLength: 100 } },
  required: ["mark"],
  additionalProperties: false,
};

const unmake = { tool: "unmake", map: { mark: "$result.id" } };

/** The tools of the app. `star` and `make` can be undone, and `unmake` is the compensation of both. */
const tools = [
  { name: "look", tier: "read" },
  { name: "star", tier: "read", undo: unmake },
  { name: "make", tier: "write", undo: unmake },
  { name: "unmake", tier: "destructive" },
].map((tool) => ({ ...tool, description: `To ${tool.name}.`, input_schema: argument }));

/**
 * An app whose every tool call has a durable effect: a line in a file, synced to disk before the answer. The line
 * contains the dispatches that are in the ledger at that time. The app reads them from the ledger's files.
 */
export class EffectsApp implements AsyncDisposable {
  readonly #file: string;
  readonly #dataDir: string;
  #app: RawApp | undefined;

  /** The tools as an app with this manifest lists them. */
  static readonly listedTools = tools.map(({ name }) => ({ name, inputSchema: argument }));

  /** Writes a manifest with the tools of this app for the app `appId`. */
  static async writeManifest(companion: CompanionProcess, appId: string): Promise<void> {
    const manifest = {
      svc_manifest: 1,
      app_id: appId,
      name: "Effects",
      mcp: { transport: "unix", activatable: false },
      tools,
    };
    await writeFile(join(companion.manifestsDir, `${appId}.json`), JSON.stringify(manifest));
  }

  /** Starts the app and writes its manifest; the companion may be started before or after. */
  static async start(companion: CompanionProcess, dataDir: string): Promise<EffectsApp> {
    const app = new EffectsApp(companion, dataDir);
    await EffectsApp.writeManifest(companion, EFFECTS);
    const socketsDir = join(companion.environment["XDG_RUNTIME_DIR"] ?? "", "assistant/apps");
    app.#app = await RawApp.start(socketsDir, EFFECTS, (message, peer) =>
      app.#onMessage(message, peer),
    );
    return app;
  }

  private constructor(companion: CompanionProcess, dataDir: string) {
    this.#file = join(companion.home, "effects");
    this.#dataDir = dataDir;
    closeSync(openSync(this.#file, "a"));
  }

  /** The number of open connections. */
  get open(): number {
    return this.#app?.openConnections ?? 0;
  }

  effects(): readonly Effect[] {
    return readFileSync(this.#file, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => {
        const effect: Effect = JSON.parse(line);
        return effect;
      });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#app?.[Symbol.asyncDispose]();
  }

  #onMessage(message: RawMessage, peer: RawPeer): "handled" | undefined {
    if (message.method === "tools/list") {
      peer.answer(message, { tools: EffectsApp.listedTools });
      return "handled";
    }
    if (message.method !== "tools/call") return undefined;
    const { name, arguments: args } = parseCall(message);
    const mark = args.mark.replace(/^made-/, "");
    const effect: Effect = { tool: name, mark, dispatched: this.#listDispatches() };
    const file = openSync(this.#file, "a");
    writeSync(file, `${JSON.stringify(effect)}\n`);
    fsyncSync(file);
    closeSync(file);
    peer.answer(message, { content: [], structuredContent: { id: `made-${mark}` } });
    return "handled";
  }

  #listDispatches(): string[] {
    using ledger = OfflineLedger.open(this.#dataDir);
    return ledger.tail(ENTRIES_LOOKED_AT).flatMap(({ body }) => {
      const kind = /^agent\.(call|undo)\.dispatch$/.exec(body.name)?.[1];
      return kind === undefined ? [] : [`${kind} ${Number(body.fields["call"])}`];
    });
  }
}

function parseCall(message: RawMessage): { name: string; arguments: { mark: string } } {
  const call: { name: string; arguments: { mark: string } } = JSON.parse(
    JSON.stringify(message.params),
  );
  return call;
}

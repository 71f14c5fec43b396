import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TailEntry } from "../../src/assistant/ledger/offline-ledger.ts";
import { Cleanup } from "../../src/base/cleanup.ts";
import type { BusValue } from "../../src/dbus/port.ts";
import { getCallOutcome } from "./companion-client.ts";
import { CompanionProcess } from "./companion-process.ts";
import { FrontendClient } from "./frontend-client.ts";
import { openLedgerFiles } from "./ledger-fixtures.ts";
import type { ScriptedResponse } from "./provider/scripted-response.ts";
import { type ProviderRequest, TestProvider } from "./provider/test-provider.ts";
import { TestSessionBus } from "./test-session-bus.ts";

export const PROVIDER_KEY = "sk-canary-5d0f77aa31";
export const REMOTE_MODEL = "remote:cloud:test-model";
export const LOCAL_MODEL = "tiny";

export interface RemoteCompanionHarnessOptions {
  /**
   * Returns the reply to a chat request to a local or a remote model. If the script is undefined, the reply repeats the
   * prompt.
   */
  readonly script?: (request: ProviderRequest) => ScriptedResponse | undefined;
  readonly environment?: Readonly<Record<string, string>>;
  /** If false, the companion starts without the provider. */
  readonly isStarted?: boolean;
  /** If true, the provider accepts and records any key. */
  readonly acceptsAnyKey?: boolean;
  /** PEM certificates that the companion trusts in addition to the provider's own. */
  readonly extraAuthorities?: readonly string[];
}

/**
 * The real companion on its own bus, with a provider over TLS, a user's frontend, and a provider in place of the
 * assistant's system instance.
 */
export class RemoteCompanionHarness implements AsyncDisposable {
  readonly bus: TestSessionBus;
  readonly companion: CompanionProcess;
  /** The folder of the companion's state. */
  readonly dataDir: string;
  readonly cloudProvider: TestProvider;
  readonly localProvider: TestProvider;
  readonly frontend: FrontendClient;
  readonly #cleanup: Cleanup;

  static async open(options: RemoteCompanionHarnessOptions = {}): Promise<RemoteCompanionHarness> {
    await using starting = new Cleanup();
    const script = options.script ?? (() => undefined);
    const near = starting.use(await TestProvider.start({ models: [LOCAL_MODEL], script }));
    const cloud = starting.use(
      await TestProvider.start({
        tls: true,
        script,
        ...(options.acceptsAnyKey === true ? {} : { key: PROVIDER_KEY }),
      }),
    );
    const folder = await mkdtemp(join(tmpdir(), "berth-desk-"));
    starting.defer(() => rm(folder, { recursive: true, force: true }));
    const authority = join(folder, "ca.pem");
    await writeFile(authority, [cloud.ca, ...(options.extraAuthorities ?? [])].join("\n"));
    const bus = starting.use(await TestSessionBus.start());
    const companion = starting.use(
      await CompanionProcess.prepare({
        bus,
        flags: ["--upstream", near.origin],
        environment: { NODE_EXTRA_CA_CERTS: authority, ...options.environment },
      }),
    );
    if (options.isStarted !== false) await companion.start();
    const person = starting.use(await FrontendClient.connect(bus.address));
    const desk = new RemoteCompanionHarness(
      { bus, companion, cloudProvider: cloud, localProvider: near, frontend: person },
      starting.move(),
    );
    if (options.isStarted !== false) await desk.configureProvider();
    return desk;
  }

  private constructor(
    parts: Pick<
      RemoteCompanionHarness,
      "bus" | "companion" | "cloudProvider" | "localProvider" | "frontend"
    >,
    cleanup: Cleanup,
  ) {
    this.bus = parts.bus;
    this.companion = parts.companion;
    this.dataDir = join(parts.companion.home, ".local/share/berth/companion");
    this.cloudProvider = parts.cloudProvider;
    this.localProvider = parts.localProvider;
    this.frontend = parts.frontend;
    this.#cleanup = cleanup;
  }

  /** Adds the provider with its key, and gives consent to send prompts. */
  async configureProvider(): Promise<void> {
    await this.frontend.call(
      "Remote1",
      "AddProvider",
      "sss",
      "cloud",
      "",
      this.cloudProvider.baseUrl,
    );
    await this.setKey();
    await this.frontend.call("Remote1", "SetConsent", "sb", "prompt", true);
  }

  async setKey(): Promise<void> {
    await this.frontend.call("Remote1", "SetKey", "ss", "cloud", PROVIDER_KEY);
  }

  /** Adds a clean-up step, which runs before everything else is closed. */
  defer(step: () => unknown): void {
    this.#cleanup.defer(step);
  }

  /** Connects another frontend on its own connection. */
  async connectFrontend(): Promise<FrontendClient> {
    return await FrontendClient.connect(this.bus.address);
  }

  /** Starts a streamed chat on the companion's port. */
  chat(model: string, text: string): HttpChat {
    return new HttpChat(this.companion.ready.url, {
      model,
      stream: true,
      messages: [{ role: "user", content: text }],
    });
  }

  /** Requests the embedding of a text. */
  embed(model: string, input: string): HttpChat {
    return new HttpChat(this.companion.ready.url, { model, input }, "/v1/embeddings");
  }

  get(path: string): HttpChat {
    return new HttpChat(this.companion.ready.url, undefined, path);
  }

  /** Returns the entries of the companion's ledger that have this name, or all entries. The ledger may be in use. */
  entries(name?: string): readonly TailEntry[] {
    using ledger = openLedgerFiles(this.dataDir);
    return ledger.tail(1_000_000).filter(({ body }) => body.name === (name ?? body.name));
  }

  /** Returns the chat requests that the provider has received. */
  listChatRequests(): readonly ProviderRequest[] {
    return this.cloudProvider.requests.filter(({ path }) => path.endsWith("/chat/completions"));
  }

  /** Calls a method of Remote1 and returns `answered`, or the name of its error. */
  async getOutcome(
    member: string,
    signature: string,
    ...args: readonly BusValue[]
  ): Promise<string> {
    return getCallOutcome(this.frontend.call("Remote1", member, signature, ...args));
  }

  /** Returns two numbers of GetStatus: the queries that run, and the queries that wait for the user. */
  async countQueries(): Promise<{ readonly active: unknown; readonly pending: unknown }> {
    const [status] = await this.frontend.call("Overlay1", "GetStatus");
    if (!(status instanceof Map)) throw new Error("no status");
    return {
      active: valueOf(status.get("active")),
      pending: valueOf(status.get("pending_confirmations")),
    };
  }

  /** Returns the values of `/metrics` by name with labels. */
  async metrics(): Promise<ReadonlyMap<string, number>> {
    const { text } = await this.get("/metrics").result;
    const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    return new Map(
      lines.map((line) => {
        const at = line.lastIndexOf(" ");
        return [line.slice(0, at), Number(line.slice(at + 1))];
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cleanup[Symbol.asyncDispose]();
  }
}

export interface HttpChatResult {
  /** The HTTP status; 0 if there was no answer. */
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
  /** The error code from the body of the answer, or from an event of the stream; undefined if there was no error. */
  readonly code: string | undefined;
}

/**
 * A request on its own connection, which the test can close at any time. A request without a body is a GET request.
 */
export class HttpChat {
  /** Resolves when part of the body has arrived. Never rejects. */
  readonly begun: Promise<void>;
  /** Resolves to the answer when the connection closes, even if the answer is incomplete or missing. Never rejects. */
  readonly result: Promise<HttpChatResult>;
  readonly #request;

  constructor(url: string, body?: unknown, path = "/v1/chat/completions") {
    const request = httpRequest(new URL(path, url), {
      agent: false,
      method: body === undefined ? "GET" : "POST",
      headers: { "content-type": "application/json" },
    });
    this.#request = request;
    const begun = new AbortController();
    const begin = () => begun.abort();
    this.begun = new Promise((resolve) => {
      begun.signal.addEventListener("abort", () => resolve());
    });
    this.result = new Promise((resolve) => {
      let text = "";
      let response: IncomingMessage | undefined;
      const over = () => {
        begin();
        const { statusCode: status = 0, headers = {} } = response ?? {};
        resolve({ status, headers, text, code: codeOf(text) });
      };
      request.once("response", (found) => {
        response = found;
        found.setEncoding("utf8").on("data", (piece: string) => {
          text += piece;
          begin();
        });
        found.once("close", over).on("error", () => {});
      });
      request.on("error", () => {}).once("close", over);
    });
    request.end(body === undefined ? undefined : JSON.stringify(body));
  }

  disconnect(): void {
    this.#request.destroy();
  }

  /** Waits for the end of the streamed answer, and returns the concatenated `content` of its events. */
  async readAnswer(): Promise<string> {
    const { text } = await this.result;
    const pieces = text.matchAll(/"content":("(?:[^"\\]|\\.)*")/g);
    return [...pieces].map(([, piece]) => String(JSON.parse(piece ?? '""'))).join("");
  }
}

function codeOf(text: string): string | undefined {
  return /"error":\{.*"code":"(\w+)"/.exec(text)?.[1];
}

function valueOf(variant: unknown): unknown {
  return typeof variant === "object" && variant !== null && "value" in variant
    ? variant.value
    : variant;
}

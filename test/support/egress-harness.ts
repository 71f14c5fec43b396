import { getEventListeners } from "node:events";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import type { AnswerEvent, GenerateRequest } from "../../src/assistant/inference/service-port.ts";
import { Consent } from "../../src/assistant/remote/consent.ts";
import type { ProviderDirectory } from "../../src/assistant/remote/egress/port.ts";
import { RemoteInference } from "../../src/assistant/remote/egress/remote-inference.ts";
import type { Provider, ProviderStatus } from "../../src/assistant/remote/port.ts";
import type {
  ProviderAnswer,
  ProviderCall,
  ProviderHttp,
} from "../../src/assistant/remote/provider-http/port.ts";
import { ProviderRefusal } from "../../src/assistant/remote/provider-http/provider-refusal.ts";
import { Revocations } from "../../src/assistant/remote/revocations.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { raceWithAbort } from "../../src/base/race-with-abort.ts";
import { FakeLedger } from "./fake-ledger.ts";
import { plainRequest } from "./service-harness.ts";
import { VirtualClock } from "./virtual-clock.ts";

/** A key that may appear in the Authorization header of a request, and nowhere else. */
export const CANARY = "sk-canary-0123456789abcdef";

export const acme: Provider = {
  id: "acme",
  displayName: "Acme",
  baseUrl: "https://api.acme.test/v1",
  addressClass: "public",
  builtin: false,
  auth: "key",
};

export const chatRequest: GenerateRequest = {
  ...plainRequest,
  model: "remote:acme:big",
  prompts: [
    { kind: "chat", messages: [{ role: "user", content: "hi" }], tools: [], variables: {} },
  ],
  sampling: {},
};

export class FakeProviderDirectory implements ProviderDirectory {
  readonly providers: Provider[] = [acme];
  key: string | undefined = CANARY;
  readonly statuses: ProviderStatus[] = [];
  /** The number of open subscriptions to revocations. */
  watching = 0;
  /** The number of times that a credential was requested. */
  asked = 0;

  find(id: string): Provider | undefined {
    return this.providers.find((provider) => provider.id === id);
  }

  usable(): readonly Provider[] {
    return this.providers;
  }

  bearer(): Promise<string | undefined> {
    this.asked += 1;
    return Promise.resolve(this.key);
  }

  noteStatus(_id: string, status: ProviderStatus): void {
    this.statuses.push(status);
  }

  readonly revocations = new Revocations();

  onRevoked(...given: Parameters<ProviderDirectory["onRevoked"]>): () => void {
    this.watching += 1;
    const stop = this.revocations.onRevoked(...given);
    return () => {
      this.watching -= 1;
      stop();
    };
  }
}

/** The scripted result of one attempt. If a piece of the answer is a promise, the answer waits for it. */
export type AttemptScript = AssistantError | AnswerScript;
export interface AnswerScript {
  readonly pieces: readonly Piece[];
  readonly contentType?: string;
}
type Piece = string | Uint8Array | AssistantError | Promise<string>;

/**
 * A provider connection that answers each attempt with the next script. The last script answers all later attempts.
 */
export class FakeProviderHttp implements ProviderHttp {
  scripts: readonly AttemptScript[] = [];
  readonly calls: ProviderCall[] = [];
  /** The number of response bodies that are being read. */
  reading = 0;
  onOpen: (call: ProviderCall) => void = () => {};
  /**
   * Returns a promise for which the response headers of the call with this number, counted from 0, must wait;
   * undefined if they need not wait.
   */
  head: (number: number) => Promise<unknown> | undefined = () => undefined;

  async open(call: ProviderCall, signal: AbortSignal): Promise<ProviderAnswer> {
    signal.throwIfAborted();
    this.onOpen(call);
    const number = this.calls.push(call) - 1;
    const turn = this.scripts[Math.min(number, this.scripts.length - 1)];
    const head = this.head(number);
    if (head) await raceWithAbort(head, signal);
    if (!turn) throw new Error("nobody told what to answer");
    if (turn instanceof AssistantError) throw turn;
    const { contentType = "text/event-stream", pieces } = turn;
    return { status: 200, contentType, body: () => this.#body(pieces, signal) };
  }

  async *#body(pieces: readonly Piece[], signal: AbortSignal): AsyncGenerator<Uint8Array> {
    this.reading += 1;
    try {
      for (const piece of pieces) {
        signal.throwIfAborted();
        if (piece instanceof AssistantError) throw piece;
        const bytes = piece instanceof Promise ? await raceWithAbort(piece, signal) : piece;
        yield typeof bytes === "string" ? Buffer.from(bytes) : bytes;
      }
    } finally {
      this.reading -= 1;
    }
  }
}

/** Creates the egress with fakes of all its dependencies. `log` records the calls of the fakes in order. */
export function createEgressHarness(options: { readonly random?: () => number } = {}) {
  const log: string[] = [];
  const clock = new VirtualClock();
  const ledger = new FakeLedger();
  const consent = new CountingConsent(["prompt"]);
  const directory = new FakeProviderDirectory();
  const http = new FakeProviderHttp();
  ledger.onCommit = () => {
    const last = ledger.entries.at(-1)?.commit;
    for (const entry of ledger.entries) if (entry.commit === last) log.push(`ledger ${entry.name}`);
  };
  http.onOpen = ({ path }) => void log.push(`http ${path}`);
  const service = new RemoteInference({
    http,
    providers: directory,
    consent,
    ledger,
    clock,
    logger: silentLogger,
    random: options.random ?? (() => 0.5),
  });
  /**
   * Runs a request, and resolves to its events and its error. Advances the virtual time as far as the request needs.
   */
  const run = async (
    request: GenerateRequest,
    signal: AbortSignal = new AbortController().signal,
  ) => {
    const events: AnswerEvent[] = [];
    let error: unknown;
    const over = new AbortController();
    const running = (async () => {
      try {
        for await (const event of service.generate(request, signal)) {
          log.push(`event ${event.type}`);
          events.push(event);
        }
      } catch (thrown) {
        error = thrown;
      } finally {
        over.abort();
      }
    })();
    for (let turn = 0; !over.signal.aborted && turn < 200; turn++) await clock.advance(100);
    await running;
    if (getEventListeners(signal, "abort").length > 0)
      throw new Error("somebody still listens to the caller's signal");
    return { events, error };
  };
  return { log, clock, ledger, consent, directory, http, service, run };
}

export type EgressHarness = ReturnType<typeof createEgressHarness>;

/** A Consent that counts its open subscriptions to revocations. */
export class CountingConsent extends Consent {
  watching = 0;

  override onRevoked(...given: Parameters<Consent["onRevoked"]>): () => void {
    this.watching += 1;
    const stop = super.onRevoked(...given);
    let isStopped = false;
    return () => {
      if (!isStopped) this.watching -= 1;
      isStopped = true;
      stop();
    };
  }
}

export const refused = (status: number, message = `status ${status}`): ProviderRefusal =>
  new ProviderRefusal(status === 400 ? "invalid_request" : "provider_failed", message, { status });

export const unreachable = new AssistantError("unreachable", "nobody there");
export const cut = new AssistantError("cut_off", "the connection ended");

export const data = (value: unknown): string =>
  `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;

export const delta = (fields: Record<string, unknown>, reason: string | null = null) =>
  data({ choices: [{ index: 0, delta: fields, finish_reason: reason }] });

export const usage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };

/** Returns the script of a normal answer: these text pieces, the end of the answer, and the token counts. */
export const answerWith = (...words: readonly string[]): AnswerScript => ({
  pieces: [
    ...words.map((content) => delta({ content })),
    delta({}, "stop"),
    data({ choices: [], usage }),
    data("[DONE]"),
  ],
});

/** A promise that never settles. */
export const never = new Promise<never>(() => {});

import { ProviderAddresses } from "../../../src/assistant/remote/address/provider-addresses.ts";
import type { AddressClass } from "../../../src/assistant/remote/port.ts";
import type {
  ProviderAnswer,
  ProviderLimits,
} from "../../../src/assistant/remote/provider-http/port.ts";
import { ProviderHttpClient } from "../../../src/assistant/remote/provider-http/provider-http-client.ts";
import { type Clock, systemClock } from "../../../src/base/clock.ts";
import { CountingClock } from "../counting-clock.ts";
import { TestProvider, type TestProviderOptions } from "./test-provider.ts";

export interface ProviderCallOptions {
  readonly path?: string;
  readonly method?: "GET" | "POST";
  readonly body?: unknown;
  readonly bearer?: string | undefined;
  readonly limits?: Partial<ProviderLimits>;
  readonly signal?: AbortSignal;
  readonly addressClass?: AddressClass;
  readonly baseUrl?: string;
}

export interface ProviderHarnessOptions extends TestProviderOptions {
  /** Resolves host names; by default, every name resolves to 127.0.0.1. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
  readonly ownPorts?: () => ReadonlySet<number>;
  /** The clock of the client's time limits; by default the real time. */
  readonly clock?: Clock;
  /** The certificates that clients trust, in addition to that of the provider. */
  readonly trusted?: readonly string[];
}

/** A time limit in milliseconds that only a hanging test exceeds. */
const PATIENT: ProviderLimits = { headMs: 60_000, silentMs: 60_000, bytesMax: 2 ** 20 };

export const KEY = "sk-canary-9f8e7d6c5b4a39281706f5e4d3c2b1a0";

export const createChatBody = (text: string, more: object = {}) => ({
  model: "test-model",
  messages: [{ role: "user", content: text }],
  ...more,
});

/** A test provider, and a client of the egress that sends requests to it. */
export class ProviderHarness implements AsyncDisposable {
  readonly provider: TestProvider;
  readonly http: ProviderHttpClient;
  readonly clock: CountingClock;

  static async start(options: ProviderHarnessOptions = {}): Promise<ProviderHarness> {
    return new ProviderHarness(await TestProvider.start(options), options);
  }

  private constructor(provider: TestProvider, options: ProviderHarnessOptions) {
    this.provider = provider;
    this.clock = new CountingClock(options.clock);
    this.http = new ProviderHttpClient({
      addresses: new ProviderAddresses({
        ownPorts: options.ownPorts ?? (() => new Set()),
        resolve: options.resolve ?? (async () => ["127.0.0.1"]),
      }),
      clock: this.clock,
      extraAuthorities: [...(provider.ca === "" ? [] : [provider.ca]), ...(options.trusted ?? [])],
    });
  }

  open(asking: ProviderCallOptions = {}): Promise<ProviderAnswer> {
    const method = asking.method ?? "POST";
    return this.http.open(
      {
        provider: {
          id: "acme",
          baseUrl: asking.baseUrl ?? this.provider.baseUrl,
          addressClass: asking.addressClass ?? "loopback",
        },
        method,
        path: asking.path ?? "/chat/completions",
        body:
          "body" in asking || method === "GET"
            ? asking.body
            : createChatBody("hello", { stream: true }),
        bearer: "bearer" in asking ? asking.bearer : KEY,
        limits: { ...PATIENT, ...asking.limits },
      },
      asking.signal ?? new AbortController().signal,
    );
  }

  /** Returns the text of the whole answer. */
  async text(asking: ProviderCallOptions = {}): Promise<string> {
    return await readText(await this.open(asking));
  }

  /**
   * Waits until no request to the provider is open, and the last events of closed sockets have occurred. Idle
   * connections may remain.
   */
  async untilQuiet(): Promise<void> {
    await this.provider.until(({ requests }) => requests.every(({ state }) => state !== "open"));
    // The last events of a closed socket occur before this timer fires.
    await new Promise((resolve) => systemClock.setTimer(0, () => resolve(undefined)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.http[Symbol.asyncDispose]();
    await this.provider[Symbol.asyncDispose]();
  }
}

export async function readText(answer: ProviderAnswer): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of answer.body()) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}

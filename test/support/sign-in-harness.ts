import { request } from "node:http";
import type { BuiltInProvider, LoginDetail } from "../../src/assistant/remote/port.ts";
import { OAuthSignIns } from "../../src/assistant/remote/sign-in/sign-ins.ts";
import type { Credential, OAuthSession } from "../../src/assistant/remote/vault/port.ts";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import type { SignInConfig } from "../../src/config/sign-in-config.ts";
import { createRecordingLogger, type LogEntry } from "./recording-logger.ts";

export interface SignInHarnessOptions {
  readonly openrouter?: SignInConfig["openrouter"];
  readonly huggingface?: { readonly issuer: string; readonly clientId?: string };
  readonly clock?: Clock;
  readonly requestMs?: number;
}

/** The address of a provider that does not exist: no program listens on this port. */
const NOWHERE = "http://127.0.0.1:9";

/** A service for sign-ins, which records how sign-ins end and the credentials that they return. */
export class SignInHarness implements AsyncDisposable {
  readonly ends: { readonly provider: BuiltInProvider; readonly detail: LoginDetail }[] = [];
  readonly kept: Credential[] = [];
  readonly #logged: LogEntry[] = [];
  /** Called before a session is stored. */
  beforeKeeping: () => Promise<void> = () => Promise.resolve();
  readonly signIns: OAuthSignIns;

  constructor(options: SignInHarnessOptions) {
    const { openrouter, huggingface, clock, requestMs } = options;
    this.signIns = new OAuthSignIns({
      endpoints: {
        openrouter: openrouter ?? {
          authorizeUrl: `${NOWHERE}/auth`,
          exchangeUrl: `${NOWHERE}/keys`,
          baseUrl: NOWHERE,
        },
        huggingface: {
          issuer: huggingface?.issuer ?? NOWHERE,
          clientId: huggingface?.clientId,
          baseUrl: NOWHERE,
        },
      },
      clock: clock ?? systemClock,
      logger: createRecordingLogger(this.#logged),
      ...(requestMs === undefined ? {} : { requestMs }),
      sink: {
        keep: async (_provider, credential) => {
          await this.beforeKeeping();
          this.kept.push(credential);
        },
        completed: (provider, isOk, detail) => {
          if (isOk !== (detail === "ok")) throw new Error(`ok is ${isOk} for ${detail}`);
          this.ends.push({ provider, detail });
        },
      },
    });
  }

  /** All log entries of the sign-ins as JSON text, which tests search for messages and secrets. */
  get log(): string {
    return JSON.stringify(this.#logged);
  }

  get details(): readonly LoginDetail[] {
    return this.ends.map(({ detail }) => detail);
  }

  /** The session that was stored last. */
  get session(): OAuthSession {
    const last = this.kept.at(-1);
    if (last?.kind !== "oauth") throw new Error("no session was kept");
    return last;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.signIns[Symbol.asyncDispose]();
  }
}

export interface PageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** Sends a request that no browser would send. */
export function sendRawRequest(
  url: URL | string,
  options: { readonly method?: string; readonly host?: string } = {},
): Promise<PageAnswer> {
  return new Promise((resolve, reject) => {
    const asked = request(
      url,
      {
        method: options.method ?? "GET",
        agent: false,
        ...(options.host === undefined ? {} : { headers: { host: options.host } }),
      },
      (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part: string) => {
          text += part;
        });
        response.on("end", () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
        );
        response.on("error", reject);
      },
    );
    asked.on("error", reject);
    asked.end();
  });
}

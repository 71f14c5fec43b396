import { randomBytes } from "node:crypto";
import { closeSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import { type Logger, silentLogger } from "../../../base/logger.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Bus, BusCall, BusMethod } from "../../bus/port.ts";
import { readOptions } from "../../bus/read-options.ts";
import type { Caller } from "../../caller.ts";
import type { InferenceService } from "../service-port.ts";
import { FifoPool } from "./fifo-pool.ts";
import type { CancelReason, FinishedSignal } from "./finished-signal.ts";
import { InferenceSession } from "./inference-session.ts";
import { checkSandboxedRequests, SessionQuota } from "./session-quota.ts";
import { parseEmbedCall, parseGenerateCall } from "./session-requests.ts";

export interface InferenceObjectsOptions {
  readonly bus: Bus;
  readonly service: InferenceService;
  /**
   * The absolute path of a directory that only this user can access, on a file system that supports FIFOs. The folder
   * `pipes` is created in it.
   */
  readonly runtimeDir: string;
  readonly clock: Clock;
  readonly logger?: Logger | undefined;
  /** The daemon's name and version, for example `berth 0.1.0`, which the bus method Ping returns. */
  readonly daemon: string;
}

const PATH = "/dev/assistant/Inference1";
const INTERFACE = "dev.assistant.Inference1";
const SESSION_INTERFACE = "dev.assistant.Inference1.Session";
const INTERFACE_VERSION = 1;

/** A session and the caller that owns it. */
interface OwnedSession {
  readonly session: InferenceSession;
  readonly owner: Caller;
  /** The number of calls of Embed in progress. */
  embeddings: number;
  /** Closes the session and removes its object from the bus. */
  readonly release: (why: string, code?: CancelReason["code"]) => void;
}

/**
 * Exports `dev.assistant.Inference1` and its sessions. A session belongs to the connection that opened it: other
 * connections may read its state but not call it. A session is closed when its owner leaves the bus.
 */
export class InferenceObjects implements AsyncDisposable {
  readonly #options: InferenceObjectsOptions;
  readonly #logger: Logger;
  readonly #pool: FifoPool;
  readonly #background = new Set<Promise<void>>();
  readonly #sessions = new Map<string, OwnedSession>();
  readonly #quota = new SessionQuota();
  #isEnding = false;
  readonly #unserve: () => void;

  constructor(options: InferenceObjectsOptions) {
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
    this.#pool = new FifoPool(join(options.runtimeDir, "pipes"));
    this.#unserve = options.bus.serve(PATH, {
      name: INTERFACE,
      methods: {
        Ping: () => [options.daemon],
        OpenSession: (call) => this.#openSession(call),
      },
      properties: { Version: () => INTERFACE_VERSION },
    });
  }

  /** The number of open sessions, for /metrics. */
  get sessionCount(): number {
    return this.#sessions.size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true;
    this.#unserve();
    for (const { release } of this.#sessions.values())
      release("the companion is shutting down", "shutting_down");
    while (this.#background.size > 0) await Promise.all(this.#background);
    await this.#pool[Symbol.asyncDispose]();
  }

  async #openSession({ caller, args, signal }: BusCall): Promise<readonly [string, number]> {
    const { model_hint: hint } = readOptions({ model_hint: "s" }, args[0]);
    const model = hint === "" ? undefined : hint;
    const releaseReservation = this.#quota.reserve(caller);
    try {
      if (model !== undefined && !(await this.#options.service.model(model)))
        throw new AssistantError("model_not_found", `there is no model ${quoted(model)}`, {
          param: "model_hint",
        });
      const { pipe, readEnd } = await this.#pool.open();
      if (signal.aborted || this.#isEnding) {
        closeSync(readEnd);
        pipe.close();
        throw new AssistantError(
          "shutting_down",
          "the session was not opened: its caller has left the bus",
        );
      }
      const path = `${PATH}/session/${randomBytes(8).toString("hex")}`;
      const session = new InferenceSession({
        pipe,
        service: this.#options.service,
        clock: this.#options.clock,
        background: (task) => this.#trackBackground(task()),
        onFinished: (finished) => this.#emitFinished(path, caller.connection, finished),
        onUnexpectedError: (err) =>
          this.#logger.error({ err, session: path }, "a generation failed"),
      });
      this.#serveSession(path, session, model, caller, releaseReservation);
      return [path, readEnd];
    } catch (error) {
      releaseReservation();
      throw error;
    }
  }

  #serveSession(
    path: string,
    session: InferenceSession,
    model: string | undefined,
    owner: Caller,
    releaseReservation: () => void,
  ): void {
    const { bus } = this.#options;
    const release: OwnedSession["release"] = (message, code = "cancelled") => {
      if (!this.#sessions.delete(path)) return;
      session.close({ code, message });
      unserve();
      forget();
      releaseReservation();
    };
    const owned: OwnedSession = { session, owner, embeddings: 0, release };
    const unserve = bus.serve(path, {
      name: SESSION_INTERFACE,
      methods: this.#methods(owned, model),
      properties: { State: () => session.state, Version: () => INTERFACE_VERSION },
    });
    this.#sessions.set(path, owned);
    const forget = bus.onDisconnect(owner.connection, () =>
      release("the connection that opened the session has left the bus"),
    );
  }

  #methods(owned: OwnedSession, model: string | undefined): Readonly<Record<string, BusMethod>> {
    const { session, owner, release } = owned;
    const ownerOnly =
      (method: BusMethod): BusMethod =>
      (call) => {
        if (call.caller.connection === owner.connection) return method(call);
        throw new AssistantError("forbidden", "this session belongs to another connection");
      };
    return {
      Generate: ownerOnly(async ({ args }) => {
        const request = parseGenerateCall(model, args);
        this.#checkRequests(owner);
        await session.generate(request);
        return [];
      }),
      Embed: ownerOnly(async ({ args, signal }) => {
        const request = parseEmbedCall(model, args);
        this.#checkRequests(owner);
        const ended = AbortSignal.any([signal, session.signal]);
        owned.embeddings += 1;
        try {
          const { vectors } = await this.#options.service.embed(request, ended);
          return [vectors.map((vector) => [...vector])];
        } finally {
          owned.embeddings -= 1;
        }
      }),
      Cancel: ownerOnly(() => {
        session.cancel();
        return [];
      }),
      Close: ownerOnly(() => {
        release("the session was closed");
        return [];
      }),
    };
  }

  /** Throws `limits_exceeded` if the owner of a session is a sandboxed app with too many requests in progress. */
  #checkRequests(owner: Caller): void {
    checkSandboxedRequests(
      owner,
      [...this.#sessions.values()].map((one) => ({
        owner: one.owner,
        requests: one.embeddings + (one.session.state === "generating" ? 1 : 0),
      })),
    );
  }

  #trackBackground(work: Promise<void>): void {
    const kept = work
      .catch((err: unknown) => this.#logger.error({ err }, "a session's work failed"))
      .finally(() => this.#background.delete(kept));
    this.#background.add(kept);
  }

  #emitFinished(path: string, owner: string, { status, detailJson }: FinishedSignal): void {
    const args = [status, detailJson];
    this.#options.bus.emit({ path, interface: SESSION_INTERFACE, name: "Finished", args }, owner);
  }
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 64 ? `${text.slice(0, 63)}…` : text);
}

import { type Clock, delay } from "../../base/clock.ts";
import { BerthError, isAbort } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { TaskGroup } from "../../base/task-group.ts";
import type { Change, Store } from "../../store/store.ts";
import { networkName } from "../engine-names.ts";
import type { Ingress } from "../ingress/port.ts";
import { INSTANCE } from "../labels.ts";
import type { Reason } from "../reason.ts";
import type { ContainerRuntime } from "../runtime/port.ts";
import type { AssistantControl, Door } from "./assistant/port.ts";
import { MODELS_HOST, MODELS_PORT, type ModelDoor } from "./door.ts";

/** How often all is worked out anew though nothing was heard of: an assistant that was exchanged has no doors. */
const RESYNC_MS = 30_000;
const RETRY_MS = 2_000;
/** Between two looks; many changes at once are one. */
const GAP_MS = 200;

const OPENING: Reason = {
  reason: "ModelsOutOfReach",
  message: "the way from containers to the models is being opened",
};

export interface ModelDoorsOptions {
  readonly store: Pick<Store, "instanceId" | "list" | "watch" | "ports">;
  readonly runtime: Pick<
    ContainerRuntime,
    "ensureNetwork" | "networkSubnets" | "hostGateway" | "removeNetwork"
  >;
  readonly assistant: Pick<AssistantControl, "openDoors">;
  /** Asked once the engine has answered. */
  readonly reach: (signal: AbortSignal) => Promise<Ingress["reach"]>;
  /** As in DOCKER_HOST. */
  readonly dockerHost: string;
  /** Of the assistant's endpoint, as it is configured; 0: it has another one after each start. */
  readonly port: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Told of each App that waits for the way, or has lost it. */
  readonly onChanged: (app: string) => void;
}

/**
 * Keeps a way open from the containers of Apps that say `models` to the assistant's endpoint, which itself
 * listens on loopback only: a door of the assistant, on the address that `host-gateway` stands for in
 * containers. With an engine on this machine that is the address of its default bridge, and the instance's network
 * is let in. With one in a virtual machine of its own (Docker Desktop) it leads to this machine's
 * loopback already, and only the name has to be known there. Without such Apps all doors are closed.
 */
export class ModelDoors implements ModelDoor, AsyncDisposable {
  readonly port: number;
  readonly #options: ModelDoorsOptions;
  readonly #tasks: TaskGroup;
  #closed: Reason | null = OPENING;
  #reach: { readonly subnets: string; readonly reach: Ingress["reach"] } | undefined;
  #isDue = false;
  #wake: () => void = () => {};
  #unwatch: () => void = () => {};

  constructor(options: ModelDoorsOptions) {
    const { store, port, logger } = options;
    this.#options = options;
    // It stands in the environment of containers: another one would make them all anew.
    this.port = port === 0 ? store.ports.lease(MODELS_HOST, 0, MODELS_PORT) : port;
    this.#tasks = new TaskGroup((error, name) =>
      logger.error({ task: name, err: error }, "a background task failed"),
    );
  }

  start(): void {
    this.#unwatch = this.#options.store.watch((change) => this.#onChange(change));
    this.#tasks.run("model doors", (signal) => this.#run(signal));
  }

  closed(): Reason | null {
    return this.#closed;
  }

  /** The assistant, or the engine, has come up, perhaps another one. */
  refresh(): void {
    this.#isDue = true;
    this.#wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unwatch();
    await this.#tasks[Symbol.asyncDispose]();
  }

  /** Containers that come up may have brought the network back, with other addresses. */
  #onChange({ kind, type, name }: Change): void {
    if (kind !== "App" || type === "event") return;
    if (type !== "status" || this.#users().includes(name)) this.refresh();
  }

  /** Apps whose containers are to reach the models. */
  #users(): readonly string[] {
    return this.#options.store
      .list("App")
      .filter(({ metadata }) => metadata.deletionTimestamp === null)
      .filter(({ spec }) => (spec.models ?? []).length > 0 && spec.running !== false)
      .map(({ metadata }) => metadata.name);
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#isDue = false;
      const users = this.#users();
      const closed = await this.#sync(users, signal);
      this.#note(closed, users);
      await delay(this.#options.clock, GAP_MS, signal);
      const restMs = closed === null ? RESYNC_MS : RETRY_MS;
      await this.#rest(users.length === 0 ? null : restMs, signal);
    }
  }

  /** Until it is due, or the time is over; null: however long that takes. */
  #rest(ms: number | null, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        cancel();
        signal.removeEventListener("abort", done);
        this.#wake = () => {};
        resolve();
      };
      const cancel = ms === null ? () => {} : this.#options.clock.setTimer(ms, done);
      this.#wake = done;
      signal.addEventListener("abort", done, { once: true });
      if (this.#isDue || signal.aborted) done();
    });
  }

  /** Returns why the way is not open; null where it is. */
  async #sync(users: readonly string[], signal: AbortSignal): Promise<Reason | null> {
    try {
      const doors = users.length === 0 ? [] : await this.#doors(signal);
      await this.#options.assistant.openDoors(doors, signal);
      return doors.length === 0 ? OPENING : null;
    } catch (error) {
      if (isAbort(error) && signal.aborted) throw error;
      // An assistant that is away has no doors that somebody would have to close.
      if (users.length === 0) return OPENING;
      if (!(error instanceof BerthError))
        this.#options.logger.error({ err: error }, "the way to the models failed unexpectedly");
      const message =
        error instanceof BerthError
          ? [error.message, error.hint].filter(Boolean).join("; ")
          : "an error of Berth's own; see its log";
      return { reason: OPENING.reason, message: `containers cannot reach the models: ${message}` };
    }
  }

  async #doors(signal: AbortSignal): Promise<readonly Door[]> {
    const { store, runtime, dockerHost } = this.#options;
    if (isElsewhere(dockerHost))
      throw new BerthError("engine_error", "the engine runs on another machine", {
        hint: "set OPENAI_BASE_URL in env to where its containers reach an endpoint",
      });
    const network = networkName(store.instanceId);
    // Before the first container is on it: nothing that an App does at its start is in vain.
    await runtime.ensureNetwork(network, { [INSTANCE]: store.instanceId }, signal);
    const subnets = await runtime.networkSubnets(network, signal);
    const reach = await this.#reachOf(subnets, signal);
    const gateway = await runtime.hostGateway(network, signal);
    // As the deletion of the last App does, which this may have overtaken.
    if (store.list("App").every((app) => app.metadata.deletionTimestamp !== null))
      await runtime.removeNetwork(network, signal);
    const door = { port: this.port, host: MODELS_HOST };
    if (reach === "published") return [{ ...door, address: "127.0.0.1", subnets: ["127.0.0.0/8"] }];
    if (gateway === undefined)
      throw new BerthError("engine_error", "the engine's default bridge has no address of IPv4", {
        hint: "give it one (bip in daemon.json), and start the engine again",
      });
    return [{ ...door, address: gateway, subnets }];
  }

  /** It stays the same for as long as the network does. */
  async #reachOf(subnets: readonly string[], signal: AbortSignal): Promise<Ingress["reach"]> {
    const key = subnets.join(" ");
    if (this.#reach?.subnets !== key)
      this.#reach = { subnets: key, reach: await this.#options.reach(signal) };
    return this.#reach.reach;
  }

  #note(closed: Reason | null, users: readonly string[]): void {
    if (closed?.message === this.#closed?.message) return;
    const { logger, onChanged } = this.#options;
    if (closed === null)
      logger.info({ port: this.port, apps: users }, "containers reach the models");
    else if (users.length > 0) logger.warn({ error: closed.message }, "will retry");
    this.#closed = closed;
    for (const app of users) onChanged(app);
  }
}

/** An engine at a TCP port of this machine may be one in a virtual machine, such as Docker Desktop's. */
function isElsewhere(dockerHost: string): boolean {
  if (/^(unix:|npipe:|\/|$)/.test(dockerHost)) return false;
  return !/^(\w+:\/\/)?(localhost|127(\.\d+){3}|\[::1\])(:|\/|$)/.test(dockerHost);
}

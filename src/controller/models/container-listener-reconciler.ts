import { type Clock, delay } from "../../base/clock.ts";
import { BerthError, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { TaskGroup } from "../../base/task-group.ts";
import type { Store, StoreChange } from "../../store/store.ts";
import { networkName } from "../engine-names.ts";
import type { Ingress } from "../ingress/port.ts";
import { INSTANCE } from "../labels.ts";
import type { Reason } from "../reason.ts";
import type { ContainerRuntime } from "../runtime/port.ts";
import type { AssistantControl, ContainerListenerSpec } from "./assistant/port.ts";
import { type ContainerListenerStatus, MODELS_HOST, MODELS_PORT } from "./container-listener.ts";

/** How often all is worked out anew though nothing was heard of: an assistant that was exchanged has no doors. */
const RESYNC_MS = 30_000;
const RETRY_MS = 2_000;
/** Between two looks; many changes at once are one. */
const DEBOUNCE_MS = 200;

const OPENING: Reason = {
  reason: "ModelsOutOfReach",
  message: "the way from containers to the models is being opened",
};

export interface ContainerListenerReconcilerOptions {
  readonly store: Pick<Store, "instanceId" | "list" | "watch" | "ports">;
  readonly runtime: Pick<
    ContainerRuntime,
    "ensureNetwork" | "networkSubnets" | "hostGateway" | "removeNetwork"
  >;
  readonly assistant: Pick<AssistantControl, "setContainerListeners">;
  /** Asked once the engine has answered. */
  readonly findReachability: (signal: AbortSignal) => Promise<Ingress["reachability"]>;
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
export class ContainerListenerReconciler implements ContainerListenerStatus, AsyncDisposable {
  readonly port: number;
  readonly #options: ContainerListenerReconcilerOptions;
  readonly #tasks: TaskGroup;
  #unavailableReason: Reason | null = OPENING;
  #reachability: { readonly subnets: string; readonly reach: Ingress["reachability"] } | undefined;
  #isDue = false;
  #wake: () => void = () => {};
  #unwatch: () => void = () => {};

  constructor(options: ContainerListenerReconcilerOptions) {
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
    this.#tasks.run("container listener", (signal) => this.#run(signal));
  }

  getUnavailableReason(): Reason | null {
    return this.#unavailableReason;
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
  #onChange({ kind, type, name }: StoreChange): void {
    if (kind !== "App" || type === "event") return;
    if (type !== "status" || this.#findApps().includes(name)) this.refresh();
  }

  /** Apps whose containers are to reach the models. */
  #findApps(): readonly string[] {
    return this.#options.store
      .list("App")
      .filter(({ metadata }) => metadata.deletionTimestamp === null)
      .filter(({ spec }) => (spec.models ?? []).length > 0 && spec.running !== false)
      .map(({ metadata }) => metadata.name);
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#isDue = false;
      const users = this.#findApps();
      const closed = await this.#reconcile(users, signal);
      this.#recordState(closed, users);
      await delay(this.#options.clock, DEBOUNCE_MS, signal);
      const restMs = closed === null ? RESYNC_MS : RETRY_MS;
      await this.#pause(users.length === 0 ? null : restMs, signal);
    }
  }

  /** Until it is due, or the time is over; null: however long that takes. */
  #pause(ms: number | null, signal: AbortSignal): Promise<void> {
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
  async #reconcile(users: readonly string[], signal: AbortSignal): Promise<Reason | null> {
    try {
      const doors = users.length === 0 ? [] : await this.#planListeners(signal);
      await this.#options.assistant.setContainerListeners(doors, signal);
      return doors.length === 0 ? OPENING : null;
    } catch (error) {
      if (isAbortError(error) && signal.aborted) throw error;
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

  async #planListeners(signal: AbortSignal): Promise<readonly ContainerListenerSpec[]> {
    const { store, runtime, dockerHost } = this.#options;
    if (isOnAnotherMachine(dockerHost))
      throw new BerthError("engine_error", "the engine runs on another machine", {
        hint: "set OPENAI_BASE_URL in env to where its containers reach an endpoint",
      });
    const network = networkName(store.instanceId);
    // Before the first container is on it: nothing that an App does at its start is in vain.
    await runtime.ensureNetwork(network, { [INSTANCE]: store.instanceId }, signal);
    const subnets = await runtime.networkSubnets(network, signal);
    const reach = await this.#getReachability(subnets, signal);
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
  async #getReachability(
    subnets: readonly string[],
    signal: AbortSignal,
  ): Promise<Ingress["reachability"]> {
    const key = subnets.join(" ");
    if (this.#reachability?.subnets !== key)
      this.#reachability = { subnets: key, reach: await this.#options.findReachability(signal) };
    return this.#reachability.reach;
  }

  #recordState(reason: Reason | null, users: readonly string[]): void {
    if (reason?.message === this.#unavailableReason?.message) return;
    const { logger, onChanged } = this.#options;
    if (reason === null)
      logger.info({ port: this.port, apps: users }, "containers reach the models");
    else if (users.length > 0) logger.warn({ error: reason.message }, "will retry");
    this.#unavailableReason = reason;
    for (const app of users) onChanged(app);
  }
}

/** An engine at a TCP port of this machine may be one in a virtual machine, such as Docker Desktop's. */
function isOnAnotherMachine(dockerHost: string): boolean {
  if (/^(unix:|npipe:|\/|$)/.test(dockerHost)) return false;
  return !/^(\w+:\/\/)?(localhost|127(\.\d+){3}|\[::1\])(:|\/|$)/.test(dockerHost);
}

import { type Clock, delay } from "../../base/clock.ts";
import { NETWORK_POOL } from "../../base/default-network-pool.ts";
import { BerthError, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { TaskGroup } from "../../base/task-group.ts";
import type { Resource } from "../../resources/resource.ts";
import { getStack } from "../../resources/stack.ts";
import type { Store, StoreChange } from "../../store/store.ts";
import type { EngineHost } from "../engine-host.ts";
import { networkName, stackNetworkName } from "../engine-names.ts";
import type { Ingress } from "../ingress/port.ts";
import { INSTANCE, STACK } from "../labels.ts";
import type { Reason } from "../reason.ts";
import type { Labels, WorkloadRuntime } from "../runtime/port.ts";
import type { AssistantControl, ContainerListenerSpec } from "./assistant/port.ts";
import { type ContainerListenerStatus, MODELS_HOST, MODELS_PORT } from "./container-listener.ts";

/**
 * The interval of reconciles while no event occurs, in milliseconds. An assistant that has restarted without an event
 * has no listeners until then.
 */
const RESYNC_MS = 30_000;
const RETRY_MS = 2_000;
/** Minimum time between two reconciles in milliseconds. */
const DEBOUNCE_MS = 200;

const OPENING: Reason = {
  reason: "ModelsOutOfReach",
  message: "the models are being made reachable for containers",
};

export interface ContainerListenerReconcilerOptions {
  readonly store: Pick<Store, "instanceId" | "list" | "watch" | "ports">;
  readonly runtime: Pick<
    WorkloadRuntime,
    "ensureNetwork" | "ensureStackNetwork" | "removeNetwork"
  > &
    Pick<EngineHost, "location" | "networkSubnets" | "hostGateway">;
  readonly assistant: Pick<AssistantControl, "setContainerListeners">;
  /**
   * Returns how this machine reaches containers; see Ingress.reachability. Called only after the engine has answered.
   */
  readonly findReachability: (signal: AbortSignal) => Promise<Ingress["reachability"]>;
  /** The IPv4 range from which the networks of stacks get their subnets; default: NETWORK_POOL. */
  readonly networkPool?: string;
  /** The configured port of the assistant's endpoint; 0 if the endpoint has a new port after each start. */
  readonly port: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with each App for which the availability of the models changes. */
  readonly onChanged: (app: string) => void;
}

/**
 * Opens listeners of the assistant for the containers of Apps that set `models`, because the assistant's endpoint
 * itself listens on loopback only. If the engine runs on this machine, the listener is on the address of the engine's
 * default bridge, to which `host-gateway` resolves in containers. It accepts connections from the instance's network,
 * and from the networks of stacks with such an App, from which the requests of its containers come. If the engine runs
 * in a virtual machine (Docker Desktop), `host-gateway` leads to this machine's loopback, so containers reach the
 * endpoint under that name without a listener. If no App sets `models`, all listeners are closed.
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
    // The port is leased, because it is in the environment of containers: a change of the port would replace the
    // containers.
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

  /** Called when the assistant or the engine has started, because the listener's address may have changed. */
  refresh(): void {
    this.#isDue = true;
    this.#wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unwatch();
    await this.#tasks[Symbol.asyncDispose]();
  }

  /**
   * Requests a reconcile when an App changes. The listener depends on the addresses of the Apps' network, which may
   * have been created again with other addresses.
   */
  #onChange({ kind, type, name }: StoreChange): void {
    if (kind !== "App" || type === "event") return;
    if (type !== "status" || this.#findApps().includes(name)) this.refresh();
  }

  /** Returns the Apps whose containers use models. */
  #findApps(): readonly string[] {
    return this.#listUsers().map(({ metadata }) => metadata.name);
  }

  #listUsers(): readonly Resource<"App">[] {
    return this.#options.store
      .list("App")
      .filter(({ metadata }) => metadata.deletionTimestamp === null)
      .filter(({ spec }) => (spec.models ?? []).length > 0 && spec.running !== false);
  }

  /** Returns the networks of the stacks whose containers use models. */
  #listStackNetworks(): ReadonlyMap<string, Labels> {
    const { instanceId } = this.#options.store;
    const stacks = this.#listUsers().flatMap(({ metadata }) => getStack(metadata) ?? []);
    return new Map(
      stacks.map((stack) => [
        stackNetworkName(instanceId, stack),
        { [INSTANCE]: instanceId, [STACK]: stack },
      ]),
    );
  }

  /**
   * Returns the subnets of the networks of stacks whose containers use models. Creates these networks, so that an App
   * reaches the models when it starts.
   */
  async #ensureStackSubnets(signal: AbortSignal): Promise<string[]> {
    const { runtime, networkPool = NETWORK_POOL } = this.#options;
    const subnets: string[] = [];
    for (const [network, labels] of this.#listStackNetworks()) {
      await runtime.ensureStackNetwork(network, labels, networkPool, signal);
      subnets.push(...(await runtime.networkSubnets(network, signal)));
      // If the last App of the stack was deleted during this call, the network is not needed any more.
      if (!this.#listStackNetworks().has(network)) await runtime.removeNetwork(network, signal);
    }
    return subnets;
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

  /** Waits for the next event, at most `ms` milliseconds; without a limit if `ms` is null. */
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

  /**
   * Makes the listeners match the Apps. Returns the reason why containers cannot reach the models; null if they can.
   */
  async #reconcile(users: readonly string[], signal: AbortSignal): Promise<Reason | null> {
    try {
      const listeners = users.length === 0 ? [] : await this.#planListeners(signal);
      await this.#options.assistant.setContainerListeners(listeners, signal);
      return listeners.length === 0 ? OPENING : null;
    } catch (error) {
      if (isAbortError(error) && signal.aborted) throw error;
      // Without Apps that use models, the failure does not matter: an assistant that is not running has no listeners.
      if (users.length === 0) return OPENING;
      if (!(error instanceof BerthError))
        this.#options.logger.error({ err: error }, "the container listeners failed unexpectedly");
      const message =
        error instanceof BerthError
          ? [error.message, error.hint].filter(Boolean).join("; ")
          : "an internal error; see Berth's log";
      return { reason: OPENING.reason, message: `containers cannot reach the models: ${message}` };
    }
  }

  async #planListeners(signal: AbortSignal): Promise<readonly ContainerListenerSpec[]> {
    const { store, runtime } = this.#options;
    if (runtime.location === "remote")
      throw new BerthError("engine_error", "the engine runs on another machine", {
        hint: "set OPENAI_BASE_URL in env to the URL of an endpoint that the app's containers reach",
      });
    const network = networkName(store.instanceId);
    // The network is created before the first container, so that an App reaches the models when it starts.
    await runtime.ensureNetwork(network, { [INSTANCE]: store.instanceId }, signal);
    const subnets = await runtime.networkSubnets(network, signal);
    const reach = await this.#getReachability(subnets, signal);
    const gateway = await runtime.hostGateway(network, signal);
    // If the last App was deleted during this call, its deletion removed the network, but this call may have created
    // the network again. The network is then removed.
    if (store.list("App").every((app) => app.metadata.deletionTimestamp !== null))
      await runtime.removeNetwork(network, signal);
    const listener = { port: this.port, host: MODELS_HOST };
    if (reach === "published")
      return [{ ...listener, address: "127.0.0.1", subnets: ["127.0.0.0/8"] }];
    if (gateway === undefined)
      throw new BerthError("engine_error", "the engine's default bridge has no IPv4 address", {
        hint: "set the bridge's address (bip in daemon.json) and restart the engine",
      });
    const stackSubnets = await this.#ensureStackSubnets(signal);
    return [{ ...listener, address: gateway, subnets: [...subnets, ...stackSubnets] }];
  }

  /**
   * Returns how this machine reaches containers on the apps' network. The result is kept until the subnets of the
   * network change.
   */
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
      logger.info({ port: this.port, apps: users }, "containers can reach the models");
    else if (users.length > 0) logger.warn({ error: reason.message }, "will retry");
    this.#unavailableReason = reason;
    for (const app of users) onChanged(app);
  }
}

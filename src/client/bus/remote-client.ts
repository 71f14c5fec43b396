import type { SessionBus } from "../../dbus/port.ts";
import { BusInterface } from "./bus-interface.ts";
import { unexpectedAnswer } from "./json-fields.ts";

export interface LoginCompletedEvent {
  readonly providerId: string;
  readonly isOk: boolean;
  /** The result of the sign-in: `ok`, or an error code such as `denied_by_user` or `timeout`. */
  readonly detail: string;
}

/**
 * Time limit of a call, which exceeds the companion's own limits for resolving names and for ending sessions at a
 * provider.
 */
const ANSWER_MS_MAX = 60_000;

/**
 * A client of the interface Remote1. Its methods reject with BerthErrors (see `toBerthError`) and return unvalidated
 * JSON, which `remote-wire.ts` parses.
 */
export class RemoteClient {
  readonly #remote: BusInterface;

  constructor(bus: SessionBus) {
    this.#remote = new BusInterface(bus, "dev.assistant.Remote1", "dev.assistant.Remoted");
  }

  state(signal: AbortSignal): Promise<unknown> {
    return this.#remote.callJson("State", "", [], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  async addProvider(
    id: string,
    displayName: string,
    baseUrl: string,
    signal: AbortSignal,
  ): Promise<void> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    await this.#remote.call("AddProvider", "sss", [id, displayName, baseUrl], limits);
  }

  async removeProvider(id: string, signal: AbortSignal): Promise<void> {
    await this.#remote.call("RemoveProvider", "s", [id], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  /**
   * Sets a provider's key to the text that the companion reads from `keyFd`. The connection must be able to pass file
   * descriptors, and it closes `keyFd` afterwards.
   */
  async setKeyFd(id: string, keyFd: number, signal: AbortSignal): Promise<void> {
    await this.#remote.call("SetKeyFd", "sh", [id, keyFd], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  async clearKey(id: string, signal: AbortSignal): Promise<void> {
    await this.#remote.call("ClearKey", "s", [id], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  async setConsent(scope: string, isAllowed: boolean, signal: AbortSignal): Promise<void> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    await this.#remote.call("SetConsent", "sb", [scope, isAllowed], limits);
  }

  /** Starts a sign-in and returns the URL at which the user signs in. */
  async beginLogin(id: string, signal: AbortSignal): Promise<string> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    const [url] = await this.#remote.call("BeginLogin", "s", [id], limits);
    if (typeof url !== "string") throw unexpectedAnswer(undefined);
    return url;
  }

  async logout(id: string, signal: AbortSignal): Promise<void> {
    await this.#remote.call("Logout", "s", [id], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  /** Makes the companion request the list of models from the provider, and returns this list. */
  listModels(id: string, signal: AbortSignal): Promise<unknown> {
    return this.#remote.callJson("ListModels", "s", [id], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  /** Subscribes to the signal LoginCompleted. Resolves when the bus has confirmed the subscription. */
  onLoginCompleted(listener: (end: LoginCompletedEvent) => void): Promise<() => void> {
    return this.#remote.onSignal("LoginCompleted", ([providerId, isOk, detail]) => {
      if (typeof providerId === "string" && typeof isOk === "boolean" && typeof detail === "string")
        listener({ providerId, isOk, detail });
    });
  }

  /** Calls the listener when the companion has exited or the connection has ended. */
  onDisconnected(listener: () => void): Promise<() => void> {
    return this.#remote.onDisconnected(listener);
  }
}

import type { SessionBus } from "../../dbus/port.ts";
import { BusInterface } from "./bus-interface.ts";
import { unexpectedAnswer } from "./json-fields.ts";

export interface LoginCompletedEvent {
  readonly providerId: string;
  readonly isOk: boolean;
  /** `ok`, or why not: `denied_by_user`, `timeout`, ... */
  readonly detail: string;
}

/** Names are resolved, and a provider is told of a session that ends: both with limits of the companion's own. */
const ANSWER_MS_MAX = 60_000;

/** Remote1. Rejects with BerthErrors, see `busFailure`; JSON comes as it is, for `remote-wire.ts` to read. */
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
   * `keyFd`: what is read from it up to its end is the key. It belongs to the connection from then on, which
   * has to pass descriptors.
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

  /** The URL at which a person signs in. */
  async beginLogin(id: string, signal: AbortSignal): Promise<string> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    const [url] = await this.#remote.call("BeginLogin", "s", [id], limits);
    if (typeof url !== "string") throw unexpectedAnswer(undefined);
    return url;
  }

  async logout(id: string, signal: AbortSignal): Promise<void> {
    await this.#remote.call("Logout", "s", [id], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  /** The provider's own list, asked for now. */
  listModels(id: string, signal: AbortSignal): Promise<unknown> {
    return this.#remote.callJson("ListModels", "s", [id], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  /** Resolves when nothing that is sent from then on is missed. */
  onLoginCompleted(listener: (end: LoginCompletedEvent) => void): Promise<() => void> {
    return this.#remote.onSignal("LoginCompleted", ([providerId, isOk, detail]) => {
      if (typeof providerId === "string" && typeof isOk === "boolean" && typeof detail === "string")
        listener({ providerId, isOk, detail });
    });
  }

  /** Calls back when the companion ends, or the connection does. */
  onDisconnected(listener: () => void): Promise<() => void> {
    return this.#remote.onDisconnected(listener);
  }
}

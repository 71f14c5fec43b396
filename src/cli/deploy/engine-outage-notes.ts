import type { Client } from "../../client/rest/client.ts";
import type { Cli } from "../cli.ts";

/**
 * Prints a note if the container engine does not answer while a command waits for an app, and another note when the
 * engine answers again. Without a terminal, the command prints nothing else while it waits.
 */
export class EngineOutageNotes {
  readonly #cli: Cli;
  readonly #client: Client;
  readonly #app: string;
  #isUnreachable = false;

  constructor(cli: Cli, client: Client, app: string) {
    this.#cli = cli;
    this.#client = client;
    this.#app = app;
  }

  /**
   * Prints a note if the state of the engine has changed since the last call. The first call assumes that the engine
   * answered before.
   */
  async update(signal?: AbortSignal): Promise<void> {
    const { runtime } = await this.#client.health(signal);
    const isUnreachable = runtime !== "connected";
    if (isUnreachable === this.#isUnreachable) return;
    this.#isUnreachable = isUnreachable;
    this.#cli.note(
      isUnreachable
        ? `app/${this.#app} waits for the container engine, which does not answer; \`berth doctor\` on the server shows why`
        : "the container engine answers again",
    );
  }

  /**
   * Checks the engine again at each change of the app until `signal` aborts. Every app gets a new status when the
   * engine goes away or returns.
   */
  async follow(signal: AbortSignal): Promise<void> {
    try {
      const filter = { kind: "App", name: this.#app, signal } as const;
      const changes = this.#client.events.watch(filter);
      while ((await changes.next()).done !== true) await this.update(signal);
    } catch {
      // The command itself reports failures; these notes only explain the wait.
    }
  }
}

import { ToolAppError } from "../../tool-apps.ts";
import type { Activator, AppStarter } from "./port.ts";

/** Starts an app with the first mechanism that knows it. If that mechanism fails, no other mechanism is tried. */
export class StarterChain implements Activator {
  readonly #starters: readonly AppStarter[];

  constructor(starters: readonly AppStarter[]) {
    this.#starters = starters;
  }

  async activate(appId: string, signal: AbortSignal): Promise<void> {
    for (const starter of this.#starters) {
      if ((await starter.start(appId, signal)) === "asked") return;
    }
    throw new ToolAppError(
      "app_unavailable",
      `${appId} is not running, and neither the session bus nor systemd knows how to start it`,
    );
  }

  async canStart(appId: string, signal: AbortSignal): Promise<boolean> {
    for (const starter of this.#starters) if (await starter.knows(appId, signal)) return true;
    return false;
  }
}

import { ToolAppError } from "../../tool-apps.ts";
import type { Activator, Starter } from "./port.ts";

/** The first way that knows the app starts it; one that knows it and fails is not tried around. */
export class StartersInOrder implements Activator {
  readonly #starters: readonly Starter[];

  constructor(starters: readonly Starter[]) {
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
}

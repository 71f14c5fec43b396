import { serveOverlay } from "../../src/assistant/overlay/bus.ts";
import type { OverlayDependencies } from "../../src/assistant/overlay/overlay-dependencies.ts";
import { SessionBusUi } from "../../src/assistant/overlay/ui/session-bus-ui.ts";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import type { SessionBus } from "../../src/dbus/port.ts";
import { BusHarness } from "./bus-harness.ts";
import { OVERLAY } from "./dbus-next-frontend.ts";
import { createCaller, OverlayHarness } from "./overlay-harness.ts";

/** An overlay on a bus of its own, which calls the frontend that is on that bus. */
export class OverlayBusHarness implements AsyncDisposable {
  readonly #harness: BusHarness;
  readonly #client: SessionBus;
  readonly parts: OverlayHarness;

  static async start(
    options: Parameters<typeof BusHarness.start>[0] = {},
    given: Partial<OverlayDependencies> = {},
  ): Promise<OverlayBusHarness> {
    const harness = await BusHarness.start(options);
    const { address } = harness.bus;
    const client = await connectSessionBus({ address, negotiateFds: false });
    const ui = new SessionBusUi(client, async (connection) => createCaller(connection));
    const parts = new OverlayHarness({ ui, ...given });
    const service = parts.overlay;
    serveOverlay({ bus: harness.daemon, service, daemon: "berth 0.0.0-test" });
    await harness.daemon.requestName(OVERLAY);
    return new OverlayBusHarness(harness, client, parts);
  }

  private constructor(harness: BusHarness, client: SessionBus, parts: OverlayHarness) {
    this.#harness = harness;
    this.#client = client;
    this.parts = parts;
  }

  get bus() {
    return this.#harness.bus;
  }

  /** Closes the connection of the overlay, as the bus sees it when the companion exits. */
  async disconnect(): Promise<void> {
    await this.#harness.daemon[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.parts[Symbol.asyncDispose]();
    await this.#client[Symbol.asyncDispose]();
    await this.#harness[Symbol.asyncDispose]();
  }
}

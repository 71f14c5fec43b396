import { beforeEach } from "vitest";
import { serveOverlay } from "../../src/assistant/overlay/bus.ts";
import { companionCli } from "./companion-cli.ts";
import type { FakeBus } from "./fake-bus.ts";
import type { FakeCompanion } from "./fake-companion.ts";
import { createCaller, createOverlayHarness, type OverlayHarness } from "./overlay-harness.ts";
import { serveCompanion } from "./serve-companion.ts";

export const daemon = "berth test";

/** Runs command lines against a companion with a real overlay. Each test has a companion of its own. */
export class OverlayCli {
  overlay!: OverlayHarness;
  bus!: FakeCompanion;
  readonly #cli = companionCli(() => this.bus);
  readonly run = this.#cli.run;
  readonly terminal = this.#cli.terminal;

  constructor() {
    beforeEach(() => this.start());
  }

  /** Starts a new companion that replaces the previous one. `serveMore` can export further objects on its bus. */
  start(serveMore: (own: FakeBus) => void = () => {}): void {
    this.overlay = createOverlayHarness();
    const service = this.overlay.overlay;
    this.bus = serveCompanion((own) => {
      serveOverlay({ bus: own, service, daemon });
      serveMore(own);
    });
  }

  /** The queries that the commands have sent: the prompt and the options. */
  get queries() {
    return this.bus.calls.flatMap(({ member, args }) => (member === "Ask" ? [args] : []));
  }

  /** The answers that the commands have sent: the number of the question, and whether the user approves. */
  get responses() {
    return this.bus.calls.flatMap(({ member, args }) =>
      member.startsWith("Respond") ? [args.slice(1)] : [],
    );
  }

  /** The model in the overlay's last request for an answer. */
  get lastModel(): string | undefined {
    return this.overlay.inference.requests.at(-1)?.model;
  }

  /** Approves the first question of the first query as another client. */
  approveElsewhere(): void {
    this.overlay.overlay.respond(1, true, createCaller(":1.8"));
  }
}

import { serveAgent } from "../../../src/assistant/agent/bus.ts";
import { serveOverlay } from "../../../src/assistant/overlay/bus.ts";
import { serveRemote } from "../../../src/assistant/remote/remote-bus.ts";
import { AgentHarness, NOTES } from "../../support/agent-harness.ts";
import { FakeBus } from "../../support/fake-bus.ts";
import { OverlayHarness, REMOTE_MODEL, streamForever } from "../../support/overlay-harness.ts";
import { RemoteHarness } from "../../support/remote-harness.ts";
import { servedMethods } from "../../support/served-methods.ts";
import { agentBusContract } from "./agent-bus-contract.ts";
import type { PeerSignal } from "./bus-peer.ts";
import { overlayBusContract } from "./overlay-bus-contract.ts";
import { remoteBusContract } from "./remote-bus-contract.ts";

const daemon = "berth 0.0.0-test";

/** Returns a bus without a connection, and a list of the signals that are emitted on it. */
function createBus() {
  const bus = new FakeBus();
  const signals: PeerSignal[] = [];
  bus.onSignal = ({ name, args }) => void signals.push({ member: name, args });
  return { bus, signals };
}

agentBusContract("the agent", async () => {
  const harness = await AgentHarness.open();
  const { bus, signals } = createBus();
  serveAgent({ bus, service: harness.agent, daemon });
  return {
    methods: servedMethods(bus),
    signals,
    app: NOTES,
    tools: { read: "list", write: "create", destructive: "delete" },
    countNotes: () => harness.notes.size,
    [Symbol.asyncDispose]: () => harness.agent[Symbol.asyncDispose](),
  };
});

overlayBusContract("the overlay", async () => {
  const harness = new OverlayHarness();
  const { bus, signals } = createBus();
  serveOverlay({ bus, service: harness.overlay, daemon });
  return {
    methods: servedMethods(bus),
    signals,
    hang: () => {
      harness.inference.script = streamForever;
    },
    askingOptions: () => new Map([["model_hint", { signature: "s", value: REMOTE_MODEL }]]),
    [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose](),
  };
});

remoteBusContract("the broker of providers", async () => {
  const harness = new RemoteHarness();
  const { bus, signals } = createBus();
  serveRemote({ bus, service: harness.remote, daemon });
  return {
    methods: servedMethods(bus),
    signals,
    denyLogin: () => harness.signIns.sink?.completed("openrouter", false, "denied_by_user"),
    [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose](),
  };
});

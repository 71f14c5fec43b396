import { BerthError, isAbortError } from "../../base/errors.ts";
import type { AgentClient } from "../../client/bus/agent-client.ts";
import type { ContextClient } from "../../client/bus/context-client.ts";
import type { OverlayClient } from "../../client/bus/overlay-client.ts";
import type { RemoteClient } from "../../client/bus/remote-client.ts";
import { BusCallError, type SessionBus } from "../../dbus/port.ts";
import type { Cli } from "../cli.ts";
import { exitCodes, UsageError } from "../cli-errors.ts";

/** Clients of the user's companion on the session bus. The companion need not be running. */
export interface Companion {
  readonly bus: SessionBus;
  readonly agent: AgentClient;
  readonly context: ContextClient;
  readonly remote: RemoteClient;
  readonly overlay: OverlayClient;
}

interface CompanionConnectOptions {
  /** If true, the connection can send file descriptors over the bus. */
  readonly canPassFds?: boolean;
}

/**
 * Connects to the bus, runs `work` and disconnects. Ctrl-C aborts the signal and ends the verb with exit code 130. The
 * companion may complete the request nevertheless, so `interruptedMessage` tells the user where to find its result.
 */
export async function withCompanion(
  cli: Cli,
  work: (companion: Companion, signal: AbortSignal) => Promise<void>,
  interruptedMessage = "interrupted",
  options: CompanionConnectOptions = {},
): Promise<void> {
  if (cli.globals.url !== undefined)
    throw new UsageError(
      "this command uses your own companion on the session bus, so it cannot be combined with --url",
      "omit --url",
    );
  const interruption = new AbortController();
  const stopListening = cli.io.onInterrupt(() => interruption.abort());
  try {
    const companion = await connectCompanion(cli, interruption.signal, options);
    await using _ = companion.bus;
    await work(companion, interruption.signal);
  } catch (error) {
    if (!interruption.signal.aborted || !isAbortError(error)) throw error;
    cli.note(interruptedMessage);
    cli.exitCode = exitCodes.interrupted;
  } finally {
    stopListening();
  }
}

/**
 * Connects to the session bus. Rejects with `assistant_unreachable` if there is none, and with `not_implemented` if the
 * caller needs to pass file descriptors and the connection cannot. The caller must close `bus`.
 */
export async function connectCompanion(
  cli: Cli,
  signal: AbortSignal,
  { canPassFds = false }: CompanionConnectOptions = {},
): Promise<Companion> {
  const { sessionBusAddress } = await import("../../dbus/session-bus-address.ts");
  const { sessionBusUnavailable, describeConnectFailure } = await import(
    "../../client/bus/connection-errors.ts"
  );
  const { AgentClient } = await import("../../client/bus/agent-client.ts");
  const { ContextClient } = await import("../../client/bus/context-client.ts");
  const { OverlayClient } = await import("../../client/bus/overlay-client.ts");
  const { RemoteClient } = await import("../../client/bus/remote-client.ts");
  const { environment } = cli.io;
  const address = sessionBusAddress(environment);
  if (address === undefined)
    throw sessionBusUnavailable("neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set");
  let bus: SessionBus;
  try {
    bus = await cli.io.openSessionBus(address, signal, canPassFds);
  } catch (error) {
    if (signal.aborted || error instanceof BerthError) throw error;
    if (error instanceof BusCallError && error.busName.endsWith(".NotSupported"))
      throw new BerthError("not_implemented", error.message, { cause: error });
    const isNamed = Boolean(environment["DBUS_SESSION_BUS_ADDRESS"]);
    throw sessionBusUnavailable(describeConnectFailure(error, isNamed), error);
  }
  return {
    bus,
    agent: new AgentClient(bus),
    context: new ContextClient(bus),
    remote: new RemoteClient(bus),
    overlay: new OverlayClient(bus),
  };
}
